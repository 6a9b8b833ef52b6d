// Package journal records the steps and waits of an execution: [Journal] has the recorded results, and [Recorder]
// records the results of one call of a function, in the engine and in the journal.
package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
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
	"github.com/flowfabric/flowfabric-go/internal/payload"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/worker/attempt"
	"github.com/flowfabric/flowfabric-go/internal/worker/completion"
	"github.com/flowfabric/flowfabric-go/internal/worker/lease"
)

// Prefixes of the names of journal entries: results of steps, and results of waits.
const (
	StepEntry  = "once:"
	AwaitEntry = "await:"
)

// Marks at the beginning of the stored result of a wait: one payload, a list of signals, a timeout.
const (
	markPayload  = 'v'
	markList     = 'l'
	markTimedOut = 't'
)

// Journal holds the recorded results of an execution's steps and waits, by entry name. The zero value is
// empty and ready.
type Journal struct {
	mu      sync.Mutex
	entries map[string][]byte
}

// Get returns the value of an entry and reports whether there is one.
func (j *Journal) Get(entry string) ([]byte, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	data, ok := j.entries[entry]
	return data, ok
}

// Put adds or replaces an entry.
func (j *Journal) Put(entry string, data []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.entries == nil {
		j.entries = make(map[string][]byte)
	}
	j.entries[entry] = data
}

// Read fills the journal from the claim, and from the engine if the journal was too large for the
// claim.
func (j *Journal) Read(ctx context.Context, a *attempt.Attempt) error {
	for _, entry := range a.Claimed.Journal {
		if err := j.Take(a, entry); err != nil {
			return err
		}
	}
	if a.Claimed.JournalComplete || !a.Run.Session.IsWhole() {
		return nil
	}
	call := enginerpc.ReadJournalCall{Partition: a.Shard.Partition, ExecutionID: a.Claimed.ExecutionID}
	for {
		var reply enginerpc.ReadJournalReply
		err := a.RetryUntilKnown(ctx, func() (err error) {
			reply, err = a.Run.Core.ReadJournal(ctx, call)
			return err
		})
		if err != nil {
			return fmt.Errorf("read the steps of node %s: %w", a.Claimed.Node, err)
		}
		for _, entry := range reply.Journal {
			if err := j.Take(a, entry); err != nil {
				return err
			}
		}
		if call.Cursor = reply.NextCursor; call.Cursor == "" {
			return nil
		}
	}
}

// Take adds an entry of the engine. The error is the one of payload.Check.
func (j *Journal) Take(a *attempt.Attempt, entry enginerpc.JournalEntry) error {
	value, err := entry.Value, payload.Check(entry.Value)
	head, slot := 0, payload.State
	switch {
	case entry.Name == carriedEntry:
		head = bytes.IndexByte(value, ' ') + 1
	case strings.HasPrefix(entry.Name, AwaitEntry):
		head, slot = min(1, len(value)), payload.Step
	}
	if head > 0 {
		var opened []byte
		opened, err = a.Run.Core.Opened(slot, string(a.Claimed.ExecutionID), value[head:])
		value = slices.Concat(value[:head], opened)
	}
	if err != nil {
		return err
	}
	j.Put(entry.Name, value)
	return nil
}

// Recorder records the steps and waits of one call of a function in the engine and in the journal. It implements
// the part of activitycontext.Steps that concerns them.
type Recorder struct {
	Attempt *attempt.Attempt
	names   activitycontext.StepNames
	Journal *Journal
	// waiting is the first suspension that Await returned to the function; nil before.
	waiting atomic.Pointer[activitycontext.Suspension]
}

// Names implements activitycontext.Steps.
func (r *Recorder) Names() *activitycontext.StepNames { return &r.names }

// Recorded implements activitycontext.Steps.
func (r *Recorder) Recorded(step string) ([]byte, bool) { return r.Journal.Get(StepEntry + step) }

// Record implements activitycontext.Steps.
func (r *Recorder) Record(ctx context.Context, step string, data []byte) ([]byte, error) {
	a := r.Attempt
	store, err := a.Run.Session.Library("activity.Step")
	if err != nil {
		return nil, activity.NonRetryable(err)
	}
	call := enginerpc.RecordStepCall{
		Partition: a.Shard.Partition, ExecutionID: a.Claimed.ExecutionID, LeaseID: a.Claimed.LeaseID,
		LeaseEpoch: a.Claimed.LeaseEpoch, AttemptID: a.Claimed.AttemptID, Step: step, Value: data,
	}
	var reply enginerpc.RecordStepReply
	err = a.RetryUntilKnown(ctx, func() (err error) {
		reply, err = store.RecordStep(ctx, call)
		return err
	})
	if err != nil {
		return nil, lease.StepError(ctx, err)
	}
	r.Journal.Put(StepEntry+step, reply.Value)
	return reply.Value, nil
}

// Await implements activitycontext.Steps.
func (r *Recorder) Await(
	ctx context.Context, step string, wait activitycontext.Wait,
) (activitycontext.Awaited, error) {
	if err := r.readResult(ctx, step, wait); err != nil {
		return activitycontext.Awaited{}, err
	}
	if stored, ok := r.Journal.Get(AwaitEntry + step); ok {
		return decodeAwaited(stored, wait.Collect)
	}
	s := &activitycontext.Suspension{Step: step, Wait: wait}
	r.waiting.CompareAndSwap(nil, s)
	return activitycontext.Awaited{}, s
}

// readResult adds the result of a wait to the journal, if the engine does not store journals.
func (r *Recorder) readResult(ctx context.Context, step string, wait activitycontext.Wait) error {
	a := r.Attempt
	results, stepwise := a.Run.Session.Stepwise()
	if _, known := r.Journal.Get(AwaitEntry + step); !stepwise || known {
		return nil
	}
	if wait.Sleep {
		_, refused := a.Run.Session.Library("activity.Sleep")
		return activity.NonRetryable(refused)
	}
	err := results.CheckText(activityspec.WaitText(wait.Text))
	if err == nil {
		err = a.RetryUntilKnown(ctx, func() error { return results.CheckWait(ctx, submit.ConditionOf(wait)) })
	}
	if errors.Is(err, engine.ErrNotInContract) {
		err = activity.NonRetryable(err)
	}
	if err != nil {
		return fmt.Errorf("await %q: %w", step, err)
	}
	var stored []byte
	err = a.RetryUntilKnown(ctx, func() (err error) {
		stored, err = results.WaitResult(ctx, a.Claimed.ExecutionID, a.Claimed.AttemptIndex, step, wait.Collect)
		return err
	})
	if err == nil && stored != nil {
		r.Journal.Put(AwaitEntry+step, stored)
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
		errors.New("the function waits in another way than it did when the wait began: Await and AwaitSignals do not "+
			"mix"), activityspec.CategoryDecode))
}

// Open implements activitycontext.Steps.
func (r *Recorder) Open(
	ctx context.Context, step string, within time.Duration, text activitycontext.WaitText,
) (string, error) {
	a := r.Attempt
	about, err := submit.EncodeAbout(activityspec.WaitText(text))
	if err != nil {
		return "", activity.NonRetryable(fmt.Errorf("open the waitpoint of %q: %w", step, err))
	}
	if results, stepwise := a.Run.Session.Stepwise(); stepwise {
		if err := results.CheckText(activityspec.WaitText(text)); err != nil {
			return "", activity.NonRetryable(err)
		}
	}
	store := a.Run.Session.Backend
	id := enginecore.WaitpointID(uuid.NewString())
	call := enginerpc.OpenWaitpointCall{
		Partition: a.Shard.Partition, ExecutionID: a.Claimed.ExecutionID, LeaseID: a.Claimed.LeaseID,
		LeaseEpoch: a.Claimed.LeaseEpoch, AttemptID: a.Claimed.AttemptID, Step: step, WaitpointID: id,
		WaitpointKey: submit.WaitpointKey(id),
		ExpiresIn:    within, About: about,
	}
	var reply enginerpc.OpenWaitpointReply
	err = a.RetryUntilKnown(ctx, func() error {
		return a.Run.Session.Secrets.With(ctx, a.Shard.Partition, func() (err error) {
			reply, err = store.OpenWaitpoint(ctx, call)
			return err
		})
	})
	if err != nil {
		return "", lease.StepError(ctx, err)
	}
	token, err := engine.SealToken(a.Claimed.ExecutionID, reply.WaitpointID, reply.WaitpointToken)
	if err != nil {
		return "", err
	}
	return token.Reveal(), nil
}

// carriedEntry is the name of the journal entry of a function that continues as new: the number of its generation, a
// blank, and its state.
const carriedEntry = "carried"

// Carried returns the generation of a function, counted from 1, and the state that it continues with; nil for the
// first.
func (j *Journal) Carried() (generation int64, state []byte, err error) {
	data, ok := j.Get(carriedEntry)
	if !ok {
		return 1, nil, nil
	}
	number, text, ok := strings.Cut(string(data), " ")
	generation, err = strconv.ParseInt(number, 10, 64)
	if err != nil || !ok {
		return 0, nil, completion.Undecodable(fmt.Errorf("the state that the function goes on with is %q", data))
	}
	return generation, []byte(text), nil
}

// CheckSuspension returns activity.ErrAwaitIgnored if Await returned a suspension to the function and the
// function did not return it. Such a function would have continued as if the signal had arrived.
func (r *Recorder) CheckSuspension(err error) error {
	waiting := r.waiting.Load()
	if waiting == nil || completion.SuspensionIn(err) != nil {
		return err
	}
	if err == nil {
		return activity.NonRetryable(fmt.Errorf("%w: it waits at %q, but the function returned without an error",
			activity.ErrAwaitIgnored,
			waiting.Step))
	}
	return activity.NonRetryable(fmt.Errorf("%w: it waits at %q, but the function returned: %w",
		activity.ErrAwaitIgnored, waiting.Step, err))
}
