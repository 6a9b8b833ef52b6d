package renewal

import (
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/engine/transport"
)

const (
	// restAfter is the number of renewals in a row without anything to renew after which a worker rests.
	restAfter = 9
	// RestingLooks is the number of lease durations between two checks of the engine while a worker rests.
	RestingLooks = 3
)

// probes returns the ticker of the probes of the servers. In a quiet session it never ticks.
func (b *Manager) probes() *time.Ticker {
	t := time.NewTicker(transport.ProbeEvery)
	if b.run.Session.Quiet || b.run.Session.InProcess != nil {
		t.Stop()
	}
	return t
}

// isIdle reports whether there is nothing to renew, to check or to compare.
func (b *Manager) isIdle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.tasks) == 0 && len(b.former) == 0 && !b.run.Doubt.IsSet()
}

// rest returns when the worker has a task, when its leases have to be compared with the engine's, or when ctx ends.
// Until then it lets the live key expire, and reads it to check that the engine is reachable, unless the engine has
// recently answered a report of the worker.
func (b *Manager) rest(ctx context.Context) {
	b.Known.Store(false)
	b.Resting.Store(true) // until the live key is set again
	look := time.NewTimer(b.untilLook())
	defer look.Stop()
	if b.run.Session.Quiet {
		look.Stop()
	}
	for ctx.Err() == nil && b.isIdle() {
		select {
		case <-ctx.Done():
		case <-look.C:
			if b.untilLook() == b.ttl {
				b.lookForEngine(ctx)
			}
			look.Reset(b.untilLook())
		case <-b.run.Doubt.Woken:
		}
	}
}

// untilLook returns how long a resting worker waits before it checks the engine: a bit longer than the interval of
// reports with the default lease, counted from the last answer, but at least a lease.
func (b *Manager) untilLook() time.Duration {
	return max(b.ttl, RestingLooks*b.ttl+b.ttl/2-b.Liveness.Silence())
}

// lookForEngine records whether the engine answers.
func (b *Manager) lookForEngine(ctx context.Context) {
	asked, cancel := context.WithTimeout(ctx, b.ttl)
	defer cancel()
	client := b.run.Session.Client
	switch err := client.Do(asked, client.B().Exists().Key(b.liveKey()).Build()).Error(); {
	case err == nil:
		b.Liveness.Touch()
	case ctx.Err() == nil:
		b.run.Doubt.Mark()
	}
}
