package flow_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
)

var (
	book = activity.New("trip.book", func(context.Context, string) (string, error) { return "", errors.New("full") })
	tell = activity.New("trip.note", func(context.Context, string) (bool, error) { return true, nil })
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
	//   1  apologise  trip.note  <- input, (on failure hotel)
	//   1  clean-up   trip.note  <- input, (always hotel)
	//   result: hotel
}

// Full is an error that other nodes find by its type.
type Full struct {
	Hotel string `json:"hotel"`
}

func (*Full) ErrorName() string { return "trip.full" }
func (f *Full) Error() string   { return f.Hotel + " is full" }

// A function that gets the failure for which it runs reads the error by its type.
func ExampleFailure_Err() {
	apologise := func(_ context.Context, why flow.Failure) (string, error) {
		if full := new(Full); errors.As(why.Err(), &full) {
			return "try another hotel than " + full.Hotel, nil
		}
		return why.Reason, nil
	}
	// This is the input that a worker passes to the function of a node with flow.FailureOf(hotel).
	text, _ := apologise(context.Background(), flow.Failure{
		Node: "hotel", Outcome: fabrictype.OutcomeFailed, Reason: "Ritz is full",
		Details: []activity.ErrorDetail{{Name: "trip.full", Value: []byte(`{"hotel":"Ritz"}`)}},
	})
	fmt.Println(text)
	// Output: try another hotel than Ritz
}

// Runs may use 1000 tokens each, and all runs of the flow 50000 a day: nodes that would use more wait for the next day.
func ExampleBudget() {
	f := flow.New[string, string]("trip",
		flow.Budget("per-run", flow.BudgetConfig{Hard: map[string]int64{"tokens": 1000}}),
		flow.Budget("per-day", flow.BudgetConfig{Hard: map[string]int64{"tokens": 50_000}, PerFlow: true, ResetEvery: 24 * time.Hour, OnExceeded: flow.BlockNodes}),
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
