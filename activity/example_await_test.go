package activity_test

import (
	"context"
	"fmt"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/activity/activitytest"
)

type Decision struct {
	By  string `json:"by"`
	Yes bool   `json:"yes"`
}

// Publish builds once, however often it runs, and waits for a decision.
func Publish(ctx context.Context, version string) (string, error) {
	image, err := activity.Step(ctx, "build", func(context.Context) (string, error) {
		fmt.Println("building", version)
		return "app:" + version, nil
	})
	if err != nil {
		return "", err
	}
	decision, err := activity.Await[Decision](ctx, "approve", activity.Signals("approve", "reject"))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, approved by %s: %v", image, decision.By, decision.Yes), nil
}

// A function with waits is played through call by call, as a worker would.
func ExampleAwait() {
	env := activitytest.New()
	_, err := Publish(env.Context(context.Background()), "2.0")
	step, waits := activitytest.Suspended(err)
	fmt.Println(step, waits)

	env.Signal("approve", "approve", Decision{By: "ann", Yes: true})
	fmt.Println(Publish(env.Context(context.Background()), "2.0"))
	// Output:
	// building 2.0
	// approve true
	// app:2.0, approved by ann: true <nil>
}
