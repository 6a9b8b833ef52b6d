package keeper

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/contract/internal/backend/execution"
	"github.com/flowfabric/flowfabric-go/contract/internal/backend/link"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// dueIndex is an index of a partition that is ordered by time.
type dueIndex struct {
	task engine.TaskID
	key  string
	list *[]string
	// executions is true if the members are executions of the partition; lane is their lane if the index is for one
	// lane.
	executions bool
	lane       enginecore.LaneID
}

// dueIndexes returns the indexes of the partition that are ordered by time, each with the list that receives its due
// members; byLane has the lists of the lanes.
func (t *tick) dueIndexes(byLane [][]string) []dueIndex {
	keys, p := t.keeper.Keys, t.call.Partition
	indexes := []dueIndex{
		{engine.TaskLeaseExpiry, keys.IndexLeaseExpiry(p), &t.leases, true, ""},
		{engine.TaskAttemptTimeout, keys.IndexAttemptTimeout(p), &t.attempts, true, ""},
		{engine.TaskExecutionDeadline, keys.IndexExecutionDeadline(p), &t.deadlines, true, ""},
		{engine.TaskCancelBacklog, keys.IndexCancelBacklog(p), &t.cancels, false, ""},
		{engine.TaskSuspensionTimeout, keys.IndexSuspensionTimeout(p), &t.waits, true, ""},
		{engine.TaskPendingWaitpointExpiry, keys.IndexPendingWaitpointExpiry(p), &t.pending, false, ""},
	}
	for i, lane := range t.lanes {
		indexes = append(indexes,
			dueIndex{engine.TaskDelayedPromotion, keys.LaneDelayed(p, lane), &byLane[i], true, lane})
	}
	return indexes
}

// readDue reads the heads of all indexes of the partition that are ordered by time, without items that are put off. If
// an index cannot be read, the others are read all the same.
func (t *tick) readDue(ctx context.Context) (faults error) {
	c := t.keeper
	byLane := make([][]string, len(t.lanes))
	indexes := t.dueIndexes(byLane)
	var commands rueidis.Commands
	for _, index := range indexes {
		if t.absent[index.key] {
			continue
		}
		last := max(t.call.Limit, 1) - 1 + c.putOff.count(putOffList{t.call.Partition, index.task, index.lane})
		commands = append(commands,
			c.Client.B().Zrange().Key(index.key).Min("0").Max(engine.Decimal(last)).Withscores().Build())
	}
	results, err := c.ReadEach(ctx, commands...)
	if err != nil {
		return err
	}
	for _, index := range indexes {
		if t.absent[index.key] {
			*index.list = t.dueOf(index, nil)
			continue
		}
		entries, err := results[0].AsZScores()
		results = results[1:]
		if err != nil {
			faults = errors.Join(faults, fmt.Errorf("%s: %w", index.key, engine.ReadError(ctx, "ZRANGE", err)))
			continue
		}
		*index.list = t.dueOf(index, entries)
		if len(*index.list) > 0 {
			t.lags[index.task] = max(t.lags[index.task], t.reply.Now.Sub(time.UnixMilli(int64(entries[0].Score))))
		}
	}
	t.delayed = make(map[enginecore.LaneID][]string, len(t.lanes))
	for i, lane := range t.lanes {
		t.delayed[lane] = byLane[i]
	}
	return faults
}

// dueOf returns the due members at the head of an index that are not put off, at most as many as the call may process,
// and records when the next one is due.
func (t *tick) dueOf(index dueIndex, entries []rueidis.ZScore) []string {
	t.task, t.lane = index.task, index.lane
	var all, due []string
	ended := false
	for _, e := range entries {
		at := time.UnixMilli(int64(e.Score))
		if ended = at.After(t.reply.Now); ended {
			t.due(at)
			break
		}
		all = append(all, e.Member)
		switch {
		case t.keeper.putOff.keepsOut(t.list(), e.Member) || int64(len(due)) >= max(t.call.Limit, 1):
		case index.executions && !t.isHere(e.Member):
			_ = t.failed(e.Member, errMisplaced) // the engine was reached
		default:
			due = append(due, e.Member)
		}
	}
	if ended || int64(len(entries)) < max(t.call.Limit, 1) {
		t.keeper.putOff.forget(t.list(), all)
	}
	return due
}

// isHere reports whether a text is the id of an execution of the partition.
func (t *tick) isHere(text string) bool {
	p, err := keyspace.PartitionOf(enginecore.ExecutionID(text))
	return err == nil && p == t.call.Partition
}

// expireLeases marks expired leases and notifies workers of executions to take over.
func (t *tick) expireLeases(ctx context.Context) error {
	c := t.keeper
	ids := engine.ExecutionIDs(t.leases)
	calls := make([]enginerpc.MarkLeaseExpiredIfDueCall, len(ids))
	for i, id := range ids {
		calls[i] = enginerpc.MarkLeaseExpiredIfDueCall{ExecutionID: id}
	}
	var expired []enginecore.ExecutionID
	for i, a := range link.Send[enginerpc.MarkLeaseExpiredIfDueReply](ctx, c.Link, calls) {
		if err := t.failed(t.leases[i], a.Err); err != nil {
			return err
		}
		switch a.Reply.Outcome {
		case "marked_expired", "already_expired", "already_revoked":
			expired = append(expired, ids[i])
			// It stays in the index until a worker takes it over.
			c.putOff.wait(t.list(), t.leases[i], reclaimReminder/2)
		}
	}
	expired, cores, err := t.cores(ctx, expired, []string{"lane_id"})
	if err != nil {
		return err
	}
	t.count += int64(len(expired))
	t.reply.More = t.reply.More || int64(len(ids)) >= t.call.Limit && len(expired) > 0
	lanes := make(map[enginecore.LaneID]bool)
	for _, core := range cores {
		lanes[core.Lane()] = true
	}
	for lane := range lanes {
		c.TellWork(ctx, t.call.Partition, lane)
		t.due(t.reply.Now.Add(reclaimReminder))
	}
	return nil
}

var expireFields = []string{
	"lane_id", "current_attempt_index", "current_worker_instance_id", "current_lease_id", "flow_id",
}

// expire ends executions that have exceeded their deadline, or an attempt timeout set by another program.
func (t *tick) expire(ctx context.Context, ids []enginecore.ExecutionID, reason string) error {
	c, found := t.keeper, len(ids)
	ids, cores, err := t.cores(ctx, ids, expireFields)
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
	answers := link.Send[enginerpc.ExpireExecutionReply](ctx, c.Link, calls)
	var ended []execution.End
	for i, a := range answers {
		if err := t.failed(string(ids[i]), a.Err); err != nil {
			return err
		}
		if a.Err != nil || a.Reply.Outcome != "expired" {
			continue
		}
		t.count++
		flow := enginecore.FlowID(cores[i]["flow_id"])
		ended = append(ended, execution.End{ID: ids[i], Flow: flow, Outcome: "expired"})
		c.TellStop(ctx, ids[i], cores[i], engine.StopExpired, reason)
	}
	t.reply.More = t.reply.More || int64(found) >= t.call.Limit && t.count > 0
	_, err = c.Propagate(ctx, t.call.Partition, "", ended...)
	return err
}

// promote makes delayed executions eligible whose delay is over.
func (t *tick) promote(ctx context.Context) error {
	c := t.keeper
	for lane, members := range t.delayed {
		t.lane = lane
		calls := make([]enginerpc.PromoteDelayedCall, len(members))
		for i, id := range engine.ExecutionIDs(members) {
			calls[i] = enginerpc.PromoteDelayedCall{LaneID: lane, ExecutionID: id, Now: t.reply.Now}
		}
		promoted := int64(0)
		for i, a := range link.Send[enginerpc.PromoteDelayedReply](ctx, c.Link, calls) {
			ready, err := a.Reply.Outcome == "promoted", a.Err
			switch {
			case err != nil && !retry.IsUnavailable(err):
				ready, err = t.promoteUndated(ctx, calls[i], err)
			case a.Reply.Outcome == "not_delayed_cleaned":
				ready, err = t.restoreEligible(ctx, calls[i])
			}
			if err := t.failed(members[i], err); err != nil {
				return err
			}
			if ready {
				promoted++
			}
		}
		t.count += promoted
		t.reply.More = t.reply.More || int64(len(members)) >= t.call.Limit && promoted > 0
		if promoted > 0 {
			c.TellWork(ctx, t.call.Partition, lane)
		}
	}
	return nil
}

var delayFields = []string{"lifecycle_phase", "eligibility_state", "delay_until"}

// promoteUndated makes an execution eligible whose record does not contain the end of its delay: some libraries do not
// store it for a delayed resumption, and their promotion fails with the given cause. The index has the time, which has
// passed. Blocking and unblocking have the effect of the promotion. If the process stops between the two, the keeper
// task unblocking completes it. It reports whether the execution became eligible.
func (t *tick) promoteUndated(
	ctx context.Context, call enginerpc.PromoteDelayedCall, cause error,
) (bool, error) {
	c := t.keeper
	results, err := c.Read(ctx, c.Hmget(c.Keys.ExecCore(call.ExecutionID), delayFields))
	if err != nil {
		return false, errors.Join(cause, err)
	}
	core := engine.Record(hashrecord.Read(results[0], delayFields))
	if _, err := strconv.ParseFloat(core["delay_until"], 64); err == nil ||
		core["lifecycle_phase"] != "runnable" || core["eligibility_state"] != "not_eligible_until_time" {
		return false, cause
	}
	return t.makeEligible(ctx, call)
}

// restoreEligible adds an execution to the index of eligible ones that has left the index of delayed ones without
// being delayed: some libraries put it there if its delay had ended when it was created. It reports whether it did.
func (t *tick) restoreEligible(ctx context.Context, call enginerpc.PromoteDelayedCall) (bool, error) {
	c := t.keeper
	eligible := c.Keys.LaneEligible(t.call.Partition, call.LaneID)
	results, err := c.Read(ctx, c.Hmget(c.Keys.ExecCore(call.ExecutionID), delayFields),
		c.Client.B().Zscore().Key(eligible).Member(string(call.ExecutionID)).Build())
	if err != nil {
		return false, err
	}
	core := hashrecord.Read(results[0], delayFields)
	if core["lifecycle_phase"] != "runnable" || core["eligibility_state"] != "eligible_now" ||
		!rueidis.IsRedisNil(results[1].Error()) {
		return false, nil
	}
	return t.makeEligible(ctx, call)
}

// makeEligible blocks and unblocks an execution, which adds it to the index of eligible ones, and removes it from the
// index of delayed ones.
func (t *tick) makeEligible(ctx context.Context, call enginerpc.PromoteDelayedCall) (bool, error) {
	b := t.keeper.Batch()
	link.AddOnce[enginerpc.BlockExecutionForAdmissionReply](b, enginerpc.BlockExecutionForAdmissionCall{
		LaneID: call.LaneID, ExecutionID: call.ExecutionID, BlockingReason: execution.ReasonRoute,
		BlockingDetail: "its delay is over", Now: call.Now,
	})
	unblocked := link.AddOnce[enginerpc.UnblockExecutionReply](b, enginerpc.UnblockExecutionCall{
		LaneID: call.LaneID, ExecutionID: call.ExecutionID, Now: call.Now,
		ExpectedBlockingReason: execution.ReasonRoute,
	})
	removed := link.AddOnce[enginerpc.PromoteDelayedReply](b, call) // from the index
	if err := b.Run(ctx); err != nil {
		return false, err
	}
	return unblocked.Err == nil, errors.Join(unblocked.Err, removed.Err)
}

// cancelOwed ends the members of cancelled flows whose canceller has not ended them in time.
func (t *tick) cancelOwed(ctx context.Context) error {
	for _, flow := range t.cancels {
		ended, err := t.cancelFlow(ctx, enginecore.FlowID(flow))
		if retry.IsUnavailable(err) {
			return err
		}
		t.count += ended
		if ended > 0 {
			t.reply.More = true
			err = t.settle(err)
		}
		if err := t.failed(flow, err); err != nil {
			return err
		}
	}
	return nil
}

// errOnlyFailing is the error of a cancelled flow if all members that were read are put off.
var errOnlyFailing = errors.New("its members could not be cancelled")

// cancelFlow ends some members of a cancelled flow, and returns how many.
func (t *tick) cancelFlow(ctx context.Context, id enginecore.FlowID) (int64, error) {
	c, p := t.keeper, t.call.Partition
	results, err := c.Read(ctx,
		c.Client.B().Srandmember().Key(c.Keys.FlowPendingCancels(p, id)).Count(t.call.Limit).Build(),
		c.Hmget(c.Keys.FlowCore(p, id), []string{"cancel_reason"}))
	if err != nil {
		return 0, err
	}
	all := link.IDsOf[string](results[0])
	owed := engine.ExecutionIDs(t.without(all))
	switch {
	case len(all) == 0:
		// Acknowledging any member removes a flow without owed cancels from the list.
		owed = []enginecore.ExecutionID{keyspace.ExecutionIDFor(p, id, "")}
	case len(owed) == 0:
		return 0, errOnlyFailing
	}
	reason := hashrecord.Read(results[1], []string{"cancel_reason"})["cancel_reason"]
	ended, err := c.CancelMembers(ctx, p, id, reason, owed)
	return int64(ended), err
}

// resetsEvery is the interval at which keepers check for budgets to reset.
const resetsEvery = 15 * time.Second

// Overdue returns the indexes that keepers work off besides the tick: the budgets to reset.
func (c *Keeper) Overdue() []engine.OverdueIndex {
	return []engine.OverdueIndex{
		{
			Task: engine.TaskBudget, Family: keyspace.BudgetFamily, Every: resetsEvery, Key: c.Keys.IndexBudgetResets,
			Work: c.resetBudgets,
		},
	}
}

// resetBudgets resets the usage of due budgets. The error joins an engine.ItemError for each that could not be reset.
func (c *Keeper) resetBudgets(
	ctx context.Context, p keyspace.Partition, due []string, now time.Time,
) (count int64, faults error) {
	calls := make([]enginerpc.ResetBudgetCall, len(due))
	for i, id := range due {
		calls[i] = enginerpc.ResetBudgetCall{Partition: p, BudgetID: enginecore.BudgetID(id), Now: now}
	}
	for i, a := range link.Send[enginerpc.ResetBudgetReply](ctx, c.Link, calls) {
		var refusal *enginecore.Error
		switch {
		case a.Err == nil:
			count++
		case retry.IsUnavailable(a.Err):
			return count, a.Err
		case !errors.As(a.Err, &refusal):
			faults = errors.Join(faults, &engine.ItemError{Item: due[i], Err: a.Err})
		}
	}
	return count, faults
}
