package sizetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	goruntime "runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// sized returns the size of a test: FLOWFABRIC_SOAK selects the size that the documentation states.
func sized(small, large int) int {
	if os.Getenv("FLOWFABRIC_SOAK") != "" {
		return large
	}
	return small
}

// heap returns the memory that is in use by this program, in bytes.
func heap() int64 {
	goruntime.GC()
	goruntime.GC() // objects released by finalizers
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

var length = activity.New("count", func(_ context.Context, list []string) (int, error) { return len(list), nil })

// A client and a worker that have run many executions use no more memory than after the first thousand. Not parallel:
// the heap is the whole process's.
func TestMemoryOfManyExecutions(t *testing.T) {
	const width, growth = 100, 8 << 20
	count := sized(10_000, 1_000_000)
	f := flow.New[string, int]("wide", flow.Retention(time.Second))
	refs := make([]flow.Ref[string], width)
	for i := range refs {
		refs[i] = flow.Node(f, fmt.Sprint("n", i), echo, f.Input())
	}
	flow.Return(f, flow.Node(f, "count", length, flow.List(refs...)))
	def, err := f.Build()
	require.NoError(t, err)
	testserver.InTurn(t, testserver.Servers(t), func(t *testing.T, kind testserver.Kind) {
		b := enginetest.New(t, kind)
		b.KeepingWorker(t, def.Handlers(), runtime.WorkerConfig{Concurrency: 64})
		ctx := enginetest.Context(t)
		if count > 100_000 {
			ctx = t.Context() // it takes as long as it takes
		}
		done := 0
		round := func(executions int) {
			for until := done + executions; done < until; {
				runs := make([]*runtime.Run[int], 10)
				for i := range runs {
					run, err := runtime.Start(ctx, b.Client, def, "x")
					require.NoError(t, err)
					runs[i] = run
				}
				for _, run := range runs {
					_, err := run.Result(ctx)
					require.NoError(t, err)
					done += width + 1
				}
			}
		}
		round(2_000)
		before, begun := heap(), time.Now()
		round(count)
		after := heap()
		t.Logf("%d executions in %s: heap %.1f MiB before, %.1f MiB after", count, time.Since(begun).Round(time.Second), mib(before), mib(after))
		require.Less(t, after-before, int64(growth))
	})
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// Blocked readers of events keep no events in memory, miss none, and delay no other reader. Not parallel: the heap is
// the whole process's.
func TestSlowWatchersAreBounded(t *testing.T) {
	const watchers, nodes, each = 200, 400, 64 << 10
	f := flow.New[string, string]("chain")
	chain(f, nodes)
	def, err := f.Build()
	require.NoError(t, err)
	enginetest.EachAlone(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		run, err := runtime.Start(ctx, b.Client, def, "x")
		require.NoError(t, err)
		next := make([]func() (fabrictype.Event, error, bool), watchers)
		for i := range next {
			var stop func()
			next[i], stop = iter.Pull2(run.Watch(ctx, ""))
			defer stop()
			_, err, ok := next[i]()
			require.True(t, ok)
			require.NoError(t, err)
		}
		before := heap()
		b.Worker(t, []activity.Handler{echo}, runtime.WorkerConfig{Concurrency: 16})
		_, err = run.Result(ctx)
		require.NoError(t, err, "nothing waits for slow readers")
		grown := heap() - before
		t.Logf("%d watchers are blocked while %d nodes run: %.1f MiB more", watchers, nodes, mib(grown))
		require.Less(t, grown, int64(watchers*each))
		seen := 1
		for {
			_, err, ok := next[0]()
			if !ok {
				break
			}
			require.NoError(t, err)
			seen++
		}
		require.Greater(t, seen, 2*nodes)
		for i := 1; i < 3; i++ {
			others := 1
			for _, _, ok := next[i](); ok; _, _, ok = next[i]() {
				others++
			}
			require.Equal(t, seen, others)
		}
	})
}

// An attempt that emits without end keeps the last frames; a reader that comes late gets those in their order.
func TestManyFrames(t *testing.T) {
	t.Parallel()
	count := sized(12_000, 1_000_000)
	emit := activity.New("emit", func(ctx context.Context, _ string) (string, error) {
		for i := range count {
			if err := activity.Emit(ctx, activity.Frame{Kind: "number", Payload: i}); err != nil {
				return "", err
			}
		}
		return "done", nil
	})
	f := flow.New[string, string]("emit")
	flow.Return(f, flow.Node(f, "emit", emit, f.Input()))
	def, err := f.Build()
	require.NoError(t, err)
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		if count > 100_000 {
			ctx = t.Context()
		}
		b.Worker(t, []activity.Handler{emit}, runtime.WorkerConfig{Lease: time.Hour})
		begun := time.Now()
		run, err := runtime.Start(ctx, b.Client, def, "")
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.NoError(t, err)
		t.Logf("%d frames in %s", count, time.Since(begun).Round(time.Second))
		got, last := 0, -1
		for frame, err := range run.Frames(ctx, "emit", "") {
			require.NoError(t, err)
			var n int
			require.NoError(t, frame.Decode(&n))
			require.Greater(t, n, last)
			got, last = got+1, n
		}
		require.Equal(t, count-1, last)
		require.True(t, got >= 10_000 && got <= 12_000, "%d frames are kept", got)
	})
}

// A run is found by its tag among as many as there are, and each page of a search is bounded.
func TestManyTags(t *testing.T) {
	t.Parallel()
	count := sized(1_000, 100_000)
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		if count > 10_000 {
			ctx = t.Context()
		}
		def, begun := echoing(t), time.Now()
		for from := 0; from < count; from += 1000 {
			runs := make([]runtime.NewRun[string], 1000)
			for i := range runs {
				runs[i].Options = []runtime.StartOption{
					runtime.WithID(fmt.Sprint("r", from+i)), runtime.WithTag("customer.id", fmt.Sprint(from+i)), runtime.WithTag("customer.kind", "all"),
				}
			}
			started, err := runtime.StartMany(ctx, b.Client, def, runs)
			require.NoError(t, err)
			var faults []error
			for _, s := range started {
				faults = append(faults, s.Err)
			}
			require.NoError(t, errors.Join(faults...))
		}
		t.Logf("%d runs with a tag of their own in %s", count, time.Since(begun).Round(time.Second))
		for _, n := range []int{0, count / 2, count - 1} {
			var found []string
			for run, err := range b.Client.Runs(ctx, runtime.RunQuery{Tags: map[string]string{"customer.id": fmt.Sprint(n)}}) {
				require.NoError(t, err)
				found = append(found, run.Run)
			}
			require.Equal(t, []string{fmt.Sprint("r", n)}, found)
		}
		page, err := b.Client.ListRuns(ctx, runtime.RunQuery{Tags: map[string]string{"customer.kind": "all"}}, "", 100)
		require.NoError(t, err)
		require.Len(t, page.Items, 100)
		require.NotEmpty(t, page.Next)
	})
}
