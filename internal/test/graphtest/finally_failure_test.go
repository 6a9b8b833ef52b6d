package graphtest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A finally node gets the cancel or the expiry of its run as the failure of a node that ended because of it.
func TestFinallyGetsTheFailureOfANodeThatEndedWithItsRun(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		c := fixture.NewCourse()
		got := make(chan flow.Failure, 1)
		release := activity.New("release", func(_ context.Context, f flow.Failure) (string, error) {
			got <- f
			return "", nil
		})
		b.KeepingWorker(t, []activity.Handler{c.Act, release}, runtime.WorkerConfig{Concurrency: 8})
		start := func(name, way string, opts ...flow.Option) *runtime.Run[string] {
			f := flow.New[fixture.None, string]("tidy-"+name, opts...)
			refs := c.Nodes(f, "ok", way)
			behind := flow.Node(f, "behind", c.Act, flow.Const("ok"), flow.AfterEach(refs))
			flow.Node(f, "release", release, flow.FailureOf(behind, refs[1], refs[0]), flow.Finally(time.Minute))
			flow.Return(f, behind)
			return fixture.StartOf(t, b, f)
		}

		run := start("cancel", "gate")
		eventuallyState(t, run, "b", fabrictype.NodeActive)
		require.NoError(t, run.Cancel(enginetest.Context(t), "enough"))
		_, err := run.Result(enginetest.Context(t))
		require.ErrorIs(t, err, runtime.ErrRunCancelled)
		require.Equal(t, flow.Failure{Node: "b", Outcome: fabrictype.OutcomeCancelled, Reason: "enough"}, <-got)
		var failed *runtime.RunError
		require.ErrorAs(t, err, &failed)
		require.Empty(t, failed.Failures, "a node that ended with its run has not failed")

		var f flow.Failure
		for deadline := 300 * time.Millisecond; c.Hanging.Load() == 0; deadline *= 2 { // until b has begun before it
			run = start("expire", "hang", flow.Deadline(deadline))
			_, err = run.Result(enginetest.Context(t))
			require.ErrorIs(t, err, runtime.ErrRunExpired)
			f = <-got
		}
		require.Equal(t, "b", f.Node)
		require.Equal(t, fabrictype.OutcomeExpired, f.Outcome)
		require.Equal(t, activityspec.CategoryTimeout, f.Category)
		require.Equal(t, "the run exceeded its deadline", f.Reason)
		require.ErrorIs(t, f.Err(), runtime.ErrDeadline)
		b.Settle(t)
	})
}

// A finally node that exceeds its time is among the failures of the run, with the exceeded bound.
func TestFinallyOutOfTimeIsAFailureOfTheRun(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		c := fixture.NewCourse()
		b.KeepingWorker(t, []activity.Handler{c.Act}, runtime.WorkerConfig{Concurrency: 8})
		for way, first := range map[string]string{"ok": "release", "fail": "a"} {
			f := flow.New[fixture.None, string]("tidy-" + way)
			refs := c.Nodes(f, way)
			flow.Node(f, "release", c.Act, flow.Const("hang"), flow.Finally(50*time.Millisecond))
			flow.Return(f, refs[0])
			run := fixture.StartOf(t, b, f)
			_, err := run.Result(enginetest.Context(t))
			require.ErrorIs(t, err, runtime.ErrRunFailed, way)
			var failed *runtime.RunError
			require.ErrorAs(t, err, &failed)
			require.Equal(t, first, failed.Node)
			require.NotEmpty(t, failed.Failures)
			last := failed.Failures[len(failed.Failures)-1]
			require.Equal(t, "release", last.Node)
			require.Equal(t, fabrictype.OutcomeExpired, last.Outcome)
			require.Equal(t, activityspec.CategoryTimeout, last.Category)
			require.Equal(t, "it ran longer than flow.Finally allows", last.Reason)
			require.ErrorIs(t, &last, runtime.ErrDeadline)
			d, err := run.Describe(enginetest.Context(t))
			require.NoError(t, err)
			require.Equal(t, last.Reason, fixture.Node(t, d, "release").Reason)
			require.Equal(t, first, d.FailedNode)
		}
		b.Settle(t)
	})
}
