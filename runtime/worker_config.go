package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/interceptor"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/transport"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/worker"
	"github.com/flowfabric/flowfabric-go/internal/worker/output"
)

// WorkerConfig configures a worker. The zero value suits most programs.
type WorkerConfig struct {
	// Name names the worker in records and logs; the instances of a deployment share one. It has at most 128 bytes
	// without white space and control characters. Defaults to "worker".
	Name string
	// Concurrency is the number of activities that run at a time, 1 to 10,000. Defaults to 16.
	Concurrency int
	// Lanes are the lanes from which the worker claims, each with equal weight. Defaults to the lane "default".
	Lanes []string
	// Capabilities are those that the worker offers to nodes that require some: at most 256, of 4,096 bytes together
	// with a comma between two, none of them empty or with a comma, white space or a control character. Defaults to
	// none.
	Capabilities []string
	// Lease is the time after which another worker may take over an execution if this worker stops renewing: 300 ms to
	// 1 h. The worker renews every third of it. Defaults to 10 s.
	Lease time.Duration
	// Grace is how long running functions may continue when the worker stops. Then their contexts end, and the
	// executions are released up to 2 s later, which is the time for functions to return. Defaults to 10 s; a negative
	// duration releases at once.
	Grace time.Duration
	// Interceptors run around each function that the worker runs; the first is the outermost. Defaults to none, which
	// costs nothing.
	Interceptors []interceptor.Activity
	// OnBudget is called when an activity of this worker exceeds a limit of a budget: for a soft limit when its excess
	// begins, for a hard limit once per attempt. It runs within the activity's call that reports usage or reserves an
	// amount, so it should return soon; a panic in it counts as the activity's. It is called at most once for each
	// breach, and not at all if the worker is lost first; the event in the run's log, which Watch yields, is reliable.
	// Defaults to nil, which calls nothing.
	OnBudget func(context.Context, fabrictype.BudgetBreach)
	// OnRunFailed is called when a run of the engine's namespace has failed or expired, or was cancelled and a node
	// with flow.Finally has failed: a run of any flow, except child runs. Of the running workers with the same Name,
	// one calls it, for one run after the other; when that worker stops or is lost, another one takes over within 45 s,
	// so deployments with different functions have different names. It is called at least once for each run that fails
	// after the first such worker began: again if it returns an error or panics, after 1 s at first and after at most 1
	// min later, and again if the worker is lost before the engine has recorded that it returned. So it returns nil for
	// runs that it does not handle, returns soon when its context ends, and tolerates repetition. The *RunError of a
	// run that was run again or purged in the meantime lacks details, as in Feed.Failures. Use a node with
	// flow.FailureOf for the failures of one flow. While such workers run, all runs cost the engine a little more: see
	// Client.Feed. Defaults to nil, which costs nothing.
	OnRunFailed func(context.Context, *RunError) error
	// ClaimThrough makes the worker request grants instead of claiming for itself, for workers that are not trusted
	// with budgets, quotas and capabilities. Engine.ClaimForWorker issues them, in a service that verifies the
	// capabilities that the worker offers; the function is a client of that service. Executions that a completion makes
	// eligible are not handed to this worker, so each execution costs a grant and a claim. Defaults to nil: the worker
	// claims for itself.
	ClaimThrough func(context.Context, enginecore.GrantRequest) (enginecore.Grant, error)
	// TaskKinds makes the worker hand executions of these kinds to callers of Next, instead of running activities,
	// which it then refuses to register: the names of activities for nodes of runs, and the kinds of executions outside
	// runs. At most 256, by the rule for names of package activity. Defaults to none. A program that also runs
	// activities has a second worker for that.
	TaskKinds []string
	// ManualRenewal leaves the renewal of the leases of tasks to Task.Renew. It requires TaskKinds. Defaults to false:
	// the worker renews them.
	ManualRenewal bool
	// Logs bounds the stored lines that activities log with activity.Logger. Defaults to the first 1,000 lines and 256
	// KiB of each attempt, from slog.LevelInfo on.
	Logs LogConfig
	// Publish are flows that the worker publishes when it begins, as Client.Publish does, in the namespace of its
	// engine. A publication that fails is repeated while the worker runs. Defaults to none.
	Publish []Publication
	// NoKeeper leaves out the keeper that the workers of an Engine share (OpenConfig.Keeper). Work that is due by time
	// then waits for a keeper made by NewKeeper or a keeper of other workers. A worker that sees no keeper logs
	// keeper.missing. Defaults to false.
	NoKeeper bool
}

// LogConfig bounds the lines that a worker stores of the logs of its activities. The zero value suits most programs.
type LogConfig struct {
	// Off stores nothing. The records of activities go to the program's logger alone.
	Off bool
	// Level is the least level that is stored. Defaults to slog.LevelInfo. The program's logger has its own.
	Level slog.Leveler
	// Lines and Bytes bound the stored lines of an attempt; one that continues after a wait begins to count anew.
	// Further lines are cut, and a last line counts them. They default to 1,000 lines and 256 KiB, and are at most
	// 9,000 and 4 MiB.
	Lines, Bytes int
}

const (
	defaultWorkerName  = "worker"
	defaultConcurrency = 16
	defaultLease       = transport.DefaultLease
	defaultGrace       = 10 * time.Second

	maxConcurrency  = 10_000
	minLease        = 300 * time.Millisecond
	maxLease        = time.Hour
	maxWorkerName   = 128 // in bytes
	maxTaskKinds    = 256
	maxLogLines     = 9000
	defaultLogLines = 1000
	defaultLogBytes = 256 << 10
	maxLogBytes     = 4 << 20
)

// resolve returns the config of the worker itself, with the defaults in place. The error joins all faults; in goes
// before the names of the fields.
func (c WorkerConfig) resolve(in string) (worker.Config, error) {
	c.Name = cmp.Or(c.Name, defaultWorkerName)
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
		ID: c.Name, Slots: c.Concurrency, Lanes: slices.Clone(c.Lanes), Lease: c.Lease, Grace: c.Grace,
		Capabilities: slices.Compact(slices.Sorted(slices.Values(c.Capabilities))), Keeperless: c.NoKeeper,
		Through: c.ClaimThrough != nil, ManualRenewal: c.ManualRenewal,
		Kinds: slices.Compact(slices.Sorted(slices.Values(c.TaskKinds))), Logs: logConfig(c.Logs),
	}
	config.Invoke = intercepted(c.Interceptors)
	config.OnBudget = c.OnBudget
	config.Granter = c.ClaimThrough
	return config, nil
}

// logConfig puts the defaults in place.
func logConfig(c LogConfig) output.LogConfig {
	if c.Level == nil {
		c.Level = slog.LevelInfo
	}
	return output.LogConfig{
		Off: c.Off, Level: c.Level, Lines: cmp.Or(c.Lines, defaultLogLines),
		Bytes: cmp.Or(c.Bytes, defaultLogBytes),
	}
}

// checkLanes returns the faults of the names of lanes that no activity can have. In contract mode other programs name
// lanes, too, by the wider rule of the contract.
func (c WorkerConfig) checkLanes(s *engine.Session) error {
	if _, err := s.Library("lanes of activities"); err != nil {
		return nil
	}
	var faults []error
	for _, lane := range c.Lanes {
		if err := activityspec.CheckLane(lane); err != nil {
			faults = append(faults, invalid("Lanes: %w", err))
		}
	}
	return errors.Join(faults...)
}

// check returns all faults of a config with defaults, joined; in goes before the names of the fields.
func (c WorkerConfig) check(in string) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, invalid(in+format, args...)) }
	for i, interceptor := range c.Interceptors {
		if interceptor == nil {
			fault("Interceptors: element %d is nil", i+1)
		}
	}
	if c.Logs.Lines < 0 || c.Logs.Lines > maxLogLines {
		fault("Logs.Lines %d: must be 0 to %d", c.Logs.Lines, maxLogLines)
	}
	if c.Logs.Bytes < 0 || c.Logs.Bytes > maxLogBytes {
		fault("Logs.Bytes %d: must be 0 to %d", c.Logs.Bytes, maxLogBytes)
	}
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
		if _, err := keyspace.ParseLaneID(lane); err != nil {
			fault("Lanes: %w", err)
		}
	}
	_, wrong := activityspec.Offered(c.Capabilities)
	for _, err := range wrong {
		fault("Capabilities: %w", err)
	}
	if len(c.TaskKinds) > maxTaskKinds {
		fault("TaskKinds: %d kinds, at most %d are allowed", len(c.TaskKinds), maxTaskKinds)
	}
	for _, kind := range c.TaskKinds {
		if err := activityspec.CheckName(kind); err != nil {
			fault("TaskKinds: %w", err)
		}
	}
	entriesOf(c.Publish, func(item int, err error) { fault("Publish: item %d: %w", item, err) })
	if c.ManualRenewal && len(c.TaskKinds) == 0 {
		fault("ManualRenewal: there are no TaskKinds, whose tasks could be renewed")
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
