package modetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// measured opens an engine in contract mode whose metrics the reader collects.
func measured(t *testing.T, open func(testing.TB, testserver.Kind, ...runtime.OpenConfig) *enginetest.Bench, kind testserver.Kind) (
	*enginetest.Bench, metric.Reader,
) {
	reader := metric.NewManualReader()
	return open(t, kind, runtime.OpenConfig{
		Partitions: 1, MeterProvider: metric.NewMeterProvider(metric.WithReader(reader)),
	}), reader
}

// Metrics of workers and keepers are collected in contract mode, except the metrics of lanes.
func TestContractMetrics(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, b *enginetest.Bench, reader metric.Reader) {
		k := b.Keeper(t)
		add := fixture.AddOne()
		b.Worker(t, []activity.Handler{add})
		run, err := runtime.Start(enginetest.Context(t), b.Client, fixture.OneNode(t, "counted", add), 1)
		require.NoError(t, err)
		_, err = run.Result(enginetest.Context(t))
		require.NoError(t, err)
		enginetest.Eventually(t, func() string {
			if found := fixture.Collect(t, reader); found["flowfabric.keeper.partitions{}"] != 1 || found["flowfabric.keeper.steps{lease_expiry}"] == 0 {
				return "the keeper has not begun"
			}
			return ""
		})
		for name := range fixture.Collect(t, reader) {
			require.NotContains(t, name, "flowfabric.lane.")
		}
		require.NoError(t, k.Stop())
	}
	for _, kind := range testserver.Kinds(t) {
		t.Run(string(kind), func(t *testing.T) {
			b, reader := measured(t, enginetest.NewContract, kind)
			check(t, b, reader)
		})
	}
	t.Run("reference", func(t *testing.T) {
		for _, kind := range enginetest.ReferenceKinds(t) {
			t.Run(string(kind), func(t *testing.T) {
				b, reader := measured(t, enginetest.NewReference, kind)
				check(t, b, reader)
			})
		}
	})
}

// A keeper in contract mode counts the upstreams that joins of other programs' flows do not need, and leaves the
// upstreams of joins that its filter does not let pass.
func TestContractSiblings(t *testing.T) {
	t.Parallel()
	for _, kind := range testserver.Kinds(t) {
		t.Run(string(kind), func(t *testing.T) {
			b, reader := measured(t, enginetest.NewContract, kind)
			f := &fixture.Outsider{
				T: t, Ctx: enginetest.Context(t), Core: engine.ConnOf(b.Engine.Internal()),
				P: keyspace.Partition{Family: keyspace.FlowFamily},
			}
			up, ended, gone, open := f.Create(0, f.Later), f.Create(0, f.Later), f.Create(0, f.Later), f.Create(0, f.Later)
			flow, join := f.Join(up, ended, gone, open)
			_, err := f.Core.ResolveDependency(f.Ctx, enginerpc.ResolveDependencyCall{
				DownstreamExecutionID: join, UpstreamExecutionID: up, LaneID: "default", EdgeID: "0", UpstreamOutcome: "success",
				FlowID: flow, GroupExecutionID: join,
			})
			require.NoError(t, err)
			_, err = f.Core.CancelExecution(f.Ctx, enginerpc.CancelExecutionCall{
				ExecutionID: ended, LaneID: "default", Reason: "early", Source: "operator_override",
			})
			require.NoError(t, err)
			keys, client := f.Core.Keys(), f.Core.Client()
			require.NoError(t, client.Do(f.Ctx, client.B().Del().Key(keys.ExecCore(gone)).Build()).Error())

			for _, config := range []runtime.KeeperConfig{
				{SiblingNamespace: "other"}, {SiblingTag: "instance", SiblingTagValue: "one"},
			} {
				k := enginetest.NewKeeper(t, b.Engine, config)
				running := b.Run(t, "keeper", k.Run)
				enginetest.Eventually(t, func() string {
					if k.Stats().Tasks["sibling_cancel_dispatch"].Steps < 3 {
						return "the keeper has not looked"
					}
					return ""
				})
				require.NoError(t, running.Stop())
				require.Empty(t, k.Stats().Siblings)
			}
			k := enginetest.NewKeeper(t, b.Engine, runtime.KeeperConfig{SiblingNamespace: "default"})
			b.Run(t, "keeper", k.Run)
			enginetest.Eventually(t, func() string {
				if fixture.Collect(t, reader)["flowfabric.keeper.siblings{cancelled}"] < 2 {
					return "they are not cancelled"
				}
				return ""
			})
			require.Equal(t, map[string]int64{"cancelled": 2, "already_terminal": 1, "not_found": 1}, k.Stats().Siblings)
			require.EqualValues(t, 2, fixture.Collect(t, reader)["flowfabric.keeper.siblings_dispatched{sibling_quorum_satisfied}"])
		})
	}
}

// A node whose result is the result of the run is not cancelled when a join does not need it.
func TestContractJoinKeepsTheResult(t *testing.T) {
	t.Parallel()
	enginetest.EachExtended(t, func(t *testing.T, b *enginetest.Bench) {
		c := fixture.NewCourse()
		b.Worker(t, []activity.Handler{c.Act}, runtime.WorkerConfig{Concurrency: 8})
		f := flow.New[fixture.None, string]("kept")
		refs := c.Nodes(f, "ok-then", "gate", "hang") // one that has not begun is cancelled without a word
		flow.Node(f, "winner", c.Act, flow.AnyOf(refs...))
		flow.Return(f, refs[1])
		run := fixture.StartOf(t, b, f)
		<-c.Stopped
		close(c.Gate)
		result, err := run.Result(enginetest.Context(t))
		require.NoError(t, err)
		require.Equal(t, "b", result)
		b.Settle(t)
	})
}

// Each attempt of a join gets the results that were there when it was satisfied, also when another came since.
func TestJoinInputsStayTheSame(t *testing.T) {
	t.Parallel()
	enginetest.EachExtended(t, func(t *testing.T, b *enginetest.Bench) {
		c := fixture.NewCourse()
		seen := make(chan string, 2)
		again := activity.New("again", func(ctx context.Context, in []string) (string, error) {
			seen <- fmt.Sprint(in)
			if info, _ := activity.Info(ctx); info.Attempt == 1 {
				close(c.Gate)
				// The late one has ended, and its edge is resolved, before the next attempt.
				return "", activity.RetryAfter(errors.New("once more"), time.Second)
			}
			return "", nil
		})
		b.Worker(t, []activity.Handler{c.Act, again}, runtime.WorkerConfig{Concurrency: 8})
		b.Keeper(t)
		f := flow.New[fixture.None, string]("late")
		flow.Return(f, flow.Node(f, "join", again, flow.Quorum(2, c.Nodes(f, "gate", "ok", "ok")...), flow.LetRun()))
		run := fixture.StartOf(t, b, f)
		_, err := run.Result(enginetest.Context(t))
		require.NoError(t, err)
		require.Equal(t, "[b c]", <-seen)
		require.Equal(t, "[b c]", <-seen)
		b.Settle(t)
	})
}

// A cancel is a cancel, whatever its reason reads like.
func TestReasonsThatReadLikeCodes(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		causes := make(chan error, 1)
		wait := activity.New("wait", func(ctx context.Context, n int) (int, error) {
			causes <- nil
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return n, ctx.Err()
		})
		b.Worker(t, []activity.Handler{wait})
		for _, reason := range []string{"lease_revoked", "attempt_timeout", "flow_deadline", "execution_deadline"} {
			run, err := runtime.Start(ctx, b.Client, fixture.OneNode(t, "reasons", wait), 1)
			require.NoError(t, err)
			require.NoError(t, <-causes)
			require.NoError(t, run.Cancel(ctx, reason))
			cause := <-causes
			require.ErrorIs(t, cause, runtime.ErrCancelled)
			// A renewal that comes before the message knows only that the execution has ended.
			require.Regexp(t, reason+"|it has ended in the engine", cause.Error())
			for _, other := range []error{runtime.ErrLeaseLost, runtime.ErrStartToClose, runtime.ErrDeadline} {
				require.NotErrorIs(t, cause, other, reason)
			}
		}
	}, runtime.OpenConfig{Partitions: 1})
}
