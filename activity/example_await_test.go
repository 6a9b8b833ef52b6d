package activity_test

import (
	"context"
	"fmt"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/activity/activitytest"
)

// Publish builds once, however often it runs, and waits for a decision.
func Publish(ctx context.Context, version string) (string, error) {
	image, err := activity.Step(ctx, "build", func(context.Context) (string, error) {
		fmt.Println("building", version)
		return "app:" + version, nil
	})
	if err != nil {
		return "", err
	}
	approvals, err := activity.AwaitApproval(ctx, "approve")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, approved by %s", image, approvals[0].Payload.By), nil
}

// A function with waits is played through call by call, as a worker would.
func ExampleAwaitApproval() {
	env := activitytest.New()
	_, err := Publish(env.Context(context.Background()), "2.0")
	step, waits := activitytest.Suspended(err)
	fmt.Println(step, waits)

	env.Signal("approve", "approve", activity.Decision{Choice: "approve", By: "ann"})
	fmt.Println(Publish(env.Context(context.Background()), "2.0"))

	env = activitytest.New()
	env.Signal("approve", "reject", activity.Decision{Choice: "reject", By: "bob", Comment: "too early"})
	_, err = Publish(env.Context(context.Background()), "3.0")
	fmt.Println(err)
	// Output:
	// building 2.0
	// approve true
	// app:2.0, approved by ann <nil>
	// building 3.0
	// rejected by test: too early
}
