package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/sleep"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/worker/lease"
)

// attemptOfTakeOver is the type of an attempt whose former worker was lost.
const attemptOfTakeOver = "reclaim"

// isolationPatience is how long a worker claims nothing else until it can run an execution alone. After that, the
// library gives the execution to another worker: TURN_MS in lost_worker.lua.
const isolationPatience = 30 * time.Second

// maxProof bounds provenAfter.
const maxProof = 5 * time.Second

// provenAfter is how long a worker has to live before it takes over executions that have lost more than one worker: a
// program that crashes after its start does not live as long.
func (r *Run) provenAfter() time.Duration { return min(r.worker.config.Lease, maxProof) }

// claim fills free slots from one shard, and runs the first of the claimed tasks in its own goroutine.
func (r *Run) claim(ctx context.Context, v dispatch.ClaimTarget) {
	if r.worker.config.Through {
		r.claimGranted(ctx, v)
		return
	}
	call := enginerpc.ClaimCall{
		Partition: v.Partition, ClaimRequest: r.claimRequest(v.Lane, v.Slots), TellNone: v.Shared, TellEmpty: v.Early,
		TellMore: v.RingSlot != "", Place: v.RingSlot,
	}
	call.Aside = v.SetAside
	call.IsNew = time.Since(r.began) < r.provenAfter()
	// A program that holds tasks decides which of them run together, so no execution runs alone there.
	call.Alone = v.Alone || r.worker.handover != nil
	if v.Alone {
		call.Count = 1
	}
	if r.peers.Size() == 0 {
		call.TellNone, call.TellEmpty, call.TellMore = false, false, false
	}
	var sentAt time.Time
	var reply enginerpc.ClaimReply
	err := r.claimUntilKnown(ctx, func(repeated bool) (err error) {
		call.Repeated, sentAt = repeated, time.Now()
		reply, err = r.Session.Backend.Claim(r.Base, call)
		return err
	})
	if err != nil {
		r.claimFailed(ctx, v, sentAt, err)
		return
	}
	r.peers.ObserveClaim(time.Since(sentAt))
	r.worker.Counts.claimed(len(reply.Executions))
	if len(reply.Executions) > 0 {
		r.measureClaim(sentAt, v, observe.OutcomeFound)
	} else {
		r.measureClaim(sentAt, v, observe.OutcomeEmpty)
	}
	// The first task runs in this goroutine unless the candidates of the reply have to be admitted first.
	alone := v.Alone && len(reply.Executions) == 1 && reply.Executions[0].AttemptType == attemptOfTakeOver
	first := r.launch(v.LaneShard, reply.Executions, sentAt, alone || len(reply.Candidates) == 0)
	if alone {
		r.work(first) // in all slots
		first = nil
	}
	unused := v.Slots - len(reply.Executions)
	if len(reply.Candidates) > 0 {
		unused -= r.admit(v.Lane, reply.Candidates, unused)
	}
	if reply.Suspect && r.worker.handover == nil {
		r.queue.Isolate(v.LaneShard, isolationPatience)
	}
	r.queue.FinishClaim(unused)
	switch {
	case v.SetAside && len(reply.Executions) == v.Slots:
		r.queue.AddSetAside(v.LaneShard)
	case reply.Remaining > 0:
		r.queue.Add(v.LaneShard)
	}
	if first != nil {
		r.work(first)
	}
}

// claimFailed queues the shard of a failed claim again, after a pause.
func (r *Run) claimFailed(ctx context.Context, v dispatch.ClaimTarget, sentAt time.Time, err error) {
	r.measureClaim(sentAt, v, observe.OutcomeUnanswered)
	r.Doubt.Mark()
	r.Session.Logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: the worker could not claim executions and retries",
		observe.EventClaimFailed.Attr(),
		slog.String("lane", string(v.Lane)),
		slog.String("partition", v.Partition.Tag()), slog.Any("error", err))
	sleep.For(ctx, lease.ClaimPause)
	r.queue.FinishClaim(v.Slots)
	if v.SetAside {
		r.queue.AddSetAside(v.LaneShard)
	} else {
		r.queue.Add(v.LaneShard)
	}
}

// claimUntilKnown repeats a claim until its effect is known or ctx is done.
func (r *Run) claimUntilKnown(ctx context.Context, call func(repeated bool) error) error {
	again := retry.Policy{
		Pause: lease.ClaimPause, Retryable: retry.IsOutcomeUnknown, Failed: func(error) { r.Doubt.Mark() },
	}
	return retry.UntilKnown(ctx, again, call)
}

// measureClaim records the duration and the outcome of a claim as a metric.
func (r *Run) measureClaim(sentAt time.Time, v dispatch.ClaimTarget, outcome string) {
	telemetry := r.Session.Telemetry
	telemetry.Record(r.Base, telemetry.Claims, time.Since(sentAt),
		observe.Labels{Key: "lane", Value: string(v.Lane), Outcome: outcome})
}

// claimRequest returns the claim of up to count executions of a lane that goes with a call, under a new claim id.
func (r *Run) claimRequest(lane enginecore.LaneID, count int) enginerpc.ClaimRequest {
	request := r.request
	request.LaneID, request.Count, request.ClaimID = lane, int64(count), submit.RandomUUID().String()
	if count > 0 && !r.worker.config.Through {
		request.Rooms = r.Permits.Rooms()
	}
	return request
}
