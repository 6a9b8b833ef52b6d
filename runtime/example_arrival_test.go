package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// openExample opens an engine in the process with the activities of a flow.
func openExample[In, Out any](def *flow.Definition[In, Out]) (*runtime.Local, error) {
	return runtime.OpenLocal(context.Background(), runtime.LocalConfig{
		Activities: def.Handlers(), Open: runtime.OpenConfig{Logger: slog.New(slog.DiscardHandler)},
	})
}

// One run of an account is open at a time: a second one is refused, and names the first.
func ExampleWithKey() {
	copied := activity.New("copy", func(_ context.Context, what string) (string, error) { return what, nil })
	f := flow.New[string, string]("synchronize")
	flow.Return(f, flow.Node(f, "copy", copied, flow.Waitpoint[string](f, "what")))
	def, err := f.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	local, err := openExample(def)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer local.Close()
	ctx := context.Background()
	first, err := runtime.Start(ctx, local.Client(), def, "a", runtime.WithKey("account 7", runtime.KeyPolicy{}))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = runtime.Start(ctx, local.Client(), def, "b", runtime.WithKey("account 7", runtime.KeyPolicy{}))
	var taken *fabrictype.KeyTakenError
	if errors.As(err, &taken) {
		fmt.Println("taken by the first:", taken.Run == first.ID())
	}
	waiting, err := runtime.Start(ctx, local.Client(), def, "c",
		runtime.WithKey("account 7", runtime.KeyPolicy{WhenTaken: runtime.QueueRun}))
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := waiting.Describe(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("place in the queue:", d.QueuePlace)
	// Output:
	// taken by the first: true
	// place in the queue: 1
}

// Three calls in a row become one run with all three inputs.
func ExampleWithDebounce() {
	count := activity.New("count", func(_ context.Context, files []string) (int, error) { return len(files), nil })
	f := flow.New[[]string, int]("index")
	flow.Return(f, flow.Node(f, "count", count, f.Input()))
	def, err := f.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	local, err := openExample(def)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer local.Close()
	ctx := context.Background()
	var run *runtime.Run[int]
	for _, file := range []string{"a.go", "b.go", "c.go"} {
		policy := runtime.DebouncePolicy{Quiet: 200 * time.Millisecond, MaxInputs: 10}
		run, err = runtime.Start(ctx, local.Client(), def, []string{file}, runtime.WithDebounce("tree", policy))
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(run.Result(ctx))
	// Output: 3 <nil>
}

// A fork runs one node with another result of the node before it.
func ExampleRunRef_Fork() {
	double := activity.New("double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
	f := flow.New[int, int]("price")
	net := flow.Node(f, "net", double, f.Input())
	flow.Return(f, flow.Node(f, "gross", double, net))
	def, err := f.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	local, err := openExample(def)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer local.Close()
	ctx := context.Background()
	run, err := runtime.Start(ctx, local.Client(), def, 10)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := run.Result(ctx); err != nil {
		fmt.Println(err)
		return
	}
	ref, err := run.Fork(ctx, runtime.ForkOptions{Results: map[string]any{"net": 15}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fork, err := runtime.Attach(ref, def)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(fork.Result(ctx))
	diff, err := run.RunRef.Diff(ctx, ref)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, n := range diff.Nodes {
		fmt.Println(n.Name, "differs:", n.Differs)
	}
	// Output:
	// 30 <nil>
	// net differs: [result]
	// gross differs: [result]
}
