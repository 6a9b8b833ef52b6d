// Package lease describes an execution that the engine has leased to a worker: the reply of the claim, the shard and
// the end of the lease; the errors of calls that need a lease; and whether the engine may have leases that the worker
// does not know.
package lease

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/sleep"
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

// Pauses between two tries of a call while the engine is unavailable.
const (
	// ReportPause is the pause of calls for a leased execution.
	ReportPause = 100 * time.Millisecond
	// ClaimPause is the pause between tries of a claim, and the pause of a shard after a failed claim.
	ClaimPause = 200 * time.Millisecond
)

// IsFence reports whether an error means that the caller does not hold the lease of the execution.
func IsFence(err error) bool {
	for _, code := range []enginecore.Code{
		enginecore.ErrExecutionNotActive, enginecore.ErrLeaseRevoked, errorcode.LeaseExpired,
		enginecore.ErrStaleLease,
		enginecore.ErrExecutionNotFound,
	} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

// StepError returns the error that a function gets if the engine did not record its step.
func StepError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, errorcode.JournalFull):
		err = fmt.Errorf("%w: activity.ContinueAsNew goes on with an empty journal", err)
		return activity.NonRetryable(activity.Category(err, engine.CategoryJournalFull))
	case retry.IsUnavailable(err):
		return err
	case IsFence(err):
		return fmt.Errorf("%w: %w", engine.ErrLeaseLost, err)
	}
	return activity.NonRetryable(err)
}

// Uncertainty is set by a failed call, after which the engine may have leases that the worker does not know. The next
// renewal compares the leases then. The zero value wakes nothing.
type Uncertainty struct {
	set atomic.Bool
	// Woken has a value when the renewals may have something to do again.
	Woken chan struct{}
}

// Mark makes the next renewal compare the worker's leases with the engine's.
func (u *Uncertainty) Mark() {
	u.set.Store(true)
	u.Wake()
}

// Wake wakes renewals that rest.
func (u *Uncertainty) Wake() { sleep.Wake(u.Woken) }

// Take reports whether leases are to be compared, and expects that they are.
func (u *Uncertainty) Take() bool { return u.set.Swap(false) }

// IsSet reports whether leases are to be compared.
func (u *Uncertainty) IsSet() bool { return u.set.Load() }
