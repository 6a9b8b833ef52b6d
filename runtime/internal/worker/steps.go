package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/submit"
)

// Prefixes of the names of journal entries: results of steps, and results of waits.
const (
	onceEntry  = "once:"
	awaitEntry = "await:"
)

// Marks at the beginning of the stored result of a wait: one payload, a list of signals, a timeout.
const (
	markPayload  = 'v'
	markList     = 'l'
	markTimedOut = 't'
)

// journal holds the recorded results of an execution's steps and waits, by entry name. The zero value is
// empty and ready.
type journal struct {
	mu      sync.Mutex
	entries map[string][]byte
}

// get returns the value of an entry and reports whether there is one.
func (j *journal) get(entry string) ([]byte, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	data, ok := j.entries[entry]
	return data, ok
}

// put adds or replaces an entry.
func (j *journal) put(entry string, data []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.entries == nil {
		j.entries = make(map[string][]byte)
	}
	j.entries[entry] = data
}

// readJournal fills the journal from the claim, and from the engine if the journal was too large for the
// claim.
func (t *Task) readJournal(ctx context.Context) error {
	for _, entry := range t.claimed.Journal {
		t.journal.put(entry.Name, entry.Value)
	}
	if t.claimed.JournalComplete || !engine.Has[engine.WaitStore](t.run.Session.Backend) {
		return nil
	}
	call := enginerpc.ReadJournalCall{Partition: t.shard.Partition, ExecutionID: t.claimed.ExecutionID}
	for {
		var reply enginerpc.ReadJournalReply
		err := t.retryUntilKnown(ctx, func() (err error) {
			reply, err = t.run.core.ReadJournal(ctx, call)
			return err
		})
		if err != nil {
			return fmt.Errorf("read the steps of node %s: %w", t.claimed.Node, err)
		}
		for _, entry := range reply.Journal {
			t.journal.put(entry.Name, entry.Value)
		}
		if call.Cursor = reply.NextCursor; call.Cursor == "" {
			return nil
		}
	}
}

// stepCounts counts the steps of one call of a function, by kind and name.
type stepCounts struct {
	mu     sync.Mutex
	counts map[string]int
}

// Count implements activitycontext.Steps.
func (s *stepCounts) Count(kind, name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		s.counts = make(map[string]int, 1)
	}
	s.counts[kind+":"+name]++
	return s.counts[kind+":"+name]
}

// Counted implements activitycontext.Steps.
func (s *stepCounts) Counted(kind, name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[kind+":"+name]
}

// Recorded implements activitycontext.Steps.
func (e *execution) Recorded(step string) ([]byte, bool) { return e.task.journal.get(onceEntry + step) }

// Record implements activitycontext.Steps.
func (e *execution) Record(ctx context.Context, step string, data []byte) ([]byte, error) {
	t := e.task
	if err := t.requireWaits(); err != nil {
		return nil, err
	}
	call := enginerpc.RecordStepCall{
		Partition: t.shard.Partition, ExecutionID: t.claimed.ExecutionID, LeaseID: t.claimed.LeaseID,
		LeaseEpoch: t.claimed.LeaseEpoch, AttemptID: t.claimed.AttemptID, Step: step, Value: data,
	}
	var reply enginerpc.RecordStepReply
	err := t.retryUntilKnown(ctx, func() (err error) {
		reply, err = t.run.core.RecordStep(ctx, call)
		return err
	})
	if err != nil {
		return nil, stepError(ctx, err)
	}
	t.journal.put(onceEntry+step, reply.Value)
	return reply.Value, nil
}

// Await implements activitycontext.Steps.
func (e *execution) Await(_ context.Context, step string, wait activitycontext.Wait) (activitycontext.Awaited, error) {
	if err := e.task.requireWaits(); err != nil {
		return activitycontext.Awaited{}, err
	}
	if stored, ok := e.task.journal.get(awaitEntry + step); ok {
		return decodeAwaited(stored, wait.Collect)
	}
	s := &activitycontext.Suspension{Step: step, Wait: wait}
	e.waiting.CompareAndSwap(nil, s)
	return activitycontext.Awaited{}, s
}

// decodeAwaited decodes the journal entry of a wait. It fails if the entry has one payload and the function
// collects a list, or the other way round: an operator can set either, and the code can have changed since
// the wait began.
func decodeAwaited(stored []byte, collect bool) (activitycontext.Awaited, error) {
	if len(stored) == 0 {
		return activitycontext.Awaited{}, fmt.Errorf("the record of the wait is empty")
	}
	switch mark := stored[0]; {
	case mark == markTimedOut:
		return activitycontext.Awaited{TimedOut: true}, nil
	case mark == markPayload && !collect, mark == markList && collect:
		return activitycontext.Awaited{Data: stored[1:]}, nil
	}
	return activitycontext.Awaited{}, activity.NonRetryable(activity.Category(
		errors.New("the function waits in another way than it did when the wait began: Await and AwaitSignals do not mix"), activity.CategoryDecode))
}

// Open implements activitycontext.Steps.
func (e *execution) Open(ctx context.Context, step string, within time.Duration) (string, error) {
	t := e.task
	if err := t.requireWaits(); err != nil {
		return "", err
	}
	id := enginecore.WaitpointID(uuid.NewString())
	call := enginerpc.OpenWaitpointCall{
		Partition: t.shard.Partition, ExecutionID: t.claimed.ExecutionID, LeaseID: t.claimed.LeaseID,
		LeaseEpoch: t.claimed.LeaseEpoch, AttemptID: t.claimed.AttemptID, Step: step, WaitpointID: id, WaitpointKey: submit.WaitpointKey(id),
		ExpiresIn: within,
	}
	var reply enginerpc.OpenWaitpointReply
	err := t.retryUntilKnown(ctx, func() error {
		return t.run.Session.Secrets.With(ctx, t.shard.Partition, func() (err error) {
			reply, err = t.run.core.OpenWaitpoint(ctx, call)
			return err
		})
	})
	if err != nil {
		return "", stepError(ctx, err)
	}
	token, err := engine.SealToken(t.claimed.ExecutionID, reply.WaitpointID, reply.WaitpointToken)
	if err != nil {
		return "", err
	}
	return token.Reveal(), nil
}

// Emit implements activitycontext.Steps.
func (e *execution) Emit(ctx context.Context, frame activitycontext.Frame) error {
	return e.task.output().emit(ctx, frame)
}

var _ activitycontext.Steps = (*execution)(nil)

// requireWaits returns engine.ErrNotInContract in contract mode, where no function stores steps and waits.
func (t *Task) requireWaits() error {
	if !engine.Has[engine.WaitStore](t.run.Session.Backend) {
		return activity.NonRetryable(fmt.Errorf("%w: steps and waits", engine.ErrNotInContract))
	}
	return nil
}

// stepError returns the error that a function gets if the engine did not record its step.
func stepError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, enginecore.ErrJournalFull):
		return activity.NonRetryable(activity.Category(err, engine.CategoryJournalFull))
	case engine.IsUnavailable(err):
		return err
	case isFence(err):
		return fmt.Errorf("%w: %w", engine.ErrLeaseLost, err)
	}
	return activity.NonRetryable(err)
}
