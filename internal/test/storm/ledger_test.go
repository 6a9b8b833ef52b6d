package storm

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// The budget that all runs share, with the dimension that functions reserve, the one that counts once for a node, and the
// one that counts each report.
const (
	budgetName = "ledger"
	coins      = "coins"
	coinsLimit = 5
	spending   = "spent"
	reporting  = "reported"
)

func ledger() flow.Option {
	return flow.Budget(budgetName, flow.BudgetConfig{Hard: map[string]int64{coins: coinsLimit}, Counted: []string{spending, reporting}, PerFlow: true})
}

// A keeper returns the reservations of a killed worker after half a minute, which only a long storm waits for.
func reserves() bool { return stormTime() >= time.Minute }

// hold reserves coins while it works, if there are any left.
func (d *diary) hold(ctx context.Context, e entry, coinsNeeded int64, work func() error) error {
	if coinsNeeded == 0 {
		return work()
	}
	r, err := activity.Reserve(ctx, coins, coinsNeeded)
	switch {
	case errors.Is(err, activity.ErrBudgetExceeded):
		return work()
	case err != nil:
		return err
	}
	e.What, e.Amount = holding, coinsNeeded
	d.note(e)
	err = work()
	e.What = freeing
	d.note(e)
	return errors.Join(err, r.Settle(ctx, 0))
}

// spend reports usage that counts once for a node, however often its function runs, and usage that counts each time.
func (d *diary) spend(ctx context.Context, e entry, amount int64) error {
	if amount == 0 {
		return nil
	}
	e.What, e.Amount = spends, amount
	d.note(e)
	if err := activity.ReportUsage(ctx, reporting, amount); err != nil {
		return err
	}
	if err := activity.ReportUsageOnce(ctx, "work", map[string]int64{spending: amount}); err != nil {
		return err
	}
	e.What = spent
	d.note(e)
	return nil
}

// settleLedger waits until no reservation is left, and compares the usage with the diary.
func (j *checker) settleLedger(ctx context.Context, s *storm) {
	j.t.Helper()
	asked, counted := make(map[string]int64), make(map[string]int64)
	var reports, acknowledged int64
	for _, e := range j.entries {
		switch e.What {
		case spends:
			asked[e.Run+"/"+e.Node] = e.Amount
			reports += e.Amount
		case spent:
			counted[e.Run+"/"+e.Node] = e.Amount
			acknowledged += e.Amount
		}
	}
	if len(asked) == 0 {
		return
	}
	state, err := s.bench.Client.Budget(fabrictype.BudgetName{Name: budgetName, Flow: flowName}).Describe(ctx)
	if errors.Is(err, engine.ErrBudgetNotFound) && len(counted) == 0 {
		return
	}
	require.NoError(j.t, err)
	got := state.Amount(spending).Spent - s.spent
	s.spent += got
	assert.GreaterOrEqual(j.t, got, sum(counted), "acknowledged usage is in the budget")
	assert.LessOrEqual(j.t, got, sum(asked), "nothing is in the budget twice")
	got = state.Amount(reporting).Spent - s.reported
	s.reported += got
	assert.GreaterOrEqual(j.t, got, acknowledged, "acknowledged reports are in the budget")
	assert.LessOrEqual(j.t, got, reports, "no report is in the budget twice")
	assert.Zero(j.t, state.Amount(coins).Spent)
	j.tallies["reported"], j.tallies["refused coins"] = int(got), state.Breaches
}

func sum(amounts map[string]int64) (total int64) {
	for _, amount := range amounts {
		total += amount
	}
	return total
}

// coins checks the amounts held at a time. For the diary a killed process holds nothing, for the engine its amounts
// remain for a while.
func (j *checker) coins() {
	j.t.Helper()
	held := make(map[string]entry)
	var total, most int64
	free := func(nonce string) {
		total -= held[nonce].Amount
		delete(held, nonce)
	}
	for _, e := range j.entries {
		switch e.What {
		case holding:
			held[e.Nonce] = e
			total += e.Amount
			most = max(most, total)
		case freeing:
			free(e.Nonce)
		case died:
			for nonce, h := range held {
				if h.Pid == e.Pid {
					free(nonce)
				}
			}
		}
	}
	if most > coinsLimit && !j.jumps {
		j.t.Errorf("%d %s are held at a time, the budget has %d", most, coins, coinsLimit)
	}
	j.tallies["most coins"] = int(most)
}

// released waits until no coin and no permit is held.
func (s *storm) released(ctx context.Context, t *testing.T) {
	t.Helper()
	enginetest.EventuallyWithin(t, s.patience(), func() string {
		quotas, err := s.bench.Client.Limits(ctx)
		require.NoError(t, err)
		for _, q := range quotas {
			if q.Running != 0 || q.Waiting != 0 {
				return "the places of limit " + q.Name + " are free"
			}
		}
		budgets, err := s.bench.Client.Budgets(ctx)
		require.NoError(t, err)
		for _, b := range budgets {
			if b.Amount(coins).Reserved != 0 {
				return "nothing is reserved of " + b.BudgetName.String()
			}
		}
		return ""
	})
}

const (
	scheduleName = "beat"
	beatEvery    = time.Second
)

// schedule starts a run each second from now on.
func (s *storm) schedule(t *testing.T, step *activity.Activity[order, product]) {
	t.Helper()
	f := flow.New[int, product](scheduleName)
	flow.Return(f, flow.Node(f, "only", step, flow.Const(order{})))
	def, err := f.Build()
	require.NoError(t, err)
	_, err = runtime.Schedule(enginetest.Context(t), s.bench.Client, scheduleName, def, 1, runtime.ScheduleConfig{
		Every: beatEvery, Overlap: fabrictype.OverlapAllow,
	})
	require.NoError(t, err)
}

// stopBeats pauses the schedule when none of its fires waits for a keeper to start it: a paused one starts nothing. It
// keeps the fires that were due, and has none for the times that pass during the pause. Those are noted.
func (s *storm) stopBeats(ctx context.Context, t *testing.T) {
	t.Helper()
	client := s.bench.Client
	describe := func() *fabrictype.Schedule {
		d, err := client.Schedule(scheduleName).Describe(ctx)
		require.NoError(t, err)
		return d
	}
	for {
		require.NoError(t, client.Schedule(scheduleName).Pause(ctx, "the storm is over"))
		d := describe()
		if d.Waiting == 0 {
			return
		}
		require.NoError(t, client.Schedule(scheduleName).Resume(ctx))
		now, err := engine.ConnOf(s.bench.Engine.Internal()).Now(ctx)
		require.NoError(t, err)
		s.pauses = append(s.pauses, span{d.PausedAt, now})
		require.Eventually(t, func() bool { return describe().Waiting == 0 }, s.patience(), 10*time.Millisecond)
	}
}

// span is the time after from until to, by the engine's clock.
type span struct{ from, to time.Time }

// paused reports whether the schedule may have been paused at a time.
func (s *storm) paused(at time.Time) bool {
	return slices.ContainsFunc(s.pauses, func(x span) bool { return at.After(x.from) && !at.After(x.to) })
}

// beats checks that the schedule has started one run for each of its times, which have all succeeded.
func (s *storm) beats(ctx context.Context, t *testing.T) int {
	t.Helper()
	d, err := s.bench.Client.Schedule(scheduleName).Describe(ctx)
	require.NoError(t, err)
	assert.Zero(t, d.Waiting+int(d.Skipped+d.Missed+d.Failed), "fires without a run: %+v", d)
	runs := make(map[time.Time]int)
	var first, last time.Time
	for run, err := range s.bench.Client.Runs(ctx, runtime.RunQuery{Flow: scheduleName}) {
		require.NoError(t, err)
		name, at, _ := strings.Cut(run.Run, "@")
		fire, err := time.Parse(time.RFC3339, at)
		require.NoError(t, err)
		require.Equal(t, scheduleName, name)
		assert.Equal(t, fabrictype.RunSucceeded, run.State, run.Run)
		runs[fire]++
		if first.IsZero() || fire.Before(first) {
			first = fire
		}
		if fire.After(last) {
			last = fire
		}
	}
	for at := first; !last.IsZero() && !at.After(last); at = at.Add(beatEvery) {
		if !s.paused(at) {
			assert.Equal(t, 1, runs[at], "runs of the fire at %s", at)
		}
	}
	assert.Equal(t, d.Started, int64(len(runs)), "fires and runs")
	return len(runs)
}
