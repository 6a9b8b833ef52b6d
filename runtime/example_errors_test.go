package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// TooFewLeft is an error that keeps its type and its details across processes.
type TooFewLeft struct {
	Item string `json:"item"`
	Left int    `json:"left"`
}

func (*TooFewLeft) ErrorName() string { return "shop.too_few_left" }
func (e *TooFewLeft) Error() string   { return fmt.Sprintf("only %d of %s left", e.Left, e.Item) }

// ErrNoCredit is found by errors.Is in every program that has a sentinel of this name.
var ErrNoCredit = activity.SentinelError("shop.credit_used_up", "the customer has no credit")

// The program that waits for a run finds the errors by which its node failed.
func ExampleRunError_details() {
	reserve := activity.New("reserve", func(_ context.Context, item string) (int, error) {
		if item == "cup" {
			return 0, fmt.Errorf("reserve: %w", &TooFewLeft{Item: item, Left: 3})
		}
		return 0, fmt.Errorf("reserve %s: %w", item, ErrNoCredit)
	}, activity.Retry(activity.RetryPolicy{Attempts: 1}))
	f := flow.New[string, int]("order")
	flow.Return(f, flow.Node(f, "reserve", reserve, f.Input()))
	def, err := f.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	local, err := runtime.OpenLocal(ctx, runtime.LocalConfig{
		Activities: def.Handlers(), Open: runtime.OpenConfig{Logger: slog.New(slog.DiscardHandler)},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer local.Close()
	for _, item := range []string{"cup", "plate"} {
		run, err := runtime.Start(ctx, local.Client(), def, item)
		if err != nil {
			fmt.Println(err)
			return
		}
		_, err = run.Result(ctx)
		var few *TooFewLeft
		switch {
		case errors.As(err, &few):
			fmt.Println("take at most", few.Left)
		case errors.Is(err, ErrNoCredit):
			fmt.Println("pay first")
		}
	}
	// Output:
	// take at most 3
	// pay first
}
