package runtime_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

type consent struct {
	By string `json:"by"`
}

// A run waits for a person. The token of its waitpoint gives the right to answer; to answer twice changes nothing.
func ExampleClient_Signal() {
	ctx := context.Background()
	publish := activity.New("publish", func(_ context.Context, c consent) (string, error) { return "published, says " + c.By, nil })
	f := flow.New[struct{}, string]("news")
	ok := flow.Waitpoint[consent](f, "approve", activity.Signals("approve"))
	flow.Return(f, flow.Node(f, "publish", publish, ok))
	def, err := f.Build()
	if err != nil {
		log.Fatal(err)
	}
	local, err := runtime.OpenLocal(ctx, runtime.LocalConfig{
		Activities: def.Handlers(), Open: runtime.OpenConfig{Logger: slog.New(slog.DiscardHandler)},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer local.Close()
	run, err := runtime.Start(ctx, local.Client(), def, struct{}{})
	if err != nil {
		log.Fatal(err)
	}
	waits, err := run.Waitpoints(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(waits[0].Node, waits[0].State, waits[0].Token)
	for range 2 {
		d, err := local.Client().Signal(ctx, waits[0].Token, runtime.Signal{
			Name: "approve", Payload: consent{By: "ann"}, Source: "ann", IdempotencyKey: "ann",
		})
		fmt.Println(d.Outcome, d.Answer(), err)
	}
	fmt.Println(run.Result(ctx))
	// Output:
	// approve open [token]
	// resumed resumed <nil>
	// duplicate resumed <nil>
	// published, says ann <nil>
}
