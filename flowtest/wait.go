package flowtest

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// TestWait is a wait of a node for signals: of a waitpoint, or of an activity that has called activity.Await.
type TestWait struct {
	node   *TestNode
	point  runtime.Waitpoint
	source string
}

// Waiting waits until the node waits for signals, and returns the wait; of several, the oldest.
func (n *TestNode) Waiting() *TestWait {
	n.run.t.Helper()
	n.run.await(fmt.Sprintf("node %s to wait for signals", n.name), n.name,
		func(d *runtime.RunDescription) (bool, string) {
			state := n.of(d).State
			if state.Ended() {
				return false, fmt.Sprintf("node %s is %s and was to wait for signals", n.name, state)
			}
			return state == fabrictype.NodeSuspended, ""
		})
	waits, err := n.run.Waitpoints(context.Background())
	if err != nil {
		n.run.t.Fatalf("flowtest: %v", err)
	}
	for _, w := range waits {
		if w.Node == n.name && w.State == fabrictype.WaitOpen {
			return &TestWait{node: n, point: w}
		}
	}
	n.run.fatal(fmt.Sprintf("node %s has no open wait", n.name))
	return nil
}

// Waitpoint returns the waitpoint, with its token.
func (w *TestWait) Waitpoint() runtime.Waitpoint { return w.point }

// As returns the wait with the source of its further signals: who sends them, for the record and for waits that count
// distinct sources.
//
//	run.Node("approve").Waiting().As("ann").Signal("approve", yes)
//	run.Node("approve").Waiting().As("bob").Signal("approve", yes)
func (w *TestWait) As(source string) *TestWait { return &TestWait{w.node, w.point, source} }

// Signal sends a signal from "client", unless As has set another source, and returns the node. A signal that is
// refused, that does not count, or that comes too late, fails the test.
func (w *TestWait) Signal(name string, payload any) *TestNode {
	w.node.run.t.Helper()
	return w.Send(runtime.Signal{Name: name, Payload: payload})
}

// Approve sends the approval of each person, by an activity.Decision, and returns the node:
//
//	run.Node("go-live").Waiting().Approve("ann", "bob").Succeeded()
func (w *TestWait) Approve(people ...string) *TestNode {
	w.node.run.t.Helper()
	for _, who := range people {
		w.As(who).Signal(activityspec.Approve, activity.Decision{Choice: activityspec.Approve, By: who})
	}
	return w.node
}

// Reject sends the rejection of a person with a comment, by an activity.Decision, and returns the node.
func (w *TestWait) Reject(who, comment string) *TestNode {
	w.node.run.t.Helper()
	return w.As(who).Signal(activityspec.Reject,
		activity.Decision{Choice: activityspec.Reject, By: who, Comment: comment})
}

// Send is Signal with all that a signal can have.
func (w *TestWait) Send(s runtime.Signal) *TestNode {
	t := w.node.run.t
	t.Helper()
	s.Source = cmp.Or(s.Source, w.source)
	reply, err := t.client.Signal(context.Background(), w.point.Token, s)
	switch {
	case err != nil:
		w.node.run.fatal(err.Error())
	case reply.Outcome == fabrictype.SignalClosed || reply.Outcome == fabrictype.SignalExpired:
		w.node.run.fatal(fmt.Sprintf("signal %q to node %s: the wait is over: %s", s.Name, w.node.name, reply.Outcome))
	}
	return w.node
}

// TimeOut lets the time pass until the timeout of the wait takes effect, and returns the node. A wait without a timeout
// fails the test.
func (w *TestWait) TimeOut() *TestNode {
	t := w.node.run.t
	t.Helper()
	if w.point.TimeoutAt.IsZero() {
		w.node.run.fatal(fmt.Sprintf("the wait of node %s has no timeout", w.node.name))
	}
	t.Advance(max(0, time.Until(w.point.TimeoutAt)))
	return w.node
}
