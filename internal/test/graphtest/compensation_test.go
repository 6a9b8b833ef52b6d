package graphtest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// undoing is an activity that keeps the failures that it gets.
func undoing() (*activity.Activity[flow.Failure, string], chan flow.Failure) {
	seen := make(chan flow.Failure, 8)
	return activity.New("undo", func(_ context.Context, f flow.Failure) (string, error) {
		seen <- f
		return "undone", nil
	}), seen
}

func TestOnAnyFailureWaitsForAllAndRunsForOne(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		c := fixture.NewCourse()
		undo, seen := undoing()
		b.Worker(t, []activity.Handler{c.Act, undo}, runtime.WorkerConfig{Concurrency: 8})
		f := flow.New[fixture.None, string]("saga")
		refs := c.Nodes(f, "fail", "gate", "ok")
		flow.Node(f, "undo", undo, flow.FailureOf(refs[0], refs[1], refs[2]), flow.OnAnyFailure(refs[0], refs[1], refs[2]))
		flow.Return(f, flow.Node(f, "end", c.Act, flow.Const("ok"), flow.AfterEach(refs)))
		run := fixture.StartOf(t, b, f)
		enginetest.Eventually(t, func() string {
			if got := fixture.States(t, run); got["a"] != fabrictype.NodeFailed || got["c"] != fabrictype.NodeSucceeded || got["b"] != fabrictype.NodeActive {
				return "not all have ended"
			}
			return ""
		})
		d, err := run.Describe(enginetest.Context(t))
		require.NoError(t, err)
		require.Equal(t, "waits for b", fixture.Node(t, d, "undo").Waiting.Sentence, "what still runs could do more that is to be undone")
		close(c.Gate)
		_, err = run.Result(enginetest.Context(t))
		var failed *runtime.RunError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, "a", failed.Node)
		require.Equal(t, flow.Failure{Node: "a", Outcome: fabrictype.OutcomeFailed, Reason: "on purpose", Category: failed.Category}, <-seen)
		require.Equal(t, map[string]fabrictype.NodeState{
			"a": fabrictype.NodeFailed, "b": fabrictype.NodeSucceeded, "c": fabrictype.NodeSucceeded, "undo": fabrictype.NodeSucceeded,
			"end": fabrictype.NodeSkipped,
		}, fixture.States(t, run))
		b.Settle(t)
	})
}

func TestOnAnyFailureIsSkippedWithoutOne(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		c := fixture.NewCourse()
		undo, seen := undoing()
		b.Worker(t, []activity.Handler{c.Act, undo}, runtime.WorkerConfig{Concurrency: 8})
		f := flow.New[fixture.None, string]("saga")
		refs := c.Nodes(f, "ok", "ok", "fail", "ok")
		flow.Node(f, "undo", undo, flow.FailureOf(refs[0], refs[1]), flow.OnAnyFailure(refs[0], refs[1]))
		// A failure that a join makes up for stays tolerated, although the other join is impossible.
		flow.Return(f, flow.Node(f, "any", c.Act, flow.AnyOf(refs[2], refs[3]), flow.LetRun()))
		run := fixture.StartOf(t, b, f)
		_, err := run.Result(enginetest.Context(t))
		require.NoError(t, err)
		require.Equal(t, fabrictype.NodeSkipped, fixture.States(t, run)["undo"])
		require.Empty(t, seen)
		b.Settle(t)
	})
}

// The error of the run names a compensation that failed; a rerun of the failed nodes removes it.
func TestFailureOfTheCompensation(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		c := fixture.NewCourse()
		b.Worker(t, []activity.Handler{c.Act}, runtime.WorkerConfig{Concurrency: 8})
		f := flow.New[fixture.None, string]("saga")
		refs := c.Nodes(f, "ok", "fail")
		undo := flow.Node(f, "undo", c.Act, flow.Const("fail"), flow.OnAnyFailure(refs[0], refs[1]))
		flow.Return(f, flow.Node(f, "tell", c.Act, flow.Const("ok"), flow.OnFailure(undo)))
		run := fixture.StartOf(t, b, f)
		_, err := run.Result(enginetest.Context(t))
		var failed *runtime.RunError
		require.ErrorAs(t, err, &failed)
		require.Len(t, failed.Failures, 2)
		require.Equal(t, []string{"b", "undo"}, []string{failed.Failures[0].Node, failed.Failures[1].Node})
		require.NoError(t, run.Rerun(enginetest.Context(t), fabrictype.RerunFailed))
		_, err = run.Result(enginetest.Context(t))
		require.ErrorAs(t, err, &failed)
		require.Equal(t, fabrictype.NodeSucceeded, fixture.States(t, run)["tell"])
		b.Settle(t)
	})
}

// A node that cleans up gets the failure, or the zero value when there was none.
func TestFailureOfWithAlways(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		c := fixture.NewCourse()
		undo, seen := undoing()
		b.Worker(t, []activity.Handler{c.Act, undo})
		for _, way := range []string{"ok", "fail"} {
			f := flow.New[fixture.None, string]("cleaning-" + way)
			step := c.Nodes(f, way)[0]
			flow.Return(f, flow.Node(f, "clean", undo, flow.FailureOf(step), flow.Always(step)))
			run := fixture.StartOf(t, b, f)
			_, _ = run.Result(enginetest.Context(t))
			got := <-seen
			require.Equal(t, map[string]string{"ok": "", "fail": "a"}[way], got.Node)
		}
		b.Settle(t)
	})
}
