package submit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/errgroup"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/runrecord"
)

const (
	// maxStartBytes bounds the bytes in one call that its runs do not share, as enginerpc.CallBytes counts inputs.
	maxStartBytes = 256 << 10
	// maxRunsPerCall and maxNodesPerCall bound the runs in one call.
	maxRunsPerCall  = 64
	maxNodesPerCall = 512
)

// starter submits runs to a backend that stores graphs. Runs of one flow and partition share calls, and on one server
// runs of the usual case do so whatever their partitions.
type starter struct {
	session *engine.Session
	store   engine.Library
	// ends receives the ends of the runs; nil if no process is to receive them.
	ends  *CompletionListener
	batch batching.Batcher[StartKey, *RunPlan, startResult]
	// together is set where a call may start runs of several partitions.
	together bool
}

// StartKey has the values that all runs of one call share.
type StartKey struct {
	partition keyspace.Partition // zero where the runs may be of any
	usual     bool               // ffx_start starts them
	compiled  *CompiledFlow
	namespace keyspace.Namespace
	retention string
	startAt   time.Time
	deadline  time.Duration
}

// StartKeyOf returns the key of a plan: plans with equal keys may share a call.
func StartKeyOf(plan *RunPlan) StartKey {
	return StartKey{
		partition: plan.Partition, compiled: plan.Compiled, namespace: plan.namespace, retention: plan.Retention,
		startAt: plan.StartAt, deadline: plan.Deadline,
	}
}

// keyOf returns the key of a plan, which is usual for runs that ffx_start can start.
func (s *starter) keyOf(plan *RunPlan) StartKey {
	key := StartKeyOf(plan)
	if key.usual = plan.isUsual(); key.usual && s.together {
		key.partition = keyspace.Partition{}
	}
	return key
}

// isUsual reports whether ffx_start can start the run. It decides about the rest: whether the run exists, and its
// partition has the graph.
func (p *RunPlan) isUsual() bool {
	return p.Compiled.usual && p.StartAt.IsZero() && p.Signal == nil && p.Arrival == nil && p.ForkedFrom == "" &&
		len(p.Fires) == 0 && len(p.Parents) == 0 && len(p.limits) == 0 && len(p.Budgets) == len(p.Compiled.budgets)
}

// class is the class of the runs with a key, as it is stored.
func (k StartKey) class() []byte {
	of := classOf{string(k.namespace), k.retention}
	if last := k.compiled.class.Load(); last != nil && last.of == of {
		return last.text
	}
	text := runrecord.Class{
		Graph: k.compiled.formHash(), GraphHash: k.compiled.Hash, FlowName: k.compiled.Graph.Name,
		Namespace: of.namespace, Retention: of.retention, Priority: k.compiled.priority,
	}.Encode()
	k.compiled.class.Store(&encodedClass{of, text})
	return text
}

// classOf has the values that classes of one compiled flow differ by.
type classOf struct{ namespace, retention string }

// encodedClass is a class as it is stored.
type encodedClass struct {
	of   classOf
	text []byte
}

// record is the record of the run of a plan, as it is stored.
func (p *RunPlan) record() []byte { return p.appendRecord(nil) }

func (p *RunPlan) appendRecord(to []byte) []byte {
	r := runrecord.Record{
		RunID: p.Run, InputHash: p.InputHash, TraceContext: p.trace, FairKey: p.FairKey, Creator: p.Creator,
		Memo: p.Memo,
	}
	for _, parent := range p.Parents {
		r.Parent, r.FailFast = string(parent.ExecutionID), parent.FailFast
	}
	return r.Append(to)
}

// startResult is the outcome of one start.
type startResult struct {
	existed bool
	err     error
}

// startSize is the approximate number of bytes of a run in a call that other runs do not share.
func startSize(plan **RunPlan) int {
	p := *plan
	size := enginerpc.CallBytes(p.Input) + len(p.Memo)
	for _, b := range p.ownBudgets() {
		size += len(b.Text) + len(b.Blocking)
	}
	if p.OwnTags {
		for _, tag := range p.Tags {
			size += len(tag.Name) + len(tag.Value)
		}
	}
	return size
}

// NewStarter returns nil when the backend stores no graphs. ends, which may be nil, receives the ends of the runs.
func NewStarter(e *engine.Session, ends *CompletionListener) *starter {
	store, err := e.Library("stored graphs")
	if err != nil {
		return nil
	}
	s := &starter{session: e, store: store, ends: ends, together: e.IsOneServer()}
	s.batch.Single = func(ctx context.Context, key StartKey, plan *RunPlan) startResult {
		return s.start(ctx, key, []*RunPlan{plan})[0]
	}
	s.batch.Multi = s.start
	s.batch.MaxRequests = func(key StartKey) int {
		return max(1, min(maxRunsPerCall, maxNodesPerCall/max(1, len(key.compiled.Nodes))))
	}
	s.batch.Size, s.batch.MaxBytes = startSize, maxStartBytes
	return s
}

// submit starts a run and reports whether it existed. A run of a schedule, a run with a signal or an arrival, and a
// fork have a separate call.
func (s *starter) submit(ctx context.Context, plan *RunPlan) (existed bool, err error) {
	if len(plan.Fires) > 0 || plan.Signal != nil || plan.Arrival != nil || plan.ForkedFrom != "" {
		result := s.submitAll(ctx, StartKeyOf(plan), []*RunPlan{plan})[0]
		return result.existed, result.err
	}
	result, err := s.batch.Do(ctx, s.keyOf(plan), plan)
	if err != nil {
		return false, submitError(plan, err)
	}
	return result.existed, result.err
}

// start starts runs with one call as far as possible.
func (s *starter) start(ctx context.Context, key StartKey, plans []*RunPlan) []startResult {
	if !key.usual {
		return s.submitAll(ctx, key, plans)
	}
	reply, err := s.sendUsual(ctx, key, plans)
	if err == nil && len(reply.Outcomes) != 0 && len(reply.Outcomes) != len(plans) {
		err = errWrongOutcomes
	}
	list := make([]startResult, len(plans))
	if err != nil {
		for i, plan := range plans {
			list[i].err = submitError(plan, err)
		}
		return list
	}
	if reply.Outcomes != "" {
		s.submitRest(ctx, plans, reply.Outcomes, list)
	}
	return list
}

var errWrongOutcomes = errors.New("the number of outcomes in the reply differs from the number of runs")

// sendUsual makes the call that starts runs of the usual case, with the offer of a worker.
func (s *starter) sendUsual(ctx context.Context, key StartKey, plans []*RunPlan) (enginerpc.StartReply, error) {
	s.session.Starting.Add(1)
	defer s.session.Starting.Add(-1)
	call := UsualCall(key, plans)
	if s.ends != nil {
		call.Origin = s.ends.Origin()
	}
	offer, offered := s.offer(key, plans)
	if !offered {
		return s.store.Start(ctx, call)
	}
	call.ClaimRequest = offer.Claim
	return enginerpc.UntilAnswered(ctx, func(ctx context.Context) (enginerpc.StartReply, error) {
		sentAt := time.Now()
		reply, err := s.store.Start(ctx, call)
		offer.Take(engine.Leased{
			Executions: reply.Executions, Candidates: reply.Candidates, Remaining: reply.Remaining > 0,
		}, sentAt, err)
		return reply, err
	})
}

// usualSize is how many bytes the ids and the record of a run take that has no memo and no parent.
const usualSize = 200

// UsualCall returns the call that starts several runs of the usual case with a key in common.
func UsualCall(key StartKey, plans []*RunPlan) enginerpc.StartCall {
	call := enginerpc.StartCall{
		Partition: plans[0].Partition, Class: key.class(), Deadline: key.deadline,
		Runs: make([]enginerpc.StartRun, len(plans)),
	}
	for _, tag := range key.compiled.tags {
		call.Tags = append(call.Tags, enginerpc.StartTag(tag))
	}
	made := make([]byte, 0, len(plans)*usualSize) // the ids and records of all runs
	for i, plan := range plans {
		root := len(made)
		made = keyspace.AppendNodeExecutionID(made, plan.Partition, plan.FlowID, 1)
		id := len(made)
		made = keyspace.AppendPackedFlowID(made, plan.FlowID)
		made = keyspace.AppendListedName(made, plan.Run)
		record := len(made)
		made = plan.appendRecord(made)
		call.Runs[i] = enginerpc.StartRun{
			Root: enginecore.ExecutionID(rueidis.BinaryString(made[root:id:id])), ID: made[id:record:record],
			Record: made[record:len(made):len(made)], Input: plan.Input, FairKey: plan.FairKey,
		}
		if plan.OwnTags {
			for _, tag := range plan.Tags {
				own := enginerpc.StartOwnTag{Run: int64(i + 1), Name: tag.Name, Value: tag.Value}
				call.OwnTags = append(call.OwnTags, own)
			}
		}
	}
	return call
}

// notStarted is the digit of a run that ffx_start has left to ffx_submit.
const notStarted = '0'

// submitRest starts the runs that ffx_start has left, partition by partition. It sets their results in a list.
func (s *starter) submitRest(ctx context.Context, plans []*RunPlan, outcomes string, list []startResult) {
	rest := make(map[StartKey][]int)
	for i, plan := range plans {
		if outcomes[i] == notStarted {
			key := StartKeyOf(plan)
			rest[key] = append(rest[key], i)
		}
	}
	var group errgroup.Group
	group.SetLimit(manyAtATime)
	for key, places := range rest {
		group.Go(func() error {
			left := make([]*RunPlan, len(places))
			for i, place := range places {
				left[i] = plans[place]
			}
			for i, result := range s.submitAll(ctx, key, left) {
				list[places[i]] = result
			}
			return nil
		})
	}
	_ = group.Wait() // the results have the errors
}

// submitAll starts runs of one partition with one call of ffx_submit, and stores their graph first if the partition
// does not have it.
func (s *starter) submitAll(ctx context.Context, key StartKey, plans []*RunPlan) []startResult {
	call := StartCall(key, plans)
	if s.ends != nil {
		call.Origin = s.ends.Origin()
	}
	offer, offered := s.offer(key, plans)
	if !offered {
		reply, err := s.Send(ctx, key, call)
		return results(plans, reply, err)
	}
	call.ClaimRequest = offer.Claim
	reply, err := enginerpc.UntilAnswered(ctx, func(ctx context.Context) (enginerpc.SubmitReply, error) {
		sentAt := time.Now()
		reply, err := s.Send(ctx, key, call)
		offer.Take(engine.Leased{
			Executions: reply.Executions, Candidates: reply.Candidates, Remaining: reply.Remaining > 0,
		}, sentAt, err)
		return reply, err
	})
	return results(plans, reply, err)
}

// results returns the outcomes of the starts that a call contained.
func results(plans []*RunPlan, reply enginerpc.SubmitReply, err error) []startResult {
	if err == nil && len(reply.Outcomes) != len(plans) {
		err = errWrongOutcomes
	}
	list := make([]startResult, len(plans))
	for i, plan := range plans {
		if err != nil {
			list[i].err = submitError(plan, err)
			continue
		}
		list[i] = outcomeOf(plan, reply.Outcomes[i])
		if plan.Signal != nil && len(reply.Signals) == 1 {
			plan.Sent = reply.Signals[0]
		}
	}
	return list
}

// offer returns the offer of a worker of this process to run the first nodes of runs. The call that starts them leases
// the nodes then, so that they begin without another call. No worker makes one for runs that begin later.
func (s *starter) offer(key StartKey, plans []*RunPlan) (engine.Offer, bool) {
	first := &key.compiled.Nodes[0]
	if len(first.Wait) > 0 || !key.startAt.IsZero() || plans[0].Arrival != nil {
		return engine.Offer{}, false
	}
	return s.session.Workers.Offer(first.LaneID, first.Kind, plans[0].Partition, len(plans))
}

// maxPuts bounds how often a graph is stored for one start: it is removed with the last run of it.
const maxPuts = 3

// Send makes a call that starts runs of a key. If the partition does not have their graph, it stores that first.
func (s *starter) Send(ctx context.Context, key StartKey, call enginerpc.SubmitCall) (enginerpc.SubmitReply, error) {
	for puts := 0; ; puts++ {
		reply, err := s.store.Submit(ctx, call)
		if err == nil && reply.More {
			s.releaseRoots(ctx, call)
		}
		if !errors.Is(err, errorcode.GraphUnknown) || puts == maxPuts {
			return reply, err
		}
		if err := s.putGraph(ctx, key.compiled.putCalls(key.partition)); err != nil {
			return reply, fmt.Errorf("storing the graph: %w", err)
		}
	}
}

// putsAtATime is how many calls of a large graph are under way at a time.
const putsAtATime = 4

// putGraph makes the calls that store a graph, several at a time. The last one comes by itself, as the library
// requires.
func (s *starter) putGraph(ctx context.Context, calls []enginerpc.PutGraphCall) error {
	last := len(calls) - 1
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(putsAtATime)
	for i := range calls[:last] {
		group.Go(func() error {
			_, err := s.store.PutGraph(groupCtx, calls[i])
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	_, err := s.store.PutGraph(ctx, calls[last])
	return err
}

// releaseRoots makes those roots of runs eligible that the call which created the runs has left. A keeper releases the
// roots that releaseRoots does not reach.
func (s *starter) releaseRoots(ctx context.Context, call enginerpc.SubmitCall) {
	call.ClaimRequest = enginerpc.ClaimRequest{} // the first reply has the leases
	for more := true; more; {
		reply, err := s.store.Submit(ctx, call)
		more = err == nil && reply.More
	}
}

func outcomeOf(plan *RunPlan, o enginerpc.SubmissionOutcome) startResult {
	var details []string
	switch o.Code {
	case string(enginerpc.StatusOK):
		return startResult{}
	case string(enginerpc.StatusAlreadySatisfied), "purged":
		return startResult{existed: true}
	case joined:
		plan.Joined = o.What
		return startResult{existed: true}
	case keyTaken, keyFull, throttled, debounceFull:
		return startResult{err: fmt.Errorf("start run of flow %s: %w", plan.Flow, arrivalError(plan, o))}
	case string(errorcode.FlowIDConflict):
		details = []string{o.What, o.Stored, o.Given}
	case string(errorcode.FireTooLate):
		details = []string{o.Stored, o.Given}
	}
	err := &enginecore.Error{
		Function: enginerpc.FunctionName(enginerpc.SubmitCall{}), Code: enginecore.Code(o.Code), Details: details,
	}
	return startResult{err: submitError(plan, err)}
}

// StartCall returns the call that starts several runs with a key in common.
func StartCall(key StartKey, plans []*RunPlan) enginerpc.SubmitCall {
	compiled := key.compiled
	call := enginerpc.SubmitCall{
		Partition: key.partition, Class: key.class(), Deadline: key.deadline, StartAt: key.startAt,
		Tags: compiled.tags, Runs: make([]enginerpc.SubmitRun, len(plans)),
	}
	for i, plan := range plans {
		call.Runs[i] = enginerpc.SubmitRun{
			FlowID: plan.FlowID, Record: plan.record(), Input: plan.Input, FairKey: plan.FairKey,
		}
		run := int64(i + 1)
		for _, b := range plan.ownBudgets() {
			b.Run = run
			call.Budgets = append(call.Budgets, b)
		}
		if plan.OwnTags {
			for _, tag := range plan.Tags {
				call.OwnTags = append(call.OwnTags, enginerpc.SubmitOwnTag{Run: run, Name: tag.Name, Value: tag.Value})
			}
		}
		for _, parent := range plan.Parents {
			parent.Run = run
			call.Parents = append(call.Parents, parent)
		}
		call.Fires = append(call.Fires, plan.Fires...)
		if plan.Signal != nil {
			sent := *plan.Signal
			sent.Run = run
			call.Signals = append(call.Signals, sent)
		}
		if plan.ForkedFrom != "" {
			call.Forks = append(call.Forks, enginerpc.SubmitFork{Run: run, ForkedFrom: plan.ForkedFrom})
			call.Kept, call.Skips = plan.kept, plan.skips
		}
		if plan.Arrival != nil {
			arrival := *plan.Arrival
			arrival.Run = run
			call.Arrivals = append(call.Arrivals, arrival)
		}
		for name, limit := range plan.limits {
			limit.Run, limit.Node = run, int64(compiled.nodeNumbers[name])
			call.Limits = append(call.Limits, limit)
		}
	}
	return call
}
