package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/runtime/internal/admission"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/worker"
)

// Worker runs the activities that are registered with it, and is made by NewWorker. It claims executions, keeps their
// leases, and reports how they end; the functions see none of that. Any number of workers share an engine. They share a
// keeper, too, with the default options: it stands by while keepers made by NewKeeper run, on this engine or elsewhere, and
// WithoutKeeper leaves it out.
type Worker struct{ worker *worker.Worker }

// Defaults of a worker.
const (
	DefaultConcurrency = 16
	DefaultLease       = engine.DefaultLease
	DefaultGrace       = 10 * time.Second

	// MinLease and MaxLease bound Lease, MaxConcurrency bounds Concurrency.
	MinLease       = 300 * time.Millisecond
	MaxLease       = time.Hour
	MaxConcurrency = 10_000
)

// WorkerOption adjusts NewWorker. Bad values are reported by Register and by Run.
type WorkerOption func(*worker.Config)

// Concurrency is the number of activities that run at a time. Defaults to 16.
func Concurrency(slots int) WorkerOption { return func(c *worker.Config) { c.Slots = slots } }

// Lanes are the queues that the worker serves, each once and as eagerly as the others. Defaults to "default".
func Lanes(names ...string) WorkerOption { return func(c *worker.Config) { c.Lanes = names } }

// Capabilities are what the worker offers to nodes that require some.
func Capabilities(names ...string) WorkerOption {
	return func(c *worker.Config) { c.Capabilities = names }
}

// Lease is the time after which another worker may take over what this one runs, if it stops renewing: 300 ms to 1 h.
// It is renewed every third of it. Defaults to 10 s.
func Lease(d time.Duration) WorkerOption { return func(c *worker.Config) { c.Lease = d } }

// Grace is the time that running activities get to finish when the worker stops; then their contexts end and the
// executions are given back, up to 2 s later, which functions have to notice the end of their contexts. Defaults to 10 s; 0 gives
// back at once.
func Grace(d time.Duration) WorkerOption { return func(c *worker.Config) { c.Grace = d } }

// MaxWorkerName bounds the name of a worker, in bytes.
const MaxWorkerName = 128

// WorkerName names the worker for the record; instances of one deployment share it. It has 1 to MaxWorkerName bytes and neither
// white space nor control characters. Defaults to "worker".
func WorkerName(name string) WorkerOption { return func(c *worker.Config) { c.ID = name } }

// WithoutKeeper leaves out the keeper that a worker runs beside it: what is due by time then waits for a keeper made by
// NewKeeper or one of other workers. A worker that sees none warns (keeper.missing).
func WithoutKeeper() WorkerOption { return func(c *worker.Config) { c.Keeperless = true } }

// BudgetBreach describes a run exceeding a limit of a budget.
type BudgetBreach struct {
	// Flow, Run, Node and Attempt name the attempt.
	Flow, Run, Node string
	Attempt         int
	// Budget and Key are those of the budget, Dimension is the one exceeded.
	Budget, Key, Dimension string
	// Hard reports that an amount, Asked, was refused; otherwise more than the soft limit has been spent.
	Hard  bool
	Asked int64
	// Amount is the state of the dimension.
	Amount activity.BudgetAmount
	// Words describe the breach for people, as the event in the run's log does.
	Words string
}

// OnBudget calls a function when an activity of this worker passes a limit of a budget: a soft one when that begins, a hard one
// once for each attempt. The function that reports waits for it, so it should not take long; a panic is the activity's. It is
// called at most once for each, and not at all where the worker is lost first; the event in the run's log, which Watch yields,
// is certain.
func OnBudget(fn func(context.Context, BudgetBreach)) WorkerOption {
	return func(c *worker.Config) {
		if fn != nil {
			c.OnBudget = func(ctx context.Context, b worker.ReportedBreach) { fn(ctx, BudgetBreach(b)) }
		}
	}
}

// ClaimThrough makes the worker claim nothing by itself: it requests grants, and runs what it is granted. It is for workers that
// are not trusted with budgets, quotas and capabilities; the GrantIssuer runs elsewhere, behind a service that checks the
// capabilities that the worker offers. What a completion makes ready is not handed on to the worker either, so each
// execution costs a grant and a claim.
func ClaimThrough(g Granter) WorkerOption {
	return func(c *worker.Config) {
		c.Through = true
		if g != nil {
			c.Granter = func(ctx context.Context, r admission.GrantRequest) (admission.IssuedGrant, error) {
				granted, err := g.ClaimForWorker(ctx, GrantRequest(r))
				return admission.IssuedGrant(granted), err
			}
		}
	}
}

// NewWorker returns a worker of an engine. Register activities and call Run.
func NewWorker(e *Engine, opts ...WorkerOption) *Worker {
	config := worker.Config{
		ID: "worker", Slots: DefaultConcurrency, Lanes: []string{activity.DefaultLane}, Lease: DefaultLease, Grace: DefaultGrace,
	}
	fault := apply(&config, opts)
	if fault != nil {
		fault = fmt.Errorf("%w: %w", engine.ErrWorkerConfig, fault)
	}
	var s *engine.Session
	if err := e.open(); err != nil {
		fault = errors.Join(fault, fmt.Errorf("%w: %w", engine.ErrWorkerConfig, err))
	} else {
		s = e.session
	}
	config.Capabilities = slices.Compact(slices.Sorted(slices.Values(config.Capabilities)))
	w := worker.New(s, config, errors.Join(fault, checkWorkerConfig(&config)))
	if s != nil {
		w.JoinKeeper = s.Keeper.Join
	}
	return &Worker{w}
}

var errUnmadeWorker = fmt.Errorf("%w: the worker was not made by NewWorker", engine.ErrWorkerConfig)

// checkWorkerConfig reports all faults of a worker's options.
func checkWorkerConfig(c *worker.Config) error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: "+format, append([]any{engine.ErrWorkerConfig}, args...)...))
	}
	if err := checkWorkerName(c.ID); err != nil {
		fault("%w", err)
	}
	if c.Slots < 1 || c.Slots > MaxConcurrency {
		fault("concurrency %d: must be 1 to %d", c.Slots, MaxConcurrency)
	}
	if c.Lease < MinLease || c.Lease > MaxLease {
		fault("lease %s: must be %s to %s", c.Lease, MinLease, MaxLease)
	}
	if c.Grace < 0 {
		fault("grace %s: must not be negative", c.Grace)
	}
	if c.Through && c.Granter == nil {
		fault("through: the granter is nil")
	}
	if len(c.Lanes) == 0 {
		fault("lanes: at least one must be served")
	}
	for i, lane := range c.Lanes {
		if slices.Contains(c.Lanes[:i], lane) {
			fault("lanes: %q is given twice", lane)
		}
		if _, err := enginecore.ParseLaneID(lane); err != nil {
			fault("lanes: %w", err)
		}
	}
	for _, name := range c.Capabilities {
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
func (w *Worker) Instance() enginecore.WorkerInstanceID { return w.worker.Instance }

// Register adds activities, before Run. The error wraps ErrRegistration and names every activity that is faulty, whose
// name or old name is taken by another one, or that came too late. Bad options of the worker are reported, too: they match
// ErrWorkerConfig.
func (w *Worker) Register(handlers ...activity.Handler) error {
	if w == nil || w.worker == nil {
		return errUnmadeWorker
	}
	return w.worker.Register(handlers)
}

// Run works until ctx ends. Then it claims no more, lets what runs finish within the grace time, and gives the rest back
// without spending an attempt. It returns nil after such a stop. A worker runs once. The keeper that the workers of an
// engine share ends with the last of them.
//
// While the engine is away, it keeps trying; what runs goes on until its lease is over.
func (w *Worker) Run(ctx context.Context) error {
	if w == nil || w.worker == nil {
		return errUnmadeWorker
	}
	return w.worker.Run(ctx)
}

// Check tells whether the worker runs, has reached the engine within the last two lease times, and has a slot that is not held
// by a function which does not return though its context has ended (WorkerStats.Overstaying). It asks nobody and returns at
// once; the error matches ErrNotReady. It says nothing about the keeper beside the worker: others take over from one that fails.
func (w *Worker) Check(context.Context) error {
	if w == nil || w.worker == nil {
		return errUnmadeWorker
	}
	return w.worker.Check()
}

// WorkerStats counts what a worker has done since it was made.
type WorkerStats struct {
	// Claims is the number of calls that asked for work, EmptyClaims that of those that brought none, because others had
	// been faster. What a completion hands on costs no claim.
	Claims, EmptyClaims int64
	// Executions is the number of attempts that were begun, handed on ones included.
	Executions int64
	// Overstays is the number of functions that had not returned one lease time after their context had ended, Overstaying that
	// of those that still have not. Each keeps a slot.
	Overstays, Overstaying int64
}

// Stats counts what the worker has done. It may be called at any time.
func (w *Worker) Stats() WorkerStats {
	c := &w.worker.Counts
	return WorkerStats{
		Claims: c.Claims.Load(), EmptyClaims: c.EmptyClaims.Load(), Executions: c.Executions.Load(),
		Overstays: c.Overstays.Load(), Overstaying: c.Overstaying.Load(),
	}
}
