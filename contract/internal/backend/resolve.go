package backend

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/contractnode"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// contractEnd is the end of an execution.
type contractEnd struct {
	id        enginecore.ExecutionID
	flow      enginecore.FlowID
	node      string // "" when it is not known
	graphHash string // "" when it is not known
	outcome   string
}

// contractEdge is an edge from an execution that has ended.
type contractEdge struct {
	id       enginecore.EdgeID
	up, down enginecore.ExecutionID
	node     string // of the downstream, "" when it is not known
	lane     enginecore.LaneID
}

// releasedFields are the fields of a downstream that are read after its edge is resolved.
var releasedFields = engine.ClaimFields

// propagate resolves the edges from executions that have ended: downstreams without open dependencies become
// eligible; those that can never run are skipped, and their downstreams in turn. It returns the eligible downstreams,
// and notifies the workers of lanes other than own. A repeat continues where an earlier call ended, except for
// skipped executions in between, which a keeper propagates.
func (c *contract) propagate(
	ctx context.Context, p keyspace.Partition, own enginecore.LaneID, ends ...contractEnd,
) ([]contractCandidate, error) {
	return c.propagateOnce(ctx, p, own, false, ends...)
}

// propagateOnce is propagate. first means that the ends were reported by this very call, so that no other program can
// have propagated them.
func (c *contract) propagateOnce(
	ctx context.Context, p keyspace.Partition, own enginecore.LaneID, first bool, ends ...contractEnd,
) ([]contractCandidate, error) {
	var released []contractCandidate
	var faults error
	closing := make(map[enginecore.FlowID]bool)
	for len(ends) > 0 && !retry.IsUnavailable(faults) {
		end := ends[0]
		ends = ends[1:]
		if end.flow == "" {
			continue
		}
		r, err := c.resolveEnd(ctx, p, end, first)
		first = false
		faults = errors.Join(faults, err)
		if err == nil && !r.open {
			closing[end.flow] = true
		}
		released = append(released, r.ready...)
		ends = append(ends, r.skipped...)
	}
	if retry.IsUnavailable(faults) {
		return released, faults
	}
	c.tellReady(ctx, p, own, released)
	for id := range closing {
		if err := c.ends.check(ctx, c, p, id); err != nil {
			return released, errors.Join(faults, err)
		}
	}
	return released, faults
}

// resolution is the result of resolving edges.
type resolution struct {
	ready   []contractCandidate
	skipped []contractEnd
	open    bool // some downstreams have not ended
}

// resolveEnd resolves all edges from one execution. The error joins an engine.ItemError for the execution, if its edges
// could not be read, or else for each downstream whose edge could not be resolved; the others are.
func (c *contract) resolveEnd(
	ctx context.Context, p keyspace.Partition, end contractEnd, first bool,
) (resolution, error) {
	edges, err := c.edgesFrom(ctx, p, end)
	if err != nil {
		return resolution{}, &engine.ItemError{Item: string(end.id), Err: err}
	}
	return c.resolve(ctx, end, edges, first)
}

// resolve resolves edges from one execution.
//
// Members are created delayed, and some libraries apply that delay when the last edge is resolved. If no other
// program can have resolved the edges before, the release is sent along: otherwise it would cut short any other delay
// of a downstream.
func (c *contract) resolve(
	ctx context.Context, end contractEnd, edges []contractEdge, first bool,
) (r resolution, faults error) {
	for ; len(edges) > 0; first = false {
		page := edges[:min(len(edges), contractPage/3)]
		edges = edges[len(page):]
		b := c.batch()
		resolved := make([]*batching.CallResult[enginerpc.ResolveDependencyReply], len(page))
		cores := make([]*rueidis.RedisResult, len(page))
		for i, e := range page {
			resolved[i] = addAgain[enginerpc.ResolveDependencyReply](b, enginerpc.ResolveDependencyCall{
				DownstreamExecutionID: e.down, LaneID: e.lane, UpstreamExecutionID: e.up, EdgeID: e.id,
				UpstreamOutcome: end.outcome, Now: c.now(), FlowID: end.flow, GroupExecutionID: e.down,
			})
			if first {
				addAgain[enginerpc.PromoteDelayedReply](b,
					enginerpc.PromoteDelayedCall{ExecutionID: e.down, LaneID: e.lane, Now: contractnode.HeldUntil()})
			}
			cores[i] = b.look(c.hmget(c.keys.ExecCore(e.down), releasedFields))
		}
		if err := b.run(ctx); err != nil {
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
			if err = cmp.Or(err, readFault(ctx, *cores[i])); err != nil {
				faults = errors.Join(faults, &engine.ItemError{Item: string(e.down), Err: err})
				continue
			}
			r.open = r.open || core.Exists() && !core.IsTerminal()
			switch {
			case resolved[i].Reply.Effect == "child_skipped":
				r.skipped = append(r.skipped, contractEnd{e.down, end.flow, e.node, end.graphHash, "skipped"})
			case core["eligibility_state"] == "eligible_now":
				r.ready = append(r.ready, contractCandidate{id: e.down, core: core})
			}
		}
	}
	return r, faults
}

// releaseHeld releases the downstreams that wait for nothing but their release, and reads them again.
func (c *contract) releaseHeld(ctx context.Context, edges []contractEdge, records []engine.Record) error {
	b := c.batch()
	again := make(map[int]*rueidis.RedisResult)
	for i, e := range edges {
		if records[i]["eligibility_state"] == "not_eligible_until_time" &&
			records[i].Time("delay_until").Equal(contractnode.HeldUntil()) {
			addAgain[enginerpc.PromoteDelayedReply](b,
				enginerpc.PromoteDelayedCall{ExecutionID: e.down, LaneID: e.lane, Now: contractnode.HeldUntil()})
			again[i] = b.look(c.hmget(c.keys.ExecCore(e.down), releasedFields))
		}
	}
	if err := b.run(ctx); err != nil {
		return err
	}
	for i, result := range again {
		records[i] = hashrecord.Read(*result, releasedFields)
	}
	return nil
}

// edgesFrom returns the edges from an execution: from the stored definition of its flow, or from the engine's records
// for a flow that another program submitted.
func (c *contract) edgesFrom(ctx context.Context, p keyspace.Partition, end contractEnd) ([]contractEdge, error) {
	if end.node != "" && end.graphHash != "" {
		graph, err := c.graphs.get(ctx, c, p, end.flow, end.graphHash)
		if err != nil {
			return nil, err
		}
		if graph != nil {
			return graph.edgesFrom(p, end), nil
		}
	}
	results, err := c.read(ctx, c.client.B().Smembers().Key(c.keys.FlowOut(end.flow, end.id)).Build())
	if err != nil {
		return nil, err
	}
	ids := idsOf[enginecore.EdgeID](results[0])
	commands := make(rueidis.Commands, len(ids))
	for i, id := range ids {
		commands[i] = c.client.B().Hget().Key(c.keys.FlowEdge(p, end.flow, id)).Field("downstream_execution_id").Build()
	}
	downs, err := c.read(ctx, commands...)
	if err != nil {
		return nil, err
	}
	edges := make([]contractEdge, 0, len(ids))
	children := make([]enginecore.ExecutionID, 0, len(ids))
	for i, id := range ids {
		if down, err := downs[i].ToString(); err == nil {
			edges = append(edges, contractEdge{id: id, up: end.id, down: enginecore.ExecutionID(down)})
			children = append(children, enginecore.ExecutionID(down))
		}
	}
	cores, err := c.readCores(ctx, children, []string{"lane_id"})
	if err != nil {
		return nil, err
	}
	for i := range edges {
		edges[i].lane = cores[i].Lane()
	}
	return edges, nil
}

// tellReady notifies the workers of lanes in which executions became eligible. A single one on the caller's own lane
// is left to the caller.
func (c *contract) tellReady(
	ctx context.Context, p keyspace.Partition, own enginecore.LaneID, ready []contractCandidate,
) {
	count := make(map[enginecore.LaneID]int)
	for _, r := range ready {
		count[r.core.Lane()]++
	}
	if count[waitLane] > 0 {
		c.serveSoon(ctx, p, waitLane)
		delete(count, waitLane)
	}
	for lane, n := range count {
		if lane != own || n > 1 {
			c.tellWork(ctx, p, lane)
		}
	}
}

// tellWork notifies the workers of a lane. The random number makes messages distinct.
func (c *contract) tellWork(ctx context.Context, p keyspace.Partition, lane enginecore.LaneID) {
	work := enginerpc.WorkMessage{Partition: p, Mark: strconv.FormatUint(rand.Uint64(), 36)}
	c.publish(ctx, c.keys.ChannelWake(lane), work.Text())
}

// tellDue notifies keepers of an item that is due at a time in Unix ms.
func (c *contract) tellDue(ctx context.Context, p keyspace.Partition, at int64) {
	c.publish(ctx, c.keys.ChannelDue(), enginerpc.DueMessage{Partition: p, At: time.UnixMilli(at)}.Text())
}

// publish publishes a hint. A subscriber that misses it finds the work by polling.
func (c *contract) publish(ctx context.Context, channel, message string) {
	c.client.Do(ctx, c.client.B().Publish().Channel(channel).Message(message).Build())
}

// contractGraph is the part of a flow's graph that propagation needs.
type contractGraph struct {
	lanes map[string]enginecore.LaneID // by node
	place map[string]int               // in the order of declaration, in which upstreams come first
	downs map[string][]string
	joins map[string]bool // nodes that do not need all of their upstreams
}

func newContractGraph(g *flowgraph.Graph) *contractGraph {
	graph := &contractGraph{
		lanes: make(map[string]enginecore.LaneID, len(g.Nodes)), place: make(map[string]int, len(g.Nodes)),
		downs: make(map[string][]string), joins: make(map[string]bool),
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		graph.lanes[n.Name], graph.place[n.Name] = laneOf(n), i
		if n.Join.Policy != flowgraph.JoinAll {
			graph.joins[n.Name] = true
		}
		for _, up := range n.Upstreams {
			graph.downs[up.Node] = append(graph.downs[up.Node], n.Name)
		}
	}
	return graph
}

// laneOf returns the lane of a node's executions.
func laneOf(n *flowgraph.Node) enginecore.LaneID {
	if n.Wait != nil {
		return waitLane
	}
	return enginecore.LaneID(n.Lane)
}

// edgesFrom returns the edges from a node that has ended.
func (g *contractGraph) edgesFrom(p keyspace.Partition, end contractEnd) []contractEdge {
	downs := g.downs[end.node]
	edges := make([]contractEdge, len(downs))
	for i, down := range downs {
		edges[i] = contractEdge{
			id: keyspace.EdgeIDFor(end.flow, end.node, down), up: end.id, node: down, lane: g.lanes[down],
			down: keyspace.ExecutionIDFor(p, end.flow, down),
		}
	}
	return edges
}

// graphCache caches graphs by their hash: runs of one definition share one. The zero value is empty; it is safe for
// concurrent use.
type graphCache struct {
	mu     sync.Mutex
	byHash map[string]*contractGraph
}

// get returns the graph of a flow, nil if the flow has no readable definition with that hash.
func (g *graphCache) get(
	ctx context.Context, c *contract, p keyspace.Partition, id enginecore.FlowID, hash string,
) (*contractGraph, error) {
	g.mu.Lock()
	graph := g.byHash[hash]
	g.mu.Unlock()
	if graph != nil {
		return graph, nil
	}
	read := c.client.B().Hget().Key(c.keys.FlowTags(p, id)).Field(contractnode.TagDefinition).Build()
	results, err := c.read(ctx, read)
	if err != nil {
		return nil, err
	}
	definition, err := results[0].AsBytes()
	if err != nil {
		return nil, nil
	}
	parsed, err := flowgraph.ParseGraph(definition)
	if err != nil || parsed.Hash() != hash {
		return nil, nil
	}
	graph = newContractGraph(parsed)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.byHash == nil || len(g.byHash) >= submit.MaxCompiled {
		g.byHash = make(map[string]*contractGraph)
	}
	g.byHash[hash] = graph
	return graph, nil
}

// endWatch detects when flows are over. It remembers the members of a flow that no check has found ended, so that
// all checks of one flow together read each member about once. The zero value is empty; it is safe for concurrent
// use.
type endWatch struct {
	mu    sync.Mutex
	flows map[enginecore.FlowID]*endProbe
}

// endProbe is the state of endWatch for one flow.
type endProbe struct {
	mu      sync.Mutex
	members []enginecore.ExecutionID // those that no check has found ended
	loaded  bool
}

// outcomeOver is the outcome in the message that a flow is over. Clients read how it ended from the engine.
const outcomeOver = "over"

// maxEndProbes bounds the remembered flows.
const maxEndProbes = 1024

// check checks whether all members of a flow have ended, and if so notifies the clients that wait for it.
func (w *endWatch) check(ctx context.Context, c *contract, p keyspace.Partition, id enginecore.FlowID) error {
	over, err := w.look(ctx, c, p, id)
	if over {
		c.publish(ctx, c.keys.ChannelDone(p), enginerpc.DoneMessage{FlowID: id, Outcome: outcomeOver}.Text())
	}
	return err
}

// look reports whether all members of a flow have ended.
func (w *endWatch) look(ctx context.Context, c *contract, p keyspace.Partition, id enginecore.FlowID) (bool, error) {
	w.mu.Lock()
	if w.flows == nil || len(w.flows) >= maxEndProbes {
		w.flows = make(map[enginecore.FlowID]*endProbe)
	}
	probe := w.flows[id]
	if probe == nil {
		probe = &endProbe{}
		w.flows[id] = probe
	}
	w.mu.Unlock()
	over, err := probe.check(ctx, c, p, id)
	if over {
		w.mu.Lock()
		delete(w.flows, id)
		w.mu.Unlock()
	}
	return over, err
}

// check reports whether all members have ended.
func (e *endProbe) check(ctx context.Context, c *contract, p keyspace.Partition, id enginecore.FlowID) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.loaded {
		members, err := c.members(ctx, p, id)
		if err != nil {
			return false, err
		}
		rand.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		e.members, e.loaded = members, true
	}
	for page := 1; len(e.members) > 0; page = min(2*page, contractPage) {
		look := e.members[:min(page, len(e.members))]
		cores, err := c.readCores(ctx, look, []string{"lifecycle_phase"})
		if err != nil {
			return false, err
		}
		for _, core := range cores {
			if core.Exists() && !core.IsTerminal() {
				return false, nil
			}
			e.members = e.members[1:]
		}
	}
	return true, nil
}
