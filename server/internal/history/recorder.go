// Package history keeps the samples that a server has taken of its engine during the last hour: waiting and running
// executions of each lane, usage of budgets, and lags of keepers. The samples are in memory, so each server has only
// the samples since its own start.
package history

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/runtime"
)

const (
	// kept is for how long samples are kept.
	kept = time.Hour
	// mostSeries bounds the lanes, and the budgets, that have samples.
	mostSeries = 1000
	// mostBudgets is how many budgets, including budgets of runs, may be listed for each sample. An engine with more
	// budgets is queried for them less often, in proportion.
	mostBudgets = 1000
	// share bounds the time that reading takes: at most one part in share.
	share = 50
	// readTimeout bounds the time of reading one sample from the engine.
	readTimeout = 10 * time.Second
)

// Config configures a recorder. All fields must be set.
type Config struct {
	Client *runtime.Client
	Admin  *admin.Client
	// Every is the time between two samples.
	Every time.Duration
}

// Lane is the state of a lane when it was sampled.
type Lane struct {
	At                         time.Time
	Eligible, HeldBack, Active int
	// Started is how many attempts workers have reported to have begun since the sample before.
	Started int64
}

// Budget names a shared budget, or the budget of a flow.
type Budget struct{ Name, Key, Flow string }

// Spent is the usage of a budget in a sample, by dimension.
type Spent struct {
	At      time.Time
	Amounts map[string]int64
}

// Lag is the lag of keepers with a task in a sample.
type Lag struct {
	At     time.Time
	Behind time.Duration
}

// Recorder samples an engine. Its methods may be called concurrently.
type Recorder struct {
	config Config
	// turn has room for the one who takes a sample.
	turn chan struct{}
	// withoutBudgets is how many samples are to go without budgets. It belongs to the one whose turn it is.
	withoutBudgets int

	mu      sync.Mutex
	next    time.Time // when the next sample is due
	lanes   series[string, Lane]
	budgets series[Budget, Spent]
	lags    series[string, Lag]
	// started are the attempts that workers had begun by the last sample, by worker and lane.
	started map[string]map[string]int64
}

// New returns a recorder without samples.
func New(config Config) *Recorder {
	return &Recorder{
		config: config, turn: make(chan struct{}, 1),
		lanes: series[string, Lane]{}, budgets: series[Budget, Spent]{}, lags: series[string, Lag]{},
	}
}

// Run takes samples until ctx ends, the first one after a while.
func (r *Recorder) Run(ctx context.Context) {
	timer := time.NewTimer(r.config.Every)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			timer.Reset(r.Refresh(ctx))
		}
	}
}

// Refresh takes a sample if one is due, and returns the time until the next one. Values that the engine does not
// return in time are missing in the sample.
func (r *Recorder) Refresh(ctx context.Context) time.Duration {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return r.config.Every
	}
	if wait := r.wait(); wait > 0 {
		return wait
	}
	begun := time.Now()
	taken := r.read(ctx)
	if ctx.Err() != nil {
		return r.config.Every
	}
	now := time.Now()
	r.keep(now, taken, now.Add(max(r.config.Every, share*now.Sub(begun))))
	return r.wait()
}

// wait returns the time until a sample is due.
func (r *Recorder) wait() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Until(r.next)
}

// reading contains the values that the engine returns for one sample. Missing values are nil.
type reading struct {
	lanes   []fabrictype.Lane
	workers []fabrictype.Worker
	lags    map[string]time.Duration
	budgets []fabrictype.Budget
}

func (r *Recorder) read(ctx context.Context) (taken reading) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	taken.lanes, _ = r.config.Client.Lanes(ctx)
	taken.workers, _ = r.config.Client.Workers(ctx)
	taken.lags, _ = r.config.Admin.KeeperLag(ctx)
	if r.withoutBudgets == 0 {
		taken.budgets, _ = r.config.Client.Budgets(ctx)
	}
	return taken
}

// keep appends a reading to the series.
func (r *Recorder) keep(now time.Time, taken reading, next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next = next
	started := r.countStarts(taken.workers)
	for _, l := range taken.lanes {
		r.lanes.add(l.Name, Lane{
			At: now, Eligible: l.Eligible, Active: l.Active, Started: started[l.Name],
			HeldBack: l.Delayed + l.Blocked.Budget + l.Blocked.Quota + l.Blocked.Route + l.Blocked.Operator,
		})
	}
	for task, lag := range taken.lags {
		r.lags.add(task, Lag{At: now, Behind: lag})
	}
	for _, b := range taken.budgets {
		if b.FlowID != "" {
			continue // the budget belongs to a run
		}
		spent := Spent{At: now, Amounts: make(map[string]int64, len(b.Amounts))}
		for _, a := range b.Amounts {
			spent.Amounts[a.Dimension] = a.Spent
		}
		r.budgets.add(Budget{b.Name, b.Key, b.Flow}, spent)
	}
	r.withoutBudgets = max(r.withoutBudgets-1, len(taken.budgets)/mostBudgets)
	r.lanes.forget(func(l Lane) bool { return now.Sub(l.At) > kept })
	r.budgets.forget(func(s Spent) bool { return now.Sub(s.At) > kept })
	r.lags.forget(func(l Lag) bool { return now.Sub(l.At) > kept })
}

// countStarts returns how many attempts have begun since the last sample, by lane, according to the reports of
// workers. Attempts that a worker began before its first sample are not counted.
func (r *Recorder) countStarts(workers []fabrictype.Worker) map[string]int64 {
	counts := map[string]int64{}
	if workers == nil {
		return counts
	}
	before := r.started
	r.started = make(map[string]map[string]int64, len(workers))
	for _, w := range workers {
		r.started[w.Instance] = w.Started
		if known, ok := before[w.Instance]; ok {
			for lane, n := range w.Started {
				counts[lane] += max(0, n-known[lane])
			}
		}
	}
	return counts
}

// Lane returns the samples of a lane, the oldest first.
func (r *Recorder) Lane(name string) []Lane {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lanes[name])
}

// Budget returns the samples of a budget, the oldest first.
func (r *Recorder) Budget(name Budget) []Spent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.budgets[name])
}

// Lags returns the samples of all tasks of keepers that work by time, the oldest first, by the names of the tasks.
func (r *Recorder) Lags() map[string][]Lag {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[string][]Lag, len(r.lags))
	for task, list := range r.lags {
		all[task] = slices.Clone(list)
	}
	return all
}

// series has the samples of each name, the oldest first.
type series[K comparable, T any] map[K][]T

// add appends a sample. It leaves out further names when there are mostSeries.
func (s series[K, T]) add(name K, sample T) {
	if _, known := s[name]; known || len(s) < mostSeries {
		s[name] = append(s[name], sample)
	}
}

// forget removes the samples at the begin of each series that are old, and series without samples.
func (s series[K, T]) forget(old func(T) bool) {
	for name, list := range s {
		first := slices.IndexFunc(list, func(sample T) bool { return !old(sample) })
		switch {
		case first < 0:
			delete(s, name)
		case first > 0:
			s[name] = slices.Delete(list, 0, first)
		}
	}
}
