package flowtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/eventkind"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// TestRun is a run under test. Its assertions end the test when they fail, and show the run.
type TestRun struct {
	*runtime.RunRef
	t *T
}

// TypedRun is a TestRun whose result has the type Out.
type TypedRun[Out any] struct {
	*TestRun
	run *runtime.Run[Out]
}

// Start starts a run, after it has let the workers serve the flow.
func Start[In, Out any](t *T, def *flow.Definition[In, Out], in In, opts ...runtime.StartOption) *TypedRun[Out] {
	t.Helper()
	t.Serve(def)
	ctx, cancel := t.bounded()
	defer cancel()
	run, err := runtime.Start(ctx, t.client, def, in, opts...)
	if err != nil {
		t.Fatalf("flowtest: %v", err)
	}
	return &TypedRun[Out]{&TestRun{run.RunRef, t}, run}
}

// Attach returns a run that something else has started, such as a schedule.
func (t *T) Attach(flowName, runID string) *TestRun {
	return &TestRun{t.client.Run(flowName, runID), t}
}

// MustResult waits until the run has succeeded, and returns its result.
func (r *TypedRun[Out]) MustResult() Out {
	r.t.Helper()
	ctx, cancel := r.t.bounded()
	defer cancel()
	out, err := r.run.Result(ctx)
	if err != nil {
		r.fatal(r.ending(err))
	}
	return out
}

// MustSucceed waits until the run has succeeded.
func (r *TestRun) MustSucceed() *TestRun {
	r.t.Helper()
	return r.mustEnd(fabrictype.RunSucceeded)
}

// MustFail waits until the run has failed, and returns how.
func (r *TypedRun[Out]) MustFail() *runtime.RunError {
	r.t.Helper()
	return r.MustEnd(fabrictype.OutcomeFailed)
}

// MustEnd waits until the run has ended without success, with the outcome fabrictype.OutcomeFailed, OutcomeCancelled or
// OutcomeExpired, and returns how.
func (r *TypedRun[Out]) MustEnd(outcome fabrictype.Outcome) *runtime.RunError {
	r.t.Helper()
	ctx, cancel := r.t.bounded()
	defer cancel()
	_, err := r.run.Result(ctx)
	failed, ok := errors.AsType[*runtime.RunError](err)
	if !ok || failed.Outcome != outcome {
		r.fatal("the outcome of the run was to be " + string(outcome) + ": " + r.ending(err))
	}
	return failed
}

// MustBe waits until the run has ended, in that state.
func (r *TestRun) MustBe(state fabrictype.RunState) *TestRun {
	r.t.Helper()
	return r.mustEnd(state)
}

// mustEnd waits until the run has ended in a state.
func (r *TestRun) mustEnd(want fabrictype.RunState) *TestRun {
	r.t.Helper()
	r.await(fmt.Sprintf("the end of the run, which was to be %s", want), "",
		func(d *runtime.RunDescription) (bool, string) {
			if d.State != fabrictype.RunRunning && d.State != want {
				return false, fmt.Sprintf("the run is %s and was to be %s", d.State, want)
			}
			return d.State == want && !d.ClosedAt.IsZero(), ""
		})
	return r
}

// ending describes how a wait for the result ended.
func (r *TestRun) ending(err error) string {
	if err == nil {
		return "the run has succeeded"
	}
	if late, ok := errors.AsType[impatience](err); ok {
		return "the run has not ended: " + late.words
	}
	return err.Error()
}

// Elapsed is how long the run took, by the engine's clock, or has taken so far.
func (r *TestRun) Elapsed() time.Duration {
	r.t.Helper()
	d := r.describe()
	if d.ClosedAt.IsZero() {
		return time.Since(d.CreatedAt).Truncate(time.Millisecond)
	}
	return d.ClosedAt.Sub(d.CreatedAt)
}

// Order asserts that the nodes began in this order: the function of an activity was called, or the wait of a waitpoint
// began. Nodes that began in one moment are in the order of the run's events.
func (r *TestRun) Order(nodes ...string) *TestRun {
	r.t.Helper()
	began := r.began()
	for i, node := range nodes {
		at, ok := began[node]
		if !ok {
			r.fatal(fmt.Sprintf("node %s has not begun", node))
		}
		if i > 0 && at < began[nodes[i-1]] {
			r.fatal(fmt.Sprintf("node %s began before node %s", node, nodes[i-1]))
		}
	}
	return r
}

// began returns the place of each node's first event of beginning among the events of the run.
func (r *TestRun) began() map[string]int {
	r.t.Helper()
	place := make(map[string]int)
	for i, e := range r.events() {
		switch fabrictype.EventKind(e.Event) {
		case fabrictype.EventStarted, fabrictype.EventSuspended, eventkind.Sleeping, eventkind.WaitingChildren:
			if _, ok := place[e.Node]; !ok {
				place[e.Node] = i
			}
		}
	}
	return place
}

// events reads the events so far.
func (r *TestRun) events() (list []enginerpc.FlowEvent) {
	r.t.Helper()
	const page = 500
	core := engine.ConnOf(r.t.engine.Internal())
	partition, err := core.FlowPartition(r.FlowID())
	for after := ""; err == nil; {
		var reply enginerpc.ReadEventsReply
		reply, err = core.ReadEvents(context.Background(), enginerpc.ReadEventsCall{
			Partition: partition, FlowID: r.FlowID(), After: after, Limit: page,
		})
		list = append(list, reply.Events...)
		if len(reply.Events) < page && len(reply.Gone) == 0 {
			break
		}
		after = reply.Events[len(reply.Events)-1].ID
	}
	if err != nil {
		r.t.Fatalf("flowtest: events of run %s: %v", r.ID(), err)
	}
	return list
}

// describe returns the description of the run.
func (r *TestRun) describe() *runtime.RunDescription {
	r.t.Helper()
	d, err := r.Describe(context.Background())
	if err != nil {
		r.t.Fatalf("flowtest: %v", err)
	}
	return d
}

// await waits until a condition of the run holds, which it checks after each event of a node, or of all nodes if the
// name is empty, and at the end of the run. The condition returns a text when it can no longer hold.
func (r *TestRun) await(what, node string, holds func(*runtime.RunDescription) (bool, string)) *runtime.RunDescription {
	r.t.Helper()
	look := func() (*runtime.RunDescription, bool) {
		d := r.describe()
		ok, never := holds(d)
		if never != "" {
			r.fatal(never)
		}
		return d, ok
	}
	if d, ok := look(); ok {
		return d
	}
	ctx, cancel := r.t.bounded()
	defer cancel()
	for e, err := range r.Watch(ctx, "") {
		if err != nil {
			if late, ok := errors.AsType[impatience](err); ok {
				err = late
			}
			r.fatal(fmt.Sprintf("waiting for %s: %v", what, err))
		}
		if node != "" && e.Node != node && !e.Ends() {
			continue
		}
		if d, ok := look(); ok {
			return d
		}
	}
	d, ok := look()
	if !ok {
		r.fatal(fmt.Sprintf("the run is over without %s", what))
	}
	return d
}

// fatal ends the test with a reason and the table of the run.
func (r *TestRun) fatal(reason string) {
	r.t.Helper()
	r.t.Fatalf("%s\n%s", reason, r.Table())
}

// TestNode is a node of a run under test. Its assertions end the test when they fail, and show the run.
type TestNode struct {
	run  *TestRun
	name string
}

// Node returns a node of the run. A flow without it fails the test.
func (r *TestRun) Node(name string) *TestNode {
	r.t.Helper()
	d := r.describe()
	if !slices.ContainsFunc(d.Nodes, func(n fabrictype.Node) bool { return n.Name == name }) {
		r.fatal(fmt.Sprintf("the run has no node %q", name))
	}
	return &TestNode{r, name}
}

// Description returns the present description of the node.
func (n *TestNode) Description() fabrictype.Node {
	n.run.t.Helper()
	return n.of(n.run.describe())
}

// of returns the node's part of a description.
func (n *TestNode) of(d *runtime.RunDescription) fabrictype.Node {
	for _, node := range d.Nodes {
		if node.Name == n.name {
			return node
		}
	}
	return fabrictype.Node{}
}

// Succeeded waits until the node has ended, and asserts that it has a result.
func (n *TestNode) Succeeded() *TestNode {
	n.run.t.Helper()
	return n.ends(fabrictype.NodeSucceeded)
}

// Failed waits until the node has ended, and asserts that it has failed.
func (n *TestNode) Failed() *TestNode {
	n.run.t.Helper()
	return n.ends(fabrictype.NodeFailed)
}

// Skipped waits until the node has ended, and asserts that it did not run because of the outcomes of its upstreams.
func (n *TestNode) Skipped() *TestNode {
	n.run.t.Helper()
	return n.ends(fabrictype.NodeSkipped)
}

// Ends waits until the node has ended, and asserts its state.
func (n *TestNode) Ends(state fabrictype.NodeState) *TestNode {
	n.run.t.Helper()
	return n.ends(state)
}

func (n *TestNode) ends(want fabrictype.NodeState) *TestNode {
	n.run.t.Helper()
	n.run.await(fmt.Sprintf("the end of node %s", n.name), n.name, func(d *runtime.RunDescription) (bool, string) {
		state := n.of(d).State
		if state.Ended() && state != want {
			return false, fmt.Sprintf("node %s is %s and was to be %s", n.name, state, want)
		}
		return state == want, ""
	})
	return n
}

// Is asserts the state that the node has now: it skips only the time that messages take.
func (n *TestNode) Is(state fabrictype.NodeState) *TestNode {
	n.run.t.Helper()
	var is fabrictype.NodeState
	if !n.run.t.soon(func() bool { is = n.Description().State; return is == state }) {
		n.run.fatal(fmt.Sprintf("node %s is %s and was to be %s", n.name, is, state))
	}
	return n
}

// Attempts asserts how many attempts of the node were started so far. As Is, it skips no time.
func (n *TestNode) Attempts(want int) *TestNode {
	n.run.t.Helper()
	var got int
	if !n.run.t.soon(func() bool { got = n.Description().Attempts; return got == want }) {
		n.run.fatal(fmt.Sprintf("node %s had %d attempts and was to have %d", n.name, got, want))
	}
	return n
}

// Result waits until the node has succeeded, and decodes its result, which must be JSON, into target.
func (n *TestNode) Result(target any) *TestNode {
	n.run.t.Helper()
	n.Succeeded()
	data, err := n.result()
	if err == nil {
		err = decodeJSON(data, target)
	}
	if err != nil {
		n.run.fatal(fmt.Sprintf("the result of node %s: %v", n.name, err))
	}
	return n
}

// result reads the encoded result.
func (n *TestNode) result() ([]byte, error) {
	data, found, err := n.run.t.admin.ExecutionResult(
		context.Background(), enginecore.ExecutionID(n.Description().ExecutionID),
	)
	if err == nil && !found {
		err = errors.New("there is none")
	}
	return data, err
}

// Child waits until the child run of a map or sub-flow node has begun, and returns it.
func (n *TestNode) Child() *TestRun {
	n.run.t.Helper()
	d := n.run.await(fmt.Sprintf("the child run of node %s", n.name), n.name,
		func(d *runtime.RunDescription) (bool, string) {
			node := n.of(d)
			begun := node.Child != nil && node.Child.State != ""
			if !begun && node.State.Ended() {
				return false, fmt.Sprintf("node %s is %s and has no child run", n.name, node.State)
			}
			return begun, ""
		})
	child := n.of(d).Child
	return n.run.t.Attach(cmp.Or(child.Flow, n.run.FlowName()), child.Run)
}
