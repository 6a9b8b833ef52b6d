package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// Prefixes of the names of journal entries: results of steps, and results of waits.
const (
	stepEntry  = "once:"
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

// read fills the journal from the claim, and from the engine if the journal was too large for the
// claim.
func (j *journal) read(ctx context.Context, a *attempt) error {
	for _, entry := range a.claimed.Journal {
		j.put(entry.Name, entry.Value)
	}
	if a.claimed.JournalComplete || !engine.Has[engine.StepStore](a.run.session.Backend) {
		return nil
	}
	call := enginerpc.ReadJournalCall{Partition: a.shard.Partition, ExecutionID: a.claimed.ExecutionID}
	for {
		var reply enginerpc.ReadJournalReply
		err := a.retryUntilKnown(ctx, func() (err error) {
			reply, err = a.run.core.ReadJournal(ctx, call)
			return err
		})
		if err != nil {
			return fmt.Errorf("read the steps of node %s: %w", a.claimed.Node, err)
		}
		for _, entry := range reply.Journal {
			j.put(entry.Name, entry.Value)
		}
		if call.Cursor = reply.NextCursor; call.Cursor == "" {
			return nil
		}
	}
}

// stepRecorder records the steps and waits of one call of a function in the engine and in the journal. It implements
// the part of activitycontext.Steps that concerns them.
type stepRecorder struct {
	attempt *attempt
	names   activitycontext.StepNames
	journal *journal
	// waiting is the first suspension that Await returned to the function; nil before.
	waiting atomic.Pointer[activitycontext.Suspension]
}

// Names implements activitycontext.Steps.
func (r *stepRecorder) Names() *activitycontext.StepNames { return &r.names }

// Recorded implements activitycontext.Steps.
func (r *stepRecorder) Recorded(step string) ([]byte, bool) { return r.journal.get(stepEntry + step) }

// Record implements activitycontext.Steps.
func (r *stepRecorder) Record(ctx context.Context, step string, data []byte) ([]byte, error) {
	a := r.attempt
	store, err := engine.Capability[engine.StepStore](a.run.session.Backend)
	if err != nil {
		return nil, activity.NonRetryable(fmt.Errorf("%w: activity.Step", err))
	}
	call := enginerpc.RecordStepCall{
		Partition: a.shard.Partition, ExecutionID: a.claimed.ExecutionID, LeaseID: a.claimed.LeaseID,
		LeaseEpoch: a.claimed.LeaseEpoch, AttemptID: a.claimed.AttemptID, Step: step, Value: data,
	}
	var reply enginerpc.RecordStepReply
	err = a.retryUntilKnown(ctx, func() (err error) {
		reply, err = store.RecordStep(ctx, call)
		return err
	})
	if err != nil {
		return nil, stepError(ctx, err)
	}
	r.journal.put(stepEntry+step, reply.Value)
	return reply.Value, nil
}

// Await implements activitycontext.Steps.
func (r *stepRecorder) Await(
	ctx context.Context, step string, wait activitycontext.Wait,
) (activitycontext.Awaited, error) {
	if err := r.readResult(ctx, step, wait); err != nil {
		return activitycontext.Awaited{}, err
	}
	if stored, ok := r.journal.get(awaitEntry + step); ok {
		return decodeAwaited(stored, wait.Collect)
	}
	s := &activitycontext.Suspension{Step: step, Wait: wait}
	r.waiting.CompareAndSwap(nil, s)
	return activitycontext.Awaited{}, s
}

// readResult adds what a wait has brought to the journal, where the engine keeps no journal.
func (r *stepRecorder) readResult(ctx context.Context, step string, wait activitycontext.Wait) error {
	a := r.attempt
	results, err := engine.Capability[engine.WaitResults](a.run.session.Backend)
	if _, known := r.journal.get(awaitEntry + step); err != nil || known {
		return nil
	}
	if wait.Sleep {
		return activity.NonRetryable(fmt.Errorf("%w: activity.Sleep", engine.ErrNotInContract))
	}
	err = results.CheckText(activityspec.WaitText(wait.Text))
	if err == nil {
		err = a.retryUntilKnown(ctx, func() error { return results.CheckWait(ctx, submit.ConditionOf(wait)) })
	}
	if errors.Is(err, engine.ErrNotInContract) {
		err = activity.NonRetryable(err)
	}
	if err != nil {
		return fmt.Errorf("await %q: %w", step, err)
	}
	var stored []byte
	err = a.retryUntilKnown(ctx, func() (err error) {
		stored, err = results.WaitResult(ctx, a.claimed.ExecutionID, a.claimed.AttemptIndex, step, wait.Collect)
		return err
	})
	if err == nil && stored != nil {
		r.journal.put(awaitEntry+step, stored)
	}
	return err
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
func (r *stepRecorder) Open(
	ctx context.Context, step string, within time.Duration, text activitycontext.WaitText,
) (string, error) {
	a := r.attempt
	about, err := submit.EncodeAbout(activityspec.WaitText(text))
	if err != nil {
		return "", activity.NonRetryable(fmt.Errorf("open the waitpoint of %q: %w", step, err))
	}
	if results, err := engine.Capability[engine.WaitResults](a.run.session.Backend); err == nil {
		if err := results.CheckText(activityspec.WaitText(text)); err != nil {
			return "", activity.NonRetryable(err)
		}
	}
	store, err := engine.Capability[engine.WaitStore](a.run.session.Backend)
	if err != nil {
		return "", activity.NonRetryable(err)
	}
	id := enginecore.WaitpointID(uuid.NewString())
	call := enginerpc.OpenWaitpointCall{
		Partition: a.shard.Partition, ExecutionID: a.claimed.ExecutionID, LeaseID: a.claimed.LeaseID,
		LeaseEpoch: a.claimed.LeaseEpoch, AttemptID: a.claimed.AttemptID, Step: step, WaitpointID: id,
		WaitpointKey: submit.WaitpointKey(id),
		ExpiresIn:    within, About: about,
	}
	var reply enginerpc.OpenWaitpointReply
	err = a.retryUntilKnown(ctx, func() error {
		return a.run.session.Secrets.With(ctx, a.shard.Partition, func() (err error) {
			reply, err = store.OpenWaitpoint(ctx, call)
			return err
		})
	})
	if err != nil {
		return "", stepError(ctx, err)
	}
	token, err := engine.SealToken(a.claimed.ExecutionID, reply.WaitpointID, reply.WaitpointToken)
	if err != nil {
		return "", err
	}
	return token.Reveal(), nil
}
