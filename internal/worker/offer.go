package worker

import (
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// Offer implements engine.LocalWorker. A worker whose program takes the tasks, or that claims by grants only, makes no
// offers, and neither does one that waits to run an execution alone.
func (r *Run) Offer(lane enginecore.LaneID, kind string, p keyspace.Partition, n int) (engine.Offer, bool) {
	serves := slices.Contains(r.worker.config.Lanes, string(lane)) && r.worker.Knows(kind)
	if !serves || r.worker.handover != nil || r.worker.config.Through {
		return engine.Offer{}, false
	}
	slots := r.queue.Reserve(n)
	if slots == 0 {
		return engine.Offer{}, false
	}
	r.tasks.Add(1)
	from := r.sourceOf(lane, p)
	take := func(leased engine.Leased, sentAt time.Time, err error) {
		defer r.tasks.Done()
		if err != nil && retry.IsOutcomeUnknown(err) {
			r.Doubt.Mark()
		}
		r.take(from, leased, sentAt, slots)
	}
	return engine.Offer{Claim: r.claimRequest(lane, slots), Take: take}, true
}

// take runs the executions that a start has leased for reserved slots, and frees the slots that are left.
func (r *Run) take(from dispatch.LaneShard, leased engine.Leased, sentAt time.Time, slots int) {
	r.launch(from, leased.Executions, sentAt, false)
	unused := slots - len(leased.Executions)
	if len(leased.Candidates) > 0 {
		r.tasks.Go(func() { r.queue.Restore(unused - r.admit(from.Lane, leased.Candidates, unused)) })
	} else {
		r.queue.Restore(unused)
	}
	if leased.Remaining {
		r.queue.Add(from)
	}
}

// Serves implements [engine.LocalWorker].
func (r *Run) Serves(lane enginecore.LaneID, kind string) bool {
	return r.worker.Knows(kind) && slices.Contains(r.worker.config.Lanes, string(lane))
}
