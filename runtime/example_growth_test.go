package runtime_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"strings"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// resultInMemory runs a flow once, in this process.
func resultInMemory[In, Out any](def *flow.Definition[In, Out], in In, see func(context.Context, *runtime.RunRef)) (Out, error) {
	ctx := context.Background()
	local, err := runtime.OpenLocal(ctx, runtime.LocalConfig{
		Activities: def.Handlers(), Open: runtime.OpenConfig{Logger: slog.New(slog.DiscardHandler)},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer local.Close()
	run, err := runtime.Start(ctx, local.Client(), def, in, runtime.WithID("r"))
	if err != nil {
		log.Fatal(err)
	}
	out, err := run.Result(ctx)
	see(ctx, run.RunRef)
	return out, err
}

// A text is shortened until it fits.
func ExampleRunRef_Turns() {
	shorten := activity.New("shorten", func(_ context.Context, text string) (string, error) {
		return text[:strings.LastIndexByte(text, ' ')], nil
	})
	fits := activity.New("fits", func(_ context.Context, text string) (bool, error) { return len(text) <= 10, nil })
	turn := flow.New[string, string]("turn")
	flow.Return(turn, flow.Node(turn, "shorten", shorten, turn.Input()))
	body, err := turn.Build()
	if err != nil {
		log.Fatal(err)
	}
	f := flow.New[string, string]("headline")
	flow.Return(f, flow.Loop(f, "turns", body, fits, f.Input(), 20))
	def, err := f.Build()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(resultInMemory(def, "one word after the other", func(ctx context.Context, run *runtime.RunRef) {
		turns, err := run.Turns(ctx, "turns")
		for _, t := range turns {
			fmt.Println(t.Turn, t.Run, t.State, err)
		}
	}))
	// Output:
	// 1 headline/r/turns succeeded <nil>
	// 2 headline/r/turns#2 succeeded <nil>
	// 3 headline/r/turns#3 succeeded <nil>
	// one word <nil>
}

// Which words there are is known when the text is there: the activity plans a node for each.
func ExampleRunRef_Describe_expand() {
	plan := activity.New("plan", func(_ context.Context, text string) (flow.Plan[string], error) {
		f := flow.New[string, string]("words")
		var words []flow.Ref[string]
		for i, word := range strings.Fields(text) {
			words = append(words, flow.Node(f, fmt.Sprintf("word-%d", i), upper, flow.Const(word)))
		}
		flow.Return(f, flow.Node(f, "together", join, flow.List(words...)))
		def, err := f.Build()
		if err != nil {
			return flow.Plan[string]{}, activity.NonRetryable(err)
		}
		return flow.PlanOf(def, text)
	})
	f := flow.New[string, string]("shout")
	flow.Return(f, flow.Expand(f, "plan", plan, f.Input(), flow.MayRun(upper, join)))
	def, err := f.Build()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(def.Outline())
	fmt.Println(resultInMemory(def, "a list of words", func(ctx context.Context, run *runtime.RunRef) {
		d, err := run.Describe(ctx)
		fmt.Println(d.Nodes[0].Kind, d.Nodes[0].Child.Flow, d.Nodes[0].Child.Total, err)
	}))
	// Output:
	// shout: string -> string
	//   0  plan  plan, then its plan of join, upper  <- input
	//   result: plan
	// expansion words 5 <nil>
	// A, LIST, OF, WORDS <nil>
}
