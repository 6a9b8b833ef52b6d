package renewal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/sleep"
	"github.com/flowfabric/flowfabric-go/internal/worker/attempt"
	"github.com/flowfabric/flowfabric-go/internal/worker/lease"
)

// Manager holds the tasks of a worker run and renews their leases, with one call for each partition. mu
// guards the fields after it.
type Manager struct {
	run *attempt.Shared
	Config
	ttl time.Duration
	// Known reports whether the worker's live key is set. Without the key, keepers take back permits that the
	// worker holds. A worker that rests has none.
	Known atomic.Bool
	// asked wakes the loop for a renewal ahead of time.
	asked chan struct{}

	mu    sync.Mutex
	tasks map[enginecore.ExecutionID]*attempt.Attempt
	// former are tasks whose function has not returned although the worker has claimed the execution again.
	former map[*attempt.Attempt]struct{}
	// renewing are the partitions in which a renewal is under way.
	renewing map[keyspace.Partition]bool
	// unknown are leases that the last comparison has found for the first time.
	unknown map[keyspace.Partition]map[enginecore.LeaseID]bool
	// early are cancellations of leases that this worker does not know yet: a message can arrive before the
	// reply of the claim.
	early   map[enginecore.LeaseID]earlyCancel
	stopped bool
}

// Config is the worker whose leases are renewed.
type Config struct {
	Instance enginecore.WorkerInstanceID
	// Manual leaves the renewal of leases to the program.
	Manual bool
	// Liveness records when the engine has answered, Resting that the worker checks less often that it is reachable.
	Liveness *observe.Liveness
	Resting  *atomic.Bool
}

// New returns a lease manager without tasks.
func New(s *attempt.Shared, config Config) *Manager {
	return &Manager{
		asked: make(chan struct{}, 1), Config: config,
		run: s, ttl: s.LeaseTTL, tasks: make(map[enginecore.ExecutionID]*attempt.Attempt),
		renewing: make(map[keyspace.Partition]bool),
		unknown:  make(map[keyspace.Partition]map[enginecore.LeaseID]bool),
		early:    make(map[enginecore.LeaseID]earlyCancel),
	}
}

// Register sets the worker's live key, by which keepers see that the instance exists. It repeats the call
// while the engine is unavailable. If the engine's memory is full, the worker runs without the key; only a
// refused authorisation is an error.
func (b *Manager) Register(ctx context.Context) error {
	again := retry.Policy{
		Pause: lease.ClaimPause,
		Retryable: func(err error) bool {
			return !errors.Is(err, enginecore.ErrFull) && !errors.Is(err, enginecore.ErrUnauthorized)
		},
		Failed: func(err error) {
			b.run.Session.Logger.LogAttrs(ctx, slog.LevelWarn,
				"flowfabric: the worker cannot reach the engine and retries",
				observe.EventEngineAway.Attr(), slog.Any("error", err))
		},
	}
	err := retry.UntilKnown(ctx, again, func(bool) error { return b.setLiveKey(ctx) })
	switch {
	case err == nil:
		b.Known.Store(true)
		b.Liveness.Touch()
	case ctx.Err() == nil && errors.Is(err, enginecore.ErrUnauthorized):
		return fmt.Errorf("register worker %s: %w", b.Instance, err)
	}
	return nil
}

// setLiveKey sets the live key for liveTime.
func (b *Manager) setLiveKey(ctx context.Context) error {
	client := b.run.Session.Client
	return enginerpc.ConnectError(client.Do(ctx,
		client.B().Set().Key(b.liveKey()).Value("1").Px(b.liveTime()).Build()).Error())
}

// Deregister removes the live key. If that fails, the key expires.
func (b *Manager) Deregister() {
	ctx, cancel := context.WithTimeout(b.run.Base, time.Second)
	defer cancel()
	client := b.run.Session.Client
	if err := client.Do(ctx, client.B().Del().Key(b.liveKey()).Build()).Error(); err != nil {
		b.run.Session.Logger.LogAttrs(ctx, slog.LevelDebug,
			"flowfabric: the worker could not remove its live key, which expires",
			observe.EventLiveKeyLeft.Attr(), slog.Any("error", err))
	}
}

// liveKey returns the key by which keepers see that this worker instance exists.
func (b *Manager) liveKey() string { return b.run.Core.Keys().WorkerAlive(b.Instance) }

// liveTime returns the time for which the live key lasts without renewal.
func (b *Manager) liveTime() time.Duration { return max(2*b.ttl, time.Second) }

// Add adds a task whose lease is to be renewed. It returns false if AbandonAll was called.
func (b *Manager) Add(t *attempt.Attempt) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return false
	}
	if former := b.tasks[t.Claimed.ExecutionID]; former != nil {
		// The engine ended the earlier lease before its time, for example because its clock was set forward,
		// and it is no longer renewed. If the function has returned, its task is about to be removed.
		if former.Claimed.LeaseID != t.Claimed.LeaseID && former.Settle() {
			former.Cancel(fmt.Errorf("%w: this worker has claimed the execution again", engine.ErrLeaseLost))
		}
		if b.former == nil {
			b.former = make(map[*attempt.Attempt]struct{})
		}
		b.former[former] = struct{}{}
	}
	b.tasks[t.Claimed.ExecutionID] = t
	b.run.Doubt.Wake()
	if order, found := b.early[t.Claimed.LeaseID]; found {
		delete(b.early, t.Claimed.LeaseID)
		t.Awaited.Store(order.awaited)
		if order.cause != nil {
			t.EndedByEngine(order.cause)
		}
	}
	return true
}

// Remove removes a task whose attempt has ended. If the engine waits for that, Remove reports it.
func (b *Manager) Remove(t *attempt.Attempt) {
	if t.Awaited.Load() {
		b.run.Background.Start(t.ReportReturned)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tasks[t.Claimed.ExecutionID] == t {
		delete(b.tasks, t.Claimed.ExecutionID)
	} else {
		delete(b.former, t)
	}
}

// Size returns the number of tasks.
func (b *Manager) Size() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.tasks) + len(b.former)
}

// snapshot returns the tasks by partition, without former ones.
func (b *Manager) snapshot() map[keyspace.Partition][]*attempt.Attempt {
	b.mu.Lock()
	defer b.mu.Unlock()
	held := make(map[keyspace.Partition][]*attempt.Attempt)
	for _, t := range b.tasks {
		held[t.Shard.Partition] = append(held[t.Shard.Partition], t)
	}
	return held
}

// Keep renews the leases and the live key until ctx ends, and ends the contexts of tasks whose leases were not renewed
// in time.
func (b *Manager) Keep(ctx context.Context) {
	renew := time.NewTicker(b.ttl / 3)
	defer renew.Stop()
	check := time.NewTicker(b.ttl / 20)
	defer check.Stop()
	var renewing sync.WaitGroup
	defer renewing.Wait()
	var touching atomic.Bool
	probe := b.probes()
	defer probe.Stop()
	var probing atomic.Bool
	idle := 0 // renewals in a row without anything to renew
	for {
		if idle >= restAfter {
			for _, t := range []*time.Ticker{renew, check, probe} {
				t.Stop()
			}
			b.rest(ctx)
			renew.Reset(b.ttl / 3)
			check.Reset(b.ttl / 20)
			probe = b.probes()
			idle = 0
			renewing.Go(func() {
				b.touchLiveKey(ctx)
				b.Resting.Store(false)
			})
		}
		select {
		case <-ctx.Done():
			return
		case <-probe.C:
			if !b.isIdle() && probing.CompareAndSwap(false, true) {
				renewing.Go(func() {
					defer probing.Store(false)
					b.run.Session.Probe(ctx)
				})
			}
		case <-check.C:
			b.cancelExpired()
			b.checkOverstays()
		case <-b.asked:
			renewing.Go(func() { b.renew(ctx) })
		case <-renew.C:
			if idle++; !b.isIdle() {
				idle = 0
			}
			// Both can block for as long as a server is unavailable; the checks continue during that time.
			renewing.Go(func() { b.renew(ctx) })
			if touching.CompareAndSwap(false, true) {
				renewing.Go(func() {
					defer touching.Store(false)
					b.touchLiveKey(ctx)
				})
			}
		}
	}
}

// RenewSoon renews the leases ahead of time, if there are any: messages that end executions may have been lost, and a
// renewal learns of their ends as well.
func (b *Manager) RenewSoon() {
	if !b.isIdle() {
		sleep.Wake(b.asked)
	}
}

// cancelExpired ends the contexts of tasks whose lease is about to expire, before another worker can claim
// their executions.
func (b *Manager) cancelExpired() {
	now := time.Now()
	for _, tasks := range b.snapshot() {
		for _, t := range tasks {
			if now.After(t.LeaseEnd()) {
				t.Cancel(engine.ErrLeaseLost)
			}
		}
	}
}

// renew renews all leases once, in all partitions at once. A partition whose server does not answer does not delay
// others, and is left out until its call has ended. If a call of the worker has failed since the last time, renew
// compares the leases with the engine's, in the partitions without leases too.
func (b *Manager) renew(ctx context.Context) {
	held := b.snapshot()
	if b.Manual {
		clear(held) // the program renews them
	}
	compare := b.run.Doubt.Take()
	if compare {
		for _, p := range b.run.Session.Partitions() {
			if held[p] == nil {
				held[p] = nil
			}
		}
	}
	deadline, cancel := context.WithTimeout(ctx, b.ttl)
	defer cancel()
	var calls sync.WaitGroup
	errs := make([]error, len(held))
	next := 0
	for p, tasks := range held {
		if !b.beginRenewal(p) {
			if compare {
				b.run.Doubt.Mark()
			}
			continue
		}
		i := next
		next++
		calls.Go(func() {
			defer b.endRenewal(p)
			errs[i] = b.RenewIn(deadline, p, tasks, compare)
		})
	}
	calls.Wait()
	if err := enginerpc.JoinSame("partitions", errs); err != nil && ctx.Err() == nil {
		b.run.Doubt.Mark()
		b.run.Session.Logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: the worker could not renew leases and retries",
			observe.EventRenewalFailed.Attr(), slog.Any("error", err))
	}
}

// beginRenewal notes that a renewal is under way in a partition until endRenewal. It reports false if one was already.
func (b *Manager) beginRenewal(p keyspace.Partition) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.renewing[p] {
		return false
	}
	b.renewing[p] = true
	return true
}

func (b *Manager) endRenewal(p keyspace.Partition) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.renewing, p)
}

// RenewIn renews the leases of one partition.
func (b *Manager) RenewIn(ctx context.Context, p keyspace.Partition, tasks []*attempt.Attempt, compare bool) error {
	sentAt := time.Now()
	reply, err := b.run.Session.Backend.Renew(ctx, b.renewal(p, tasks, compare))
	if err != nil {
		return err
	}
	b.renewed(tasks, reply.Lost, sentAt)
	if compare {
		b.releaseUnknown(p, reply.Orphans)
	}
	return nil
}

// renewal returns the call that renews the leases of one partition.
func (b *Manager) renewal(p keyspace.Partition, tasks []*attempt.Attempt, compare bool) enginerpc.RenewCall {
	call := enginerpc.RenewCall{
		Partition: p, WorkerInstanceID: b.Instance, LeaseTTL: b.ttl, ReportOrphans: compare,
		Leases: make([]enginerpc.RenewLease, len(tasks)),
	}
	for i, t := range tasks {
		call.Leases[i] = enginerpc.RenewLease{
			ExecutionID: t.Claimed.ExecutionID, LeaseID: t.Claimed.LeaseID, LeaseEpoch: t.Claimed.LeaseEpoch,
			AttemptID: t.Claimed.AttemptID,
		}
	}
	return call
}

// renewed extends the leases of tasks by the reply of a renewal, and ends the contexts of those that the
// engine reports as lost.
func (b *Manager) renewed(tasks []*attempt.Attempt, lost []enginerpc.LostLease, sentAt time.Time) {
	codes := make(map[enginecore.ExecutionID]string, len(lost))
	for _, l := range lost {
		codes[l.ExecutionID] = l.Code
	}
	for _, t := range tasks {
		switch code := enginecore.Code(codes[t.Claimed.ExecutionID]); code {
		case "":
			t.ExtendLease(sentAt)
		case enginecore.ErrExecutionNotActive:
			t.Awaited.Store(true) // perhaps: the message was lost
			t.EndedByEngine(fmt.Errorf("%w: it has ended in the engine", engine.ErrCancelled))
		default:
			t.EndedByEngine(fmt.Errorf("%w: %s", engine.ErrLeaseLost, code))
		}
	}
}

// releaseUnknown releases leases that the engine has for this worker in a partition and that the worker does not know,
// because the reply of the claim was lost. It releases a lease when a second comparison finds it, since at the first
// one the reply may be in flight.
func (b *Manager) releaseUnknown(p keyspace.Partition, unknown []enginerpc.HeldLease) {
	seen := make(map[enginecore.LeaseID]bool)
	for _, lease := range unknown {
		b.mu.Lock()
		known := b.tasks[lease.ExecutionID] != nil
		again := b.unknown[p][lease.LeaseID]
		if again && !known {
			// If the reply of the claim arrives after all, the function does not begin.
			b.remember(lease.LeaseID, earlyCancel{cause: fmt.Errorf(
				"%w: the worker released the execution before the reply of the claim came", engine.ErrLeaseLost)})
		}
		b.mu.Unlock()
		switch {
		case known:
		case !again:
			seen[lease.LeaseID] = true
		default:
			_, err := b.run.Session.Backend.Release(b.run.Base, enginerpc.ReleaseCall{
				Partition: p, ExecutionID: lease.ExecutionID, LeaseID: lease.LeaseID, LeaseEpoch: lease.LeaseEpoch,
				AttemptID: lease.AttemptID, Reason: "the reply of the claim was lost",
			})
			b.run.Session.Logger.LogAttrs(b.run.Base, slog.LevelInfo,
				"flowfabric: the worker released an execution whose claim had no reply",
				observe.EventUnknownReleased.Attr(), slog.String("execution", string(lease.ExecutionID)), slog.Any("error", err))
		}
	}
	b.mu.Lock()
	if len(seen) > 0 {
		b.unknown[p] = seen
	} else {
		delete(b.unknown, p)
	}
	b.mu.Unlock()
	if len(seen) > 0 {
		b.run.Doubt.Mark()
	}
}

// touchLiveKey extends the live key and records whether it is set.
func (b *Manager) touchLiveKey(ctx context.Context) {
	running := ctx
	ctx, cancel := context.WithTimeout(ctx, b.ttl)
	defer cancel()
	client := b.run.Session.Client
	err := b.setLiveKey(ctx)
	if err == nil {
		b.Known.Store(true)
	} else if errors.Is(err, enginecore.ErrFull) {
		// Extending an existing key takes no memory.
		var there bool
		there, err = client.Do(ctx,
			client.B().Pexpire().Key(b.liveKey()).Milliseconds(b.liveTime().Milliseconds()).Build()).AsBool()
		b.Known.Store(err == nil && there)
	}
	switch {
	case err == nil:
		b.Liveness.Touch()
	case running.Err() == nil:
		b.run.Doubt.Mark()
	}
}

// checkOverstays checks the functions of all tasks, including former ones.
func (b *Manager) checkOverstays() {
	now := time.Now()
	for _, tasks := range b.snapshot() {
		for _, t := range tasks {
			t.CheckOverstay(now, b.ttl)
		}
	}
	b.mu.Lock()
	former := make([]*attempt.Attempt, 0, len(b.former))
	for t := range b.former {
		former = append(former, t)
	}
	b.mu.Unlock()
	for _, t := range former {
		t.CheckOverstay(now, b.ttl)
	}
}
