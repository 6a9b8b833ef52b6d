package worker

import (
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/admission"
	"github.com/flowfabric/flowfabric-go/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// runClaimant is the admission claimant for one lane of a worker run: it leases admitted executions into free
// slots of the run.
type runClaimant struct {
	run  *Run
	lane enginecore.LaneID
}

// Request returns the claim of up to slots executions of the lane.
func (c runClaimant) Request(slots int) enginerpc.ClaimRequest {
	return c.run.claimRequest(c.lane, slots)
}

// Admit sends an Admit call and repeats it while its outcome is unknown and the run claims work. It returns
// the executions that the call leased.
func (c runClaimant) Admit(
	ctx context.Context, call enginerpc.AdmitCall,
) ([]admission.LeasedExecution, enginerpc.AdmitReply, error) {
	var sentAt time.Time
	var reply enginerpc.AdmitReply
	again := engine.RetryPolicy{
		Pause:     claimPause,
		Retryable: func(err error) bool { return engine.IsOutcomeUnknown(err) && !c.run.queue.IsClosed() },
		Failed:    func(error) { c.run.markUncertain() },
	}
	err := engine.RetryUntilKnown(ctx, again, func(repeated bool) (err error) {
		call.Repeated, sentAt = repeated, time.Now()
		reply, err = c.run.core.Admit(ctx, call)
		return err
	})
	if err != nil {
		c.run.markUncertain()
		return nil, reply, err
	}
	leased := make([]admission.LeasedExecution, len(reply.Executions))
	for i, claimed := range reply.Executions {
		leased[i] = admission.LeasedExecution{Partition: call.Partition, Claimed: claimed, SentAt: sentAt}
	}
	return leased, reply, nil
}

// TakeReturns removes and returns pending permits that belong to this limit and to no other.
func (c runClaimant) TakeReturns(limit enginecore.QuotaPolicyID) []admission.PermitReturn {
	return c.run.returns.takeFor(limit)
}

// UpdateLimit stores the state of a limit, which the next claims and permit returns use.
func (c runClaimant) UpdateLimit(limit enginecore.QuotaPolicyID, state admission.LimitState) {
	c.run.limits.update(limit, state)
}

// BeginsWithin returns the time within which the run begins with executions whose permits it asks a limit for.
func (c runClaimant) BeginsWithin(limit submit.StoredLimit) (time.Duration, bool) {
	return c.run.permits.haste.within(limit.WindowMS), true
}

// IsContended reports whether executions wait for a permit of a limit, by its last recorded state.
func (c runClaimant) IsContended(limit enginecore.QuotaPolicyID) bool {
	return c.run.limits.isContendedLimit(limit)
}

// sourceOf returns the shard from which the executions of a lane in a partition are claimed: where one server has all
// partitions, they wait in partition 0.
func (s *Run) sourceOf(lane enginecore.LaneID, p enginecore.Partition) dispatch.LaneShard {
	if s.session.IsOneServer() {
		p.Index = 0
	}
	return dispatch.LaneShard{Lane: lane, Partition: p}
}

// tasks returns a task for each execution that was leased to the claimant.
func (c runClaimant) tasks(leased []admission.LeasedExecution) []*Task {
	tasks := make([]*Task, len(leased))
	for i := range leased {
		x := &leased[i]
		tasks[i] = c.run.NewTask(c.run.sourceOf(c.lane, x.Partition), &x.Claimed, x.SentAt)
		tasks[i].permit.beginBy = x.BeginBy
	}
	return tasks
}

// admit acquires the permits of candidates, and starts those that were leased in slots that the caller has
// reserved. It returns their number, at most slots.
func (s *Run) admit(lane enginecore.LaneID, candidates []enginerpc.Candidate, slots int) int {
	by := runClaimant{s, lane}
	tasks := by.tasks(admission.Admitter{Session: s.session}.Admit(s.base, candidates, by, slots))
	s.begin(tasks)
	return len(tasks)
}

// admitNext acquires the permits of candidates that came with the completion of a task, for the slot of that
// task. The permits of the completed task are returned with the same calls. It returns the task to run next
// in the slot, or nil.
func (s *Run) admitNext(ended *Task, candidates []enginerpc.Candidate) *Task {
	s.returns.note(ended)
	by := runClaimant{s, ended.shard.Lane}
	tasks := by.tasks(admission.Admitter{Session: s.session}.Admit(s.base, candidates, by, 1))
	if len(tasks) == 0 {
		return nil
	}
	return tasks[0]
}

// claimant implements admittedStarter.
func (s *Run) claimant(lane enginecore.LaneID) admission.Claimant { return runClaimant{s, lane} }

// reserve implements admittedStarter. It reserves nothing for a worker that claims by grants only.
func (s *Run) reserve(n int) int {
	if s.worker.config.Through {
		return 0
	}
	return s.queue.Reserve(n)
}

// startAdmitted implements admittedStarter.
func (s *Run) startAdmitted(lane enginecore.LaneID, leased []admission.LeasedExecution, slots int) {
	s.begin(runClaimant{s, lane}.tasks(leased))
	s.queue.Restore(slots - len(leased))
}

// goTask implements admittedStarter.
func (s *Run) goTask(do func()) { s.tasks.Go(do) }

// begin starts tasks, and acquires the permits of those that were leased before their permits.
func (s *Run) begin(tasks []*Task) {
	s.permits.acquire(tasks...)
	s.start(tasks)
}
