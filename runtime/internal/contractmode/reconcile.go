package contractmode

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// reconcilePage bounds the executions and flows of a partition that one reconciliation reads. The next one continues
// behind them.
const reconcilePage = 64

// reconcileState is the progress of the reconciliation of a partition.
type reconcileState struct {
	next   time.Time
	flows  uint64 // cursor of the index of flows
	offset int64  // in the indexes of lanes
}

// reconcile takes, once per reconcile interval, the steps that other programs left undone.
func (t *contractTick) reconcile(ctx context.Context) error {
	c, p := t.contract, t.call.Partition
	c.mu.Lock()
	state := c.reconciled[p]
	c.mu.Unlock()
	byHand := t.call.Task != ""
	if state.next.After(t.reply.Now) && !byHand {
		t.due(state.next)
		return nil
	}
	err := errors.Join(t.learnLanes(ctx, &state), t.reconcileLanes(ctx, &state))
	state.next = t.reply.Now.Add(c.config.Reconcile)
	t.reply.More = t.reply.More || byHand && state.offset > 0
	t.due(state.next)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reconciled[p] = state
	return err
}

// learnLanes finds the lanes that the flows of the partition use.
func (t *contractTick) learnLanes(ctx context.Context, state *reconcileState) error {
	c, p := t.contract, t.call.Partition
	entry, err := c.client.Do(ctx,
		c.client.B().Sscan().Key(c.keys.IndexFlowIndex(p)).Cursor(state.flows).Count(reconcilePage).Build()).AsScanEntry()
	if err != nil {
		return engine.ReadError(ctx, "SSCAN", err)
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

// reconcileLanes checks a page of the blocked, the held and the active executions of each lane.
func (t *contractTick) reconcileLanes(ctx context.Context, state *reconcileState) error {
	c, p := t.contract, t.call.Partition
	first, last := engine.Decimal(state.offset), engine.Decimal(state.offset+reconcilePage-1)
	var commands rueidis.Commands
	for _, lane := range t.lanes {
		commands = append(commands,
			c.client.B().Zrange().Key(c.keys.LaneBlockedDependencies(p, lane)).Min(first).Max(last).Build(),
			c.client.B().Zrangebyscore().Key(c.keys.LaneDelayed(p,
				lane)).Min(engine.Decimal(heldUntil.UnixMilli())).Max("+inf").
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

// offerRevoked notifies workers of executions whose lease an operator has revoked. No index ordered by time has them.
func (t *contractTick) offerRevoked(ctx context.Context, active []enginecore.ExecutionID) error {
	c := t.contract
	cores, err := c.readCores(ctx, active, []string{"ownership_state", "lane_id"})
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
		c.tellWork(ctx, t.call.Partition, lane)
	}
	return nil
}

// resolveBlocked resolves the edges of blocked executions whose upstream has ended without resolving them, and lets
// those go on that wait although they have no unresolved edge.
func (t *contractTick) resolveBlocked(ctx context.Context, blocked []enginecore.ExecutionID) error {
	c := t.contract
	ended, satisfied, err := t.endedUpstreams(ctx, blocked)
	if err != nil {
		return err
	}
	t.count += int64(len(ended))
	if _, err = c.propagate(ctx, t.call.Partition, "", ended...); err != nil {
		return err
	}
	return t.countOf(c.promoteSatisfied(ctx, satisfied))
}

// endedUpstreams returns the upstreams of unresolved edges that have ended, and the executions without such edges.
func (t *contractTick) endedUpstreams(
	ctx context.Context, blocked []enginecore.ExecutionID,
) (ended []contractEnd, satisfied []enginecore.ExecutionID, err error) {
	c := t.contract
	var commands rueidis.Commands
	for _, id := range blocked {
		commands = append(commands,
			c.client.B().Srandmember().Key(c.keys.ExecDepsUnresolved(id)).Count(reconcilePage).Build())
	}
	results, err := c.read(ctx, commands...)
	if err != nil {
		return nil, nil, err
	}
	commands = commands[:0]
	for i, id := range blocked {
		edges := idsOf[enginecore.EdgeID](results[i])
		if len(edges) == 0 {
			satisfied = append(satisfied, id)
		}
		for _, edge := range edges {
			commands = append(commands, c.client.B().Hget().Key(c.keys.ExecDep(id,
				edge)).Field("upstream_execution_id").Build())
		}
	}
	if results, err = c.read(ctx, commands...); err != nil {
		return nil, nil, err
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
		return nil, nil, err
	}
	for i, id := range upstreams {
		if outcome := cores[i]["terminal_outcome"]; cores[i].IsTerminal() && outcome != "" && outcome != "none" {
			ended = append(ended, contractEnd{id: id, flow: enginecore.FlowID(cores[i]["flow_id"]), outcome: outcome})
		}
	}
	return ended, satisfied, nil
}

// releaseHeld releases held executions whose flow is complete.
func (t *contractTick) releaseHeld(ctx context.Context, held []enginecore.ExecutionID) error {
	c, p := t.contract, t.call.Partition
	cores, err := c.readCores(ctx, held, []string{"flow_id"})
	if err != nil {
		return err
	}
	commands := make(rueidis.Commands, len(held))
	for i := range held {
		commands[i] = c.client.B().Hget().Key(c.keys.FlowTags(p,
			enginecore.FlowID(cores[i]["flow_id"]))).Field(tagSubmitted).Build()
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
