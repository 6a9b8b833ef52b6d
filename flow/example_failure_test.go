package flow_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
)

var (
	book = activity.New("trip.book", func(context.Context, string) (string, error) { return "", errors.New("full") })
	tell = activity.New("trip.tell", func(context.Context, string) (bool, error) { return true, nil })
)

// A node for the case that another one fails; it is skipped when that one succeeds.
func ExampleOnFailure() {
	f := flow.New[string, string]("trip")
	hotel := flow.Node(f, "hotel", book, f.Input())
	flow.Node(f, "apologise", tell, f.Input(), flow.OnFailure(hotel))
	flow.Node(f, "clean-up", tell, f.Input(), flow.Always(hotel))
	flow.Return(f, hotel)
	trip, err := f.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(trip.Outline())
	// Output:
	// trip: string -> string
	//   0  hotel      trip.book  <- input
	//   1  apologise  trip.tell  <- input, (on failure hotel)
	//   1  clean-up   trip.tell  <- input, (always hotel)
	//   result: hotel
}

// Runs may use 1000 tokens each, and all runs of the flow 50000 a day: nodes that would use more wait for the next day.
func ExampleBudget() {
	f := flow.New[string, string]("trip",
		flow.Budget("per-run", flow.HardLimit("tokens", 1000)),
		flow.Budget("per-day", flow.PerFlow(), flow.HardLimit("tokens", 50_000), flow.ResetEvery(24*time.Hour),
			flow.OnExceeded(flow.BlockNodes)),
	)
	flow.Return(f, flow.Node(f, "hotel", book, f.Input()))
	trip, err := f.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(trip.Name(), "can be started")
	// Output: trip can be started
}
