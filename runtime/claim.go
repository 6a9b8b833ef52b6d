package runtime

import (
	"context"
	"log/slog"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// claimPause is how long a lane in a partition rests after a claim that failed.
const claimPause = 200 * time.Millisecond

// claim fills slots from one laneShard, and works in one of them.
func (s *workerRun) claim(ctx context.Context, v claimTarget) {
	if s.worker.config.through {
		s.claimGranted(ctx, v)
		return
	}
	call := enginerpc.ClaimCall{
		Partition: v.partition, ClaimRequest: s.claimRequest(v.lane, v.slots), TellNone: v.shared, TellEmpty: v.early,
		TellMore: v.ringSlot != "", Place: v.ringSlot, List: v.digits, Places: v.ringSlots,
	}
	call.Aside = v.setAside
	if s.peers.size() == 0 {
		call.TellNone, call.TellEmpty, call.TellMore = false, false, false
	}
	var sentAt time.Time
	var reply enginerpc.ClaimReply
	err := s.claimUntilKnown(ctx, func(repeated bool) (err error) {
		call.Repeated, sentAt = repeated, time.Now()
		reply, err = s.session.backend.Claim(s.base, call)
		return err
	})
	if err != nil {
		s.claimFailed(ctx, v, sentAt, err)
		return
	}
	at := v.laneShard
	if v.digits != "" {
		at.partition.Index = uint16(reply.Visited)
	}
	aside := s.queue.resolveHint(v, at)
	s.peers.observeClaim(time.Since(sentAt))
	s.worker.counts.claimed(len(reply.Executions))
	if len(reply.Executions) > 0 {
		s.measureClaim(sentAt, v, outcomeFound)
	} else {
		s.measureClaim(sentAt, v, outcomeEmpty)
	}
	tasks := s.tasksOf(at, reply.Executions, sentAt)
	s.permits.acquire(tasks...)
	// The first task runs in this goroutine, when nothing is left to do that takes long.
	var first *task
	if len(tasks) > 0 && len(reply.Candidates) == 0 {
		first, tasks = tasks[0], tasks[1:]
	}
	s.launch(tasks)
	unused := v.slots - len(reply.Executions)
	if len(reply.Candidates) > 0 {
		unused -= s.admit(v.lane, reply.Candidates, unused)
	}
	s.queue.finishClaim(unused)
	switch {
	case aside && len(reply.Executions) == v.slots:
		s.queue.addSetAside(at)
	case reply.Remaining > 0:
		s.queue.add(at)
	}
	if first != nil {
		s.work(first)
	}
}

// claimFailed puts the shard of a claim that failed back into the queue, after a pause.
func (s *workerRun) claimFailed(ctx context.Context, v claimTarget, sentAt time.Time, err error) {
	s.measureClaim(sentAt, v, outcomeUnanswered)
	s.leases.markUncertain()
	s.session.logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: claim failed", eventClaimFailed.attr(), slog.String("lane", string(v.lane)),
		slog.String("partition", v.partition.Tag()), slog.Any("error", err))
	pause(ctx, claimPause)
	s.queue.dropHint(v)
	s.queue.finishClaim(v.slots)
	if v.setAside {
		s.queue.addSetAside(v.laneShard)
	} else {
		s.queue.add(v.laneShard)
	}
}

// claimUntilKnown sends a claim again as long as it is not known what it has leased and the worker works.
func (s *workerRun) claimUntilKnown(ctx context.Context, call func(repeated bool) error) error {
	again := retryPolicy{pause: claimPause, retryable: isOutcomeUnknown, failed: func(error) { s.leases.markUncertain() }}
	return retryUntilKnown(ctx, again, call)
}

func (s *workerRun) measureClaim(sentAt time.Time, v claimTarget, outcome string) {
	telemetry := s.session.telemetry
	telemetry.record(s.base, telemetry.claims, time.Since(sentAt), labels{"lane", string(v.lane), outcome})
}

func (s *workerRun) claimRequest(lane enginecore.LaneID, count int) enginerpc.ClaimRequest {
	request := s.request
	request.LaneID, request.Count, request.ClaimID = lane, int64(count), randomUUID().String()
	if count > 0 && !s.worker.config.through {
		request.Rooms = s.limits.rooms(s.pools.unused)
	}
	return request
}
