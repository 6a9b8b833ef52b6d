package runtime

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/errgroup"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

const (
	// contractTicks bounds the partitions that a keeper works on at a time.
	contractTicks = 8
	// reclaimReminder is how often workers are told again of executions that lost theirs and that nobody has taken.
	reclaimReminder = time.Second
	// reconcilePage bounds how many executions and flows of a partition one reconciliation looks at. The next one goes on
	// behind them.
	reconcilePage = 64
)

// reconcileState is how far the reconciliation of a partition has come.
type reconcileState struct {
	next   time.Time
	flows  uint64 // cursor of the index of flows
	offset int64  // in the indexes of lanes
}

// tickAll ticks several partitions at a time.
func (c *contract) tickAll(ctx context.Context, calls []enginecore.TickCall) ([]answer[enginecore.TickReply], error) {
	answers := make([]answer[enginecore.TickReply], len(calls))
	var ticking errgroup.Group
	ticking.SetLimit(contractTicks)
	for i, call := range calls {
		ticking.Go(func() error {
			answers[i].reply, answers[i].err = c.Tick(ctx, call)
			return answers[i].err
		})
	}
	err := ticking.Wait() // the others are in the answers
	return answers, err
}

// Tick does what is due in a partition, as the scanners of a FlowFabric server do, and now and then what nobody has done.
func (c *contract) Tick(ctx context.Context, call enginecore.TickCall) (enginecore.TickReply, error) {
	now, err := c.readClock(ctx)
	if err != nil {
		return enginecore.TickReply{}, err
	}
	t := &contractTick{contract: c, call: call, lanes: c.knownLanes(call.Lanes)}
	// Nobody tells what other programs make due.
	t.reply = enginecore.TickReply{Status: enginecore.StatusOK, Now: now, NextDueAt: now.Add(c.config.poll)}
	if err := t.readDue(ctx); err != nil {
		return t.reply, err
	}
	for _, step := range []func(context.Context) error{t.expireLeases, t.expireExecutions, t.promote, t.cancelOwed, t.reconcile} {
		if err := step(ctx); err != nil {
			return t.reply, err
		}
	}
	return t.reply, nil
}

func (c *contract) knownLanes(more []enginecore.LaneID) []enginecore.LaneID {
	c.mu.Lock()
	defer c.mu.Unlock()
	lanes := append([]enginecore.LaneID{"default"}, more...)
	for lane := range c.lanes {
		lanes = append(lanes, lane)
	}
	slices.Sort(lanes)
	return slices.Compact(lanes)
}

// contractTick is one tick of a partition under way.
type contractTick struct {
	contract *contract
	call     enginecore.TickCall
	reply    enginecore.TickReply
	lanes    []enginecore.LaneID

	leases, attempts, deadlines, cancels []string
	delayed                              map[enginecore.LaneID][]string
}

// due notes when there is more to do.
func (t *contractTick) due(at time.Time) {
	if t.reply.NextDueAt.IsZero() || at.Before(t.reply.NextDueAt) {
		t.reply.NextDueAt = at
	}
}

// readDue reads the heads of all indexes of the partition that are ordered by time.
func (t *contractTick) readDue(ctx context.Context) error {
	c, p := t.contract, t.call.Partition
	indexes := []struct {
		key  string
		list *[]string
	}{
		{c.keys.IndexLeaseExpiry(p), &t.leases}, {c.keys.IndexAttemptTimeout(p), &t.attempts},
		{c.keys.IndexExecutionDeadline(p), &t.deadlines}, {c.keys.IndexCancelBacklog(p), &t.cancels},
	}
	byLane := make([][]string, len(t.lanes))
	for i, lane := range t.lanes {
		indexes = append(indexes, struct {
			key  string
			list *[]string
		}{c.keys.LaneDelayed(p, lane), &byLane[i]})
	}
	commands := make(rueidis.Commands, len(indexes))
	for i, index := range indexes {
		commands[i] = c.client.B().Zrange().Key(index.key).Min("0").Max(decimalText(max(t.call.Limit, 1) - 1)).Withscores().Build()
	}
	results, err := c.read(ctx, commands...)
	if err != nil {
		return err
	}
	for i, index := range indexes {
		entries, err := results[i].AsZScores()
		if err != nil {
			return contractReadError("ZRANGE", err)
		}
		*index.list = t.dueOf(entries)
	}
	t.delayed = make(map[enginecore.LaneID][]string, len(t.lanes))
	for i, lane := range t.lanes {
		t.delayed[lane] = byLane[i]
	}
	return nil
}

// dueOf takes what is due from the head of an index and notes when the next entry is.
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

// expireLeases marks lapsed leases and tells workers what there is to take over.
func (t *contractTick) expireLeases(ctx context.Context) error {
	if len(t.leases) == 0 {
		return nil
	}
	c := t.contract
	ids := toIDs(t.leases)
	calls := make([]enginecore.MarkLeaseExpiredIfDueCall, len(ids))
	for i, id := range ids {
		calls[i] = enginecore.MarkLeaseExpiredIfDueCall{ExecutionID: id}
	}
	answers := sendContract[enginecore.MarkLeaseExpiredIfDueReply](ctx, c, calls)
	if err := firstError(answers); err != nil {
		return err
	}
	cores, err := c.readCores(ctx, ids, []string{"lane_id"})
	if err != nil {
		return err
	}
	lanes := make(map[enginecore.LaneID]bool)
	for i, a := range answers {
		if a.reply.Outcome == "marked_expired" || a.reply.Outcome == "already_expired" {
			lanes[laneOf(cores[i])] = true
			t.reply.LeasesExpired++
		}
	}
	for lane := range lanes {
		c.tellWork(ctx, t.call.Partition, lane)
		t.due(t.reply.Now.Add(reclaimReminder))
	}
	return nil
}

var expireFields = []string{"lane_id", "current_attempt_index", "current_worker_instance_id", "current_lease_id", "flow_id"}

// expireExecutions ends what has exceeded its deadline, or an attempt timeout that another program has set.
func (t *contractTick) expireExecutions(ctx context.Context) error {
	for _, timer := range []struct {
		members []string
		reason  string
	}{{t.attempts, "attempt_timeout"}, {t.deadlines, "execution_deadline"}} {
		if err := t.expire(ctx, toIDs(timer.members), timer.reason); err != nil {
			return err
		}
	}
	return nil
}

func (t *contractTick) expire(ctx context.Context, ids []enginecore.ExecutionID, reason string) error {
	c := t.contract
	cores, err := c.readCores(ctx, ids, expireFields)
	if err != nil {
		return err
	}
	calls := make([]enginecore.ExpireExecutionCall, len(ids))
	for i, id := range ids {
		calls[i] = enginecore.ExpireExecutionCall{
			AttemptIndex: enginecore.AttemptIndex(cores[i].int("current_attempt_index")), LaneID: laneOf(cores[i]), ExecutionID: id,
			WorkerInstanceID: enginecore.WorkerInstanceID(cores[i]["current_worker_instance_id"]), ExpireReason: reason,
		}
	}
	answers := sendContract[enginecore.ExpireExecutionReply](ctx, c, calls)
	if err := firstError(answers); err != nil {
		return err
	}
	var ended []contractEnd
	for i, a := range answers {
		if a.reply.Outcome != "expired" {
			continue
		}
		t.reply.DeadlinesExpired++
		ended = append(ended, contractEnd{id: ids[i], flow: enginecore.FlowID(cores[i]["flow_id"]), outcome: "expired"})
		if worker := cores[i]["current_worker_instance_id"]; worker != "" {
			c.tellCancel(ctx, enginecore.WorkerInstanceID(worker), ids[i], cores[i]["current_lease_id"], reason)
		}
	}
	_, err = c.propagate(ctx, t.call.Partition, "", ended...)
	return err
}

// promote makes eligible what was delayed until now.
func (t *contractTick) promote(ctx context.Context) error {
	c := t.contract
	for lane, members := range t.delayed {
		calls := make([]enginecore.PromoteDelayedCall, len(members))
		for i, id := range toIDs(members) {
			calls[i] = enginecore.PromoteDelayedCall{LaneID: lane, ExecutionID: id, Now: t.reply.Now}
		}
		answers := sendContract[enginecore.PromoteDelayedReply](ctx, c, calls)
		if err := firstError(answers); err != nil {
			return err
		}
		promoted := int64(0)
		for _, a := range answers {
			if a.reply.Outcome == "promoted" {
				promoted++
			}
		}
		t.reply.Promoted += promoted
		t.reply.More = t.reply.More || int64(len(members)) >= t.call.Limit && promoted > 0
		if promoted > 0 {
			c.tellWork(ctx, t.call.Partition, lane)
		}
	}
	return nil
}

// cancelOwed ends members of cancelled flows whose canceller has not come to them in time.
func (t *contractTick) cancelOwed(ctx context.Context) error {
	c, p := t.contract, t.call.Partition
	for _, text := range t.cancels {
		id := enginecore.FlowID(text)
		results, err := c.read(ctx, c.client.B().Srandmember().Key(c.keys.FlowPendingCancels(p, id)).Count(t.call.Limit).Build(),
			c.hmget(c.keys.FlowCore(p, id), []string{"cancel_reason"}))
		if err != nil {
			return err
		}
		owed := idsOf[enginecore.ExecutionID](results[0])
		if len(owed) == 0 {
			// Acknowledging anybody takes a flow that owes nothing off the list.
			owed = []enginecore.ExecutionID{enginecore.ExecutionIDFor(p, id, "")}
		}
		reason := recordOf(results[1], []string{"cancel_reason"})["cancel_reason"]
		if err := c.cancelMembers(ctx, p, id, reason, owed); err != nil {
			return err
		}
		t.reply.Cancelled += int64(len(owed))
		t.reply.More = true
	}
	return nil
}

// reconcile looks, once in an interval, for steps that nobody has taken.
func (t *contractTick) reconcile(ctx context.Context) error {
	c, p := t.contract, t.call.Partition
	c.mu.Lock()
	state := c.reconciled[p]
	c.mu.Unlock()
	if state.next.After(t.reply.Now) {
		t.due(state.next)
		return nil
	}
	err := errors.Join(t.learnLanes(ctx, &state), t.reconcileLanes(ctx, &state))
	state.next = t.reply.Now.Add(c.config.reconcile)
	t.due(state.next)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reconciled[p] = state
	return err
}

// learnLanes finds out which lanes the flows of the partition use.
func (t *contractTick) learnLanes(ctx context.Context, state *reconcileState) error {
	c, p := t.contract, t.call.Partition
	entry, err := c.client.Do(ctx, c.client.B().Sscan().Key(c.keys.IndexFlowIndex(p)).Cursor(state.flows).Count(reconcilePage).Build()).AsScanEntry()
	if err != nil {
		return contractReadError("SSCAN", err)
	}
	state.flows = entry.Cursor
	commands := make(rueidis.Commands, len(entry.Elements))
	for i, id := range entry.Elements {
		commands[i] = c.client.B().Hget().Key(c.keys.FlowTags(p, enginecore.FlowID(id))).Field(tagLanes).Build()
	}
	results, err := c.read(ctx, commands...)
	if err != nil {
		return err
	}
	for _, result := range results {
		if text, err := result.ToString(); err == nil {
			for _, lane := range splitLanes(text) {
				c.noteLane(lane)
			}
		}
	}
	return nil
}

// reconcileLanes looks at a page of what is blocked, of what is held back and of what runs in every lane.
func (t *contractTick) reconcileLanes(ctx context.Context, state *reconcileState) error {
	c, p := t.contract, t.call.Partition
	first, last := decimalText(state.offset), decimalText(state.offset+reconcilePage-1)
	var commands rueidis.Commands
	for _, lane := range t.lanes {
		commands = append(commands,
			c.client.B().Zrange().Key(c.keys.LaneBlockedDependencies(p, lane)).Min(first).Max(last).Build(),
			c.client.B().Zrangebyscore().Key(c.keys.LaneDelayed(p, lane)).Min(decimalText(heldUntil.UnixMilli())).Max("+inf").
				Limit(state.offset, reconcilePage).Build(),
			c.client.B().Zrange().Key(c.keys.LaneActive(p, lane)).Min(first).Max(last).Build())
	}
	results, err := c.read(ctx, commands...)
	if err != nil {
		return err
	}
	var pages [3][]enginecore.ExecutionID
	full := false
	for i, result := range results {
		ids := idsOf[enginecore.ExecutionID](result)
		full = full || len(ids) == reconcilePage
		pages[i%len(pages)] = append(pages[i%len(pages)], ids...)
	}
	blocked, held, active := pages[0], pages[1], pages[2]
	state.offset += reconcilePage
	if !full {
		state.offset = 0
	}
	return errors.Join(t.resolveBlocked(ctx, blocked), t.releaseHeld(ctx, held), t.offerRevoked(ctx, active))
}

// offerRevoked tells workers of what an operator has taken from another one. It is in no index that is ordered by time.
func (t *contractTick) offerRevoked(ctx context.Context, active []enginecore.ExecutionID) error {
	c := t.contract
	cores, err := c.readCores(ctx, active, []string{"ownership_state", "lane_id"})
	if err != nil {
		return err
	}
	lanes := make(map[enginecore.LaneID]bool)
	for _, core := range cores {
		if core["ownership_state"] == "lease_revoked" {
			lanes[laneOf(core)] = true
		}
	}
	for lane := range lanes {
		c.tellWork(ctx, t.call.Partition, lane)
	}
	return nil
}

// resolveBlocked finds edges whose upstream has ended, and takes the step that its worker did not come to.
func (t *contractTick) resolveBlocked(ctx context.Context, blocked []enginecore.ExecutionID) error {
	c := t.contract
	ended, err := t.endedUpstreams(ctx, blocked)
	if err != nil {
		return err
	}
	t.reply.Propagated += int64(len(ended))
	_, err = c.propagate(ctx, t.call.Partition, "", ended...)
	return err
}

// endedUpstreams are the upstreams of unresolved edges that have ended.
func (t *contractTick) endedUpstreams(ctx context.Context, blocked []enginecore.ExecutionID) ([]contractEnd, error) {
	c := t.contract
	var commands rueidis.Commands
	for _, id := range blocked {
		commands = append(commands, c.client.B().Srandmember().Key(c.keys.ExecDepsUnresolved(id)).Count(reconcilePage).Build())
	}
	results, err := c.read(ctx, commands...)
	if err != nil {
		return nil, err
	}
	commands = commands[:0]
	for i, id := range blocked {
		for _, edge := range idsOf[enginecore.EdgeID](results[i]) {
			commands = append(commands, c.client.B().Hget().Key(c.keys.ExecDep(id, edge)).Field("upstream_execution_id").Build())
		}
	}
	if results, err = c.read(ctx, commands...); err != nil {
		return nil, err
	}
	var upstreams []enginecore.ExecutionID
	for _, result := range results {
		if up, err := result.ToString(); err == nil {
			upstreams = append(upstreams, enginecore.ExecutionID(up))
		}
	}
	slices.Sort(upstreams)
	upstreams = slices.Compact(upstreams)
	fields := []string{"lifecycle_phase", "terminal_outcome", "flow_id"}
	cores, err := c.readCores(ctx, upstreams, fields)
	if err != nil {
		return nil, err
	}
	var ended []contractEnd
	for i, id := range upstreams {
		if outcome := cores[i]["terminal_outcome"]; cores[i].terminal() && outcome != "" && outcome != "none" {
			ended = append(ended, contractEnd{id: id, flow: enginecore.FlowID(cores[i]["flow_id"]), outcome: outcome})
		}
	}
	return ended, nil
}

// releaseHeld lets go what is held back although its flow is whole.
func (t *contractTick) releaseHeld(ctx context.Context, held []enginecore.ExecutionID) error {
	c, p := t.contract, t.call.Partition
	cores, err := c.readCores(ctx, held, []string{"flow_id"})
	if err != nil {
		return err
	}
	commands := make(rueidis.Commands, len(held))
	for i := range held {
		commands[i] = c.client.B().Hget().Key(c.keys.FlowTags(p, enginecore.FlowID(cores[i]["flow_id"]))).Field(tagSubmitted).Build()
	}
	results, err := c.read(ctx, commands...)
	if err != nil {
		return err
	}
	var free []enginecore.ExecutionID
	for i, id := range held {
		if submitted, err := results[i].ToString(); err == nil && submitted != "" {
			free = append(free, id)
		}
	}
	return c.release(ctx, p, free)
}

func toIDs(texts []string) []enginecore.ExecutionID {
	ids := make([]enginecore.ExecutionID, len(texts))
	for i, text := range texts {
		ids[i] = enginecore.ExecutionID(text)
	}
	return ids
}
