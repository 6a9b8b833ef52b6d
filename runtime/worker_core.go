package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/metric"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
)

// worker is what a worker is apart from a run: its configuration, the activities that it knows, and what it has done.
type worker struct {
	session  *session
	config   workerConfig
	instance enginecore.WorkerInstanceID
	fault    error // of the options
	counts   workerCounts
	liveness liveness
	// joinKeeper announces a run to the keeper that the workers of a session share, or only to the watch for keepers if the worker is
	// to have none. leave ends that and returns what went wrong.
	joinKeeper func(keeperless bool) (leave func() error)

	mu       sync.Mutex
	handlers map[string]activity.Handler
	running  bool
}

type workerConfig struct {
	id           string
	slots        int
	lanes        []string
	capabilities []string
	lease        time.Duration
	grace        time.Duration
	onBudget     func(context.Context, reportedBreach)
	granter      func(context.Context, grantRequest) (issuedGrant, error)
	through      bool // grants only
	// sweep is how often the worker looks into every partition if it is alone; 0 is what suits the engine.
	sweep      time.Duration
	keeperless bool
}

func newWorker(s *session, config workerConfig, fault error) *worker {
	return &worker{
		session: s, config: config, instance: enginecore.WorkerInstanceID(config.id + "-" + uuid.NewString()), fault: fault,
		handlers: make(map[string]activity.Handler),
	}
}

// register adds activities, before run, and reports all faults of them and of the options.
func (w *worker) register(handlers []activity.Handler) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running {
		return fmt.Errorf("%w: the worker is running already", ErrRegistration)
	}
	var faults []error
	if w.fault != nil {
		faults = append(faults, w.fault)
	}
	for i, h := range handlers {
		if h == nil {
			faults = append(faults, fmt.Errorf("%w: the one at position %d is nil", ErrRegistration, i))
			continue
		}
		if err := h.Err(); err != nil {
			faults = append(faults, fmt.Errorf("%w: %w", ErrRegistration, err))
			continue
		}
		for _, name := range append([]string{h.Name()}, h.Aliases()...) {
			if other := w.handlers[name]; other != nil && other != h {
				faults = append(faults, fmt.Errorf("%w: the name %q is taken by another activity, %q", ErrRegistration, name, other.Name()))
				continue
			}
			w.handlers[name] = h
		}
	}
	return errors.Join(faults...)
}

// kinds is the text by which the engine knows what this worker can run.
func (w *worker) kinds() string {
	return "\n" + strings.Join(w.activities(), "\n") + "\n"
}

// activities are the names of what the worker knows.
func (w *worker) activities() []string {
	names := make([]string, 0, len(w.handlers)+2)
	names = append(names, mapKind, subKind)
	for name := range w.handlers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// run works until ctx ends. A worker runs once.
func (w *worker) run(ctx context.Context) error {
	if w.fault != nil {
		return fmt.Errorf("worker: %w", w.fault)
	}
	w.mu.Lock()
	if w.running {
		w.mu.Unlock()
		return fmt.Errorf("worker: %w: it has been run already", ErrWorkerConfig)
	}
	w.running = true
	w.mu.Unlock()
	if len(w.handlers) == 0 {
		return fmt.Errorf("worker: %w: no activity is registered", ErrWorkerConfig)
	}
	if w.config.through {
		if _, err := capability[grantedClaims](w.session.backend); err != nil {
			return fmt.Errorf("worker: through a scheduler: %w", err)
		}
	}
	defer w.liveness.begin()()
	return newWorkerRun(w).run(ctx)
}

// check reports whether the worker runs, has reached the engine lately, and has a slot that an attempt can use.
func (w *worker) check() error {
	if err := w.liveness.check("worker "+string(w.instance), 2*w.config.lease); err != nil {
		return err
	}
	return w.checkSlots()
}

// checkSlots tells when no function can run any more.
func (w *worker) checkSlots() error {
	if w.counts.overstaying.Load() < int64(w.config.slots) {
		return nil
	}
	return fmt.Errorf("worker %s: %w: functions that do not return though their context has ended hold all of its %d slots; its log names them",
		w.instance, ErrNotReady, w.config.slots)
}

type workerCounts struct {
	claims, emptyClaims, executions, overstays, overstaying atomic.Int64
}

func (c *workerCounts) claimed(executions int) {
	c.claims.Add(1)
	if executions == 0 {
		c.emptyClaims.Add(1)
	}
}

// observe reports the counts of the worker as metrics until the returned function is called.
func (w *worker) observe(busySlots func() int) (stop func(), err error) {
	t := w.session.telemetry
	name := named("worker", w.config.id)
	found := metric.WithAttributes(name, named("outcome", outcomeFound))
	empty := metric.WithAttributes(name, named("outcome", outcomeEmpty))
	all := metric.WithAttributes(name)
	registration, err := t.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		c := &w.counts
		emptyClaims := c.emptyClaims.Load()
		o.ObserveInt64(t.workerClaims, c.claims.Load()-emptyClaims, found)
		o.ObserveInt64(t.workerClaims, emptyClaims, empty)
		o.ObserveInt64(t.workerExecutions, c.executions.Load(), all)
		o.ObserveInt64(t.workerOverstays, c.overstays.Load(), all)
		o.ObserveInt64(t.overstaying, c.overstaying.Load(), all)
		o.ObserveInt64(t.slots, int64(w.config.slots), all)
		o.ObserveInt64(t.busySlots, int64(busySlots()), all)
		return nil
	}, t.workerClaims, t.workerExecutions, t.workerOverstays, t.overstaying, t.slots, t.busySlots)
	return stopper(registration, err)
}
