package renewal

import (
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/worker/completion"
)

// earlyCancel is a cancellation that arrived before its task, and when. A nil cause means that an end was only
// announced.
type earlyCancel struct {
	cause   error
	awaited bool
	at      time.Time
}

// maxEarly bounds the cancellations that are kept for tasks that have not arrived.
const maxEarly = 1024

// Cancel ends the context of a task whose execution the engine has ended, with the cause in the control message. If
// the task is unknown, the cancellation is kept for it.
func (b *Manager) Cancel(m enginerpc.CancelMessage) {
	cause := causeOf(m)
	b.mu.Lock()
	t := b.tasks[m.ExecutionID]
	if t == nil || t.Claimed.LeaseID != m.LeaseID {
		b.remember(m.LeaseID, earlyCancel{cause: cause})
		b.mu.Unlock()
		return
	}
	b.mu.Unlock()
	t.EndedByEngine(cause)
}

// Await makes the worker report to the engine when the function of a task has returned whose execution the engine is
// about to end.
func (b *Manager) Await(m enginerpc.AwaitedMessage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.tasks[m.ExecutionID]; t != nil && t.Claimed.LeaseID == m.LeaseID {
		t.Awaited.Store(true)
		return
	}
	b.remember(m.LeaseID, earlyCancel{awaited: true})
}

// causeOf returns the cause for contexts that a control message ends. The reason of a cancel is only a text of its
// caller, even if it equals a reason of the engine.
func causeOf(m enginerpc.CancelMessage) error {
	switch m.Kind {
	case engine.StopRevoked:
		return fmt.Errorf("%w: %s", engine.ErrLeaseLost, m.Reason)
	case engine.StopExpired:
		if implied := engine.ImpliedError(m.Reason); implied != nil {
			return implied
		}
	}
	return fmt.Errorf("%w: %s", engine.ErrCancelled, m.Reason)
}

// remember keeps a cancellation for a task that has not arrived. When there are too many, those older than a lease are
// dropped. The caller holds the lock.
func (b *Manager) remember(lease enginecore.LeaseID, order earlyCancel) {
	now := time.Now()
	if len(b.early) >= maxEarly {
		for id, order := range b.early {
			if now.Sub(order.at) > b.ttl || len(b.early) >= 2*maxEarly {
				delete(b.early, id)
			}
		}
	}
	order.at, order.awaited = now, order.awaited || b.early[lease].awaited
	b.early[lease] = order
}

// StopAll ends the contexts of all tasks.
func (b *Manager) StopAll(cause error) {
	for _, tasks := range b.snapshot() {
		for _, t := range tasks {
			t.Cancel(cause)
		}
	}
}

// AbandonAll releases the executions whose functions have not returned, and returns the names of their tasks.
func (b *Manager) AbandonAll() []string {
	b.mu.Lock()
	b.stopped = true
	b.mu.Unlock()
	var names []string
	for _, tasks := range b.snapshot() {
		for _, t := range tasks {
			if t.Settle() {
				names = append(names, t.Name())
				t.Report(completion.Released(completion.ReasonStopped), 0)
			}
		}
	}
	return names
}
