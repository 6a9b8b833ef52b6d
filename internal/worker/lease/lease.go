package lease

import (
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// Lease is an execution that the engine has leased to this worker: its lane and partition, the data of the claim,
// and the end of the lease.
type Lease struct {
	Shard dispatch.LaneShard
	// Source is the shard from which more work of the lane is claimed. It differs from shard where the partitions of a
	// server share the order of a lane.
	Source dispatch.LaneShard
	// Claimed is part of the reply that leased the execution. It does not change while the lease is kept.
	Claimed *enginerpc.ClaimedExecution
	// Begun is when the worker received the lease, by its own clock.
	Begun time.Time
	// ends is the end of the lease as a time.Duration after begun.
	ends atomic.Int64
}

// LeaseEnd returns when this worker treats the lease as lost: a twentieth of its duration before the engine
// can lease the execution again.
func (l *Lease) LeaseEnd() time.Time { return l.Begun.Add(time.Duration(l.ends.Load())) }

// LeaseEnded reports whether this worker treats the lease, as renewed by now, as lost.
func (l *Lease) LeaseEnded() bool { return !time.Now().Before(l.LeaseEnd()) }

// Extend records that a call sent at sentAt has renewed the lease for ttl.
func (l *Lease) Extend(sentAt time.Time, ttl time.Duration) {
	l.ends.Store(int64(sentAt.Add(ttl * 19 / 20).Sub(l.Begun)))
}

// HasEnded reports whether a refusal shows that this same lease has been given up before, in the state that a detail of
// the refusal names, so that only the reply was lost.
func (l *Lease) HasEnded(err error, detail, state string) bool {
	refusal, ok := errors.AsType[*enginecore.Error](err)
	return ok && refusal.Code == enginecore.ErrExecutionNotActive && refusal.Detail(detail) == state &&
		refusal.Detail("attempt_id") == string(l.Claimed.AttemptID) &&
		refusal.Detail("lease_epoch") == strconv.FormatInt(int64(l.Claimed.LeaseEpoch), 10)
}
