package execution

import (
	"cmp"
	"context"
	"errors"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/contract/internal/backend/flows"
	"github.com/flowfabric/flowfabric-go/contract/internal/backend/link"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/contractnode"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// End is the end of an execution.
type End struct {
	ID        enginecore.ExecutionID
	Flow      enginecore.FlowID
	node      string // "" when it is not known
	graphHash string // "" when it is not known
	Outcome   string
}

// edge is an edge from an execution that has ended.
type edge struct {
	id       enginecore.EdgeID
	up, down enginecore.ExecutionID
	node     string // of the downstream, "" when it is not known
	lane     enginecore.LaneID
}

// releasedFields are the fields of a downstream that are read after its edge is resolved.
var releasedFields = engine.ClaimFields

// Propagate resolves the edges from executions that have ended: downstreams without open dependencies become
// eligible; those that can never run are skipped, and their downstreams in turn. It returns the eligible downstreams,
// and notifies the workers of lanes other than own. A repeat continues where an earlier call ended, except for
// skipped executions in between, which a keeper propagates.
func (c *Steps) Propagate(
	ctx context.Context, p keyspace.Partition, own enginecore.LaneID, ends ...End,
) ([]Candidate, error) {
	return c.propagateOnce(ctx, p, own, false, ends...)
}

// propagateOnce is propagate. first means that the ends were reported by this very call, so that no other program can
// have propagated them.
func (c *Steps) propagateOnce(
	ctx context.Context, p keyspace.Partition, own enginecore.LaneID, first bool, ends ...End,
) ([]Candidate, error) {
	var released []Candidate
	var faults error
	closing := make(map[enginecore.FlowID]bool)
	for len(ends) > 0 && !retry.IsUnavailable(faults) {
		end := ends[0]
		ends = ends[1:]
		if end.Flow == "" {
			continue
		}
		r, err := c.resolveEnd(ctx, p, end, first)
		first = false
		faults = errors.Join(faults, err)
		if err == nil && !r.open {
			closing[end.Flow] = true
		}
		released = append(released, r.ready...)
		ends = append(ends, r.skipped...)
	}
	if retry.IsUnavailable(faults) {
		return released, faults
	}
	c.notifyReady(ctx, p, own, released)
	for id := range closing {
		if err := c.CheckEnd(ctx, p, id); err != nil {
			return released, errors.Join(faults, err)
		}
	}
	return released, faults
}

// resolution is the result of resolving edges.
type resolution struct {
	ready   []Candidate
	skipped []End
	open    bool // some downstreams have not ended
}

// resolveEnd resolves all edges from one execution. The error joins an engine.ItemError for the execution, if its edges
// could not be read, or else for each downstream whose edge could not be resolved; the others are.
func (c *Steps) resolveEnd(
	ctx context.Context, p keyspace.Partition, end End, first bool,
) (resolution, error) {
	edges, err := c.edgesFrom(ctx, p, end)
	if err != nil {
		return resolution{}, &engine.ItemError{Item: string(end.ID), Err: err}
	}
	return c.resolve(ctx, end, edges, first)
}

// resolve resolves edges from one execution.
//
// Members are created delayed, and some libraries apply that delay when the last edge is resolved. If no other
// program can have resolved the edges before, the release is sent along: otherwise it would cut short any other delay
// of a downstream.
func (c *Steps) resolve(
	ctx context.Context, end End, edges []edge, first bool,
) (r resolution, faults error) {
	for ; len(edges) > 0; first = false {
		page := edges[:min(len(edges), link.Page/3)]
		edges = edges[len(page):]
		b := c.Batch()
		resolved := make([]*batching.CallResult[enginerpc.ResolveDependencyReply], len(page))
		cores := make([]*rueidis.RedisResult, len(page))
		for i, e := range page {
			resolved[i] = link.AddAgain[enginerpc.ResolveDependencyReply](b, enginerpc.ResolveDependencyCall{
				DownstreamExecutionID: e.down, LaneID: e.lane, UpstreamExecutionID: e.up, EdgeID: e.id,
				UpstreamOutcome: end.Outcome, Now: c.Now(), FlowID: end.Flow, GroupExecutionID: e.down,
			})
			if first {
				link.AddAgain[enginerpc.PromoteDelayedReply](b,
					enginerpc.PromoteDelayedCall{ExecutionID: e.down, LaneID: e.lane, Now: contractnode.HeldUntil()})
			}
			cores[i] = b.Look(c.Hmget(c.Keys.ExecCore(e.down), releasedFields))
		}
		if err := b.Run(ctx); err != nil {
			return r, err
		}
		records := make([]engine.Record, len(page))
		for i := range page {
			records[i] = hashrecord.Read(*cores[i], releasedFields)
		}
		if err := c.releaseHeld(ctx, page, records); err != nil {
			return r, err
		}
		for i, e := range page {
			core := records[i]
			err := resolved[i].Err
			if errors.Is(err, errorcode.InvalidDependency) {
				err = nil
			}
			if err = cmp.Or(err, link.ReadFault(ctx, *cores[i])); err != nil {
				faults = errors.Join(faults, &engine.ItemError{Item: string(e.down), Err: err})
				continue
			}
			r.open = r.open || core.Exists() && !core.IsTerminal()
			switch {
			case resolved[i].Reply.Effect == "child_skipped":
				r.skipped = append(r.skipped, End{e.down, end.Flow, e.node, end.graphHash, "skipped"})
			case core["eligibility_state"] == "eligible_now":
				r.ready = append(r.ready, Candidate{id: e.down, core: core})
			}
		}
	}
	return r, faults
}

// releaseHeld releases the downstreams that wait for nothing but their release, and reads them again.
func (c *Steps) releaseHeld(ctx context.Context, edges []edge, records []engine.Record) error {
	b := c.Batch()
	again := make(map[int]*rueidis.RedisResult)
	for i, e := range edges {
		if records[i]["eligibility_state"] == "not_eligible_until_time" &&
			records[i].Time("delay_until").Equal(contractnode.HeldUntil()) {
			link.AddAgain[enginerpc.PromoteDelayedReply](b,
				enginerpc.PromoteDelayedCall{ExecutionID: e.down, LaneID: e.lane, Now: contractnode.HeldUntil()})
			again[i] = b.Look(c.Hmget(c.Keys.ExecCore(e.down), releasedFields))
		}
	}
	if err := b.Run(ctx); err != nil {
		return err
	}
	for i, result := range again {
		records[i] = hashrecord.Read(*result, releasedFields)
	}
	return nil
}

// edgesFrom returns the edges from an execution: from the stored definition of its flow, or from the engine's records
// for a flow that another program submitted.
func (c *Steps) edgesFrom(ctx context.Context, p keyspace.Partition, end End) ([]edge, error) {
	if end.node != "" && end.graphHash != "" {
		graph, err := c.Graph(ctx, p, end.Flow, end.graphHash)
		if err != nil {
			return nil, err
		}
		if graph != nil {
			return storedEdges(graph, p, end), nil
		}
	}
	results, err := c.Read(ctx, c.Client.B().Smembers().Key(c.Keys.FlowOut(end.Flow, end.ID)).Build())
	if err != nil {
		return nil, err
	}
	ids := link.IDsOf[enginecore.EdgeID](results[0])
	commands := make(rueidis.Commands, len(ids))
	for i, id := range ids {
		commands[i] = c.Client.B().Hget().Key(c.Keys.FlowEdge(p, end.Flow, id)).Field("downstream_execution_id").Build()
	}
	downs, err := c.Read(ctx, commands...)
	if err != nil {
		return nil, err
	}
	edges := make([]edge, 0, len(ids))
	children := make([]enginecore.ExecutionID, 0, len(ids))
	for i, id := range ids {
		if down, err := downs[i].ToString(); err == nil {
			edges = append(edges, edge{id: id, up: end.ID, down: enginecore.ExecutionID(down)})
			children = append(children, enginecore.ExecutionID(down))
		}
	}
	cores, err := c.ReadCores(ctx, children, []string{"lane_id"})
	if err != nil {
		return nil, err
	}
	for i := range edges {
		edges[i].lane = cores[i].Lane()
	}
	return edges, nil
}

// notifyReady notifies the workers of lanes in which executions became eligible. A single one on the caller's own lane
// is left to the caller.
func (c *Steps) notifyReady(
	ctx context.Context, p keyspace.Partition, own enginecore.LaneID, ready []Candidate,
) {
	count := make(map[enginecore.LaneID]int)
	for _, r := range ready {
		count[r.core.Lane()]++
	}
	if count[link.WaitLane] > 0 {
		c.ServeSoon(ctx, p, link.WaitLane)
		delete(count, link.WaitLane)
	}
	for lane, n := range count {
		if lane != own || n > 1 {
			c.TellWork(ctx, p, lane)
		}
	}
}

// storedEdges returns the edges from a node that has ended.
func storedEdges(g *flows.Graph, p keyspace.Partition, end End) []edge {
	downs := g.Downs[end.node]
	edges := make([]edge, len(downs))
	for i, down := range downs {
		edges[i] = edge{
			id: keyspace.EdgeIDFor(end.Flow, end.node, down), up: end.ID, node: down, lane: g.Lanes[down],
			down: keyspace.ExecutionIDFor(p, end.Flow, down),
		}
	}
	return edges
}

// ReleaseMembers releases held members: those without open dependencies become eligible, the others leave the index of
// delayed executions. The error joins an engine.ItemError for each that could not be released.
func (c *Steps) ReleaseMembers(ctx context.Context, p keyspace.Partition, members []enginecore.ExecutionID) error {
	members, cores, faults := c.Readable(ctx, members, []string{"lane_id", "eligibility_state", "delay_until"})
	if retry.IsUnavailable(faults) {
		return faults
	}
	lanes := make(map[enginecore.LaneID]bool)
	for from := 0; from < len(members); from += link.Page {
		to := min(from+link.Page, len(members))
		b := c.Batch()
		promoted := make(map[int]*batching.CallResult[enginerpc.PromoteDelayedReply], to-from)
		for i := from; i < to; i++ {
			if cores[i]["eligibility_state"] == "not_eligible_until_time" &&
				!cores[i].Time("delay_until").Equal(contractnode.HeldUntil()) {
				continue // it has been released before, and is delayed for another reason
			}
			promoted[i] = link.AddAgain[enginerpc.PromoteDelayedReply](b, enginerpc.PromoteDelayedCall{
				LaneID: cores[i].Lane(), ExecutionID: members[i], Now: contractnode.HeldUntil(),
			})
		}
		if err := b.Run(ctx); err != nil {
			return err
		}
		for i, a := range promoted {
			switch {
			case retry.IsUnavailable(a.Err):
				return a.Err
			case a.Err != nil:
				faults = errors.Join(faults, &engine.ItemError{Item: string(members[i]), Err: a.Err})
			case a.Reply.Outcome == "promoted":
				lanes[cores[i].Lane()] = true
			}
		}
	}
	for lane := range lanes {
		c.TellWork(ctx, p, lane)
		c.ServeSoon(ctx, p, lane)
	}
	return faults
}
