package activity_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/activity/activitytest"
)

// Answer reserves the maximum usage of a call, and settles the actual usage.
func Answer(ctx context.Context, question string) (string, error) {
	budget, err := activity.Reserve(ctx, "tokens", 50)
	if err != nil {
		return "", err
	}
	answer, used := "about "+question, int64(20+len(question))
	return answer, budget.Settle(ctx, used)
}

// A unit test gives the function a budget; in a worker it has the budget of its run's flow.
func ExampleReserve() {
	env := activitytest.New()
	env.SetBudget("tokens", 100)
	for _, question := range []string{"tides", "the moon", "why it is dark at night", "stars"} {
		answer, err := Answer(env.Context(context.Background()), question)
		if errors.Is(err, activity.ErrBudgetExceeded) {
			fmt.Println("no budget left for", question)
			continue
		}
		fmt.Println(answer, env.Used("tokens").Remaining())
	}
	// Output:
	// about tides 75
	// about the moon 47
	// no budget left for why it is dark at night
	// no budget left for stars
}
