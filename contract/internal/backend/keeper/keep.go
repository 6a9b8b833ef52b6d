package keeper

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/flowfabric/flowfabric-go/contract/internal/backend/execution"
	"github.com/flowfabric/flowfabric-go/contract/internal/backend/link"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// Keeper performs the work that is due by time, and the steps that other programs left undone. It is safe for
// concurrent use.
type Keeper struct {
	*execution.Steps
	interval time.Duration // of reconciliations
	present  presentKeys
	putOff   putOff

	mu         sync.Mutex
	reconciled map[keyspace.Partition]reconcileState
}

func New(s *execution.Steps, interval time.Duration) *Keeper {
	return &Keeper{Steps: s, interval: interval, reconciled: make(map[keyspace.Partition]reconcileState)}
}

const (
	// ticksAtOnce bounds the partitions that KeepAll works on at a time.
	ticksAtOnce = 8
	// reclaimReminder is the interval at which workers are notified again of executions that lost their worker and
	// have not been taken over.
	reclaimReminder = time.Second
)

// TickTasks lists the keeper tasks that Tick and KeepAll perform.
func (*Keeper) TickTasks() []engine.TaskID {
	return []engine.TaskID{
		engine.TaskLeaseExpiry, engine.TaskAttemptTimeout, engine.TaskExecutionDeadline, engine.TaskDelayedPromotion,
		engine.TaskCancelBacklog, engine.TaskSuspensionTimeout, engine.TaskPendingWaitpointExpiry,
		engine.TaskSiblingCancelDispatch, engine.TaskDependencyReconciliation, engine.TaskPropagation,
	}
}

// KeepAll performs the work that is due in several partitions, up to ticksAtOnce of them at a time. The answers are
// in the order of the calls; the error is one of their errors.
func (c *Keeper) KeepAll(
	ctx context.Context, calls []enginerpc.KeepCall,
) ([]batching.CallResult[enginerpc.KeepReply], error) {
	answers := make([]batching.CallResult[enginerpc.KeepReply], len(calls))
	if len(calls) == 0 {
		return answers, nil
	}
	now, err := c.ReadClock(ctx)
	if err != nil {
		for i := range answers {
			answers[i].Err = err
		}
		return answers, err
	}
	lanes := c.KnownLanes(ctx, calls[0].Lanes)
	var absent absentKeys
	if calls[0].Task == "" {
		absent = c.absent(ctx, calls, lanes)
	}
	var ticking errgroup.Group
	ticking.SetLimit(ticksAtOnce)
	for i, call := range calls {
		ticking.Go(func() (err error) {
			// A panic in this goroutine would end the process: it becomes the error of this partition.
			defer func() {
				if fault := recover(); fault != nil {
					err = fmt.Errorf("%w: %v", engine.ErrStepPanicked, fault)
					answers[i].Err = err
				}
			}()
			answers[i].Reply, answers[i].Err = c.keep(ctx, call, now, lanes, absent)
			return answers[i].Err
		})
	}
	err = ticking.Wait() // the others are in the answers
	return answers, err
}

// Tick performs the work that is due in one partition.
func (c *Keeper) Tick(ctx context.Context, call enginerpc.TickCall) (enginerpc.TickReply, error) {
	now, err := c.ReadClock(ctx)
	if err != nil {
		return enginerpc.TickReply{}, err
	}
	keep := enginerpc.KeepCall{Partition: call.Partition, Limit: call.Limit, Lanes: call.Lanes}
	reply, err := c.keep(ctx, keep, now, c.KnownLanes(ctx, call.Lanes), nil)
	return enginerpc.TickReply{Status: reply.Status, Now: reply.Now, NextDueAt: reply.NextDueAt, More: reply.More}, err
}

// TickKeys returns the keys of a partition of which at least one exists if a tick has work there, now or later.
func (c *Keeper) TickKeys(p keyspace.Partition, lanes []enginecore.LaneID) []string {
	keys := []string{
		c.Keys.IndexLeaseExpiry(p), c.Keys.IndexAttemptTimeout(p), c.Keys.IndexExecutionDeadline(p),
		c.Keys.IndexCancelBacklog(p), c.Keys.IndexSuspensionTimeout(p), c.Keys.IndexPendingWaitpointExpiry(p),
		c.Keys.IndexPendingCancelGroups(p), c.Keys.LaneEligible(p, link.WaitLane),
	}
	for _, lane := range lanes {
		keys = append(keys, c.Keys.LaneDelayed(p, lane), c.Keys.LaneBlockedDependencies(p, lane),
			c.Keys.LaneActive(p, lane))
	}
	return keys
}

// keep performs the work that is due in a partition, as the scanners of a FlowFabric server do, and once per reconcile
// interval the steps that other programs left undone. An item that cannot be processed is put off and reported, and a
// task that fails does not prevent the others.
func (c *Keeper) keep(
	ctx context.Context, call enginerpc.KeepCall, now time.Time, lanes []enginecore.LaneID, absent absentKeys,
) (enginerpc.KeepReply, error) {
	t := &tick{
		keeper: c, call: call, lanes: lanes, absent: absent, lags: make(map[engine.TaskID]time.Duration),
	}
	// No message announces work that other programs make due.
	t.reply = enginerpc.KeepReply{Status: enginerpc.StatusOK, Now: now, NextDueAt: now.Add(c.Poll)}
	faults := t.readDue(ctx)
	for _, d := range []struct {
		task engine.TaskID
		do   func(context.Context) error
	}{
		{engine.TaskLeaseExpiry, t.expireLeases},
		{engine.TaskAttemptTimeout, func(ctx context.Context) error {
			return t.expire(ctx, engine.ExecutionIDs(t.attempts), "attempt_timeout")
		}},
		{engine.TaskExecutionDeadline, func(ctx context.Context) error {
			return t.expire(ctx, engine.ExecutionIDs(t.deadlines), "execution_deadline")
		}},
		{engine.TaskDelayedPromotion, t.promote},
		{engine.TaskCancelBacklog, t.cancelOwed},
		{engine.TaskSuspensionTimeout, t.expireWaits},
		{engine.TaskPendingWaitpointExpiry, t.closeWaitpoints},
		{engine.TaskSiblingCancelDispatch, t.cancelSiblings},
		{engine.TaskDependencyReconciliation, t.reconcile},
		{engine.TaskPropagation, t.serveWaits},
	} {
		if call.Task != "" && call.Task != string(d.task) {
			continue
		}
		if retry.IsUnavailable(faults) {
			break
		}
		t.task, t.lane, t.count = d.task, "", 0
		if err := t.settle(d.do(ctx)); err != nil {
			faults = errors.Join(faults, fmt.Errorf("%s: %w", d.task, err))
		}
		if t.count > 0 {
			t.reply.Done = append(t.reply.Done,
				enginerpc.TaskDone{Task: string(d.task), Done: t.count, Lag: t.lags[d.task]})
		}
	}
	return t.reply, faults
}

// tick is the tick of one partition.
type tick struct {
	keeper *Keeper
	call   enginerpc.KeepCall
	reply  enginerpc.KeepReply
	task   engine.TaskID     // the current one
	lane   enginecore.LaneID // the current one of a task that has an index for each lane
	// count is the number of items that the current task has completed; lags is how late the first item of each task
	// was.
	count int64
	lags  map[engine.TaskID]time.Duration
	lanes []enginecore.LaneID
	// absent are keys that did not exist when the tick began, so that it does not read them.
	absent absentKeys
	// siblings counts the upstreams that joins did not need, by disposition.
	siblings map[string]int64
	// dispatched counts cancels of such upstreams by the reason of the join.
	dispatched map[string]int64

	leases, attempts, deadlines, cancels, waits, pending []string
	delayed                                              map[enginecore.LaneID][]string
}

// isIdle reports whether the tick has changed nothing so far, so that keys that did not exist before it still do not.
func (t *tick) isIdle() bool { return len(t.reply.Done) == 0 }

// due makes the next tick happen at a time, unless it is due earlier.
func (t *tick) due(at time.Time) {
	if t.reply.NextDueAt.IsZero() || at.Before(t.reply.NextDueAt) {
		t.reply.NextDueAt = at
	}
}
