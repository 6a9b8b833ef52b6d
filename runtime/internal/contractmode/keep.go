package contractmode

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/errgroup"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

const (
	// contractTicks bounds the partitions that KeepAll works on at a time.
	contractTicks = 8
	// reclaimReminder is the interval at which workers are notified again of executions that lost their worker and
	// have not been taken over.
	reclaimReminder = time.Second
)

// ContractTasks lists the keeper tasks in contract mode: those of the tick, then the others. All
// other tasks are left to the server's own scanners.
var ContractTasks = append((*contract)(nil).TickTasks(), engine.TaskBudget, engine.TaskUnblocking)

// TickTasks lists the keeper tasks that Tick and KeepAll carry out.
func (*contract) TickTasks() []engine.TaskID {
	return []engine.TaskID{
		engine.TaskLeaseExpiry, engine.TaskAttemptTimeout, engine.TaskExecutionDeadline, engine.TaskDelayedPromotion,
		engine.TaskCancelBacklog, engine.TaskSuspensionTimeout, engine.TaskPendingWaitpointExpiry,
		engine.TaskSiblingCancelDispatch, engine.TaskDependencyReconciliation, engine.TaskPropagation,
	}
}

// KeepAll carries out what is due in several partitions, up to contractTicks of them at a time. The answers are in
// the order of the calls; the error is one of theirs.
func (c *contract) KeepAll(
	ctx context.Context, calls []enginerpc.KeepCall,
) ([]engine.CallResult[enginerpc.KeepReply], error) {
	answers := make([]engine.CallResult[enginerpc.KeepReply], len(calls))
	var ticking errgroup.Group
	ticking.SetLimit(contractTicks)
	for i, call := range calls {
		ticking.Go(func() (err error) {
			// A panic in this goroutine would end the process: it becomes the error of this partition.
			defer func() {
				if fault := recover(); fault != nil {
					err = fmt.Errorf("%w: %v", engine.ErrStepPanicked, fault)
					answers[i].Err = err
				}
			}()
			answers[i].Reply, answers[i].Err = c.keep(ctx, call)
			return answers[i].Err
		})
	}
	err := ticking.Wait() // the others are in the answers
	return answers, err
}

// Tick carries out what is due in one partition.
func (c *contract) Tick(ctx context.Context, call enginerpc.TickCall) (enginerpc.TickReply, error) {
	reply, err := c.keep(ctx, enginerpc.KeepCall{Partition: call.Partition, Limit: call.Limit, Lanes: call.Lanes})
	return enginerpc.TickReply{Status: reply.Status, Now: reply.Now, NextDueAt: reply.NextDueAt, More: reply.More}, err
}

// keep carries out what is due in a partition, as the scanners of a FlowFabric server do, and once per reconcile
// interval the steps that other programs left undone.
func (c *contract) keep(ctx context.Context, call enginerpc.KeepCall) (enginerpc.KeepReply, error) {
	now, err := c.readClock(ctx)
	if err != nil {
		return enginerpc.KeepReply{}, err
	}
	t := &contractTick{
		contract: c, call: call, lanes: c.KnownLanes(call.Lanes), lags: make(map[engine.TaskID]time.Duration),
	}
	// No message announces what other programs make due.
	t.reply = enginerpc.KeepReply{Status: enginerpc.StatusOK, Now: now, NextDueAt: now.Add(c.config.Poll)}
	if err := t.readDue(ctx); err != nil {
		return t.reply, err
	}
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
		t.count = 0
		if err := d.do(ctx); err != nil {
			return t.reply, err
		}
		if t.count > 0 {
			t.reply.Done = append(t.reply.Done,
				enginerpc.TaskDone{Task: string(d.task), Done: t.count, Lag: t.lags[d.task]})
		}
	}
	return t.reply, nil
}

// KnownLanes returns the lanes that this process has seen, the lane "default" and the given ones, sorted and without
// duplicates.
func (c *contract) KnownLanes(more []enginecore.LaneID) []enginecore.LaneID {
	c.mu.Lock()
	defer c.mu.Unlock()
	lanes := append([]enginecore.LaneID{"default", waitLane}, more...)
	for lane := range c.lanes {
		lanes = append(lanes, lane)
	}
	slices.Sort(lanes)
	return slices.Compact(lanes)
}

// contractTick is the tick of one partition.
type contractTick struct {
	contract *contract
	call     enginerpc.KeepCall
	reply    enginerpc.KeepReply
	// count is the number of items that the current task has completed; lags is how late the first item of each task
	// was.
	count int64
	lags  map[engine.TaskID]time.Duration
	lanes []enginecore.LaneID
	// siblings counts the upstreams that joins did not need, by what became of them.
	siblings map[string]int64

	leases, attempts, deadlines, cancels, waits, pending []string
	delayed                                              map[enginecore.LaneID][]string
}

// due brings the time of the next tick forward.
func (t *contractTick) due(at time.Time) {
	if t.reply.NextDueAt.IsZero() || at.Before(t.reply.NextDueAt) {
		t.reply.NextDueAt = at
	}
}

// readDue reads the heads of all indexes of the partition that are ordered by time.
func (t *contractTick) readDue(ctx context.Context) error {
	c, p := t.contract, t.call.Partition
	indexes := []struct {
		task engine.TaskID
		key  string
		list *[]string
	}{
		{engine.TaskLeaseExpiry, c.keys.IndexLeaseExpiry(p), &t.leases},
		{engine.TaskAttemptTimeout, c.keys.IndexAttemptTimeout(p), &t.attempts},
		{engine.TaskExecutionDeadline, c.keys.IndexExecutionDeadline(p), &t.deadlines},
		{engine.TaskCancelBacklog, c.keys.IndexCancelBacklog(p), &t.cancels},
		{engine.TaskSuspensionTimeout, c.keys.IndexSuspensionTimeout(p), &t.waits},
		{engine.TaskPendingWaitpointExpiry, c.keys.IndexPendingWaitpointExpiry(p), &t.pending},
	}
	byLane := make([][]string, len(t.lanes))
	for i, lane := range t.lanes {
		indexes = append(indexes, struct {
			task engine.TaskID
			key  string
			list *[]string
		}{engine.TaskDelayedPromotion, c.keys.LaneDelayed(p, lane), &byLane[i]})
	}
	last := engine.Decimal(max(t.call.Limit, 1) - 1)
	commands := make(rueidis.Commands, len(indexes))
	for i, index := range indexes {
		commands[i] = c.client.B().Zrange().Key(index.key).Min("0").Max(last).Withscores().Build()
	}
	results, err := c.read(ctx, commands...)
	if err != nil {
		return err
	}
	for i, index := range indexes {
		entries, err := results[i].AsZScores()
		if err != nil {
			return engine.ReadError(ctx, "ZRANGE", err)
		}
		*index.list = t.dueOf(entries)
		if len(*index.list) > 0 {
			t.lags[index.task] = max(t.lags[index.task], t.reply.Now.Sub(time.UnixMilli(int64(entries[0].Score))))
		}
	}
	t.delayed = make(map[enginecore.LaneID][]string, len(t.lanes))
	for i, lane := range t.lanes {
		t.delayed[lane] = byLane[i]
	}
	return nil
}

// dueOf returns the due entries at the head of an index and notes when the next one is due.
func (t *contractTick) dueOf(entries []rueidis.ZScore) []string {
	var due []string
	for _, e := range entries {
		at := time.UnixMilli(int64(e.Score))
		if at.After(t.reply.Now) {
			t.due(at)
			return due
		}
		due = append(due, e.Member)
	}
	return due
}

// expireLeases marks expired leases and notifies workers of executions to take over.
func (t *contractTick) expireLeases(ctx context.Context) error {
	if len(t.leases) == 0 {
		return nil
	}
	c := t.contract
	ids := engine.ExecutionIDs(t.leases)
	calls := make([]enginerpc.MarkLeaseExpiredIfDueCall, len(ids))
	for i, id := range ids {
		calls[i] = enginerpc.MarkLeaseExpiredIfDueCall{ExecutionID: id}
	}
	answers := sendContract[enginerpc.MarkLeaseExpiredIfDueReply](ctx, c, calls)
	if err := firstError(answers); err != nil {
		return err
	}
	cores, err := c.readCores(ctx, ids, []string{"lane_id"})
	if err != nil {
		return err
	}
	lanes := make(map[enginecore.LaneID]bool)
	for i, a := range answers {
		if a.Reply.Outcome == "marked_expired" || a.Reply.Outcome == "already_expired" {
			lanes[cores[i].Lane()] = true
			t.count++
		}
	}
	for lane := range lanes {
		c.tellWork(ctx, t.call.Partition, lane)
		t.due(t.reply.Now.Add(reclaimReminder))
	}
	return nil
}

var expireFields = []string{
	"lane_id", "current_attempt_index", "current_worker_instance_id", "current_lease_id", "flow_id",
}

// expire ends executions that have exceeded their deadline, or an attempt timeout set by another program.
func (t *contractTick) expire(ctx context.Context, ids []enginecore.ExecutionID, reason string) error {
	c := t.contract
	cores, err := c.readCores(ctx, ids, expireFields)
	if err != nil {
		return err
	}
	calls := make([]enginerpc.ExpireExecutionCall, len(ids))
	for i, id := range ids {
		calls[i] = enginerpc.ExpireExecutionCall{
			AttemptIndex: enginecore.AttemptIndex(cores[i].Int("current_attempt_index")), LaneID: cores[i].Lane(),
			ExecutionID:      id,
			WorkerInstanceID: enginecore.WorkerInstanceID(cores[i]["current_worker_instance_id"]), ExpireReason: reason,
		}
	}
	answers := sendContract[enginerpc.ExpireExecutionReply](ctx, c, calls)
	if err := firstError(answers); err != nil {
		return err
	}
	var ended []contractEnd
	for i, a := range answers {
		if a.Reply.Outcome != "expired" {
			continue
		}
		t.count++
		ended = append(ended, contractEnd{id: ids[i], flow: enginecore.FlowID(cores[i]["flow_id"]), outcome: "expired"})
		c.tellStop(ctx, ids[i], cores[i], engine.StopExpired, reason)
	}
	_, err = c.propagate(ctx, t.call.Partition, "", ended...)
	return err
}

// promote makes delayed executions eligible whose delay is over.
func (t *contractTick) promote(ctx context.Context) error {
	c := t.contract
	for lane, members := range t.delayed {
		calls := make([]enginerpc.PromoteDelayedCall, len(members))
		for i, id := range engine.ExecutionIDs(members) {
			calls[i] = enginerpc.PromoteDelayedCall{LaneID: lane, ExecutionID: id, Now: t.reply.Now}
		}
		answers := sendContract[enginerpc.PromoteDelayedReply](ctx, c, calls)
		if err := firstError(answers); err != nil {
			return err
		}
		promoted := int64(0)
		for _, a := range answers {
			if a.Reply.Outcome == "promoted" {
				promoted++
			}
		}
		t.count += promoted
		t.reply.More = t.reply.More || int64(len(members)) >= t.call.Limit && promoted > 0
		if promoted > 0 {
			c.tellWork(ctx, t.call.Partition, lane)
		}
	}
	return nil
}

// cancelOwed ends the members of cancelled flows whose canceller has not ended them in time.
func (t *contractTick) cancelOwed(ctx context.Context) error {
	c, p := t.contract, t.call.Partition
	for _, text := range t.cancels {
		id := enginecore.FlowID(text)
		results, err := c.read(ctx, c.client.B().Srandmember().Key(c.keys.FlowPendingCancels(p,
			id)).Count(t.call.Limit).Build(),
			c.hmget(c.keys.FlowCore(p, id), []string{"cancel_reason"}))
		if err != nil {
			return err
		}
		owed := idsOf[enginecore.ExecutionID](results[0])
		if len(owed) == 0 {
			// Acknowledging any member removes a flow without owed cancels from the list.
			owed = []enginecore.ExecutionID{enginecore.ExecutionIDFor(p, id, "")}
		}
		reason := hashrecord.Read(results[1], []string{"cancel_reason"})["cancel_reason"]
		if err := c.cancelMembers(ctx, p, id, reason, owed); err != nil {
			return err
		}
		t.count += int64(len(owed))
		t.reply.More = true
	}
	return nil
}
