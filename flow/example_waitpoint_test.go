package flow_test

import (
	"context"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
)

// A gate that two people open and one closes, and a node that cleans up however the deploy ends.
func ExampleApproval() {
	build := activity.New("build", func(_ context.Context, version string) (string, error) { return "app:" + version, nil })
	deploy := activity.New("deploy", func(_ context.Context, image string) (string, error) { return image, nil })
	clean := activity.New("clean", func(context.Context, string) (struct{}, error) { return struct{}{}, nil })

	f := flow.New[string, string]("release")
	image := flow.Node(f, "build", build, f.Input())
	gate := flow.Approval(f, "approve", flow.After(image), activity.Approvers(2), activity.Timeout(24*time.Hour, activity.Escalate))
	done := flow.Node(f, "deploy", deploy, image, flow.After(gate))
	flow.Node(f, "clean", clean, image, flow.Always(done))
	flow.Return(f, done)
	release, err := f.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(release.Outline())
	// Output:
	// release: string -> string
	//   0  build    build                                                                              <- input
	//   1  approve  waits for 2 approvals of different people, or 1 rejection, escalate after 24h0m0s  <- (build)
	//   2  deploy   deploy                                                                             <- build, (approve)
	//   3  clean    clean                                                                              <- build, (always deploy)
	//   result: deploy
}
