package flowtest_test

import (
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flowtest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A run that starts in a day takes no time, and starts to the millisecond.
func TestStartTomorrow(t *testing.T) {
	t.Parallel()
	flowtest.Run(t, func(t *flowtest.T) {
		fakes(t)
		tomorrow := time.Now().Add(24 * time.Hour)
		run := flowtest.Start(t, refund(t), order{ID: 7}, runtime.StartAt(tomorrow))
		run.Node("approve").Is(fabrictype.NodeDelayed)
		run.Node("approve").Waiting().Signal("approve", "ann")
		run.MustResult()
		if late := time.Since(tomorrow); late < 0 || late > time.Second {
			t.Errorf("it was over %s after its start", late)
		}
	})
}
