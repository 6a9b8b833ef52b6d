package task

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/fleet"
	"github.com/flowfabric/flowfabric-go/internal/payload"
	"github.com/flowfabric/flowfabric-go/internal/valueschema"
	"github.com/flowfabric/flowfabric-go/internal/worker/completion"
)

// Delays until an execution that a worker could not decode may be claimed again: the first one, and the longest.
const firstMisfitDelay, maxMisfitDelay = time.Second, time.Minute

// knownFor is how long the answer counts which other worker has an activity with another input, and maxMisfits how many
// answers and executions are kept.
const knownFor, maxMisfits = 2 * time.Second, 1024

// misfit returns the error of an attempt. If that is an input that does not decode, and another live worker has the
// activity with another input type, or the engine does not answer whether one has, it is a *completion.Misfit; if none
// has, it says how the node can succeed.
func (t *Task) misfit(ctx context.Context, err error) error {
	if errors.Is(err, payload.ErrKeyMissing) && ctx.Err() == nil {
		return t.returned(fmt.Sprintf("worker %s cannot read the input: %v", t.Run.Completer.Instance, err), err, "")
	}
	decode, is := errors.AsType[*activityspec.DecodeError](err)
	handler := t.Services.handlers[t.Claimed.Kind]
	if !is || handler == nil || decode.Activity != handler.Name() || ctx.Err() != nil {
		return err
	}
	lane := string(t.Shard.Lane)
	other, found, unread := t.Services.misfits.other(t.Claimed.Kind, lane, func() (fabrictype.Worker, bool, error) {
		hash := valueschema.Hash(handler.InputType())
		w, found, err := fleet.Decoder(ctx, t.Run.Session, t.Claimed.Kind, lane, hash)
		if errors.Is(err, engine.ErrNotInContract) {
			return w, false, nil
		}
		return w, found, err
	})
	may := "worker " + fleet.Text(other) + " has the activity with another input type"
	switch {
	case unread != nil:
		may = fmt.Sprintf("whether another one can is unknown: %v", unread)
	case !found:
		return fmt.Errorf("%w; no live worker of lane %s has the activity with another input type: rerun the node when one "+
			"runs, or fork the run with an input or result that fits", err, lane)
	}
	return t.returned(fmt.Sprintf("worker %s cannot decode the input: %v; %s", t.Run.Completer.Instance, decode, may),
		decode, other.Instance)
}

// returned is the error of an attempt whose execution the worker returns for a reason. other is the instance of a
// worker that perhaps can make it, if one is known.
func (t *Task) returned(reason string, err error, other string) error {
	m := &completion.Misfit{Reason: reason, Delay: t.Services.misfits.delay(t.Claimed.ExecutionID)}
	t.Log(slog.LevelWarn, observe.EventInputUndecodable, "the worker returns an execution whose input it cannot decode",
		slog.Any("error", err), slog.String("other", other), slog.Duration("delay", m.Delay))
	return m
}

// misfits records the executions that a worker run could not decode, and other workers with their activities. The zero
// value is empty.
type misfits struct {
	mu     sync.Mutex
	known  map[[2]string]decoder // by activity and lane
	counts map[enginecore.ExecutionID]int
}

// decoder is a worker that perhaps can decode the inputs of an activity.
type decoder struct {
	worker fabrictype.Worker
	found  bool
	at     time.Time
}

// other returns another worker with the activity, which look finds. Tasks that need the same answer look once; an error
// is not kept.
func (m *misfits) other(
	kind, lane string, look func() (fabrictype.Worker, bool, error),
) (w fabrictype.Worker, found bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	place := [2]string{kind, lane}
	if d, known := m.known[place]; known && time.Since(d.at) < knownFor {
		return d.worker, d.found, nil
	}
	if w, found, err = look(); err != nil {
		return w, false, err
	}
	if m.known == nil || len(m.known) >= maxMisfits {
		m.known = make(map[[2]string]decoder)
	}
	m.known[place] = decoder{w, found, time.Now()}
	return w, found, nil
}

// delay returns the delay of an execution, which is longer each time.
func (m *misfits) delay(id enginecore.ExecutionID) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.counts == nil || len(m.counts) >= maxMisfits {
		m.counts = make(map[enginecore.ExecutionID]int)
	}
	delay := min(firstMisfitDelay<<min(m.counts[id], 10), maxMisfitDelay)
	m.counts[id]++
	return delay
}
