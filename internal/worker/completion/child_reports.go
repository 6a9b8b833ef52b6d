package completion

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/recordtext"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/worker/lease"
)

// ChildWait is the error of an attempt whose execution waits for a child run.
type ChildWait struct {
	ID   enginecore.FlowID
	Name string
}

// Error returns the child run that the node waits for.
func (w *ChildWait) Error() string { return submit.ChildWaitPrefix + w.Name }

// ChildWaitIn returns the ChildWait in an error's chain, nil if there is none.
func ChildWaitIn(err error) *ChildWait {
	w, _ := errors.AsType[*ChildWait](err)
	return w
}

// awaitChild suspends the execution until its child run has finished. If that fails, the lease expires, and
// the worker that takes the execution over finds the child run.
func (c *Completer) awaitChild(l *lease.Lease, w *ChildWait, slots int) (r Report) {
	call := enginerpc.AwaitChildCall{
		Partition: l.Shard.Partition, ExecutionID: l.Claimed.ExecutionID, LeaseID: l.Claimed.LeaseID,
		LeaseEpoch: l.Claimed.LeaseEpoch, AttemptID: l.Claimed.AttemptID, ChildFlowID: w.ID, Detail: w.Error(),
		Looks: c.Session.InCluster(), ClaimRequest: c.ClaimRequest(l.Shard.Lane, slots),
	}
	err := c.UntilKnown(l, func(ctx context.Context, repeated bool) error {
		call.Repeated = repeated
		sentAt := time.Now()
		reply, err := c.Session.Core.AwaitChild(ctx, call)
		r = Report{Handoff: handoffOf(reply.Executions, reply.Candidates, false, reply.Remaining > 0, sentAt)}
		if reply.Status == enginerpc.StatusAlreadySatisfied {
			r = Report{Resumed: true}
		}
		return err
	})
	if err != nil {
		return Report{Err: err}
	}
	return r
}

// ResultSkipped is the error of an attempt whose child run has succeeded without its result: the node of that, which
// flow.Return selects, was skipped. So the node of the child run is skipped.
type ResultSkipped struct{ Flow, Run, Node, Reason string }

// Error returns why the run has no result. It is the reason of the skipped node.
func (s *ResultSkipped) Error() string {
	text := fmt.Sprintf("run %s of flow %s has no result: node %s", s.Run, s.Flow, s.Node)
	if s.Reason == "" {
		return text + " did not run"
	}
	return text + ": " + s.Reason
}

// Unwrap returns [engine.ErrNoResult].
func (s *ResultSkipped) Unwrap() error { return engine.ErrNoResult }

// AsResultSkipped returns an error that is a ResultSkipped; nil for others, also for one that a failure wraps.
func AsResultSkipped(err error) *ResultSkipped {
	s, _ := err.(*ResultSkipped)
	return s
}

// skip reports that the node is skipped, since its child run has no result.
func (c *Completer) skip(l *lease.Lease, reason *ResultSkipped, slots int) (r Report) {
	call := enginerpc.SkipCall{
		Partition: l.Shard.Partition, ExecutionID: l.Claimed.ExecutionID, LeaseID: l.Claimed.LeaseID,
		LeaseEpoch: l.Claimed.LeaseEpoch, AttemptID: l.Claimed.AttemptID,
		Reason:       recordtext.Text(reason.Error(), engine.MaxReason),
		ClaimRequest: c.ClaimRequest(l.Shard.Lane, slots),
	}
	err := c.UntilKnown(l, func(ctx context.Context, repeated bool) error {
		call.Repeated = repeated
		sentAt := time.Now()
		reply, err := c.Session.Core.Skip(ctx, call)
		r = Report{
			Metric:  observe.OutcomeSkipped,
			Handoff: handoffOf(reply.Executions, reply.Candidates, false, reply.Remaining > 0, sentAt),
		}
		return err
	})
	if err != nil {
		return Report{Metric: observe.OutcomeNotCommitted, Err: err}
	}
	return r
}

// Continuation is the error of an attempt whose execution continues as new.
type Continuation struct {
	Generation int64 // that ends
	State      []byte
}

// Error returns a text with the generation that ends.
func (c *Continuation) Error() string {
	return fmt.Sprintf("generation %d goes on as new", c.Generation)
}

// continuationIn returns the continuation in an error's chain, nil if there is none.
func continuationIn(err error) *Continuation {
	c, _ := errors.AsType[*Continuation](err)
	return c
}

// CheckState returns the continuation, or the failure of one whose state is too large.
func (c *Continuation) CheckState() error {
	if len(c.State) <= activityspec.MaxStep {
		return c
	}
	return Final(engine.CategoryTooLarge, "%w: the state to go on with has %d bytes, at most %d are allowed",
		engine.ErrTooLarge, len(c.State), activityspec.MaxStep)
}

// continueAsNew continues the execution as new. If that fails, the lease expires, and the generation is run again.
func (c *Completer) continueAsNew(l *lease.Lease, next *Continuation, slots int) (r Report) {
	store, err := c.Session.Library("activity.ContinueAsNew")
	if err != nil {
		return Report{Refused: activity.NonRetryable(err)}
	}
	call := enginerpc.ContinueAsNewCall{
		Partition: l.Shard.Partition, ExecutionID: l.Claimed.ExecutionID, LeaseID: l.Claimed.LeaseID,
		LeaseEpoch: l.Claimed.LeaseEpoch, AttemptID: l.Claimed.AttemptID,
		Generation: next.Generation, State: next.State, ClaimRequest: c.ClaimRequest(l.Shard.Lane, slots),
	}
	err = c.UntilKnown(l, func(ctx context.Context, repeated bool) error {
		call.Repeated = repeated
		sentAt := time.Now()
		reply, err := store.ContinueAsNew(ctx, call)
		r = Report{
			Metric:  observe.OutcomeSuspended,
			Handoff: handoffOf(reply.Executions, reply.Candidates, false, reply.Remaining > 0, sentAt),
		}
		return err
	})
	if err != nil {
		return Report{Err: err}
	}
	return r
}
