package worker

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
	"github.com/flowfabric/flowfabric-go/runtime/internal/admission"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/submit"
)

// worker is what a worker is apart from a run: its configuration, the activities that it knows, and what it has done.
type Worker struct {
	session  *engine.Session
	Config   WorkerConfig
	Instance enginecore.WorkerInstanceID
	fault    error // of the options
	Counts   workerCounts
	liveness engine.Liveness
	// joinKeeper announces a run to the keeper that the workers of a session share, or only to the watch for keepers if the worker is
	// to have none. leave ends that and returns what went wrong.
	JoinKeeper func(keeperless bool) (leave func() error)

	mu       sync.Mutex
	handlers map[string]activity.Handler
	running  bool
}

type WorkerConfig struct {
	Id           string
	Slots        int
	Lanes        []string
	Capabilities []string
	Lease        time.Duration
	Grace        time.Duration
	OnBudget     func(context.Context, ReportedBreach)
	Granter      func(context.Context, admission.GrantRequest) (admission.IssuedGrant, error)
	Through      bool // grants only
	// sweep is how often the worker looks into every partition if it is alone; 0 is what suits the engine.
	Sweep      time.Duration
	Keeperless bool
}

func NewWorker(s *engine.Session, config WorkerConfig, fault error) *Worker {
	return &Worker{
		session: s, Config: config, Instance: enginecore.WorkerInstanceID(config.Id + "-" + uuid.NewString()), fault: fault,
		handlers: make(map[string]activity.Handler),
	}
}

// register adds activities, before run, and reports all faults of them and of the options.
func (w *Worker) Register(handlers []activity.Handler) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running {
		return fmt.Errorf("%w: the worker is running already", engine.ErrRegistration)
	}
	var faults []error
	if w.fault != nil {
		faults = append(faults, w.fault)
	}
	for i, h := range handlers {
		if h == nil {
			faults = append(faults, fmt.Errorf("%w: the one at position %d is nil", engine.ErrRegistration, i))
			continue
		}
		if err := h.Err(); err != nil {
			faults = append(faults, fmt.Errorf("%w: %w", engine.ErrRegistration, err))
			continue
		}
		for _, name := range append([]string{h.Name()}, h.Aliases()...) {
			if other := w.handlers[name]; other != nil && other != h {
				faults = append(faults, fmt.Errorf("%w: the name %q is taken by another activity, %q", engine.ErrRegistration, name, other.Name()))
				continue
			}
			w.handlers[name] = h
		}
	}
	return errors.Join(faults...)
}

// kinds is the text by which the engine knows what this worker can run.
func (w *Worker) kinds() string {
	return "\n" + strings.Join(w.activities(), "\n") + "\n"
}

// activities are the names of what the worker knows.
func (w *Worker) activities() []string {
	names := make([]string, 0, len(w.handlers)+2)
	names = append(names, submit.MapKind, submit.SubKind)
	for name := range w.handlers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// run works until ctx ends. A worker runs once.
func (w *Worker) Run(ctx context.Context) error {
	if w.fault != nil {
		return fmt.Errorf("worker: %w", w.fault)
	}
	w.mu.Lock()
	if w.running {
		w.mu.Unlock()
		return fmt.Errorf("worker: %w: it has been run already", engine.ErrWorkerConfig)
	}
	w.running = true
	w.mu.Unlock()
	if len(w.handlers) == 0 {
		return fmt.Errorf("worker: %w: no activity is registered", engine.ErrWorkerConfig)
	}
	if w.Config.Through {
		if _, err := engine.Capability[engine.GrantedClaims](w.session.Backend); err != nil {
			return fmt.Errorf("worker: through a scheduler: %w", err)
		}
	}
	defer w.liveness.Begin()()
	return NewWorkerRun(w).run(ctx)
}

// check reports whether the worker runs, has reached the engine lately, and has a slot that an attempt can use.
func (w *Worker) Check() error {
	if err := w.liveness.Check("worker "+string(w.Instance), 2*w.Config.Lease); err != nil {
		return err
	}
	return w.checkSlots()
}

// checkSlots tells when no function can run any more.
func (w *Worker) checkSlots() error {
	if w.Counts.Overstaying.Load() < int64(w.Config.Slots) {
		return nil
	}
	return fmt.Errorf("worker %s: %w: functions that do not return though their context has ended hold all of its %d slots; its log names them",
		w.Instance, engine.ErrNotReady, w.Config.Slots)
}

type workerCounts struct {
	Claims, EmptyClaims, Executions, Overstays, Overstaying atomic.Int64
}

func (c *workerCounts) claimed(executions int) {
	c.Claims.Add(1)
	if executions == 0 {
		c.EmptyClaims.Add(1)
	}
}

// observe reports the counts of the worker as metrics until the returned function is called.
func (w *Worker) observe(busySlots func() int) (stop func(), err error) {
	t := w.session.Telemetry
	name := engine.Named("worker", w.Config.Id)
	found := metric.WithAttributes(name, engine.Named("outcome", engine.OutcomeFound))
	empty := metric.WithAttributes(name, engine.Named("outcome", engine.OutcomeEmpty))
	all := metric.WithAttributes(name)
	registration, err := t.Meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		c := &w.Counts
		emptyClaims := c.EmptyClaims.Load()
		o.ObserveInt64(t.WorkerClaims, c.Claims.Load()-emptyClaims, found)
		o.ObserveInt64(t.WorkerClaims, emptyClaims, empty)
		o.ObserveInt64(t.WorkerExecutions, c.Executions.Load(), all)
		o.ObserveInt64(t.WorkerOverstays, c.Overstays.Load(), all)
		o.ObserveInt64(t.Overstaying, c.Overstaying.Load(), all)
		o.ObserveInt64(t.Slots, int64(w.Config.Slots), all)
		o.ObserveInt64(t.BusySlots, int64(busySlots()), all)
		return nil
	}, t.WorkerClaims, t.WorkerExecutions, t.WorkerOverstays, t.Overstaying, t.Slots, t.BusySlots)
	return engine.Stopper(registration, err)
}
