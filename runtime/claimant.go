package runtime

import (
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// runClaimant is the claimant for one lane of a worker's run: it leases admitted executions into the run's free slots.
type runClaimant struct {
	run  *workerRun
	lane enginecore.LaneID
}

func (c runClaimant) request(slots int) enginerpc.ClaimRequest {
	return c.run.claimRequest(c.lane, slots)
}

// admit repeats the call while its outcome is unknown and the run claims work.
func (c runClaimant) admit(
	ctx context.Context, call enginerpc.AdmitCall,
) ([]leasedExecution, enginerpc.AdmitReply, error) {
	var sentAt time.Time
	var reply enginerpc.AdmitReply
	again := retryPolicy{
		pause:     claimPause,
		retryable: func(err error) bool { return isOutcomeUnknown(err) && !c.run.queue.isClosed() },
		failed:    func(error) { c.run.leases.markUncertain() },
	}
	err := retryUntilKnown(ctx, again, func(repeated bool) (err error) {
		call.Repeated, sentAt = repeated, time.Now()
		reply, err = c.run.core.Admit(ctx, call)
		return err
	})
	if err != nil {
		c.run.leases.markUncertain()
		return nil, reply, err
	}
	leased := make([]leasedExecution, len(reply.Executions))
	for i, claimed := range reply.Executions {
		leased[i] = leasedExecution{call.Partition, claimed, sentAt}
	}
	return leased, reply, nil
}

func (c runClaimant) takeReturns(limit enginecore.QuotaPolicyID) []permitReturn {
	return c.run.returns.takeFor(limit)
}

func (c runClaimant) updateLimit(limit enginecore.QuotaPolicyID, state limitState) {
	c.run.limits.update(limit, state)
}

// tasks makes tasks of what was leased to the claimant.
func (c runClaimant) tasks(leased []leasedExecution) []*task {
	tasks := make([]*task, len(leased))
	for i, x := range leased {
		tasks[i] = newTask(c.run, laneShard{c.lane, x.partition}, x.claimed, x.sentAt)
	}
	return tasks
}

// admit acquires the permits of candidates, and starts those that were leased, in slots that the caller has reserved. It returns
// how many.
func (s *workerRun) admit(lane enginecore.LaneID, candidates []enginerpc.Candidate, slots int) int {
	by := runClaimant{s, lane}
	tasks := by.tasks(admitter{s.session}.admit(s.base, candidates, by, slots))
	s.begin(tasks)
	return len(tasks)
}

// admitNext acquires the permits of candidates that came with the completion of a task, for its slot. The permits of the task go
// back with the same calls. It returns the task to continue with, or nil.
func (s *workerRun) admitNext(ended *task, candidates []enginerpc.Candidate) *task {
	s.noteReturn(ended)
	by := runClaimant{s, ended.shard.lane}
	tasks := by.tasks(admitter{s.session}.admit(s.base, candidates, by, 1))
	if len(tasks) == 0 {
		return nil
	}
	return tasks[0]
}

// begin acquires the permits of tasks that were leased ahead of them, and starts all tasks.
func (s *workerRun) begin(tasks []*task) {
	s.permits.acquire(tasks...)
	s.launch(tasks)
}

func (s *workerRun) launch(tasks []*task) {
	for _, t := range tasks {
		s.tasks.Go(func() { s.work(t) })
	}
}

// reserve takes up to n free slots for executions that get the permits which others give back.
func (s *workerRun) reserve(n int) int {
	if s.worker.config.through {
		return 0
	}
	return s.queue.reserve(n)
}
