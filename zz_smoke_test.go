package flowfabric_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func open(t *testing.T) *runtime.Engine {
	ctx := context.Background()
	if url := os.Getenv("SMOKE_URL"); url != "" {
		e, err := runtime.Open(ctx, url, runtime.OpenConfig{})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e, err := runtime.Open(ctx, "embedded:", runtime.OpenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestSmoke(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	e := open(t)
	defer e.Close()
	add := activity.New("add", func(_ context.Context, n int) (int, error) { return n + 1, nil })
	w, err := runtime.NewWorker(e, runtime.WorkerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Register(add); err != nil {
		t.Fatal(err)
	}
	go w.Run(ctx)
	c, err := runtime.NewClient(e)
	if err != nil {
		t.Fatal(err)
	}
	b := flow.New[int, int]("chain")
	var x flow.Ref[int] = flow.Node(b, "n1", add, b.Input())
	for i := 2; i <= 10; i++ {
		x = flow.Node(b, fmt.Sprintf("n%d", i), add, x)
	}
	flow.Return(b, x)
	def, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 3; i++ {
		run, err := runtime.Start(ctx, c, def, i)
		if err != nil {
			t.Fatal(err)
		}
		r, err := run.Result(ctx)
		if err != nil || r != i+10 {
			t.Fatal(r, err)
		}
		d, err := run.Describe(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range d.Nodes {
			t.Log(n.Name, n.State, n.Attempts)
		}
		for ev, err := range run.Watch(ctx, "") {
			t.Log(ev, err)
		}
	}
}
