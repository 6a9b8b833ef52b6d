package httpapi

import (
	"reflect"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// Prefix begins the path of every operation.
const Prefix = "/api/v1"

// Effect is the effect of an operation on stored data.
type Effect string

// Effects of operations.
const (
	// Reads changes nothing.
	Reads Effect = "reads"
	// Changes changes something that can be changed again.
	Changes Effect = "changes"
	// Destroys removes something for good, or ends work that cannot continue.
	Destroys Effect = "destroys"
)

// Rights returns all rights.
func Rights() []api.Right {
	return api.Admin.Rights()
}

// Operation is one entry of the table.
type Operation struct {
	// Name identifies the operation: verb and noun with a hyphen, such as "cancel-run".
	Name string
	// Group is the subject that the operation belongs to, such as "runs".
	Group string
	// Method is the HTTP method. Path begins after Prefix; names of parameters are in braces.
	Method, Path string
	// Summary is one line of English.
	Summary string
	Right   api.Right
	Effect  Effect
	// Bound reports whether a principal who is bound to some flows may call the operation. Such an operation is about a
	// flow that its path names, or shows and changes nothing of flows that the principal may not see.
	Bound bool
	// Streams reports whether the operation can answer with server-sent events.
	Streams bool
	// Created reports whether a reply that created something has status 201.
	Created bool
	// Credential reports whether the reply has a credential: it is not stored, so the operation takes no
	// Idempotency-Key.
	Credential bool
	// Query names the query whose parameters the operation takes in addition to the parameters of its input: QueryRuns,
	// QueryWaits or empty.
	Query string
	// Input is the type of the input, Output the type of the reply, or of the events of a stream.
	Input, Output reflect.Type
}

// Queries that operations take as parameters.
const (
	// QueryRuns is a query of runs: runtime.RunQuery writes and reads its parameters.
	QueryRuns = "runs"
	// QueryWaits is a query of open waits: runtime.WaitQuery writes and reads its parameters.
	QueryWaits = "waits"
)

// Call is an operation with a single reply.
type Call[In, Out any] struct{ Operation }

// Stream is an operation that follows something: its events, or pages of them.
type Stream[In, Event any] struct{ Operation }

// Entry is a Call or a Stream, whatever its types.
type Entry interface{ Entry() Operation }

// Entry implements Entry.
func (o Operation) Entry() Operation { return o }

func call[In, Out any](o Operation) Call[In, Out] {
	o.Input, o.Output = reflect.TypeFor[In](), reflect.TypeFor[Out]()
	return Call[In, Out]{o}
}

func stream[In, Event any](o Operation) Stream[In, Event] {
	o.Input, o.Output, o.Streams = reflect.TypeFor[In](), reflect.TypeFor[Event](), true
	return Stream[In, Event]{o}
}

// Empty is the reply of operations that return nothing.
type Empty struct{}

// Events is a page of a stream, the reply to a request that does not accept server-sent events.
type Events[T any] struct {
	Items []T `json:"items"`
	// Next continues after the last item.
	Next string `json:"next,omitempty" doc:"Cursor after the last item."`
	// End reports that nothing follows.
	End bool `json:"end,omitempty" doc:"Nothing follows."`
}

// Follow are the parameters of a stream.
type Follow struct {
	After       string              `query:"after" doc:"Cursor after which to begin; empty for the beginning."`
	LastEventID string              `header:"Last-Event-ID" doc:"The same for server-sent events; it takes precedence."`
	Wait        fabrictype.Duration `query:"wait" doc:"How long a request for JSON waits for the first item, at most 30s."`
	Limit       int                 `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Most items of a page of JSON."`
}

// Cursor returns the cursor after which to begin.
func (f Follow) Cursor() string {
	if f.LastEventID != "" {
		return f.LastEventID
	}
	return f.After
}

// Conditional has the condition under which a change is made.
type Conditional struct {
	IfMatch string `header:"If-Match" doc:"ETag of the state that the change is based on; another state is refused with status 412."`
}
