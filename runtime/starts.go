package runtime

import (
	"context"
	"errors"
	goruntime "runtime"
	"sync"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// maxStartBytes bounds what the runs in one call bring of their own.
const maxStartBytes = 256 << 10

// starts sends small runs to the engine. One call at a time is under way to each place; what is started there meanwhile goes
// together in the next one. Nobody waits for company, but whoever goes first lets those run that could.
type starts struct {
	send func(context.Context, enginecore.SubmitManyCall) (enginecore.SubmitManyReply, error)

	mu sync.Mutex
	// waiting holds the runs behind the call that is under way to a place.
	waiting map[startPlace][]*start
	// mailboxes are channels of starts that have heard.
	mailboxes sync.Pool
}

// startPlace is what runs of one call have in common.
type startPlace struct {
	partition enginecore.Partition
	compiled  *compiledFlow
	namespace enginecore.Namespace
	creator   string
	retention string
}

func placeOf(plan *Plan) startPlace {
	return startPlace{plan.Partition, plan.compiled, plan.namespace, plan.creator, plan.retention}
}

// start is one run that is being started.
type start struct {
	ctx     context.Context
	plan    *Plan
	budgets []enginecore.SubmitFlowBudget
	// taken tells that the run waits no more: it has got its turn, or is part of a call.
	taken bool
	told  chan startNews
}

func newStart(ctx context.Context, plan *Plan) *start {
	return &start{ctx: ctx, plan: plan, budgets: encodeBudgets(plan.budgets)}
}

// startNews is what somebody hears who waited.
type startNews struct {
	// turn: it goes by itself now, and passes on afterwards.
	turn bool
	// alone: it has to go by itself, since the others' call did not start it.
	alone   bool
	existed bool
	err     error
}

// size is about how many bytes the run brings that others do not share.
func (s *start) size() int {
	size := len(s.plan.input)
	for _, b := range s.budgets {
		size += len(b.Text) + len(b.Blocking)
	}
	if s.plan.ownTags {
		for _, tag := range s.plan.tags {
			size += len(tag.Name) + len(tag.Value)
		}
	}
	return size
}

// newStarts returns nil when the engine has no call for several runs.
func newStarts(e *session) *starts {
	many, err := capability[batchedStarts](e.backend)
	if err != nil {
		return nil
	}
	return &starts{send: many.SubmitMany, waiting: make(map[startPlace][]*start)}
}

// submit starts a run, together with others when a call to the same place is under way: otherwise, and for whatever needs
// an answer of its own, through alone.
func (s *starts) submit(ctx context.Context, plan *Plan, alone func() (existed bool, err error)) (existed bool, err error) {
	if s == nil || !plan.goesWithOthers() {
		return alone()
	}
	place := placeOf(plan)
	mine := newStart(ctx, plan)
	if s.goesAhead(place, mine) {
		// Clients that hear of their results together start their next runs together.
		goruntime.Gosched()
		s.goOn(place, mine)
	}
	var news startNews
	select {
	case news = <-mine.told:
		s.mailboxes.Put(mine.told)
	case <-ctx.Done():
		if !s.leave(place, mine) {
			return false, submitError(plan, context.Cause(ctx))
		}
		news = startNews{turn: true}
	}
	switch {
	case news.turn:
		defer s.passOn(place)
		return alone()
	case news.alone:
		return alone()
	case news.err != nil:
		return false, submitError(plan, news.err)
	}
	return news.existed, nil
}

// goesAhead reports whether no call is under way to the place. If one is, the run is behind it.
func (s *starts) goesAhead(place startPlace, mine *start) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	behind, underway := s.waiting[place]
	if used, ok := s.mailboxes.Get().(chan startNews); ok {
		mine.told = used
	} else {
		mine.told = make(chan startNews, 1)
	}
	if !underway {
		s.waiting[place] = nil
		return true
	}
	s.waiting[place] = append(behind, mine)
	return false
}

// leave takes back a run whose caller waits no more. It reports whether it has just got its turn, which it must pass on.
func (s *starts) leave(place startPlace, mine *start) (turn bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if mine.taken {
		select {
		case news := <-mine.told:
			return news.turn
		default:
			return false
		}
	}
	behind := s.waiting[place]
	for i := range behind {
		if behind[i] == mine {
			s.waiting[place] = append(behind[:i:i], behind[i+1:]...)
			break
		}
	}
	return false
}

// passOn lets the runs go that came meanwhile.
func (s *starts) passOn(place startPlace) { s.goOn(place, nil) }

// goOn sends the runs that wait, after the first when there is one; with nothing to send, nothing is under way any more.
func (s *starts) goOn(place startPlace, first *start) {
	s.mu.Lock()
	defer s.mu.Unlock()
	behind := s.waiting[place]
	if first != nil {
		behind = append([]*start{first}, behind...)
	}
	if len(behind) == 0 {
		delete(s.waiting, place)
		return
	}
	n, bytes := 1, behind[0].size()
	most := place.compiled.runsPerCall()
	for n < len(behind) && n < most && bytes+behind[n].size() <= maxStartBytes {
		bytes += behind[n].size()
		n++
	}
	batch := behind[:n:n]
	s.waiting[place] = behind[n:]
	for _, taken := range batch {
		taken.taken = true
	}
	if n == 1 {
		batch[0].told <- startNews{turn: true}
		return
	}
	go s.sendBatch(place, batch)
}

// sendBatch starts several runs and tells each what came of it. It ends with the last of them that waits.
func (s *starts) sendBatch(place startPlace, batch []*start) {
	ctx, cancel := whileAnyWaits(batch, func(one *start) context.Context { return one.ctx })
	defer cancel()
	reply, err := s.send(ctx, startCall(place, batch))
	s.passOn(place)
	if err == nil && len(reply.Outcomes) != len(batch) {
		err = errors.New("the reply tells of another number of runs")
	}
	for i, one := range batch {
		news := startNews{alone: true}
		switch {
		case err != nil && engineAway(err):
			news = startNews{err: err}
		case err != nil:
		case reply.Outcomes[i].Code == string(enginecore.StatusOK):
			news = startNews{}
		case reply.Outcomes[i].Code == string(enginecore.StatusAlreadySatisfied):
			news = startNews{existed: true}
		}
		one.told <- news
	}
}

// startCall is the call for several runs.
func startCall(place startPlace, batch []*start) enginecore.SubmitManyCall {
	graph := place.compiled.graph
	call := enginecore.SubmitManyCall{
		Partition: place.partition, FlowName: graph.Name, Namespace: string(place.namespace), GraphHash: place.compiled.hash,
		Definition: place.compiled.definition, ResultNode: place.compiled.many.result, Deadline: graph.Deadline,
		CreatorIdentity: place.creator, Retention: place.retention, Tags: place.compiled.many.tags,
		Nodes: place.compiled.many.nodes, Edges: place.compiled.many.edges,
		Runs:       make([]enginecore.SubmitManyRun, len(batch)),
		Executions: make([]enginecore.SubmitManyExecution, 0, len(batch)*len(graph.Nodes)),
		EdgeIDs:    make([]enginecore.SubmitManyEdgeID, 0, len(batch)*place.compiled.edges),
	}
	for i, one := range batch {
		plan := one.plan
		call.Runs[i] = enginecore.SubmitManyRun{
			FlowID: plan.FlowID, RunID: plan.Run, InputHash: plan.inputHash, Input: plan.input, TraceContext: plan.trace,
			FairKey: plan.fairKey,
		}
		run := int64(i + 1)
		for _, b := range one.budgets {
			call.Budgets = append(call.Budgets, enginecore.SubmitManyBudget{Run: run, Text: b.Text, Blocking: b.Blocking})
		}
		if plan.ownTags {
			for _, tag := range plan.tags {
				call.OwnTags = append(call.OwnTags, enginecore.SubmitManyOwnTag{Run: run, Name: tag.Name, Value: tag.Value})
			}
		}
		for j := range graph.Nodes {
			id := plan.ExecutionID(graph.Nodes[j].Name)
			call.Executions = append(call.Executions, enginecore.SubmitManyExecution{ExecutionID: id})
			if limit, limited := plan.limits[graph.Nodes[j].Name]; limited {
				limit.ExecutionID = id
				call.Limits = append(call.Limits, enginecore.SubmitManyLimit(limit))
			}
		}
		for j := range graph.Nodes {
			for _, up := range graph.Nodes[j].Upstreams {
				id := enginecore.EdgeIDFor(plan.FlowID, up.Node, graph.Nodes[j].Name)
				call.EdgeIDs = append(call.EdgeIDs, enginecore.SubmitManyEdgeID{EdgeID: id})
			}
		}
	}
	return call
}

// manyForm is the part of a flow that all its runs in one call share.
type manyForm struct {
	result int64 // place of the node with the result, from 1; 0 without one
	nodes  []enginecore.SubmitManyNode
	edges  []enginecore.SubmitManyEdge
	tags   []enginecore.SubmitManyTag
}

// newManyForm returns nil for flows whose runs go one by one.
func newManyForm(c *compiledFlow) *manyForm {
	if c.waits || len(c.joins) > 0 || c.runsPerCall() < 2 || len(c.definition) > maxDefinitionWithNodes {
		return nil
	}
	m := &manyForm{}
	for i := range c.nodes {
		n := &c.nodes[i]
		m.nodes = append(m.nodes, enginecore.SubmitManyNode{
			Name: n.Name, Kind: n.Kind, LaneID: n.LaneID, Priority: n.Priority, UsesFlowInput: n.UsesFlowInput,
			InputCount: n.InputCount, UpstreamCount: n.UpstreamCount, Capabilities: n.Capabilities, Policy: n.Policy,
			Tags: n.Tags, StartTimeout: n.StartTimeout, AttemptTimeout: n.AttemptTimeout,
		})
	}
	m.result = c.places[c.graph.Return]
	for i := range c.graph.Nodes {
		n := &c.graph.Nodes[i]
		for _, up := range n.Upstreams {
			edge := enginecore.SubmitManyEdge{Upstream: c.places[up.Node], Downstream: c.places[n.Name], DependencyKind: string(up.Kind)}
			if up.Data {
				edge.InputName = up.Node
			}
			m.edges = append(m.edges, edge)
		}
	}
	for _, tag := range c.tags {
		m.tags = append(m.tags, enginecore.SubmitManyTag(tag))
	}
	return m
}

// runsPerCall is how many runs one call may bring; 0 for flows that take several calls each.
func (c *compiledFlow) runsPerCall() int {
	most := nodesPerCall / max(1, len(c.nodes))
	if c.edges > 0 {
		most = min(most, edgesPerCall/c.edges)
	}
	return most
}

// goesWithOthers reports whether the run can be started together with others of its flow: it has nothing that others of the
// flow may not have, too.
func (p *Plan) goesWithOthers() bool {
	return p.compiled.many != nil && len(p.fires) == 0 && len(p.parent) == 0
}
