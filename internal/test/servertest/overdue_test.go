package servertest

import (
	"context"
	"errors"
	"regexp"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// describeUntil describes a run until it is as it should be.
func describeUntil(t *testing.T, b *enginetest.Bench, flowName, run string, missing func(*runtime.RunDescription) string) *runtime.RunDescription {
	t.Helper()
	var d *runtime.RunDescription
	enginetest.Eventually(t, func() string {
		var err error
		d, err = b.Client.Run(flowName, run).Describe(enginetest.Context(t))
		require.NoError(t, err)
		return missing(d)
	})
	return d
}

func overdueNode(d *runtime.RunDescription) string {
	if d.Nodes[0].Overdue.Duration == 0 {
		return "it is not overdue: " + d.Nodes[0].Waiting.Sentence
	}
	return ""
}

// A retry, a delay, a wait, a deadline and a lost worker that no keeper has processed in time are marked overdue. The
// reason states whether keepers are present.
func TestOverdue_IsDescribedWithItsReason(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		b.Worker(t, []activity.Handler{failsOnce("once")})
		retried := retriesAtOnce(t, failsOnce("once"))
		_, err := runtime.Start(ctx, b.Client, retried, 1, runtime.WithID("retry"))
		require.NoError(t, err)
		e := flow.New[int, int]("expiring", flow.Deadline(time.Millisecond))
		flow.Return(e, flow.Node(e, "only", activity.New("unserved", func(_ context.Context, n int) (int, error) { return n, nil }), e.Input()))
		expiring, err := e.Build()
		require.NoError(t, err)
		_, err = runtime.Start(ctx, b.Client, expiring, 1, runtime.WithID("deadline"))
		require.NoError(t, err)
		lost := fixture.Single(t, activity.New("lost", func(_ context.Context, n int) (int, error) { return n, nil }, activity.Lane("away")))
		run, err := runtime.Start(ctx, b.Client, lost, 1, runtime.WithID("lost"))
		require.NoError(t, err)
		partition, err := engine.ConnOf(b.Engine.Internal()).FlowPartition(run.FlowID())
		require.NoError(t, err)
		claimed, err := engine.ConnOf(b.Engine.Internal()).Claim(ctx, enginerpc.ClaimCall{Partition: partition, ClaimRequest: enginerpc.ClaimRequest{
			WorkerID: "w", WorkerInstanceID: "w-1", LaneID: "away", ClaimID: uuid.NewString(), LeaseTTL: 300 * time.Millisecond, Kinds: "\nlost\n", Count: 1,
		}})
		require.NoError(t, err)
		require.Len(t, claimed.Executions, 1)
		f := flow.New[int, string]("awaited")
		flow.Return(f, flow.Waitpoint[string](f, "answer", activity.Signals("yes"), activity.Timeout(time.Millisecond, activity.FailOnTimeout)))
		awaited, err := f.Build()
		require.NoError(t, err)
		_, err = runtime.Start(ctx, b.Client, awaited, 1, runtime.WithID("wait"))
		require.NoError(t, err)

		missing := regexp.MustCompile(`^overdue by \d+ s: no keeper seen \(`)
		d := describeUntil(t, b, retried.Name(), "retry", overdueNode)
		require.Regexp(t, missing, d.Nodes[0].Waiting.Sentence)
		require.Contains(t, d.Nodes[0].Waiting.Sentence, "retries at")
		require.True(t, d.NoKeeper)
		require.Zero(t, d.Overdue, "the run has no deadline")
		d = describeUntil(t, b, lost.Name(), "lost", overdueNode)
		require.Regexp(t, missing, d.Nodes[0].Waiting.Sentence)
		require.Contains(t, d.Nodes[0].Waiting.Sentence, "its worker was lost")
		d = describeUntil(t, b, "expiring", "deadline", func(d *runtime.RunDescription) string {
			if d.Overdue.Duration == 0 {
				return "the deadline of the run"
			}
			return ""
		})
		require.True(t, d.NoKeeper)
		d = describeUntil(t, b, "awaited", "wait", overdueNode)
		require.Regexp(t, missing, d.Nodes[0].Waiting.Sentence)

		// A listener on the channel of keepers appears as a keeper that lags.
		_, end := listenToKeepers(t, b)
		d = describeUntil(t, b, retried.Name(), "retry", overdueNode)
		require.Regexp(t, `^overdue by \d+ s \(retries at`, d.Nodes[0].Waiting.Sentence)
		require.False(t, d.NoKeeper)
		end()

		// A keeper sees to all of it; a run that waits for a worker afterwards is not a keeper's fault.
		b.Keeper(t)
		d = describeUntil(t, b, lost.Name(), "lost", func(d *runtime.RunDescription) string {
			if d.Nodes[0].Overdue.Duration > 0 {
				return "it is overdue: " + d.Nodes[0].Waiting.Sentence
			}
			return ""
		})
		require.NotContains(t, d.Nodes[0].Waiting.Sentence, "overdue")
	})
}

// Work that is due in the future, or has been due for a moment, is not overdue.
func TestNotOverdue(t *testing.T) {
	t.Parallel()
	b := enginetest.New(t, testserver.Embedded)
	ctx := enginetest.Context(t)
	later := activity.New("later", func(context.Context, int) (int, error) { return 0, errors.New("no") })
	def := fixture.Single(t, later, activity.Retry(activity.RetryPolicy{First: time.Hour, Attempts: 2}))
	_, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID("r"))
	require.NoError(t, err)
	b.Worker(t, []activity.Handler{later})
	d := describeUntil(t, b, def.Name(), "r", func(d *runtime.RunDescription) string {
		if d.Nodes[0].State != fabrictype.NodeDelayed {
			return string(d.Nodes[0].State)
		}
		return ""
	})
	require.Zero(t, d.Nodes[0].Overdue)
	require.False(t, d.NoKeeper)
	require.NotContains(t, d.Nodes[0].Waiting.Sentence, "overdue")
}
