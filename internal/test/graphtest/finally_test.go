package graphtest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// eventuallyState waits until a node of a run has a state.
func eventuallyState(t *testing.T, run *runtime.Run[string], name string, want fabrictype.NodeState) {
	t.Helper()
	enginetest.Eventually(t, func() string {
		if got := fixture.States(t, run)[name]; got != want {
			return name + " is " + string(got)
		}
		return ""
	})
}

func TestFinallyRunsAfterEverythingElse(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		c := fixture.NewCourse()
		b.Worker(t, []activity.Handler{c.Act}, runtime.WorkerConfig{Concurrency: 8})
		f := flow.New[fixture.None, string]("tidy")
		flow.Node(f, "release", c.Act, flow.Const("ok"), flow.Finally(time.Minute))
		refs := c.Nodes(f, "ok", "gate")
		flow.Return(f, flow.Node(f, "end", c.Act, flow.Const("ok"), flow.AfterEach(refs[:1])))
		run := fixture.StartOf(t, b, f)
		eventuallyState(t, run, "end", fabrictype.NodeSucceeded)
		require.Equal(t, fabrictype.NodeWaitingChildren, fixture.States(t, run)["release"])
		close(c.Gate)
		result, err := run.Result(enginetest.Context(t))
		require.NoError(t, err)
		require.Equal(t, "end", result)
		require.Equal(t, fabrictype.NodeSucceeded, fixture.States(t, run)["release"])
		d, err := run.Describe(enginetest.Context(t))
		require.NoError(t, err)
		require.False(t, fixture.Node(t, d, "release").StartedAt.Before(fixture.Node(t, d, "b").CompletedAt))
		b.Settle(t)
	})
}

// The deadline of a run stays the one that is described while its finally nodes run, which have their own, and after.
func TestFinallyKeepsDeadlineOfRun(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		c := fixture.NewCourse()
		b.Worker(t, []activity.Handler{c.Act})
		f := flow.New[fixture.None, string]("tidy", flow.Deadline(24*time.Hour))
		refs := c.Nodes(f, "ok")
		flow.Node(f, "release", c.Act, flow.Const("gate"), flow.Finally(time.Minute))
		flow.Return(f, refs[0])
		run := fixture.StartOf(t, b, f)
		begun, err := run.Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, 24*time.Hour, begun.DeadlineAt.Sub(begun.CreatedAt))
		eventuallyState(t, run, "release", fabrictype.NodeActive)
		for _, open := range []bool{true, false} {
			d, err := run.Describe(ctx)
			require.NoError(t, err)
			require.Equal(t, begun.DeadlineAt, d.DeadlineAt)
			require.Equal(t, time.Minute, d.FinallyDeadlineAt.Sub(fixture.Node(t, d, "a").CompletedAt))
			if open {
				close(c.Gate)
				_, err = run.Result(ctx)
				require.NoError(t, err)
			}
		}
		b.Settle(t)
	})
}

// A failure of a finally node fails the run; a failure that a join tolerates stays tolerated.
func TestFinallyThatFails(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		c := fixture.NewCourse()
		b.Worker(t, []activity.Handler{c.Act}, runtime.WorkerConfig{Concurrency: 8})
		for _, way := range []string{"ok", "fail"} {
			f := flow.New[fixture.None, string]("tidy-" + way)
			refs := c.Nodes(f, "fail", "ok")
			flow.Return(f, flow.Node(f, "any", c.Act, flow.AnyOf(refs...), flow.LetRun()))
			flow.Node(f, "release", c.Act, flow.Const(way), flow.Finally(0))
			run := fixture.StartOf(t, b, f)
			_, err := run.Result(enginetest.Context(t))
			if way == "ok" {
				require.NoError(t, err)
				continue
			}
			var failed *runtime.RunError
			require.ErrorAs(t, err, &failed)
			require.Equal(t, "release", failed.Node)
		}
		b.Settle(t)
	})
}

// Siblings that a join does not need are cancelled, although a finally node waits for them, too.
func TestFinallyNeedsNoSiblings(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		c := fixture.NewCourse()
		b.Worker(t, []activity.Handler{c.Act}, runtime.WorkerConfig{Concurrency: 8})
		f := flow.New[fixture.None, string]("tidy")
		refs := c.Nodes(f, "ok-then", "hang")
		flow.Return(f, flow.Node(f, "any", c.Act, flow.AnyOf(refs...)))
		flow.Node(f, "release", c.Act, flow.Const("ok"), flow.Finally(0))
		run := fixture.StartOf(t, b, f)
		_, err := run.Result(enginetest.Context(t))
		require.NoError(t, err)
		require.Equal(t, map[string]fabrictype.NodeState{
			"a": fabrictype.NodeSucceeded, "b": fabrictype.NodeCancelled, "any": fabrictype.NodeSucceeded, "release": fabrictype.NodeSucceeded,
		}, fixture.States(t, run))
		b.Settle(t)
	})
}

func TestFinallyAfterACancel(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		c := fixture.NewCourse()
		release := activity.New("release", func(_ context.Context, f flow.Failure) (string, error) { return f.Node, nil })
		b.KeepingWorker(t, []activity.Handler{c.Act, release}, runtime.WorkerConfig{Concurrency: 8})
		f := flow.New[fixture.None, string]("tidy")
		refs := c.Nodes(f, "ok", "hang")
		behind := flow.Node(f, "behind", c.Act, flow.Const("ok"), flow.AfterEach(refs))
		flow.Node(f, "undo", c.Act, flow.Const("ok"), flow.OnFailure(behind))
		flow.Node(f, "release", release, flow.FailureOf(refs[0], refs[1], behind), flow.Finally(time.Minute))
		flow.Return(f, behind)
		run := fixture.StartOf(t, b, f)
		eventuallyState(t, run, "a", fabrictype.NodeSucceeded)
		eventuallyState(t, run, "b", fabrictype.NodeActive)
		<-c.Hangs
		require.NoError(t, run.Cancel(enginetest.Context(t), "enough"))
		_, err := run.Result(enginetest.Context(t))
		require.ErrorIs(t, err, runtime.ErrRunCancelled)
		want := map[string]fabrictype.NodeState{
			"a": fabrictype.NodeSucceeded, "b": fabrictype.NodeCancelled, "behind": fabrictype.NodeCancelled, "undo": fabrictype.NodeCancelled,
			"release": fabrictype.NodeSucceeded,
		}
		require.Equal(t, want, fixture.States(t, run))
		<-c.Stopped

		// Another end is another time to clean up.
		require.NoError(t, run.Rerun(enginetest.Context(t), fabrictype.RerunFailed))
		eventuallyState(t, run, "b", fabrictype.NodeActive)
		require.NoError(t, run.Cancel(enginetest.Context(t), "enough"))
		_, err = run.Result(enginetest.Context(t))
		require.ErrorIs(t, err, runtime.ErrRunCancelled)
		require.Equal(t, want, fixture.States(t, run))
		d, err := run.Describe(enginetest.Context(t))
		require.NoError(t, err)
		require.Equal(t, 1, fixture.Node(t, d, "release").Replays)
		b.Settle(t)
	})
}

func TestFinallyAfterTheDeadline(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		c := fixture.NewCourse()
		b.KeepingWorker(t, []activity.Handler{c.Act}, runtime.WorkerConfig{Concurrency: 8})
		f := flow.New[fixture.None, string]("tidy", flow.Deadline(100*time.Millisecond))
		refs := c.Nodes(f, "hang")
		flow.Node(f, "release", c.Act, flow.Const("ok"), flow.Finally(time.Minute))
		flow.Return(f, refs[0])
		run := fixture.StartOf(t, b, f)
		_, err := run.Result(enginetest.Context(t))
		require.ErrorIs(t, err, runtime.ErrRunExpired)
		require.Equal(t, map[string]fabrictype.NodeState{"a": fabrictype.NodeExpired, "release": fabrictype.NodeSucceeded}, fixture.States(t, run))
		b.Settle(t)
	})
}

// A finally node has its own deadline, after a success and after a cancel.
func TestDeadlineOfFinally(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		c := fixture.NewCourse()
		b.KeepingWorker(t, []activity.Handler{c.Act}, runtime.WorkerConfig{Concurrency: 8})
		for _, way := range []string{"ok", "gate"} {
			before := c.Hanging.Load()
			f := flow.New[fixture.None, string]("tidy-" + way)
			refs := c.Nodes(f, way)
			flow.Node(f, "release", c.Act, flow.Const("hang"), flow.Finally(100*time.Millisecond))
			flow.Return(f, refs[0])
			run := fixture.StartOf(t, b, f)
			want := runtime.ErrRunFailed
			if way == "gate" {
				want = runtime.ErrRunCancelled
				eventuallyState(t, run, "a", fabrictype.NodeActive)
				require.NoError(t, run.Cancel(enginetest.Context(t), "enough"))
			}
			_, err := run.Result(enginetest.Context(t))
			require.ErrorIs(t, err, want)
			require.Equal(t, fabrictype.NodeExpired, fixture.States(t, run)["release"])
			if c.Hanging.Load() > before { // on a busy machine the time can be over before a worker has begun
				<-c.Stopped
			}
		}
		b.Settle(t)
	})
}
