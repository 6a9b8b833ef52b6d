package tasktest

import (
	"context"
	"errors"
	goruntime "runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func TestTaskComplete(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		b.Keeper(t)
		h := fixture.NewHolder(t, b, runtime.WorkerConfig{})
		run := h.Started(4)
		task := h.Next()
		info := task.Info()
		require.Equal(t, "work", info.Kind)
		require.Equal(t, activity.DefaultLane, info.Lane)
		require.Equal(t, 1, info.Attempt)
		require.NotEmpty(t, info.LeaseID)
		require.NotEmpty(t, info.AttemptID)
		require.EqualValues(t, 1, info.LeaseEpoch)
		var n int
		require.NoError(t, task.Decode(&n))
		require.Equal(t, 4, n)
		require.NoError(t, task.Renew(h.Ctx))
		require.NoError(t, task.Progress(h.Ctx, 50, "half"))
		seen, ok := activity.Info(task.Context())
		require.True(t, ok)
		require.Equal(t, info, seen)
		require.NoError(t, task.Complete(h.Ctx, n+1))
		require.NoError(t, task.Complete(h.Ctx, n+1), "it is safe to repeat")
		_, err := task.Fail(h.Ctx, errors.New("late"))
		require.ErrorIs(t, err, runtime.ErrTaskSettled)
		require.ErrorIs(t, task.Progress(h.Ctx, 60, ""), runtime.ErrTaskSettled)
		h.RequireResult(run, 5)
		b.Settle(t)
	})
}

func TestTaskOutsideRuns(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		b.Keeper(t)
		h := fixture.NewHolder(t, b, runtime.WorkerConfig{})
		operator, id := h.Outside(admin.ExecutionSpec{Payload: []byte("raw"), Tags: map[string]string{"team": "a"}})
		task := h.Next()
		require.Equal(t, "raw", string(task.Payload()))
		require.Equal(t, map[string]string{"team": "a"}, task.Info().Tags)
		require.Equal(t, string(id), task.Info().ExecutionID)
		require.NoError(t, task.Complete(h.Ctx, []byte("done")))
		result, _, err := operator.ExecutionResult(h.Ctx, id)
		require.NoError(t, err)
		require.Equal(t, "done", string(result))
	})
}

func TestTaskCancel(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		b.Keeper(t)
		h := fixture.NewHolder(t, b, runtime.WorkerConfig{})
		run := h.Started(1)
		task := h.Next()
		require.NoError(t, task.Cancel(h.Ctx, "superseded"))
		require.NoError(t, task.Cancel(h.Ctx, "superseded"))
		_, err := run.Result(h.Ctx)
		require.Error(t, err)
		operator, id := h.Outside(admin.ExecutionSpec{})
		require.NoError(t, h.Next().Cancel(h.Ctx, "superseded"))
		state, err := operator.ExecutionState(h.Ctx, id)
		require.NoError(t, err)
		require.Equal(t, fabrictype.NodeCancelled, state)
		b.Settle(t)
	})
}

func TestTaskFail(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		b.Keeper(t)
		h := fixture.NewHolder(t, b, runtime.WorkerConfig{})
		run := h.Started(1, activity.Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: 2, Factor: 1}))
		task := h.Next()
		again, err := task.Fail(h.Ctx, errors.New("once"))
		require.NoError(t, err)
		require.True(t, again)
		task = h.Next()
		require.Equal(t, 2, task.Info().Attempt)
		again, err = task.Fail(h.Ctx, errors.New("twice"))
		require.NoError(t, err)
		require.False(t, again)
		_, err = run.Result(h.Ctx)
		require.ErrorIs(t, err, runtime.ErrRunFailed)
		b.Settle(t)
	})
}

func TestTaskDelayAndRelease(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		b.Keeper(t)
		h := fixture.NewHolder(t, b, runtime.WorkerConfig{})
		run := h.Started(7, activity.Retry(activity.RetryPolicy{Attempts: 1}))
		task := h.Next()
		until := time.Now().Add(20 * time.Millisecond)
		require.NoError(t, task.Delay(h.Ctx, until))
		task = h.Next()
		require.Equal(t, 1, task.Info().Attempt, "no attempt is spent")
		require.EqualValues(t, 2, task.Info().LeaseEpoch)
		require.NoError(t, task.Release(h.Ctx))
		task = h.Next()
		require.Equal(t, 1, task.Info().Attempt)
		require.NoError(t, task.WaitForChildren(h.Ctx))
		if !b.Contract() { // there, a node without dependencies waits
			task = h.Next()
			require.NoError(t, task.Complete(h.Ctx, 8))
			h.RequireResult(run, 8)
		}
	})
}

func TestTaskSuspend(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		b.Keeper(t)
		h := fixture.NewHolder(t, b, runtime.WorkerConfig{})
		run := h.Started(1)
		task := h.Next()
		none, err := task.ResumeSignals(h.Ctx)
		require.NoError(t, err)
		require.Empty(t, none)
		token, err := task.Suspend(h.Ctx, activity.Signals("yes"), activity.Timeout(time.Hour, activity.FailOnTimeout))
		require.NoError(t, err)
		same, err := task.Suspend(h.Ctx)
		require.NoError(t, err)
		require.Equal(t, token.Reveal(), same.Reveal())
		answer, err := b.Client.Signal(h.Ctx, token, runtime.Signal{Name: "yes", Payload: 5, Source: "me"})
		require.NoError(t, err)
		require.Equal(t, fabrictype.SignalResumed, answer.Outcome)
		task = h.Next()
		signals, err := task.ResumeSignals(h.Ctx)
		require.NoError(t, err)
		require.Len(t, signals, 1)
		require.Equal(t, "yes", signals[0].Name)
		require.Equal(t, answer.SignalID, signals[0].ID)
		require.Equal(t, "client", signals[0].SourceType)
		require.Equal(t, "external", signals[0].Category)
		require.Equal(t, "5", string(signals[0].Payload))
		require.NoError(t, task.Complete(h.Ctx, 5))
		h.RequireResult(run, 5)
		b.Settle(t)
	})
}

// Outside runs, signals come by ff_deliver_signal.
func TestTaskSuspendOutsideRuns(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		b.Keeper(t)
		h := fixture.NewHolder(t, b, runtime.WorkerConfig{})
		operator, id := h.Outside(admin.ExecutionSpec{})
		_, err := h.Next().Suspend(h.Ctx, activity.Signals("yes"))
		require.NoError(t, err)
		var points []admin.Waitpoint
		enginetest.Eventually(t, func() string {
			if points, err = operator.Waitpoints(h.Ctx, id); err != nil || len(points) == 0 {
				return "no waitpoint is open"
			}
			return ""
		})
		_, err = operator.DeliverSignal(h.Ctx, admin.Signal{
			Execution: id, Waitpoint: points[0].ID, Token: points[0].Token, Name: "yes", Category: "review",
			SourceType: "person", SourceIdentity: "eve", CorrelationID: "case 7", Payload: []byte(`{"ok":true}`),
		})
		require.NoError(t, err)
		task := h.Next()
		signals, err := task.ResumeSignals(h.Ctx)
		require.NoError(t, err)
		require.Len(t, signals, 1)
		require.Equal(t, "review", signals[0].Category)
		require.Equal(t, "person", signals[0].SourceType)
		require.Equal(t, "case 7", signals[0].CorrelationID)
		require.NoError(t, task.Complete(h.Ctx, nil))
	})
}

// A task that the program drops, and those that it holds when the worker stops, are given back without spending an
// attempt.
func TestTaskIsReleased(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		b.Keeper(t)
		h := fixture.NewHolder(t, b, runtime.WorkerConfig{Grace: -1})
		run := h.Started(1, activity.Retry(activity.RetryPolicy{Attempts: 1}))
		func() { h.Next() }()
		enginetest.Eventually(t, func() string {
			goruntime.GC()
			ctx, cancel := context.WithTimeout(h.Ctx, 50*time.Millisecond)
			defer cancel()
			task, err := h.Worker.Next(ctx)
			if err != nil {
				return err.Error()
			}
			require.Equal(t, 1, task.Info().Attempt)
			require.NoError(t, h.Run.Stop())
			require.ErrorIs(t, task.Complete(h.Ctx, 1), runtime.ErrStopping)
			return ""
		})
		_, err := h.Worker.Next(h.Ctx)
		require.ErrorIs(t, err, runtime.ErrStopping)
		again := fixture.NewHolder(t, b, runtime.WorkerConfig{})
		require.NoError(t, again.Next().Complete(h.Ctx, 3))
		h.RequireResult(run, 3)
		b.Settle(t)
	})
}

// A program that has lost its lease cannot change the execution.
func TestTaskFencing(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		h := fixture.NewHolder(t, b, runtime.WorkerConfig{})
		operator, id := h.Outside(admin.ExecutionSpec{})
		task := h.Next()
		_, err := operator.RevokeLease(h.Ctx, id, enginecore.LeaseID(task.Info().LeaseID), "test")
		require.NoError(t, err)
		require.ErrorIs(t, task.Complete(h.Ctx, 1), runtime.ErrLeaseLost)
		_, err = task.Fail(h.Ctx, errors.New("late"))
		require.ErrorIs(t, err, runtime.ErrLeaseLost)
	})
}

// With manual renewal, the lease ends unless the program renews it.
func TestTaskManualRenewal(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		b.Keeper(t)
		h := fixture.NewHolder(t, b, runtime.WorkerConfig{ManualRenewal: true, Lease: 2 * time.Second})
		h.Started(1)
		task := h.Next()
		before := task.LeaseEnd()
		require.NoError(t, task.Renew(h.Ctx))
		require.True(t, task.LeaseEnd().After(before))
		select {
		case <-task.Context().Done():
		case <-h.Ctx.Done():
			require.Fail(t, "the lease has not ended")
		}
		require.ErrorIs(t, context.Cause(task.Context()), runtime.ErrLeaseLost)
		require.ErrorIs(t, task.Complete(h.Ctx, 1), runtime.ErrLeaseLost)
	})
}

// A call of Next whose ctx has ended leaves no claimed task.
func TestTaskNextEnds(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		h := fixture.NewHolder(t, b, runtime.WorkerConfig{Concurrency: 1})
		for range 20 {
			ctx, cancel := context.WithTimeout(h.Ctx, time.Millisecond)
			_, err := h.Worker.Next(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			cancel()
		}
		h.Started(1)
		h.Started(2)
		first := h.Next()
		ctx, cancel := context.WithTimeout(h.Ctx, 50*time.Millisecond)
		defer cancel()
		_, err := h.Worker.Next(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded, "the program holds as many as it may")
		require.NoError(t, first.Complete(h.Ctx, 1))
		require.NoError(t, h.Next().Complete(h.Ctx, 2))
	})
}

func TestTaskOfGrant(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		h := fixture.NewHolder(t, b, runtime.WorkerConfig{})
		run := h.Started(1)
		issuer := b.Engine
		var grant enginecore.Grant
		enginetest.Eventually(t, func() (fault string) {
			var err error
			if grant, err = issuer.ClaimForWorker(h.Ctx, enginecore.GrantRequest{
				Lane: activity.DefaultLane, WorkerID: "worker", Instance: h.Worker.Instance(), TTL: 30 * time.Second,
			}); err != nil {
				return err.Error()
			}
			return ""
		})
		task, err := h.Worker.NextGranted(h.Ctx, grant)
		require.NoError(t, err)
		_, err = h.Worker.NextGranted(h.Ctx, grant)
		require.ErrorIs(t, err, enginecore.ErrNoGrant)
		require.NoError(t, task.Complete(h.Ctx, 2))
		h.RequireResult(run, 2)
	})
}

// With a granter, each call of Next claims by a grant.
func TestTaskThroughGrants(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		issuer := b.Engine
		h := fixture.NewHolder(t, b, runtime.WorkerConfig{ClaimThrough: issuer.ClaimForWorker})
		runs := []*runtime.Run[int]{h.Started(1), h.Started(2)}
		for range runs {
			task := h.Next()
			var n int
			require.NoError(t, task.Decode(&n))
			require.NoError(t, task.Complete(h.Ctx, n))
		}
		for i, run := range runs {
			h.RequireResult(run, i+1)
		}
	})
}

// A grant also gives an execution whose wait is over, and one whose worker was lost.
func TestTaskOfLaterGrant(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		b.Keeper(t)
		h := fixture.NewHolder(t, b, runtime.WorkerConfig{ManualRenewal: true, Lease: time.Second})
		run := h.Started(1)
		issuer := b.Engine
		granted := func() (task *runtime.Task) {
			enginetest.Eventually(t, func() string {
				grant, err := issuer.ClaimForWorker(h.Ctx, enginecore.GrantRequest{
					Lane: activity.DefaultLane, WorkerID: "worker", Instance: h.Worker.Instance(), TTL: 30 * time.Second,
				})
				if err == nil {
					task, err = h.Worker.NextGranted(h.Ctx, grant)
				}
				if err != nil {
					return err.Error()
				}
				return ""
			})
			return task
		}
		task := granted()
		_, err := task.Suspend(h.Ctx, activity.Timeout(10*time.Millisecond, activity.ResumeOnTimeout))
		require.NoError(t, err)
		resumed := granted()
		require.Equal(t, task.Info().AttemptID, resumed.Info().AttemptID)
		<-resumed.Context().Done() // the lease is not renewed
		reclaimed := granted()
		require.Equal(t, 2, reclaimed.Info().Attempt)
		require.ErrorIs(t, resumed.Complete(h.Ctx, 1), runtime.ErrLeaseLost)
		require.NoError(t, reclaimed.Complete(h.Ctx, 3))
		h.RequireResult(run, 3)
	})
}

func TestTaskFrames(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		h := fixture.NewHolder(t, b, runtime.WorkerConfig{})
		run := h.Started(1)
		task := h.Next()
		at := time.UnixMilli(1_700_000_000_000).UTC()
		require.NoError(t, task.Append(h.Ctx, activity.Frame{
			Kind: "line", Payload: []byte("hello"), Encoding: "utf8", CorrelationID: "req-1", At: at,
		}))
		require.NoError(t, task.Append(h.Ctx, activity.Frame{Kind: "value", Payload: 2}))
		require.NoError(t, task.Complete(h.Ctx, 1))
		var frames []fabrictype.Frame
		for frame, err := range run.Frames(h.Ctx, "only", "") {
			require.NoError(t, err)
			frames = append(frames, frame)
		}
		require.Len(t, frames, 2)
		require.Equal(t, "req-1", frames[0].CorrelationID)
		require.Equal(t, "utf8", frames[0].Encoding)
		require.Equal(t, at, frames[0].ProducedAt)
		require.NotNil(t, frames[1].JSON)
	})
}

// A function ends its node as cancelled, and delays itself.
func TestFunctionCancelsAndDelays(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		b.Keeper(t)
		infos := make(chan activity.ExecutionInfo, 10)
		work := activity.New("work", func(ctx context.Context, n int) (int, error) {
			info, _ := activity.Info(ctx)
			infos <- info
			switch {
			case n < 0:
				return 0, activity.CancelNode("negative")
			case info.LeaseEpoch == 1:
				return 0, activity.DelayUntil(time.Now().Add(5 * time.Millisecond))
			}
			return n, nil
		}, activity.Retry(activity.RetryPolicy{Attempts: 1}))
		f := flow.New[int, int]("ends")
		flow.Return(f, flow.Node(f, "work", work, f.Input(), flow.Tag("app.color", "red")))
		def, err := f.Build()
		require.NoError(t, err)
		b.Worker(t, []activity.Handler{work})
		run, err := runtime.Start(ctx, b.Client, def, 3)
		require.NoError(t, err)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 3, out)
		first, second := <-infos, <-infos
		require.Equal(t, map[string]string{"app.color": "red"}, first.Tags)
		require.Equal(t, first.Attempt, second.Attempt)
		require.Equal(t, first.AttemptID, second.AttemptID)
		require.NotEqual(t, first.LeaseID, second.LeaseID)
		run, err = runtime.Start(ctx, b.Client, def, -1)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.Error(t, err)
		require.Len(t, infos, 1, "it is not retried")
		b.Settle(t)
	})
}

// Usage of several dimensions counts in the budgets of the run.
func TestTaskUsage(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		b.Keeper(t)
		h := fixture.NewHolder(t, b, runtime.WorkerConfig{})
		f := flow.New[int, int]("spends",
			flow.Budget("quota", flow.BudgetConfig{Hard: map[string]int64{"tokens": 100, "calls": 100}}))
		flow.Return(f, flow.Node(f, "only", fixture.Passing("work"), f.Input()))
		def, err := f.Build()
		require.NoError(t, err)
		run, err := runtime.Start(h.Ctx, b.Client, def, 1)
		require.NoError(t, err)
		task := h.Next()
		require.NoError(t, task.ReportUsage(h.Ctx, "first", map[string]int64{"tokens": 7, "calls": 1}))
		require.NoError(t, task.ReportUsage(h.Ctx, "first", map[string]int64{"tokens": 7, "calls": 1}), "it counts once")
		require.NoError(t, activity.ReportUsageOnce(task.Context(), "all", map[string]int64{"tokens": 3, "calls": 1}))
		amounts, err := activity.Budgets(task.Context())
		require.NoError(t, err)
		spent := map[string]int64{}
		for _, a := range amounts {
			spent[a.Dimension] = a.Spent
		}
		require.Equal(t, map[string]int64{"tokens": 10, "calls": 2}, spent)
		require.ErrorIs(t, task.ReportUsage(h.Ctx, "", map[string]int64{"tokens": -1}), activityspec.ErrUsage)
		require.ErrorIs(t, task.ReportUsage(h.Ctx, "", map[string]int64{"other": 1}), activityspec.ErrUnknownDimension)

		require.NoError(t, task.Complete(h.Ctx, 1))
		_, err = run.Result(h.Ctx)
		require.NoError(t, err)
	})
}

// Usage of several dimensions counts in a budget that no run has.
func TestTaskUsageOfAnyBudget(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		h := fixture.NewHolder(t, b, runtime.WorkerConfig{})
		operator, err := admin.New(b.Engine)
		require.NoError(t, err)
		id, _, err := operator.CreateBudget(h.Ctx, admin.BudgetSpec{
			Dimensions: map[string]admin.Limits{"tokens": {Hard: 10}, "calls": {}},
		})
		require.NoError(t, err)
		h.Started(1)
		task := h.Next()
		require.NoError(t, task.ReportUsageTo(h.Ctx, id, "a", map[string]int64{"tokens": 9, "calls": 1}))
		require.NoError(t, task.ReportUsageTo(h.Ctx, id, "a", map[string]int64{"tokens": 9, "calls": 1}), "it counts once")
		err = task.ReportUsageTo(h.Ctx, id, "b", map[string]int64{"tokens": 2, "calls": 1})
		require.ErrorIs(t, err, activity.ErrBudgetExceeded)
		budget, err := operator.Budget(h.Ctx, id)
		require.NoError(t, err)
		require.Equal(t, map[string]int64{"calls": 1, "tokens": 9}, budget.Usage, "none is counted, or all")
		require.ErrorIs(t, task.ReportUsageTo(h.Ctx, id, "c", map[string]int64{"tokens": -1}), activityspec.ErrUsage)
		require.ErrorIs(t, task.ReportUsageTo(h.Ctx, id, "", map[string]int64{"tokens": 1}), runtime.ErrInvalid)
		require.ErrorIs(t, task.ReportUsageTo(h.Ctx, id, "d", nil), runtime.ErrInvalid)
		require.NoError(t, task.Complete(h.Ctx, 1))
	})
}

func TestMain(m *testing.M) { enginetest.Main(m) }
