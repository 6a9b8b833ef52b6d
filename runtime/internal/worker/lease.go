package worker

import (
	"sync/atomic"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/dispatch"
)

// lease is an execution that the engine has leased to this worker: its place, what the claim brought, and how long it lasts.
type lease struct {
	shard   dispatch.LaneShard
	claimed enginerpc.ClaimedExecution
	Begun   time.Time
	// ends is the end of the lease, as a time.Duration after begun.
	ends atomic.Int64
}

// leaseEnd is when the lease counts as lost here: a twentieth before the engine may give it away.
func (l *lease) leaseEnd() time.Time { return l.Begun.Add(time.Duration(l.ends.Load())) }

// extend notes that a call has renewed the lease for a time; it was sent at the given time.
func (l *lease) extend(sentAt time.Time, ttl time.Duration) {
	l.ends.Store(int64(sentAt.Add(ttl * 19 / 20).Sub(l.Begun)))
}
