package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/worker/attempt"
	"github.com/flowfabric/flowfabric-go/internal/worker/held"
	"github.com/flowfabric/flowfabric-go/internal/worker/output"
	"github.com/flowfabric/flowfabric-go/internal/worker/renewal"
)

// Worker contains the parts of a worker that remain the same for its life: its configuration, the activities that it
// can run, and its counters. New makes one. Its methods are safe for concurrent use; Register precedes Run.
type Worker struct {
	session *engine.Session
	// config is the configuration, Instance the id of this worker in the engine, unique for each Worker.
	config   Config
	Instance enginecore.WorkerInstanceID
	// Counts are the counters that metrics report.
	Counts Counts
	// sweep is the interval at which the worker sweeps all shards if it has no peers; 0 chooses by the kind of engine.
	// A worker with a set interval does not renew leases ahead of time either: its tests count calls.
	sweep    time.Duration
	liveness observe.Liveness
	// resting is set while the worker checks the engine less often, because it has been idle for a while.
	resting atomic.Bool
	// JoinKeeper announces a run to the keeper that the workers of a session share or, if keeperless, only to
	// the watch for missing keepers. The returned leave ends that and returns the error of the keeper. It
	// must be set before Run.
	JoinKeeper func(keeperless bool) (leave func() error)

	// handover is set for a worker that hands its tasks to callers of Next instead of running functions.
	handover *held.Handover

	mu       sync.Mutex
	handlers map[string]activity.Handler
	running  bool
}

// Config is the configuration of a worker. Package runtime sets the defaults and checks the values.
type Config struct {
	// ID is the name of the worker, the first part of its instance id.
	ID string
	// Slots is the number of functions that run at a time.
	Slots int
	// Lanes are the lanes that the worker serves; duplicates are ignored.
	Lanes []string
	// Capabilities are the capabilities that the worker offers to nodes that require some; sorted, without duplicates.
	Capabilities []string
	// Lease is the duration of leases, of which a third passes between two renewals.
	Lease time.Duration
	// Grace is the time for running functions to return after the context of Run has ended; 0 ends their
	// contexts at once.
	Grace time.Duration
	// Invoke runs functions in place of Handler.Invoke; nil if nothing is around them.
	Invoke func(context.Context, activity.Handler, []byte) ([]byte, error)
	// OnBudget is called when an activity exceeds a limit of a budget; it may be nil.
	OnBudget func(context.Context, fabrictype.BudgetBreach)
	// Logs defines which lines of the logs of activities are stored.
	Logs output.LogConfig
	// Granter issues the grants by which the worker claims; used only if Through is set.
	Granter func(context.Context, enginecore.GrantRequest) (enginecore.Grant, error)
	Through bool // claim by grants of Granter only
	// Kinds are the kinds of executions that callers of Next get; with any, the worker runs no functions.
	Kinds []string
	// ManualRenewal leaves the renewal of leases to the callers of Next.
	ManualRenewal bool
	// About describes the program and its machine in the record of the worker.
	About engine.WorkerAbout
	// Keeperless reports whether the worker runs without a keeper in its process.
	Keeperless bool
}

// New returns a worker of a session.
func New(s *engine.Session, config Config) *Worker {
	w := &Worker{
		session: s, config: config, Instance: engine.NewWorkerInstance(config.ID, config.About.Build),
		handlers: make(map[string]activity.Handler), sweep: s.Intervals.WorkerSweep,
	}
	if len(config.Kinds) > 0 {
		w.handover = held.NewHandover(config.Slots)
	}
	return w
}

// Register adds activities, by their names and aliases. It returns all faults of the activities, joined, and an
// error after Run has begun.
func (w *Worker) Register(handlers []activity.Handler) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.handover != nil {
		return fmt.Errorf("%w: a worker with TaskKinds hands its tasks to callers of Next and runs no activities",
			engine.ErrInvalid)
	}
	if w.running {
		return fmt.Errorf("%w: activities cannot be registered once the worker has been run", engine.ErrInvalid)
	}
	var faults []error
	for i, h := range handlers {
		if h == nil {
			faults = append(faults, fmt.Errorf("%w: activity at position %d is nil", engine.ErrInvalid, i))
			continue
		}
		if err := h.Err(); err != nil {
			faults = append(faults, fmt.Errorf("%w: %w", engine.ErrInvalid, err))
			continue
		}
		if run, ok := h.(interface{ HasFunction() bool }); ok && !run.HasFunction() {
			faults = append(faults, fmt.Errorf("%w: activity %q is only declared: it has no function, which "+
				"activity.New gives it", engine.ErrInvalid, h.Name()))
			continue
		}
		for _, name := range append([]string{h.Name()}, h.Aliases()...) {
			if other := w.handlers[name]; other != nil && other != h && !isSame(h, other) {
				faults = append(faults, fmt.Errorf("%w: activity name %q is taken by another activity, %q",
					engine.ErrInvalid, name, other.Name()))
				continue
			}
			w.handlers[name] = h
		}
	}
	return errors.Join(faults...)
}

// isSame reports whether two activities decide a condition of a flow by the same function.
func isSame(h, other activity.Handler) bool {
	same, ok := h.(interface{ SameAs(activity.Handler) bool })
	return ok && same.SameAs(other)
}

// kinds returns the text that a claim carries to name the activities that this worker can run.
func (w *Worker) kinds() string { return enginerpc.KindSet(w.activities()) }

// activities returns the sorted names of the kinds of nodes that the worker can run, maps and sub-flows
// included.
func (w *Worker) activities() []string {
	if w.handover != nil {
		return slices.Sorted(slices.Values(w.config.Kinds))
	}
	names := make([]string, 0, len(w.handlers)+2)
	names = append(names, submit.MapKind, submit.SubKind)
	for name := range w.handlers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Lanes returns the lanes that the worker serves.
func (w *Worker) Lanes() []string { return w.config.Lanes }

// Knows reports whether the worker can run executions of a kind.
func (w *Worker) Knows(kind string) bool {
	if w.handover != nil {
		return slices.Contains(w.config.Kinds, kind)
	}
	return w.handlers[kind] != nil
}

var errNotByHand = fmt.Errorf("%w: the worker has no TaskKinds, so it runs functions", engine.ErrInvalid)

// Next waits for a task and returns it. It waits while the program holds as many tasks as the worker has slots, and
// before Run begins. The error is the cause of ctx, or engine.ErrStopping if the worker stops.
func (w *Worker) Next(ctx context.Context) (*held.Task, error) {
	if w.handover == nil {
		return nil, errNotByHand
	}
	return w.handover.Take(ctx)
}

// NextGranted leases the execution of a grant and returns its task. If the grant can no longer be used, the error
// matches enginecore.ErrNoGrant.
func (w *Worker) NextGranted(ctx context.Context, grant enginecore.Grant) (*held.Task, error) {
	if w.handover == nil {
		return nil, errNotByHand
	}
	return w.handover.TakeGranted(ctx, grant)
}

// Check returns nil if the worker runs, has reached the engine within two lease durations, or six after a while
// without work, and has a slot that an attempt can use; otherwise an error that names the condition that does not
// hold.
func (w *Worker) Check() error {
	limit := 2 * w.config.Lease
	if w.resting.Load() {
		limit *= renewal.RestingLooks
	}
	if err := w.liveness.Check("worker "+string(w.Instance), limit); err != nil {
		return err
	}
	return w.checkSlots()
}

// checkSlots returns observe.ErrNotReady if functions that do not return hold all slots.
func (w *Worker) checkSlots() error {
	if w.Counts.Overstaying.Load() < int64(w.config.Slots) {
		return nil
	}
	return fmt.Errorf("worker %s: %w: functions that do not return though their context has ended hold all of its %d slots; its log names them",
		w.Instance, observe.ErrNotReady, w.config.Slots)
}

// Counts are the counters of a worker, read as metrics. Claims counts the calls that claim and
// EmptyClaims those that leased nothing; Executions counts the started tasks.
type Counts struct {
	Claims, EmptyClaims, Executions atomic.Int64
	attempt.OverstayCounts
}

// claimed counts a claim that leased a number of executions.
func (c *Counts) claimed(executions int) {
	c.Claims.Add(1)
	if executions == 0 {
		c.EmptyClaims.Add(1)
	}
}

// observe reports the counts of the worker as metrics until the returned function is called.
func (w *Worker) observe(busySlots func() int) (stop func(), err error) {
	t := w.session.Telemetry
	name := observe.Named("worker", w.config.ID)
	found := metric.WithAttributes(name, observe.Named("outcome", observe.OutcomeFound))
	empty := metric.WithAttributes(name, observe.Named("outcome", observe.OutcomeEmpty))
	all := metric.WithAttributes(name)
	registration, err := t.Meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		c := &w.Counts
		emptyClaims := c.EmptyClaims.Load()
		o.ObserveInt64(t.WorkerClaims, c.Claims.Load()-emptyClaims, found)
		o.ObserveInt64(t.WorkerClaims, emptyClaims, empty)
		o.ObserveInt64(t.WorkerExecutions, c.Executions.Load(), all)
		o.ObserveInt64(t.WorkerOverstays, c.Overstays.Load(), all)
		o.ObserveInt64(t.Overstaying, c.Overstaying.Load(), all)
		o.ObserveInt64(t.Slots, int64(w.config.Slots), all)
		o.ObserveInt64(t.BusySlots, int64(busySlots()), all)
		return nil
	}, t.WorkerClaims, t.WorkerExecutions, t.WorkerOverstays, t.Overstaying, t.Slots, t.BusySlots)
	return observe.Stopper(registration, err)
}

// begin checks that the worker can run and has not been run before.
func (w *Worker) begin() error {
	w.mu.Lock()
	if w.running {
		w.mu.Unlock()
		return fmt.Errorf("worker: %w: it has been run already", engine.ErrInvalid)
	}
	w.running = true
	w.mu.Unlock()
	if len(w.handlers) == 0 && w.handover == nil {
		return fmt.Errorf("worker: %w: no activity is registered", engine.ErrInvalid)
	}
	return nil
}
