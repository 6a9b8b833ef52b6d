package keeper

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/contract/internal/backend/execution"
	"github.com/flowfabric/flowfabric-go/contract/internal/backend/link"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/contractnode"
	"github.com/flowfabric/flowfabric-go/internal/engine"
)

// reconcilePage bounds the executions of a partition that one reconciliation reads in each index. The next one
// continues after them.
const reconcilePage = 64

// reconcileState is the progress of the reconciliation of a partition.
type reconcileState struct {
	next   time.Time
	offset int64 // in the indexes of lanes
}

// reconcile takes, once per reconcile interval, the steps that other programs left undone.
func (t *tick) reconcile(ctx context.Context) error {
	c, p := t.keeper, t.call.Partition
	c.mu.Lock()
	state := c.reconciled[p]
	c.mu.Unlock()
	byHand := t.call.Task != ""
	// The visits in each poll interval are common to all partitions, and a separate visit would cost more.
	if state.next.After(t.reply.Now.Add(c.Poll/2)) && !byHand {
		return nil
	}
	err := t.reconcileLanes(ctx, &state)
	state.next = t.reply.Now.Add(c.interval)
	t.reply.More = t.reply.More || byHand && state.offset > 0
	if c.interval < c.Poll {
		t.due(state.next)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reconciled[p] = state
	return err
}

// reconcileLanes checks a page of the blocked, the held and the active executions of each lane.
func (t *tick) reconcileLanes(ctx context.Context, state *reconcileState) error {
	c, p := t.keeper, t.call.Partition
	first, last := engine.Decimal(state.offset), engine.Decimal(state.offset+reconcilePage-1)
	var commands rueidis.Commands
	var kinds []int // blocked, held, active
	add := func(kind int, key string, command func(key string) rueidis.Completed) {
		if !t.absent[key] {
			kinds, commands = append(kinds, kind), append(commands, command(key))
		}
	}
	whole := func(key string) rueidis.Completed {
		return c.Client.B().Zrange().Key(key).Min(first).Max(last).Build()
	}
	for _, lane := range t.lanes {
		add(0, c.Keys.LaneBlockedDependencies(p, lane), whole)
		add(1, c.Keys.LaneDelayed(p, lane), func(key string) rueidis.Completed {
			held := engine.Decimal(contractnode.HeldUntil().UnixMilli())
			return c.Client.B().Zrangebyscore().Key(key).Min(held).Max("+inf").
				Limit(state.offset, reconcilePage).Build()
		})
		add(2, c.Keys.LaneActive(p, lane), whole)
	}
	results, err := c.ReadEach(ctx, commands...)
	if err != nil {
		return err
	}
	var pages [3][]enginecore.ExecutionID
	full := false
	for i, result := range results {
		texts := link.IDsOf[string](result) // nil if the index cannot be read
		full = full || len(texts) == reconcilePage
		for _, text := range t.without(texts) {
			if t.isHere(text) {
				pages[kinds[i]] = append(pages[kinds[i]], enginecore.ExecutionID(text))
			}
		}
	}
	blocked, held, active := pages[0], pages[1], pages[2]
	state.offset += reconcilePage
	if !full {
		state.offset = 0
	}
	return errors.Join(t.resolveBlocked(ctx, blocked), t.releaseHeld(ctx, held), t.offerRevoked(ctx, active))
}

// offerRevoked notifies workers of executions whose lease an operator has revoked. No index ordered by time has them.
func (t *tick) offerRevoked(ctx context.Context, active []enginecore.ExecutionID) error {
	c := t.keeper
	_, cores, err := t.cores(ctx, active, []string{"ownership_state", "lane_id"})
	if err != nil {
		return err
	}
	lanes := make(map[enginecore.LaneID]bool)
	for _, core := range cores {
		if core["ownership_state"] == "lease_revoked" {
			lanes[core.Lane()] = true
		}
	}
	for lane := range lanes {
		c.TellWork(ctx, t.call.Partition, lane)
	}
	return nil
}

// resolveBlocked resolves the edges of blocked executions whose upstream has ended without resolving them, and makes
// executions eligible that are blocked although they have no unresolved edge.
func (t *tick) resolveBlocked(ctx context.Context, blocked []enginecore.ExecutionID) error {
	c := t.keeper
	ended, satisfied, err := t.endedUpstreams(ctx, blocked)
	if err != nil {
		return err
	}
	t.count += int64(len(ended))
	_, err = c.Propagate(ctx, t.call.Partition, "", ended...)
	promoted, fault := c.PromoteSatisfied(ctx, satisfied)
	t.count += promoted
	return errors.Join(err, fault)
}

// endedUpstreams returns the upstreams of unresolved edges that have ended, and the executions without such edges.
func (t *tick) endedUpstreams(
	ctx context.Context, blocked []enginecore.ExecutionID,
) (ended []execution.End, satisfied []enginecore.ExecutionID, err error) {
	c := t.keeper
	var commands rueidis.Commands
	for _, id := range blocked {
		commands = append(commands,
			c.Client.B().Srandmember().Key(c.Keys.ExecDepsUnresolved(id)).Count(reconcilePage).Build())
	}
	results, err := c.ReadEach(ctx, commands...)
	if err != nil {
		return nil, nil, err
	}
	commands = commands[:0]
	for i, id := range blocked {
		if fault := link.ReadFault(ctx, results[i]); fault != nil {
			_ = t.failed(string(id), fault) // the engine was reached
			continue
		}
		edges := link.IDsOf[enginecore.EdgeID](results[i])
		if len(edges) == 0 {
			satisfied = append(satisfied, id)
		}
		for _, edge := range edges {
			commands = append(commands, c.Client.B().Hget().Key(c.Keys.ExecDep(id,
				edge)).Field("upstream_execution_id").Build())
		}
	}
	if results, err = c.ReadEach(ctx, commands...); err != nil {
		return nil, nil, err
	}
	var upstreams []enginecore.ExecutionID
	for _, result := range results {
		if up, err := result.ToString(); err == nil && t.isHere(up) {
			upstreams = append(upstreams, enginecore.ExecutionID(up))
		}
	}
	slices.Sort(upstreams)
	upstreams = slices.Compact(upstreams)
	fields := []string{"lifecycle_phase", "terminal_outcome", "flow_id"}
	upstreams, cores, err := t.cores(ctx, upstreams, fields)
	if err != nil {
		return nil, nil, err
	}
	for i, id := range upstreams {
		if outcome := cores[i]["terminal_outcome"]; cores[i].IsTerminal() && outcome != "" && outcome != "none" {
			ended = append(ended, execution.End{ID: id, Flow: enginecore.FlowID(cores[i]["flow_id"]), Outcome: outcome})
		}
	}
	return ended, satisfied, nil
}

// releaseHeld releases held executions whose flow is complete.
func (t *tick) releaseHeld(ctx context.Context, held []enginecore.ExecutionID) error {
	c, p := t.keeper, t.call.Partition
	held, cores, err := t.cores(ctx, held, []string{"flow_id"})
	if err != nil {
		return err
	}
	commands := make(rueidis.Commands, len(held))
	for i := range held {
		commands[i] = c.Client.B().Hget().Key(c.Keys.FlowTags(p,
			enginecore.FlowID(cores[i]["flow_id"]))).Field(contractnode.TagSubmitted).Build()
	}
	results, err := c.ReadEach(ctx, commands...)
	if err != nil {
		return err
	}
	var free []enginecore.ExecutionID
	for i, id := range held {
		if submitted, err := results[i].ToString(); err == nil && submitted != "" {
			free = append(free, id)
		}
	}
	return c.ReleaseMembers(ctx, p, free)
}
