package worker

import (
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/admission"
	"github.com/flowfabric/flowfabric-go/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/worker/lease"
	"github.com/flowfabric/flowfabric-go/internal/worker/permit"
	"github.com/flowfabric/flowfabric-go/internal/worker/task"
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
	again := retry.Policy{
		Pause:     lease.ClaimPause,
		Retryable: func(err error) bool { return retry.IsOutcomeUnknown(err) && !c.run.queue.IsClosed() },
		Failed:    func(error) { c.run.Doubt.Mark() },
	}
	err := retry.UntilKnown(ctx, again, func(repeated bool) (err error) {
		call.Repeated, sentAt = repeated, time.Now()
		reply, err = c.run.Core.Admit(ctx, call)
		return err
	})
	if err != nil {
		c.run.Doubt.Mark()
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
	return c.run.Permits.TakeReturns(limit)
}

// UpdateLimit stores the state of a limit, which the next claims and permit returns use.
func (c runClaimant) UpdateLimit(limit enginecore.QuotaPolicyID, state admission.LimitState) {
	c.run.Permits.UpdateLimit(limit, state)
}

// BeginsWithin returns the time within which the run begins executions after it has requested their permits from a
// limit.
func (c runClaimant) BeginsWithin(limit submit.StoredLimit) (time.Duration, bool) {
	return c.run.Permits.BeginsWithin(limit), true
}

// IsContended reports whether executions wait for a permit of a limit, by its last recorded state.
func (c runClaimant) IsContended(limit enginecore.QuotaPolicyID) bool {
	return c.run.Permits.IsContended(limit)
}

// sourceOf returns the shard from which the executions of a lane in a partition are claimed: where one server has all
// partitions, they wait in partition 0.
func (r *Run) sourceOf(lane enginecore.LaneID, p keyspace.Partition) dispatch.LaneShard {
	if r.Session.IsOneServer() {
		p.Index = 0
	}
	return dispatch.LaneShard{Lane: lane, Partition: p}
}

// tasks returns a task for each execution that was leased to the claimant.
func (c runClaimant) tasks(leased []admission.LeasedExecution) []*task.Task {
	tasks := make([]*task.Task, len(leased))
	for i := range leased {
		x := &leased[i]
		tasks[i] = c.run.NewTask(c.run.sourceOf(c.lane, x.Partition), &x.Claimed, x.SentAt)
		tasks[i].Permit.BeginBy = x.BeginBy
	}
	return tasks
}

// admit acquires the permits of candidates, and starts those that were leased in slots that the caller has
// reserved. It returns their number, at most slots.
func (r *Run) admit(lane enginecore.LaneID, candidates []enginerpc.Candidate, slots int) int {
	by := runClaimant{r, lane}
	tasks := by.tasks(admission.Admitter{Session: r.Session}.Admit(r.Base, candidates, by, slots))
	r.begin(tasks)
	return len(tasks)
}

// admitNext acquires the permits of candidates that came with the completion of a task, for the slot of that
// task. The permits of the completed task are returned with the same calls. It returns the task to run next
// in the slot, or nil.
func (r *Run) admitNext(ended *task.Task, candidates []enginerpc.Candidate) *task.Task {
	r.Permits.Note(&ended.Permit, ended.OutcomeUnknown.Load())
	by := runClaimant{r, ended.Shard.Lane}
	tasks := by.tasks(admission.Admitter{Session: r.Session}.Admit(r.Base, candidates, by, 1))
	if len(tasks) == 0 {
		return nil
	}
	return tasks[0]
}

// Claimant implements permit.Starter.
func (r *Run) Claimant(lane enginecore.LaneID) admission.Claimant { return runClaimant{r, lane} }

// Reserve implements permit.Starter. It reserves nothing for a worker that claims by grants only.
func (r *Run) Reserve(n int) int {
	if r.worker.config.Through {
		return 0
	}
	return r.queue.Reserve(n)
}

// StartAdmitted implements permit.Starter.
func (r *Run) StartAdmitted(lane enginecore.LaneID, leased []admission.LeasedExecution, slots int) {
	r.begin(runClaimant{r, lane}.tasks(leased))
	r.queue.Restore(slots - len(leased))
}

// Go implements permit.Starter.
func (r *Run) Go(do func()) { r.tasks.Go(do) }

// begin starts tasks, and acquires the permits of those that were leased before their permits.
func (r *Run) begin(tasks []*task.Task) {
	r.acquire(tasks)
	r.start(tasks)
}

// acquire requests the permits of those tasks that were leased before them.
func (r *Run) acquire(tasks []*task.Task) {
	var due []*permit.Request
	for _, t := range tasks {
		if t.Permit.IsDue() {
			due = append(due, &t.Permit)
		}
	}
	r.Permits.Acquire(due...)
}
