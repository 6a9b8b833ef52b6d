package flowtest_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/flowtest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A test runs on servers as it does in a bubble: with fakes, faults, lost workers and lost replies.
func TestEngines(t *testing.T) {
	t.Parallel()
	flowtest.Engines(t, func(t *flowtest.T) {
		fakes(t)
		t.Inject(mail, flowtest.Attempt(1), flowtest.Error(errors.New("no connection")))
		t.Inject(charge, flowtest.Attempt(1), flowtest.LoseReply())
		t.Inject(flowtest.Node("mail"), flowtest.Attempt(2), flowtest.LoseWorker())
		run := flowtest.Start(t, refund(t), order{ID: 7})
		run.Node("charge").Is("waiting_children")
		t.Advance(10 * time.Millisecond)
		run.Node("approve").Waiting().Signal("approve", "ann")
		run.MustResult()
		if lost := run.Node("mail").Description().Reclaims; lost != 1 {
			t.Errorf("%d workers were lost", lost)
		}
		run.Node("charge").Attempts(1)
		run.Order("approve", "charge", "mail")
		if !t.Virtual() {
			if text := failureOf(t, func() { t.Advance(time.Hour) }); !strings.Contains(text, "waits 10s at most") {
				t.Errorf("a test on a server that is to wait for an hour is skipped with %q", text)
			}
		}
	}, flowtest.Worker(leaseOfASecond))
}

var leaseOfASecond = runtime.WorkerConfig{Lease: time.Second}
