package graphtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// The activity fails with its input as the error text, in the category "told". With the input "ok" it returns it, and
// with "hang" it waits for the end of its context.
func told() *activity.Activity[string, string] {
	return activity.New("told", func(ctx context.Context, text string) (string, error) {
		switch text {
		case "ok":
			return text, nil
		case "hang":
			<-ctx.Done()
			return "", context.Cause(ctx)
		}
		return "", activity.Category(errors.New(text), "told")
	}, activity.Retry(activity.RetryPolicy{Attempts: 1}))
}

// failureFlow starts a run of a flow that build makes of that activity.
func failureFlow(t *testing.T, b *enginetest.Bench, build func(f *flow.Builder[fixture.None, string], a *activity.Activity[string, string])) *runtime.Run[string] {
	t.Helper()
	a := told()
	b.Worker(t, []activity.Handler{a})
	f := flow.New[fixture.None, string]("told")
	build(f, a)
	def, err := f.Build()
	require.NoError(t, err)
	run, err := runtime.Start(enginetest.Context(t), b.Client, def, fixture.None{})
	require.NoError(t, err)
	return run
}

// shorts are failures in short: node, outcome, category and reason, and whether a join has made up for it.
func shorts(list []runtime.NodeFailure) (out []string) {
	for _, f := range list {
		text := fmt.Sprintf("%s %s %s %s", f.Node, f.Outcome, f.Category, f.Reason)
		if f.MadeUpFor {
			text += ", made up for"
		}
		out = append(out, text)
	}
	return out
}

// The node that failed first is named, not the one that made a join impossible.
func TestFirstFailureOfAnImpossibleJoin(t *testing.T) {
	t.Parallel()
	enginetest.EachExtended(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		run := failureFlow(t, b, func(f *flow.Builder[fixture.None, string], a *activity.Activity[string, string]) {
			first := flow.Node(f, "z-first", a, flow.Const("one"))
			second := flow.Node(f, "second", a, flow.Const("two"), flow.Always(first))
			flow.Return(f, flow.Node(f, "winner", a, flow.AnyOf(first, second)))
		})
		_, err := run.Result(ctx)
		failed := fixture.Failure(t, err)
		require.ErrorIs(t, err, runtime.ErrRunFailed)
		require.Equal(t, "z-first", failed.Node)
		require.Equal(t, "one", failed.Reason)
		require.Equal(t, "told", failed.Category)
		require.Equal(t, []string{"z-first failed told one", "second failed told two"}, shorts(failed.Failures))
		require.False(t, failed.Failures[0].At.IsZero())
		require.Equal(t, 1, failed.Failures[0].Attempts)
		require.ErrorContains(t, err, "run failed: node z-first: one (and 1 more failed)")
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, []string{"z-first", "one", "told"}, []string{d.FailedNode, d.Reason, d.Category})
		page, err := b.Client.ListRuns(ctx, runtime.RunQuery{Flow: "told"}, "", 10)
		require.NoError(t, err)
		require.Equal(t, "z-first", page.Items[0].FailedNode)
		b.Settle(t)
	})
}

// A failure that a join tolerated is marked so in the error, and is not the reason of the run's failure.
func TestFailureThatAJoinMadeUpFor(t *testing.T) {
	t.Parallel()
	enginetest.EachExtended(t, func(t *testing.T, b *enginetest.Bench) {
		run := failureFlow(t, b, func(f *flow.Builder[fixture.None, string], a *activity.Activity[string, string]) {
			first := flow.Node(f, "first", a, flow.Const("one"))
			second := flow.Node(f, "second", a, flow.Const("ok"), flow.Always(first))
			winner := flow.Node(f, "winner", a, flow.AnyOf(first, second))
			flow.Return(f, flow.Node(f, "last", a, flow.Const("three"), flow.After(winner)))
		})
		_, err := run.Result(enginetest.Context(t))
		failed := fixture.Failure(t, err)
		require.Equal(t, "last", failed.Node)
		require.Equal(t, []string{"first failed told one, made up for", "last failed told three"}, shorts(failed.Failures))
		require.NotContains(t, err.Error(), "more failed")
		b.Settle(t)
	})
}

// The error of the run names a failed node and also its failed compensation.
func TestFailedCompensation(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		run := failureFlow(t, b, func(f *flow.Builder[fixture.None, string], a *activity.Activity[string, string]) {
			deploy := flow.Node(f, "deploy", a, flow.Const("no host"))
			flow.Node(f, "a-undo", a, flow.Const("no backup"), flow.OnFailure(deploy))
			flow.Return(f, deploy)
		})
		_, err := run.Result(enginetest.Context(t))
		failed := fixture.Failure(t, err)
		require.Equal(t, "deploy", failed.Node)
		require.Equal(t, []string{"deploy failed told no host", "a-undo failed told no backup"}, shorts(failed.Failures))
		b.Settle(t)
	})
}

// The error of a run names a cancelled node and its reason; the error of a run that was cancelled as a whole names no
// nodes.
func TestFailureAfterACancel(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		hanging := func(f *flow.Builder[fixture.None, string], a *activity.Activity[string, string]) {
			slow := flow.Node(f, "slow", a, flow.Const("hang"))
			flow.Return(f, flow.Node(f, "after", a, flow.Const("ok"), flow.After(slow)))
		}
		run := failureFlow(t, b, hanging)
		require.NoError(t, run.CancelNode(ctx, "slow", "by hand", runtime.WithActor("ann")))
		_, err := run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunCancelled)
		failed := fixture.Failure(t, err)
		require.Equal(t, []string{"slow", "by hand", ""}, []string{failed.Node, failed.Reason, failed.Category})
		require.Equal(t, []string{"slow cancelled  by hand"}, shorts(failed.Failures))

		run = failureFlow(t, b, hanging)
		require.NoError(t, run.Cancel(ctx, "enough"))
		_, err = run.Result(ctx)
		failed = fixture.Failure(t, err)
		require.Equal(t, []string{"", "enough", ""}, []string{failed.Node, failed.Reason, failed.Category})
		require.Empty(t, failed.Failures)
		b.Settle(t)
	})
}

// The list of failures is bounded; the earliest ones are in it, whatever page they come in.
func TestManyFailures(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		if b.Contract() {
			b.Keeper(t)
		}
		others := 300 // more than one page
		if b.Contract() {
			others = 120
		}
		a := activity.New("fails", func(ctx context.Context, _ fixture.None) (fixture.None, error) {
			info, _ := activity.Info(ctx)
			return fixture.None{}, fmt.Errorf("no %s", info.Node)
		}, activity.Retry(activity.RetryPolicy{Attempts: 1}))
		b.Worker(t, []activity.Handler{a})
		f := flow.New[fixture.None, fixture.None]("many")
		for i := range others {
			flow.Node(f, fmt.Sprintf("n%03d", i), a, f.Input())
		}
		flow.Return(f, flow.Node(f, "zero", a, f.Input(), activity.Priority(9000)))
		def, err := f.Build()
		require.NoError(t, err)
		run, err := runtime.Start(ctx, b.Client, def, fixture.None{})
		require.NoError(t, err)
		_, err = run.Result(ctx)
		failed := fixture.Failure(t, err)
		require.Len(t, failed.Failures, submit.MaxFailures)
		require.Equal(t, others+1-submit.MaxFailures, failed.OmittedFailures)
		require.True(t, slices.IsSortedFunc(failed.Failures, func(a, b runtime.NodeFailure) int { return a.At.Compare(b.At) }))
		require.Equal(t, failed.Failures[0].Node, failed.Node)
		require.Equal(t, "no "+failed.Node, failed.Reason)
		require.ErrorContains(t, err, fmt.Sprintf("(and %d more failed)", others))
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		earlier := 0
		for _, n := range d.Nodes {
			if n.CompletedAt.Before(failed.Failures[submit.MaxFailures-1].At) {
				earlier++
			}
		}
		require.Less(t, earlier, submit.MaxFailures, "no earlier one is left out")
		b.Settle(t)
	})
}
