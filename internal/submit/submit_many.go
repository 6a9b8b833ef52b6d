package submit

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
)

// manyAtATime is how many calls of SubmitMany are under way at a time.
const manyAtATime = 8

// Outcome is the outcome of one plan of SubmitMany, with the results of Submit.
type Outcome struct {
	Existed bool
	Err     error
}

// SubmitMany starts runs, several with one call where they are of one flow, and of one partition unless they are of
// the usual case on one server. The outcomes are in the order of the plans; a plan that is nil has none. Single starts
// are not traced.
func (s *Submitter) SubmitMany(ctx context.Context, plans []*RunPlan) []Outcome {
	outcomes := make([]Outcome, len(plans))
	var group errgroup.Group
	group.SetLimit(manyAtATime)
	for _, call := range s.calls(plans) {
		group.Go(func() error {
			s.submitCall(ctx, plans, call, outcomes)
			return nil
		})
	}
	_ = group.Wait() // the outcomes have the errors
	return outcomes
}

func (s *Submitter) keyOf(plan *RunPlan) StartKey {
	if s.Starts == nil {
		return StartKeyOf(plan)
	}
	return s.Starts.keyOf(plan)
}

// calls divides plans, by their indexes, into calls within the bounds of one.
func (s *Submitter) calls(plans []*RunPlan) [][]int {
	var calls [][]int
	open := make(map[StartKey]int) // the call of a key that has room
	bytes := make(map[int]int)
	for place, plan := range plans {
		if plan == nil {
			continue
		}
		key := s.keyOf(plan)
		call, found := open[key]
		size := startSize(&plan)
		if !found || s.isFull(len(calls[call]), bytes[call]+size, key) {
			call = len(calls)
			calls, open[key] = append(calls, nil), call
		}
		calls[call] = append(calls[call], place)
		bytes[call] += size
	}
	return calls
}

func (s *Submitter) isFull(runs, bytes int, key StartKey) bool {
	return s.Starts == nil || runs == s.Starts.batch.MaxRequests(key) || bytes > maxStartBytes
}

// mustExist reports whether a budget has to be created before a run that names it starts.
func mustExist(b StoredBudget) bool { return !b.Declares() }

// submitCall starts the runs of one call. Those that need more than a call are started one by one: after a purge of
// their id, with budgets that must exist, or by a key.
func (s *Submitter) submitCall(ctx context.Context, plans []*RunPlan, places []int, outcomes []Outcome) {
	var together []*RunPlan
	var at []int
	for _, place := range places {
		plan := plans[place]
		if s.Starts == nil || plan.Compiled.waits || plan.Arrival != nil ||
			slices.ContainsFunc(plan.Budgets, mustExist) {
			outcomes[place].Existed, outcomes[place].Err = s.Submit(ctx, plan)
			continue
		}
		together, at = append(together, plan), append(at, place)
	}
	if len(together) == 0 {
		return
	}
	begun := time.Now()
	trace := observe.InjectTrace(ctx)
	trackings := make([]uint64, len(together))
	for i, plan := range together {
		var err error
		if plan.trace, err = s.carry(ctx, plan, trace); err != nil { // the same for all
			for _, place := range at[i:] {
				outcomes[place].Err = submitError(plans[place], err)
			}
			return
		}
	}
	for i, plan := range together {
		s.Completions.listenFor(ctx, plan)
		trackings[i] = s.Completions.track(plan.FlowID)
	}
	for i, result := range s.Starts.start(ctx, s.Starts.keyOf(together[0]), together) {
		plan, outcome := together[i], &outcomes[at[i]]
		outcome.Existed, outcome.Err = result.existed, result.err
		if outcome.Err != nil {
			outcome.Existed, outcome.Err = s.settleConflict(ctx, plan, outcome.Err)
		}
		s.Completions.settle(plan.FlowID, trackings[i], !outcome.Existed && outcome.Err == nil)
		if errors.Is(outcome.Err, errorcode.FlowPurging) {
			outcome.Existed, outcome.Err = s.Submit(ctx, plan)
			continue
		}
		s.measure(ctx, plan, begun, outcome.Existed, outcome.Err)
	}
}
