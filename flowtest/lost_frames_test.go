package flowtest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/flowtest"
)

// A worker that dies with frames it has not sent is lost as any other: its unsent frames do not fail the test.
func TestLostWorkerWithFrames(t *testing.T) {
	t.Parallel()
	talk := activity.New("talk", func(ctx context.Context, n int) (int, error) {
		for i := range 50 {
			if err := activity.Emit(ctx, activity.Frame{Kind: "word", Payload: i}); err != nil {
				return 0, err
			}
		}
		return n, nil
	})
	f := flow.New[int, int]("talks")
	last := flow.Node(f, "talk-0", talk, f.Input())
	for i := range 5 {
		last = flow.Node(f, fmt.Sprintf("talk-%d", i+1), talk, last)
	}
	flow.Return(f, last)
	def, err := f.Build()
	if err != nil {
		t.Fatal(err)
	}
	flowtest.Run(t, func(t *flowtest.T) {
		t.Inject(talk, flowtest.Attempt(1), flowtest.LoseWorker())
		if got := flowtest.Start(t, def, 7).MustResult(); got != 7 {
			t.Errorf("the result is %d", got)
		}
	})
}
