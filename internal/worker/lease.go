package worker

import (
	"sync/atomic"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// lease is an execution that the engine has leased to this worker: its lane and partition, the data of the claim,
// and the end of the lease.
type lease struct {
	shard dispatch.LaneShard
	// source is the shard from which more work of the lane is claimed. It differs from shard where the partitions of a
	// server share the order of a lane.
	source dispatch.LaneShard
	// claimed is part of the reply that leased the execution. It does not change while the lease is kept.
	claimed *enginerpc.ClaimedExecution
	// begun is when the worker received the lease, by its own clock.
	begun time.Time
	// ends is the end of the lease as a time.Duration after Begun.
	ends atomic.Int64
}

// leaseEnd returns when this worker treats the lease as lost: a twentieth of its duration before the engine
// can lease the execution again.
func (l *lease) leaseEnd() time.Time { return l.begun.Add(time.Duration(l.ends.Load())) }

// leaseEnded reports whether this worker treats the lease, as renewed by now, as lost.
func (l *lease) leaseEnded() bool { return !time.Now().Before(l.leaseEnd()) }

// extend records that a call sent at sentAt has renewed the lease for ttl.
func (l *lease) extend(sentAt time.Time, ttl time.Duration) {
	l.ends.Store(int64(sentAt.Add(ttl * 19 / 20).Sub(l.begun)))
}
