package runtime

import (
	"context"
	"log/slog"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// claimPause is how long a lane in a partition rests after a claim that failed.
const claimPause = 200 * time.Millisecond

// claim fills slots from one spot, and works in one of them.
func (s *shift) claim(ctx context.Context, v visit) {
	if s.worker.config.through {
		s.claimGranted(ctx, v)
		return
	}
	call := enginecore.ClaimCall{
		Partition: v.partition, ClaimRequest: s.claimRequest(v.lane, v.slots), TellNone: v.heard, TellEmpty: v.first,
		TellMore: v.place != "", Place: v.place, List: v.list, Places: v.places,
	}
	call.Aside = v.aside
	if s.crowd.size() == 0 {
		call.TellNone, call.TellEmpty, call.TellMore = false, false, false
	}
	var sentAt time.Time
	var reply enginecore.ClaimReply
	err := s.claimUntilKnown(ctx, func(repeated bool) (err error) {
		call.Repeated, sentAt = repeated, time.Now()
		reply, err = s.session.calls.Claim(s.base, call)
		return err
	})
	if err != nil {
		s.claimFailed(ctx, v, sentAt, err)
		return
	}
	at := v.spot
	if v.list != "" {
		at.partition.Index = uint16(reply.Visited)
	}
	aside := s.board.visited(v, at)
	s.crowd.claimTook(time.Since(sentAt))
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
	s.board.claimed(unused)
	switch {
	case aside && len(reply.Executions) == v.slots:
		s.board.addAside(at)
	case reply.Remaining > 0:
		s.board.add(at)
	}
	if first != nil {
		s.work(first)
	}
}

// claimFailed puts the shard of a claim that failed back into the queue, after a pause.
func (s *shift) claimFailed(ctx context.Context, v visit, sentAt time.Time, err error) {
	s.measureClaim(sentAt, v, outcomeUnanswered)
	s.leases.markUncertain()
	s.session.logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: claim failed", eventClaimFailed.attr(), slog.String("lane", string(v.lane)),
		slog.String("partition", v.partition.Tag()), slog.Any("error", err))
	pause(ctx, claimPause)
	s.board.notVisited(v)
	s.board.claimed(v.slots)
	if v.aside {
		s.board.addAside(v.spot)
	} else {
		s.board.add(v.spot)
	}
}

// claimUntilKnown sends a claim again as long as it is not known what it has leased and the worker works.
func (s *shift) claimUntilKnown(ctx context.Context, call func(repeated bool) error) error {
	again := retryPolicy{pause: claimPause, retryable: isOutcomeUnknown, failed: func(error) { s.leases.markUncertain() }}
	return retryUntilKnown(ctx, again, call)
}

func (s *shift) measureClaim(sentAt time.Time, v visit, outcome string) {
	telemetry := s.session.telemetry
	telemetry.record(s.base, telemetry.claims, time.Since(sentAt), labels{"lane", string(v.lane), outcome})
}

func (s *shift) claimRequest(lane enginecore.LaneID, count int) enginecore.ClaimRequest {
	request := s.request
	request.LaneID, request.Count, request.ClaimID = lane, int64(count), randomUUID().String()
	if count > 0 && !s.worker.config.through {
		request.Rooms = s.limits.rooms(s.pools.unused)
	}
	return request
}
