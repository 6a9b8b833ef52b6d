package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
)

// Worker runs the activities that are registered with it, and is made by NewWorker. It claims executions, keeps their
// leases, and reports how they end; the functions see none of that. Any number of workers share an engine. They share a
// keeper, too, with the default options: it stands by while keepers made by NewKeeper run, on this engine or elsewhere, and
// WithoutKeeper leaves it out.
type Worker struct {
	session  *session
	config   workerConfig
	instance enginecore.WorkerInstanceID
	fault    error // of the options
	counts   workerCounts
	liveness liveness

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
	onBudget     func(context.Context, BudgetBreach)
	granter      Granter
	through      bool // grants only
	// sweep is how often the worker looks into every partition if it is alone; 0 is what suits the engine.
	sweep      time.Duration
	keeperless bool
}

// Defaults of a worker.
const (
	DefaultConcurrency = 16
	DefaultLease       = defaultLease
	DefaultGrace       = 10 * time.Second

	// MinLease and MaxLease bound Lease, MaxConcurrency bounds Concurrency.
	MinLease       = 300 * time.Millisecond
	MaxLease       = time.Hour
	MaxConcurrency = 10_000
)

// WorkerOption adjusts NewWorker. Bad values are reported by Register and by Run.
type WorkerOption func(*workerConfig)

// Concurrency is the number of activities that run at a time. Defaults to 16.
func Concurrency(slots int) WorkerOption { return func(c *workerConfig) { c.slots = slots } }

// Lanes are the queues that the worker serves, each once and as eagerly as the others. Defaults to "default".
func Lanes(names ...string) WorkerOption { return func(c *workerConfig) { c.lanes = names } }

// Capabilities are what the worker offers to nodes that require some.
func Capabilities(names ...string) WorkerOption {
	return func(c *workerConfig) { c.capabilities = names }
}

// Lease is the time after which another worker may take over what this one runs, if it stops renewing: 300 ms to 1 h.
// It is renewed every third of it. Defaults to 10 s.
func Lease(d time.Duration) WorkerOption { return func(c *workerConfig) { c.lease = d } }

// Grace is the time that running activities get to finish when the worker stops; then their contexts end and the
// executions are given back, up to 2 s later, which functions have to notice the end of their contexts. Defaults to 10 s; 0 gives
// back at once.
func Grace(d time.Duration) WorkerOption { return func(c *workerConfig) { c.grace = d } }

// MaxWorkerName bounds the name of a worker, in bytes.
const MaxWorkerName = 128

// WorkerName names the worker for the record; instances of one deployment share it. It has 1 to MaxWorkerName bytes and neither
// white space nor control characters. Defaults to "worker".
func WorkerName(name string) WorkerOption { return func(c *workerConfig) { c.id = name } }

// WithoutKeeper leaves out the keeper that a worker runs beside it: what is due by time then waits for a keeper made by
// NewKeeper or one of other workers. A worker that sees none warns (keeper.missing).
func WithoutKeeper() WorkerOption { return func(c *workerConfig) { c.keeperless = true } }

// NewWorker returns a worker of an engine. Register activities and call Run.
func NewWorker(e *Engine, opts ...WorkerOption) *Worker {
	config := workerConfig{
		id: "worker", slots: DefaultConcurrency, lanes: []string{activity.DefaultLane}, lease: DefaultLease, grace: DefaultGrace,
	}
	fault := apply(&config, opts)
	if fault != nil {
		fault = fmt.Errorf("%w: %w", ErrWorkerConfig, fault)
	}
	var s *session
	if err := e.open(); err != nil {
		fault = errors.Join(fault, fmt.Errorf("%w: %w", ErrWorkerConfig, err))
	} else {
		s = e.session
	}
	config.capabilities = slices.Compact(slices.Sorted(slices.Values(config.capabilities)))
	return &Worker{
		session: s, config: config, instance: enginecore.WorkerInstanceID(config.id + "-" + uuid.NewString()),
		fault: errors.Join(fault, config.check()), handlers: make(map[string]activity.Handler),
	}
}

var errUnmadeWorker = fmt.Errorf("%w: the worker was not made by NewWorker", ErrWorkerConfig)

func (c workerConfig) check() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: "+format, append([]any{ErrWorkerConfig}, args...)...))
	}
	if err := checkWorkerName(c.id); err != nil {
		fault("%w", err)
	}
	if c.slots < 1 || c.slots > MaxConcurrency {
		fault("concurrency %d: must be 1 to %d", c.slots, MaxConcurrency)
	}
	if c.lease < MinLease || c.lease > MaxLease {
		fault("lease %s: must be %s to %s", c.lease, MinLease, MaxLease)
	}
	if c.grace < 0 {
		fault("grace %s: must not be negative", c.grace)
	}
	if c.through && c.granter == nil {
		fault("through: the granter is nil")
	}
	if len(c.lanes) == 0 {
		fault("lanes: at least one must be served")
	}
	for i, lane := range c.lanes {
		if slices.Contains(c.lanes[:i], lane) {
			fault("lanes: %q is given twice", lane)
		}
		if _, err := enginecore.ParseLaneID(lane); err != nil {
			fault("lanes: %w", err)
		}
	}
	for _, name := range c.capabilities {
		if name == "" || strings.ContainsAny(name, ", \t\r\n") {
			fault("capability %q: must not be empty or contain commas or white space", name)
		}
	}
	return errors.Join(faults...)
}

func checkWorkerName(name string) error {
	outside := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
	if name == "" || len(name) > MaxWorkerName || !utf8.ValidString(name) || strings.ContainsFunc(name, outside) {
		return fmt.Errorf("name %.140q: must have 1 to %d bytes, without white space and control characters", name, MaxWorkerName)
	}
	return nil
}

// Instance identifies this worker in the engine. It is random.
func (w *Worker) Instance() enginecore.WorkerInstanceID { return w.instance }

// Register adds activities, before Run. The error wraps ErrRegistration and names every activity that is faulty, whose
// name or old name is taken by another one, or that came too late. Bad options of the worker are reported, too: they match
// ErrWorkerConfig.
func (w *Worker) Register(handlers ...activity.Handler) error {
	if w == nil || w.handlers == nil {
		return errUnmadeWorker
	}
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
func (w *Worker) kinds() string {
	return "\n" + strings.Join(w.activities(), "\n") + "\n"
}

// Run works until ctx ends. Then it claims no more, lets what runs finish within the grace time, and gives the rest back
// without spending an attempt. It returns nil after such a stop. A worker runs once. The keeper that the workers of an
// engine share ends with the last of them.
//
// While the engine is away, it keeps trying; what runs goes on until its lease is over.
func (w *Worker) Run(ctx context.Context) error {
	if w == nil || w.handlers == nil {
		return errUnmadeWorker
	}
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
	return newShift(w).run(ctx)
}
