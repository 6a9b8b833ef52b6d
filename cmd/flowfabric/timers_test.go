package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func TestTimersAndTurns(t *testing.T) {
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		x := terminal{t, b}
		inner := flow.New[int, int]("count")
		flow.Return(inner, flow.Node(inner, "add", activity.New("add", func(_ context.Context, n int) (int, error) { return n + 1, nil }),
			inner.Input()))
		body, err := inner.Build()
		require.NoError(t, err)
		until := activity.New("three", func(_ context.Context, n int) (bool, error) { return n >= 3, nil })
		f := flow.New[int, int]("patient")
		nap := flow.Sleep(f, "nap", time.Hour)
		flow.Return(f, flow.Loop(f, "loop", body, until, f.Input(), 5, flow.After(nap)))
		def, err := f.Build()
		require.NoError(t, err)
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, 0, runtime.WithID("r"))
		require.NoError(t, err)
		require.Contains(t, x.ok("describe", "patient", "r"), "sleeps until ")
		require.Empty(t, x.lines("waits"))
		require.Contains(t, x.ok("timer", "patient", "r", "nap", "-to", "2030-01-02T03:04:05Z", "-by", "ann"), "moved to")
		require.Contains(t, x.ok("describe", "patient", "r"), "2030-01-02")
		x.ok("timer", "patient", "r", "nap", "-in", "2h")
		x.ok("timer", "-skip", "patient", "r", "nap")
		_, err = run.Result(ctx)
		require.NoError(t, err)
		turns := x.lines("turns", "patient", "r", "loop")
		require.Len(t, turns, 3)
		require.Equal(t, "patient/r/loop#2", turns[1]["run"])
		require.Contains(t, x.ok("turns", "patient", "r", "loop"), "succeeded")
		require.Len(t, x.lines("audit", "-action", "move_timer"), 2)
		require.Len(t, x.lines("audit", "-action", "skip_timer", "-actor", "flowfabric"), 1)
		code, _, stderr := x.run("timer", "patient", "r", "nap", "-skip")
		require.Equal(t, exitFailure, code)
		require.Contains(t, stderr, "the node does not sleep")
		for _, args := range [][]string{
			{"timer", "a", "b", "c"}, {"timer", "a", "b", "c", "-skip", "-in", "1h"}, {"timer", "a", "b", "c", "-to", "noon"},
			{"timer", "a", "b", "c", "-in", "-1h"}, {"turns", "a", "b"},
		} {
			code, _, _ := x.run(args...)
			require.Equal(t, exitUsage, code, args)
		}
		b.Settle(t)
	})
}
