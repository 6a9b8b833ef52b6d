package runtime

import (
	"cmp"
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

// WorkerConfig configures a worker. The zero value is good for most programs.
type WorkerConfig struct {
	// Name names the worker for the record; instances of one deployment share it. It has at most 128 bytes and neither
	// white space nor control characters. Defaults to "worker".
	Name string
	// Concurrency is the number of activities that run at a time, 1 to 10,000. Defaults to 16.
	Concurrency int
	// Lanes are the queues that the worker serves, each once and as eagerly as the others. Defaults to the lane
	// "default".
	Lanes []string
	// Capabilities are what the worker offers to nodes that require some. Defaults to none.
	Capabilities []string
	// Lease is the time after which another worker may take over what this one runs, if it stops renewing: 300 ms to 1
	// h. It is renewed every third of it. Defaults to 10 s.
	Lease time.Duration
	// Grace is the time that running activities get to finish when the worker stops; then their contexts end and the
	// executions are given back, up to 2 s later, which functions have to notice the end of their contexts. Defaults to
	// 10 s; a negative time gives back at once.
	Grace time.Duration
	// OnBudget is called when an activity of this worker passes a limit of a budget: a soft one when that begins, a
	// hard one once for each attempt. The function that reports waits for it, so it should not take long; a panic is
	// the activity's. It is called at most once for each, and not at all where the worker is lost first; the event in
	// the run's log, which Watch yields, is certain. Defaults to nil, which calls nothing.
	OnBudget func(context.Context, BudgetBreach)
	// ClaimThrough makes the worker claim nothing by itself: it requests grants, and runs what it is granted. It is for
	// workers that are not trusted with budgets, quotas and capabilities; the GrantIssuer runs elsewhere, behind a
	// service that checks the capabilities that the worker offers. What a completion makes ready is not handed on to
	// the worker either, so each execution costs a grant and a claim. Defaults to nil: the worker claims by itself.
	ClaimThrough Granter
	// NoKeeper leaves out the keeper that the workers of an engine share (OpenConfig.Keeper): what is due by time then
	// waits for a keeper made by NewKeeper or one of other workers. A worker that sees none warns (keeper.missing).
	// Defaults to false.
	NoKeeper bool

	// sweep is the interval at which the worker looks for work without being told, for tests. Defaults by the kind of
	// engine.
	sweep time.Duration
}

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

const (
	defaultConcurrency = 16
	defaultLease       = engine.DefaultLease
	defaultGrace       = 10 * time.Second

	maxConcurrency = 10_000
	minLease       = 300 * time.Millisecond
	maxLease       = time.Hour
	maxWorkerName  = 128 // in bytes
)

// resolve returns the config of the worker itself, with the defaults in place. The error joins all faults; in goes
// before the names of the fields.
func (c WorkerConfig) resolve(in string) (worker.Config, error) {
	c.Name = cmp.Or(c.Name, "worker")
	c.Concurrency = cmp.Or(c.Concurrency, defaultConcurrency)
	c.Lease = cmp.Or(c.Lease, defaultLease)
	c.Grace = max(cmp.Or(c.Grace, defaultGrace), 0)
	if len(c.Lanes) == 0 {
		c.Lanes = []string{activity.DefaultLane}
	}
	if err := c.check(in); err != nil {
		return worker.Config{}, err
	}
	config := worker.Config{
		ID: c.Name, Slots: c.Concurrency, Lanes: slices.Clone(c.Lanes), Lease: c.Lease, Grace: c.Grace, Sweep: c.sweep,
		Capabilities: slices.Compact(slices.Sorted(slices.Values(c.Capabilities))), Keeperless: c.NoKeeper,
		Through: c.ClaimThrough != nil,
	}
	if c.OnBudget != nil {
		config.OnBudget = func(ctx context.Context, b worker.ReportedBreach) { c.OnBudget(ctx, BudgetBreach(b)) }
	}
	if c.ClaimThrough != nil {
		config.Granter = func(ctx context.Context, r admission.GrantRequest) (admission.IssuedGrant, error) {
			granted, err := c.ClaimThrough.ClaimForWorker(ctx, GrantRequest(r))
			return admission.IssuedGrant(granted), err
		}
	}
	return config, nil
}

// check returns all faults of a config with defaults, joined; in goes before the names of the fields.
func (c WorkerConfig) check(in string) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, invalid(in+format, args...)) }
	if err := checkWorkerName(c.Name); err != nil {
		fault("Name %w", err)
	}
	if c.Concurrency < 1 || c.Concurrency > maxConcurrency {
		fault("Concurrency %d: must be 1 to %d", c.Concurrency, maxConcurrency)
	}
	if c.Lease < minLease || c.Lease > maxLease {
		fault("Lease %s: must be %s to %s", c.Lease, minLease, maxLease)
	}
	for i, lane := range c.Lanes {
		if slices.Contains(c.Lanes[:i], lane) {
			fault("Lanes: %q is given twice", lane)
		}
		if _, err := enginecore.ParseLaneID(lane); err != nil {
			fault("Lanes: %w", err)
		}
	}
	for _, name := range c.Capabilities {
		if name == "" || strings.ContainsAny(name, ", \t\r\n") {
			fault("Capabilities: %q must not be empty or contain commas or white space", name)
		}
	}
	return errors.Join(faults...)
}

func checkWorkerName(name string) error {
	outside := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
	if name == "" || len(name) > maxWorkerName || !utf8.ValidString(name) || strings.ContainsFunc(name, outside) {
		return fmt.Errorf("%.140q: must have 1 to %d bytes, without white space and control characters", name,
			maxWorkerName)
	}
	return nil
}
