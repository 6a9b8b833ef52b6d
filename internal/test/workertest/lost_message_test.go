package workertest

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Channels, by the beginning of their names.
const (
	dueChannel    = "ffx:due"
	wakeChannels  = "ffx:wake"
	ringChannels  = "ffx:rota"
	workerChannel = "ffx:worker"
	doneChannels  = "ffx:done"
)

// dueSoon is how long after its cause something is due, too soon for a sweep to come first.
const dueSoon = time.Second

// lossy is an engine whose messages are lost, with the intervals of the sweeps that make up for them.
type lossy struct {
	*enginetest.Bench
	lost *enginetest.LostMessages
	// keeperSweep and workerSweep are the intervals of the sweeps. isExact is set on a virtual clock, where the
	// intervals are the defaults and bounds of time can be asserted.
	keeperSweep, workerSweep time.Duration
	isExact                  bool
}

// eachLossy runs a test with lost messages: on the embedded engine with a virtual clock and the intervals that programs
// have, on servers with short ones.
func eachLossy(t *testing.T, test func(t *testing.T, x *lossy)) {
	t.Helper()
	open := func(t *testing.T, kind testserver.Kind, x *lossy) {
		x.lost = new(enginetest.LostMessages)
		x.Bench = enginetest.New(t, kind, x.lost.Config())
		test(t, x)
	}
	testserver.SideBySide(t, testserver.Kinds(t), func(t *testing.T, kind testserver.Kind) {
		if kind == testserver.Embedded {
			synctest.Test(t, func(t *testing.T) {
				open(t, kind, &lossy{keeperSweep: time.Minute, workerSweep: time.Minute, isExact: true})
			})
			return
		}
		open(t, kind, &lossy{keeperSweep: 200 * time.Millisecond, workerSweep: 200 * time.Millisecond})
	})
}

// start starts a keeper and a worker, and waits until the keeper listens, on a virtual clock until both have swept
// everything.
func (x *lossy) start(t *testing.T, handlers []activity.Handler) {
	t.Helper()
	if x.isExact {
		x.Keeper(t)
		x.Worker(t, handlers)
		time.Sleep(time.Hour) //nolint:forbidigo // by the virtual clock
		return
	}
	x.SweepingKeeper(t, x.keeperSweep)
	x.SweepingWorker(t, x.workerSweep, handlers)
	x.AwaitSubscribed(t, engine.ConnOf(x.Engine.Internal()).Keys().ChannelDue())
}

// within asserts that work was performed not before it was due, and no later than a bound.
func (x *lossy) within(t *testing.T, due, at time.Time, bound time.Duration) {
	t.Helper()
	require.False(t, at.Before(due.Truncate(time.Millisecond)), "%s early", due.Sub(at))
	if x.isExact {
		require.LessOrEqual(t, at.Sub(due), bound, "late")
		t.Logf("%s late", at.Sub(due))
	}
}

// lostSome waits until a message of a channel was dropped.
func (x *lossy) lostSome(t *testing.T, channel string) {
	t.Helper()
	enginetest.Eventually(t, func() string {
		if x.lost.Dropped(channel) == 0 {
			return "no message of " + channel + " was lost"
		}
		return ""
	})
}

// noting is an activity that sends the time of its n-th call, and fails before.
func noting(n int64, carried chan<- time.Time, opts ...activity.Option) *activity.Activity[int, int] {
	var calls atomic.Int64
	return activity.New("work", func(_ context.Context, in int) (int, error) {
		switch call := calls.Add(1); {
		case call < n:
			return 0, errors.New("not yet")
		case call == n:
			carried <- time.Now()
		}
		return in, nil
	}, opts...)
}

func built(t *testing.T, f *flow.Builder[int, int]) *flow.Definition[int, int] {
	t.Helper()
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

// dueCase is one kind of work that is due by time.
type dueCase struct {
	// flow makes the flow whose function sends to carried when the due work was performed.
	flow func(t *testing.T, carried chan<- time.Time) *flow.Definition[int, int]
	// start causes the due work and returns the time at which it is due. Nil starts a run, whose work is due dueSoon
	// later.
	start func(ctx context.Context, t *testing.T, x *lossy, def *flow.Definition[int, int]) time.Time
	// over is checked every second instead of carried, if it is not nil.
	over func(ctx context.Context, t *testing.T, run *runtime.Run[int]) bool
	// slack is how much later than start returned it may be due.
	slack time.Duration
}

func hasEnded(ctx context.Context, t *testing.T, run *runtime.Run[int]) bool {
	d, err := run.Describe(ctx)
	require.NoError(t, err)
	return d.State != fabrictype.RunRunning
}

func isPurged(ctx context.Context, t *testing.T, run *runtime.Run[int]) bool {
	_, err := run.Describe(ctx)
	if !errors.Is(err, engine.ErrRunNotFound) {
		require.NoError(t, err)
	}
	return err != nil
}

func startOne(
	ctx context.Context, t *testing.T, x *lossy, def *flow.Definition[int, int], opts ...runtime.StartOption,
) *runtime.Run[int] {
	t.Helper()
	run, err := runtime.Start(ctx, x.Client, def, 1, opts...)
	require.NoError(t, err)
	return run
}

// dueCases are the kinds of work that is due by time, by name.
var dueCases = map[string]dueCase{
	"retry": {flow: func(t *testing.T, carried chan<- time.Time) *flow.Definition[int, int] {
		return fixture.Single(t, noting(2, carried, activity.Retry(activity.RetryPolicy{First: dueSoon, Attempts: 3, Factor: 1})))
	}},
	"later start": {
		flow: func(t *testing.T, carried chan<- time.Time) *flow.Definition[int, int] {
			return fixture.Single(t, noting(1, carried))
		},
		start: func(ctx context.Context, t *testing.T, x *lossy, def *flow.Definition[int, int]) time.Time {
			at := time.Now().Add(dueSoon)
			startOne(ctx, t, x, def, runtime.StartAt(at))
			return at
		},
	},
	"fire of a schedule": {
		flow: func(t *testing.T, carried chan<- time.Time) *flow.Definition[int, int] {
			return fixture.Single(t, noting(1, carried))
		},
		start: func(ctx context.Context, t *testing.T, x *lossy, def *flow.Definition[int, int]) time.Time {
			at := time.Now().Add(dueSoon).Truncate(time.Millisecond)
			_, err := runtime.Schedule(ctx, x.Client, "soon", def, 1, runtime.ScheduleConfig{Every: time.Hour, StartingAt: at})
			require.NoError(t, err)
			return at
		},
	},
	"timeout of a wait": {flow: func(t *testing.T, carried chan<- time.Time) *flow.Definition[int, int] {
		f := flow.New[int, int]("waits")
		wait := flow.Waitpoint[string](f, "answer", activity.Timeout(dueSoon, activity.ResumeOnTimeout))
		flow.Return(f, flow.Node(f, "work", noting(1, carried), f.Input(), flow.After(wait)))
		return built(t, f)
	}},
	"deadline of a run": {flow: func(t *testing.T, _ chan<- time.Time) *flow.Definition[int, int] {
		f := flow.New[int, int]("late", flow.Deadline(dueSoon))
		flow.Return(f, flow.Waitpoint[int](f, "answer"))
		return built(t, f)
	}, over: hasEnded},
	"start deadline of a node": {flow: func(t *testing.T, _ chan<- time.Time) *flow.Definition[int, int] {
		return fixture.Single(t, activity.New("nobody", func(_ context.Context, n int) (int, error) { return n, nil },
			activity.ScheduleToStart(dueSoon), activity.Lane("nowhere")))
	}, over: hasEnded},
	"timeout of an attempt": {flow: func(t *testing.T, carried chan<- time.Time) *flow.Definition[int, int] {
		var calls atomic.Int64
		never := make(chan struct{})
		t.Cleanup(func() { close(never) })
		return fixture.Single(t, activity.New("deaf", func(context.Context, int) (int, error) {
			switch calls.Add(1) {
			case 1:
				<-never
			case 2:
				carried <- time.Now()
			}
			return 0, nil
		}, activity.StartToClose(dueSoon), activity.Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: fixture.SparedAttempts, Factor: 1})))
	}},
	"reset of a budget": {
		flow: func(t *testing.T, carried chan<- time.Time) *flow.Definition[int, int] {
			var calls atomic.Int64
			f := flow.New[int, int]("spends", flow.Budget("shared", flow.BudgetConfig{Hard: map[string]int64{"calls": 1}, PerFlow: true, ResetEvery: dueSoon, OnExceeded: flow.BlockNodes}))
			flow.Return(f, flow.Node(f, "work", activity.New("spend", func(ctx context.Context, n int) (int, error) {
				if calls.Add(1) == 2 {
					carried <- time.Now()
				}
				return n, activity.ReportUsage(ctx, "calls", 1)
			}), f.Input()))
			return built(t, f)
		},
		start: func(ctx context.Context, t *testing.T, x *lossy, def *flow.Definition[int, int]) time.Time {
			begun := time.Now()
			_, err := startOne(ctx, t, x, def).Result(ctx)
			require.NoError(t, err)
			enginetest.Eventually(t, func() string {
				state, err := x.Client.Budget(fabrictype.BudgetName{Name: "shared", Flow: def.Name()}).Describe(ctx)
				require.NoError(t, err)
				if state.UsedUp == "" && state.Resets == 0 {
					return "the budget is not used up"
				}
				return ""
			})
			startOne(ctx, t, x, def)
			return begun
		},
		slack: dueSoon,
	},
	"retention": {flow: func(t *testing.T, _ chan<- time.Time) *flow.Definition[int, int] {
		f := flow.New[int, int]("kept", flow.Retention(dueSoon))
		flow.Return(f, flow.Node(f, "work", fixture.AddOne(), f.Input()))
		return built(t, f)
	}, over: isPurged},
	"end of a child run": {
		flow: func(t *testing.T, carried chan<- time.Time) *flow.Definition[int, int] {
			f := flow.New[int, int]("parent")
			child := flow.Sub(f, "child", fixture.Single(t, fixture.AddOne()), f.Input())
			flow.Return(f, flow.Node(f, "work", noting(1, carried), child))
			return built(t, f)
		},
		start: func(ctx context.Context, t *testing.T, x *lossy, def *flow.Definition[int, int]) time.Time {
			startOne(ctx, t, x, def)
			return time.Now()
		},
	},
}

// Work that is due by time is performed when its message is lost: by the next sweep of the keeper, and by the next
// sweep of a worker after that when the wake-up that follows is lost too.
func TestLostDueMessages(t *testing.T) {
	t.Parallel()
	for name, c := range dueCases {
		for _, wakeToo := range []bool{false, true} {
			if wakeToo {
				name += ", no wake-up"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				eachLossy(t, func(t *testing.T, x *lossy) { testLostDue(t, x, c, wakeToo) })
			})
		}
	}
}

func testLostDue(t *testing.T, x *lossy, c dueCase, wakeToo bool) {
	carried := make(chan time.Time, 1)
	def := c.flow(t, carried)
	x.start(t, append(def.Handlers(), activity.New("other", func(_ context.Context, n int) (int, error) { return n, nil })))
	ctx := enginetest.Context(t)
	due, bound := time.Now().Add(dueSoon), x.keeperSweep
	losesWakes := func() bool { return false }
	if wakeToo {
		from := due
		losesWakes = func() bool { return !time.Now().Before(from) }
		bound += x.workerSweep
	}
	x.lost.Lose(func(channel, _ string) bool {
		isWake := strings.HasPrefix(channel, wakeChannels) || strings.HasPrefix(channel, ringChannels)
		return channel == dueChannel || isWake && losesWakes()
	})
	var run *runtime.Run[int]
	if c.start != nil {
		due = c.start(ctx, t, x, def)
	} else {
		run = startOne(ctx, t, x, def)
	}
	if c.over == nil {
		x.within(t, due, <-carried, bound+c.slack)
		x.lostSome(t, dueChannel)
		return
	}
	look := time.NewTicker(min(time.Second, x.keeperSweep))
	defer look.Stop()
	for !c.over(ctx, t, run) {
		<-look.C
	}
	x.within(t, due, time.Now(), bound+time.Second)
	x.lostSome(t, dueChannel)
}

// A run starts when its wake-up is lost, with the next sweep of a worker.
func TestLostWakeUps(t *testing.T) {
	t.Parallel()
	eachLossy(t, func(t *testing.T, x *lossy) {
		carried := make(chan time.Time, 1)
		def := fixture.Single(t, noting(1, carried))
		x.start(t, def.Handlers())
		x.lost.LoseChannels(wakeChannels, ringChannels)
		begun := time.Now()
		startOne(enginetest.Context(t), t, x, def)
		x.within(t, begun, <-carried, x.workerSweep)
		x.lostSome(t, "ffx:")
	})
}

// A caller that waits for a result gets it within five seconds when the message of the run's end is lost.
func TestLostEnds(t *testing.T) {
	t.Parallel()
	eachLossy(t, func(t *testing.T, x *lossy) {
		ended := make(chan time.Time, 1)
		var failure error
		if x.isExact {
			// The success of a run of the worker's own process needs no message; its failure does.
			failure = activity.NonRetryable(errors.New("no success"))
		}
		def := fixture.Single(t, activity.New("work", func(_ context.Context, in int) (int, error) {
			ended <- time.Now()
			return in, failure
		}))
		x.start(t, def.Handlers())
		x.lost.LoseChannels(doneChannels)
		ctx := enginetest.Context(t)
		starter := x.Client
		if !x.isExact {
			// Another process starts the runs, since the ends of a worker's own runs need no message.
			starter = enginetest.Open(t, x.Kind, x.URL, x.Prefix, x.lost.Config()).Client
		}
		// A run may end before its client has subscribed: then no message is sent, and none is needed.
		enginetest.Eventually(t, func() string {
			run, err := runtime.Start(ctx, starter, def, 1)
			require.NoError(t, err)
			_, err = run.Result(ctx)
			require.Equal(t, x.isExact, err != nil, "%v", err)
			x.within(t, <-ended, time.Now(), 5*time.Second)
			if x.lost.Dropped(doneChannels) == 0 {
				return "no end was lost"
			}
			return ""
		})
	})
}

// A function that is cancelled stops when the message to its worker is lost, with the next renewal of its lease: after
// a third of the lease.
func TestLostCancels(t *testing.T) {
	t.Parallel()
	eachLossy(t, func(t *testing.T, x *lossy) {
		const lease = 6 * time.Second
		begun, ends := make(chan struct{}, 1), make(chan fixture.Ended, 1)
		var started atomic.Int64
		wait := fixture.WaitForEnd(begun, ends, &started)
		x.Worker(t, []activity.Handler{wait}, runtime.WorkerConfig{Lease: lease})
		ctx := enginetest.Context(t)
		run := startOne(ctx, t, x, fixture.Single(t, wait))
		<-begun
		x.AwaitSubscribed(t, engine.ConnOf(x.Engine.Internal()).Keys().ChannelWorker(""))
		x.lost.LoseChannels(workerChannel)
		cancelled := time.Now()
		require.NoError(t, run.Cancel(ctx, "no longer wanted"))
		end := <-ends
		require.ErrorIs(t, end.Cause, runtime.ErrCancelled)
		x.within(t, cancelled, end.At, lease/3)
		x.lostSome(t, workerChannel)
	})
}

// A worker learns of a cancel that was sent while it was not subscribed as soon as it subscribes, and not only with the
// next renewal of its leases, which comes in twenty minutes here.
func TestSubscribingWorker_LearnsOfCancels(t *testing.T) {
	t.Parallel()
	eachLossy(t, func(t *testing.T, x *lossy) {
		begun, ends := make(chan struct{}, 1), make(chan fixture.Ended, 1)
		var started atomic.Int64
		wait := fixture.WaitForEnd(begun, ends, &started)
		x.Worker(t, []activity.Handler{wait}) // a lease of an hour
		ctx := enginetest.Context(t)
		run := startOne(ctx, t, x, fixture.Single(t, wait))
		<-begun
		x.AwaitSubscribed(t, engine.ConnOf(x.Engine.Internal()).Keys().ChannelWorker(""))
		x.lost.LoseChannels(workerChannel)
		require.NoError(t, run.Cancel(ctx, "no longer wanted"))
		x.lostSome(t, workerChannel)
		if x.isExact {
			time.Sleep(time.Minute) //nolint:forbidigo // by the virtual clock
		}
		require.Empty(t, ends, "the cancel was lost")
		broken := time.Now()
		x.lost.BreakSubscriptions()
		end := <-ends
		require.ErrorIs(t, end.Cause, runtime.ErrCancelled)
		x.within(t, broken, end.At, 5*time.Second)
		require.EqualValues(t, 1, started.Load())
	})
}
