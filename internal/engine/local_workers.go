package engine

import (
	"slices"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// LocalWorkers are the workers that run in the process of a session. A start leases the first nodes of its runs to one
// of them in the same call, if it has free slots. The zero value has no workers. It is safe for concurrent use.
type LocalWorkers struct {
	mu      sync.Mutex
	workers []LocalWorker
	next    int // the worker that is asked first
}

// LocalWorker is a worker of this process.
type LocalWorker interface {
	// Offer reserves up to n slots for executions of a kind in a lane. It returns false without a free slot, or if the
	// worker does not run such executions. p is the partition of the call that leases them. The caller calls Take once.
	Offer(lane enginecore.LaneID, kind string, p keyspace.Partition, n int) (Offer, bool)
	// Serves reports whether the worker runs executions of a kind in a lane.
	Serves(lane enginecore.LaneID, kind string) bool
}

// Offer is an offer of slots.
type Offer struct {
	// Claim is the request that goes with the call.
	Claim enginerpc.ClaimRequest
	// Take runs the executions in the reply to a call that was sent at sentAt, and frees the other slots. With an
	// error, the call may have leased executions nevertheless.
	Take func(leased Leased, sentAt time.Time, err error)
}

// Leased are the executions in the reply to a call with a claim.
type Leased struct {
	Executions []enginerpc.ClaimedExecution
	Candidates []enginerpc.Candidate
	Remaining  bool // further executions wait in the lane
}

// Add makes a worker known, until the returned function is called.
func (l *LocalWorkers) Add(w LocalWorker) (remove func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.workers = append(slices.Clip(l.workers), w)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if i := slices.Index(l.workers, w); i >= 0 {
			l.workers = slices.Concat(l.workers[:i], l.workers[i+1:])
		}
	}
}

// Serve reports whether one of the workers runs executions of a kind in a lane.
func (l *LocalWorkers) Serve(lane enginecore.LaneID, kind string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.workers, func(w LocalWorker) bool { return w.Serves(lane, kind) })
}

// Offer returns the offer of one of the workers, which take turns.
func (l *LocalWorkers) Offer(lane enginecore.LaneID, kind string, p keyspace.Partition, n int) (Offer, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range l.workers {
		l.next = (l.next + 1) % len(l.workers)
		if offer, ok := l.workers[l.next].Offer(lane, kind, p, n); ok {
			return offer, true
		}
	}
	return Offer{}, false
}
