package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// attemptOfTakeOver is the type of an attempt whose former worker was lost.
const attemptOfTakeOver = "reclaim"

// isolationPatience is how long a worker claims nothing else until it can run an execution alone. The library asks
// another worker then: TURN_MS in lost_worker.lua.
const isolationPatience = 30 * time.Second

// maxProof bounds provenAfter.
const maxProof = 5 * time.Second

// provenAfter is how long a worker has to live before it takes over what has been lost more than once: a program that
// crashes after its start does not live as long.
func (s *Run) provenAfter() time.Duration { return min(s.worker.config.Lease, maxProof) }

// claim fills free slots from one shard, and runs the first of the claimed tasks in its own goroutine.
func (s *Run) claim(ctx context.Context, v dispatch.ClaimTarget) {
	if s.worker.config.Through {
		s.claimGranted(ctx, v)
		return
	}
	call := enginerpc.ClaimCall{
		Partition: v.Partition, ClaimRequest: s.claimRequest(v.Lane, v.Slots), TellNone: v.Shared, TellEmpty: v.Early,
		TellMore: v.RingSlot != "", Place: v.RingSlot,
	}
	call.Aside = v.SetAside
	call.IsNew = time.Since(s.began) < s.provenAfter()
	// A program that holds tasks decides what runs together, so nothing runs alone there.
	call.Alone = v.Alone || s.worker.handover != nil
	if v.Alone {
		call.Count = 1
	}
	if s.peers.Size() == 0 {
		call.TellNone, call.TellEmpty, call.TellMore = false, false, false
	}
	var sentAt time.Time
	var reply enginerpc.ClaimReply
	err := s.claimUntilKnown(ctx, func(repeated bool) (err error) {
		call.Repeated, sentAt = repeated, time.Now()
		reply, err = s.session.Backend.Claim(s.base, call)
		return err
	})
	if err != nil {
		s.claimFailed(ctx, v, sentAt, err)
		return
	}
	s.peers.ObserveClaim(time.Since(sentAt))
	s.worker.Counts.claimed(len(reply.Executions))
	if len(reply.Executions) > 0 {
		s.measureClaim(sentAt, v, engine.OutcomeFound)
	} else {
		s.measureClaim(sentAt, v, engine.OutcomeEmpty)
	}
	// The first task runs in this goroutine unless the candidates of the reply have to be admitted first.
	alone := v.Alone && len(reply.Executions) == 1 && reply.Executions[0].AttemptType == attemptOfTakeOver
	first := s.launch(v.LaneShard, reply.Executions, sentAt, alone || len(reply.Candidates) == 0)
	if alone {
		s.work(first) // in all slots
		first = nil
	}
	unused := v.Slots - len(reply.Executions)
	if len(reply.Candidates) > 0 {
		unused -= s.admit(v.Lane, reply.Candidates, unused)
	}
	if reply.Suspect && s.worker.handover == nil {
		s.queue.Isolate(v.LaneShard, isolationPatience)
	}
	s.queue.FinishClaim(unused)
	switch {
	case v.SetAside && len(reply.Executions) == v.Slots:
		s.queue.AddSetAside(v.LaneShard)
	case reply.Remaining > 0:
		s.queue.Add(v.LaneShard)
	}
	if first != nil {
		s.work(first)
	}
}

// claimFailed queues the shard of a failed claim again, after a pause.
func (s *Run) claimFailed(ctx context.Context, v dispatch.ClaimTarget, sentAt time.Time, err error) {
	s.measureClaim(sentAt, v, engine.OutcomeUnanswered)
	s.markUncertain()
	s.session.Logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: the worker could not claim executions and retries",
		engine.EventClaimFailed.Attr(),
		slog.String("lane", string(v.Lane)),
		slog.String("partition", v.Partition.Tag()), slog.Any("error", err))
	engine.Sleep(ctx, claimPause)
	s.queue.FinishClaim(v.Slots)
	if v.SetAside {
		s.queue.AddSetAside(v.LaneShard)
	} else {
		s.queue.Add(v.LaneShard)
	}
}

// claimUntilKnown repeats a claim while it is unknown what the claim has leased and ctx is not done.
func (s *Run) claimUntilKnown(ctx context.Context, call func(repeated bool) error) error {
	again := engine.RetryPolicy{Pause: claimPause, Retryable: engine.IsOutcomeUnknown, Failed: func(error) { s.markUncertain() }}
	return engine.RetryUntilKnown(ctx, again, call)
}

// measureClaim records the duration and the outcome of a claim as a metric.
func (s *Run) measureClaim(sentAt time.Time, v dispatch.ClaimTarget, outcome string) {
	telemetry := s.session.Telemetry
	telemetry.Record(s.base, telemetry.Claims, time.Since(sentAt),
		engine.Labels{Key: "lane", Value: string(v.Lane), Outcome: outcome})
}

// claimRequest returns the claim of up to count executions of a lane that goes with a call, under a claim id
// of its own.
func (s *Run) claimRequest(lane enginecore.LaneID, count int) enginerpc.ClaimRequest {
	request := s.request
	request.LaneID, request.Count, request.ClaimID = lane, int64(count), submit.RandomUUID().String()
	if count > 0 && !s.worker.config.Through {
		request.Rooms = s.limits.rooms(s.pools.unused)
	}
	return request
}
