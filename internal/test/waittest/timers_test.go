package waittest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/eventkind"
	"github.com/flowfabric/flowfabric-go/internal/runcontrol"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/waitreason"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// invoice is a value with a time in it.
type invoice struct {
	Terms struct {
		Due time.Time `json:"due"`
	} `json:"terms"`
}

// nodesNow describes the nodes of a run.
func nodesNow(t *testing.T, ctx context.Context, run *runtime.RunRef) map[string]fabrictype.Node {
	t.Helper()
	d, err := run.Describe(ctx)
	require.NoError(t, err)
	return fixture.NodesByName(d)
}

// sleepsUntil waits until a node sleeps, and describes it.
func sleepsUntil(t *testing.T, ctx context.Context, run *runtime.RunRef, node string) (n fabrictype.Node) {
	t.Helper()
	enginetest.Eventually(t, func() string {
		if n = nodesNow(t, ctx, run)[node]; n.SleepsUntil.IsZero() {
			return fmt.Sprintf("%s does not sleep: %+v", node, n)
		}
		return ""
	})
	return n
}

// eventKinds returns the events of a node, by their kinds.
func eventKinds(t *testing.T, ctx context.Context, run *runtime.RunRef, node string) (kinds []fabrictype.EventKind) {
	t.Helper()
	for e, err := range run.Watch(ctx, "") {
		require.NoError(t, err)
		if e.Node == node && e.Kind != fabrictype.EventProgress {
			kinds = append(kinds, e.Kind)
		}
		if e.Ends() {
			break
		}
	}
	return kinds
}

// A timer ends when its time has come and not before: a duration, a time in the run's input, in a result, and a
// constant. Nothing of it needs a worker.
func TestTimers(t *testing.T) {
	t.Parallel()
	enginetest.EachTimed(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		const pause = 200 * time.Millisecond
		bill := activity.New("bill", func(_ context.Context, in invoice) (invoice, error) {
			in.Terms.Due = time.Now().Add(pause)
			return in, nil
		})
		f := flow.New[invoice, struct{}]("billing")
		billed := flow.Node(f, "bill", bill, f.Input())
		flow.Sleep(f, "sleep", pause, flow.After(billed))
		flow.Until(f, "from-result", flow.TimeIn(billed, "terms", "due"))
		flow.Until(f, "from-input", flow.TimeIn(f.Input(), "terms", "due"))
		flow.Until(f, "over", flow.Const(time.Now().Add(-time.Hour)))
		def, err := f.Build()
		require.NoError(t, err)
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		var in invoice
		in.Terms.Due = time.Now().Add(pause).Truncate(time.Microsecond)
		run, err := runtime.Start(ctx, b.Client, def, in)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.NoError(t, err)
		d := nodesNow(t, ctx, run.RunRef)
		billedAt := d["bill"].CompletedAt
		require.False(t, d["sleep"].CompletedAt.Before(billedAt.Add(pause)))
		require.False(t, d["from-input"].CompletedAt.Before(in.Terms.Due), "%s, due %s", d["from-input"].CompletedAt, in.Terms.Due)
		require.False(t, d["from-result"].CompletedAt.Before(billedAt))
		require.Equal(t, fabrictype.KindTimer, d["over"].Kind)
		require.Equal(t, fabrictype.NodeSucceeded, d["over"].State)
		require.Zero(t, d["sleep"].SleepsUntil)
		require.Equal(t, []fabrictype.EventKind{eventkind.Sleeping, eventkind.TimerEnded, fabrictype.EventSucceeded},
			eventKinds(t, ctx, run.RunRef, "sleep"))
		require.Equal(t, []fabrictype.EventKind{eventkind.Sleeping, eventkind.TimerEnded, fabrictype.EventSucceeded},
			eventKinds(t, ctx, run.RunRef, "over"))
		b.Settle(t)
	})
}

// An input that is not a time fails the timer, and the error contains the input.
func TestTimerWithoutTime(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		f := flow.New[json.RawMessage, struct{}]("untimely")
		flow.Until(f, "due", flow.TimeIn(f.Input(), "at"))
		def, err := f.Build()
		require.NoError(t, err)
		for i, x := range []struct{ in, fault string }{
			{`{"at":"tomorrow"}`, "field at is no time in the form of RFC 3339: tomorrow"},
			{`{"at":"2026-02-29T00:00:00Z"}`, "no time in the form of RFC 3339"},
			{`{"at":"2026-01-01T00:00:00"}`, "no time in the form of RFC 3339"},
			{`{"at":"2026-01-01T25:00:00Z"}`, "no time in the form of RFC 3339"},
			{`{"at":"2026-01-01T00:00:00+25:00"}`, "no time in the form of RFC 3339"},
			{`{"at":"9999-01-01T00:00:00Z"}`, "more than 100 years ahead"},
			{`{"at":1767225600}`, "no time in the form of RFC 3339: 1767225600"},
			{`{"at":null}`, "no time in the form of RFC 3339: null"},
			{`{"at":{}}`, "a JSON object or list"},
			{`{"to":1}`, "the input has no field at"},
			{`"2026-01-01T00:00:00Z"`, "the input has no field at"},
		} {
			run, err := runtime.Start(ctx, b.Client, def, json.RawMessage(x.in), runtime.WithID(fmt.Sprint(i)))
			require.NoError(t, err)
			_, err = run.Result(ctx)
			failed, ok := errors.AsType[*runtime.RunError](err)
			require.True(t, ok, "%s: %v", x.in, err)
			require.Equal(t, activityspec.CategoryDecode, failed.Category, x.in)
			require.Contains(t, failed.Reason, x.fault, x.in)
		}
		for _, in := range []string{
			"2020-02-29T23:59:60.123456789+14:00", "0001-01-01T00:00:00Z", "1969-12-31t23:59:59.999z", "2024-12-31T00:00:00-00:30",
		} {
			run, err := runtime.Start(ctx, b.Client, def, json.RawMessage(`{"at":"`+in+`"}`))
			require.NoError(t, err)
			_, err = run.Result(ctx)
			require.NoError(t, err, in)
		}
		b.Settle(t)
	})
}

// A time is read as Go reads it, to the millisecond.
func TestTimerReadsTimes(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		f := flow.New[time.Time, struct{}]("timely")
		flow.Until(f, "due", f.Input())
		def, err := f.Build()
		require.NoError(t, err)
		year := time.Now().Year() + 1
		for i, text := range []string{
			"%d-03-01T00:00:00Z", "%d-02-28T23:59:59.999Z", "%d-12-31T23:59:59.9990000+05:30", "%d-01-01T00:00:00.5-11:59",
			"%d-07-04T12:34:56.001-07:00",
		} {
			for later := range 5 {
				want, err := time.Parse(time.RFC3339Nano, fmt.Sprintf(text, year+later))
				require.NoError(t, err)
				run, err := runtime.Start(ctx, b.Client, def, want, runtime.WithID(fmt.Sprint(i, later)))
				require.NoError(t, err)
				n := sleepsUntil(t, ctx, run.RunRef, "due")
				require.True(t, want.Equal(n.SleepsUntil), "%s: %s", want, n.SleepsUntil)
				require.NoError(t, run.SkipTimer(ctx, "due"))
				_, err = run.Result(ctx)
				require.NoError(t, err)
			}
		}
		b.Settle(t)
	})
}

// A sleeping function holds no worker, resumes once, and does not repeat its recorded steps.
func TestActivitySleep(t *testing.T) {
	t.Parallel()
	enginetest.EachTimed(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var began, asked atomic.Int64
		nap := activity.New("nap", func(ctx context.Context, d time.Duration) (int, error) {
			began.Add(1)
			if _, err := activity.Step(ctx, "ask", func(context.Context) (int64, error) { return asked.Add(1), nil }); err != nil {
				return 0, err
			}
			for range 3 {
				if err := activity.Sleep(ctx, "nap", d); err != nil {
					return 0, fmt.Errorf("napping: %w", err)
				}
			}
			return 7, activity.Sleep(ctx, "none", 0)
		})
		def := fixture.Single(t, nap)
		b.Keeper(t)
		b.Worker(t, def.Handlers(), runtime.WorkerConfig{Concurrency: 1})
		run, err := runtime.Start(ctx, b.Client, def, time.Hour)
		require.NoError(t, err)
		n := sleepsUntil(t, ctx, run.RunRef, "only")
		require.Equal(t, fabrictype.NodeSuspended, n.State)
		require.Equal(t, waitreason.Timer, n.Waiting.Reason)
		require.Equal(t, "nap", n.Waiting.Subject)
		require.Contains(t, n.Waiting.Sentence, "sleeps until ")
		require.Empty(t, n.Waits)
		waits, err := run.Waitpoints(ctx)
		require.NoError(t, err)
		require.Empty(t, waits)
		all, err := b.Client.ListWaits(ctx, runtime.WaitQuery{}, "", 0)
		require.NoError(t, err)
		require.Empty(t, all.Items)

		// The only slot is free.
		other, err := runtime.Start(ctx, b.Client, def, 20*time.Millisecond)
		require.NoError(t, err)
		got, err := other.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 7, got)

		for i := range 3 {
			until := sleepsUntil(t, ctx, run.RunRef, "only").SleepsUntil
			require.NoError(t, run.SkipTimer(ctx, "only"))
			if i < 2 {
				enginetest.Eventually(t, func() string {
					if at := nodesNow(t, ctx, run.RunRef)["only"].SleepsUntil; at.IsZero() || at.Equal(until) {
						return "it does not sleep again"
					}
					return ""
				})
			}
		}
		got, err = run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 7, got)
		require.Equal(t, int64(2), asked.Load())
		require.Equal(t, int64(8), began.Load())
		b.Settle(t)
	})
}

// An operator moves and ends timers; it is in the events and the audit log.
func TestMoveTimer(t *testing.T) {
	t.Parallel()
	enginetest.EachTimed(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		f := flow.New[int, struct{}]("moved")
		long := flow.Sleep(f, "long", 90*24*time.Hour)
		flow.Sleep(f, "next", time.Hour, flow.After(long))
		def, err := f.Build()
		require.NoError(t, err)
		b.Keeper(t)
		run, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID("r"))
		require.NoError(t, err)
		ann := b.Client.As("ann").Run("moved", "r")
		n := sleepsUntil(t, ctx, run.RunRef, "long")
		require.Equal(t, waitreason.Timer, n.Waiting.Reason)
		require.WithinDuration(t, time.Now().Add(90*24*time.Hour), n.SleepsUntil, time.Hour)

		require.ErrorIs(t, ann.MoveTimer(ctx, "next", time.Now().Add(time.Hour)), runcontrol.ErrNotSleeping)
		require.ErrorIs(t, ann.SkipTimer(ctx, "next"), runcontrol.ErrNotSleeping)
		require.ErrorIs(t, ann.SkipTimer(ctx, "none"), engine.ErrUnknownNode)
		require.ErrorIs(t, ann.MoveTimer(ctx, "long", time.Time{}), runtime.ErrInvalid)
		require.ErrorIs(t, ann.MoveTimer(ctx, "long", time.Now().Add(11*366*24*time.Hour)), runtime.ErrInvalid)
		require.ErrorIs(t, b.Client.Run("moved", "other").SkipTimer(ctx, "long"), engine.ErrRunNotFound)
		_, err = ann.SignalWait(ctx, runtime.WaitName{Node: "long"}, runtime.Signal{Name: "x"})
		require.ErrorContains(t, err, "is a timer, and takes no signals")

		later := time.Now().Add(48 * time.Hour).UTC().Truncate(time.Millisecond)
		require.NoError(t, ann.MoveTimer(ctx, "long", later))
		require.True(t, later.Equal(sleepsUntil(t, ctx, run.RunRef, "long").SleepsUntil))
		soon := time.Now().Add(100 * time.Millisecond).Truncate(time.Millisecond)
		require.NoError(t, ann.MoveTimer(ctx, "long", soon))
		n = sleepsUntil(t, ctx, run.RunRef, "next")
		d := nodesNow(t, ctx, run.RunRef)
		require.False(t, d["long"].CompletedAt.Before(soon))
		require.NoError(t, ann.MoveTimer(ctx, "next", time.Now().Add(-time.Minute)))
		_, err = run.Result(ctx)
		require.NoError(t, err)
		require.ErrorIs(t, ann.SkipTimer(ctx, "long"), runcontrol.ErrNotSleeping)

		require.Equal(t, []fabrictype.EventKind{
			eventkind.Sleeping, eventkind.TimerMoved, eventkind.TimerMoved, eventkind.TimerEnded, fabrictype.EventSucceeded,
		}, eventKinds(t, ctx, run.RunRef, "long"))
		for e, err := range run.Watch(ctx, "") {
			require.NoError(t, err)
			if e.Kind == eventkind.TimerMoved {
				require.Equal(t, later.Format(time.RFC3339Nano), e.Detail)
				break
			}
		}
		require.Equal(t, []fabrictype.EventKind{eventkind.Sleeping, eventkind.TimerSkipped, fabrictype.EventSucceeded},
			eventKinds(t, ctx, run.RunRef, "next"))
		moves := 0
		for e, err := range b.Client.Audit(ctx, runtime.AuditQuery{Action: auditlink.MoveTimer}) {
			require.NoError(t, err)
			require.Equal(t, "ann", e.Actor)
			if e.Failure == "" {
				moves++
			}
		}
		require.GreaterOrEqual(t, moves, 3)
		b.Settle(t)
	})
}

// Timers end with their run: by a cancel, by a deadline, and by a rerun they begin again.
func TestTimersEndWithTheRun(t *testing.T) {
	t.Parallel()
	enginetest.EachTimed(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		build := func(name string, opts ...flow.Option) *flow.Definition[int, struct{}] {
			f := flow.New[int, struct{}](name, opts...)
			fails := flow.Node(f, "fails", activity.New("fails", func(_ context.Context, n int) (int, error) {
				return n, activity.NonRetryable(fmt.Errorf("no"))
			}), f.Input())
			flow.Sleep(f, "after", time.Hour, flow.OnFailure(fails))
			def, err := f.Build()
			require.NoError(t, err)
			return def
		}
		def := build("cancelled")
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		sleepsUntil(t, ctx, run.RunRef, "after")
		require.NoError(t, run.Cancel(ctx, "enough"))
		_, err = run.Result(ctx)
		require.Error(t, err)

		late, err := runtime.Start(ctx, b.Client, build("late", flow.Deadline(300*time.Millisecond)), 1)
		require.NoError(t, err)
		_, err = late.Result(ctx)
		require.Error(t, err)
		d := nodesNow(t, ctx, late.RunRef)
		require.Equal(t, fabrictype.NodeExpired, d["after"].State)

		again, err := runtime.Start(ctx, b.Client, build("again"), 1)
		require.NoError(t, err)
		for range 2 {
			sleepsUntil(t, ctx, again.RunRef, "after")
			require.NoError(t, again.SkipTimer(ctx, "after"))
			_, err = again.Result(ctx)
			require.Error(t, err)
			require.NoError(t, again.Rerun(ctx, fabrictype.RerunAll))
		}
		require.NoError(t, again.Cancel(ctx, ""))
		_, err = again.Result(ctx)
		require.Error(t, err)
		require.NoError(t, again.Purge(ctx))
		b.Settle(t)
	})
}
