package flow_test

import (
	"context"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
)

// upload is a file that a user has sent.
type upload struct {
	Size int      `json:"size"`
	Kind fileKind `json:"kind"`
}

type fileKind string

const (
	picture fileKind = "picture"
	film    fileKind = "film"
)

var (
	receive  = activity.New("upload.receive", func(context.Context, string) (upload, error) { return upload{}, nil })
	store    = activity.New("upload.store", func(context.Context, upload) (string, error) { return "", nil })
	announce = activity.New("upload.announce", func(context.Context, string) (bool, error) { return true, nil })
	takeBack = activity.New("upload.take-back", func(context.Context, flow.Failure) (bool, error) { return true, nil })
)

// One of two nodes runs, by the result of another one, and a join takes the result of the one that did.
func ExampleWhen() {
	f := flow.New[string, bool]("upload")
	file := flow.Node(f, "receive", receive, f.Input())
	large := flow.When(file, "large", func(u upload) bool { return u.Size > 1<<20 })
	archive := flow.Node(f, "archive", store, file, large)
	keep := flow.Node(f, "keep", store, file, large.Not())
	flow.Return(f, flow.Node(f, "announce", announce, flow.AnyOf(archive, keep)))
	def, err := f.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(def.Outline())
	// Output:
	// upload: string -> bool
	//   0  receive   upload.receive   <- input
	//   1  large     condition        <- receive
	//   2  archive   upload.store     <- receive, (true large)
	//   2  keep      upload.store     <- receive, (false large)
	//   3  announce  upload.announce  <- any of archive, keep
	//   result: announce
}

// One node for each kind of file.
func ExampleSwitch() {
	f := flow.New[string, bool]("upload")
	file := flow.Node(f, "receive", receive, f.Input())
	kind := flow.Switch(file, "kind", func(u upload) fileKind { return u.Kind }, picture, film)
	gallery := flow.Node(f, "gallery", store, file, kind.Case(picture))
	cinema := flow.Node(f, "cinema", store, file, kind.Case(film))
	attic := flow.Node(f, "attic", store, file, kind.Default())
	flow.Return(f, flow.Node(f, "announce", announce, flow.AnyOf(gallery, cinema, attic)))
	def, err := f.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(def.Outline())
	// Output:
	// upload: string -> bool
	//   0  receive   upload.receive                 <- input
	//   1  kind      one of picture, film, default  <- receive
	//   2  gallery   upload.store                   <- receive, (picture kind)
	//   2  cinema    upload.store                   <- receive, (film kind)
	//   2  attic     upload.store                   <- receive, (default kind)
	//   3  announce  upload.announce                <- any of gallery, cinema, attic
	//   result: announce
}

// One node that undoes two steps, whichever of them has failed, and knows the failure.
func ExampleOnAnyFailure() {
	f := flow.New[string, string]("upload")
	file := flow.Node(f, "receive", receive, f.Input())
	stored := flow.Node(f, "store", store, file)
	flow.Node(f, "take-back", takeBack, flow.FailureOf(file, stored), flow.OnAnyFailure(file, stored))
	flow.Return(f, stored)
	def, err := f.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(def.Outline())
	// Output:
	// upload: string -> string
	//   0  receive    upload.receive    <- input
	//   1  store      upload.store      <- receive
	//   2  take-back  upload.take-back  <- any failure of receive, store
	//   result: store
}

// A node that runs when everything else is over, however the run ends.
func ExampleFinally() {
	f := flow.New[string, string]("upload", flow.Deadline(time.Hour))
	file := flow.Node(f, "receive", receive, f.Input())
	stored := flow.Node(f, "store", store, file)
	flow.Node(f, "release", announce, f.Input(), flow.Finally(time.Minute))
	flow.Return(f, stored)
	def, err := f.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(def.Outline())
	// Output:
	// upload: string -> string
	//   0  receive  upload.receive   <- input
	//   1  store    upload.store     <- receive
	//   2  release  upload.announce  <- input, finally, after store
	//   result: store
}
