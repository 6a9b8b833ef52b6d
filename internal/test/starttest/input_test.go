package starttest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/contract"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func TestRunIDs(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := fixture.AddOne()
		b.Worker(t, []activity.Handler{a})
		def := fixture.ChainOf(t, a, 2)

		run, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID("one"), runtime.WithActor("test"))
		require.NoError(t, err)
		require.False(t, run.Existed())
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 3, out)

		again, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID("one"))
		require.NoError(t, err)
		require.True(t, again.Existed())
		out, err = again.Result(ctx)
		require.NoError(t, err, "the result of a run that is over")
		require.Equal(t, 3, out)

		_, err = runtime.Start(ctx, b.Client, def, 2, runtime.WithID("one"))
		require.ErrorIs(t, err, engine.ErrRunConflict)
		require.ErrorContains(t, err, "input")
		_, err = runtime.Start(ctx, b.Client, fixture.ChainOf(t, a, 3), 1, runtime.WithID("one"))
		require.ErrorIs(t, err, engine.ErrRunConflict)
		require.ErrorContains(t, err, "graph")

		_, err = runtime.Start(ctx, b.Client, def, 1, runtime.WithID(strings.Repeat("x", 257)))
		require.ErrorIs(t, err, runtime.ErrInvalid)
		_, err = runtime.Attach(b.Client.Run(def.Name(), ""), def)
		require.ErrorIs(t, err, runtime.ErrInvalid)
		long, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID(strings.Repeat("x", 256)))
		require.NoError(t, err)
		_, err = long.Result(ctx)
		require.NoError(t, err)

		unknown, err := runtime.Attach(b.Client.Run(def.Name(), "never started"), def)
		require.NoError(t, err)
		_, err = unknown.Result(ctx)
		require.ErrorIs(t, err, engine.ErrRunNotFound)
		_, err = unknown.Describe(ctx)
		require.ErrorIs(t, err, engine.ErrRunNotFound)
		require.ErrorIs(t, unknown.Cancel(ctx, ""), engine.ErrRunNotFound)
		require.ErrorIs(t, run.Cancel(ctx, ""), engine.ErrRunOver)
		b.Settle(t)
	})
}

// An id that is given is checked, also when it is empty; only the lack of one is made up for.
func TestEmptyRunID(t *testing.T) {
	t.Parallel()
	b := enginetest.New(t, testserver.Embedded)
	_, err := runtime.Start(enginetest.Context(t), b.Client, fixture.ChainOf(t, fixture.AddOne(), 1), 1, runtime.WithID(""))
	require.ErrorIs(t, err, runtime.ErrInvalid)
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		grow := activity.New("grow", func(_ context.Context, in string) (string, error) {
			if in == "grow" {
				return strings.Repeat("x", 1<<20), nil
			}
			return in, nil
		}, activity.Retry(activity.RetryPolicy{Attempts: 3}))
		b.Worker(t, []activity.Handler{grow})
		f := flow.New[string, string]("grow")
		flow.Return(f, flow.Node(f, "big", grow, f.Input()))
		def, err := f.Build()
		require.NoError(t, err)

		_, err = runtime.Start(ctx, b.Client, def, strings.Repeat("x", 1<<20-1), runtime.WithID("large"))
		require.ErrorIs(t, err, runtime.ErrTooLarge)
		_, err = b.Client.Run("grow", "large").Describe(ctx)
		require.ErrorIs(t, err, engine.ErrRunNotFound, "nothing is written for a refused input")

		most := strings.Repeat("x", 1<<20-2)
		run, err := runtime.Start(ctx, b.Client, def, most)
		require.NoError(t, err)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Len(t, out, len(most))

		run, err = runtime.Start(ctx, b.Client, def, "grow")
		require.NoError(t, err)
		_, err = run.Result(ctx)
		var failed *runtime.RunError
		require.ErrorAs(t, err, &failed)
		require.ErrorIs(t, err, runtime.ErrRunFailed)
		require.Equal(t, "big", failed.Node)
		require.Equal(t, "too_large", failed.Category)
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, 1, d.Nodes[0].Attempts, "it would be too large again")
		b.Settle(t)
	})
}

func TestUndecodableInput(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		type oldIn struct{ Count string }
		type newIn struct{ Count int }
		before := activity.New("count", func(_ context.Context, in oldIn) (int, error) { return len(in.Count), nil })
		now := activity.New("count", func(_ context.Context, in newIn) (int, error) { return in.Count, nil })
		b.Worker(t, []activity.Handler{now})
		f := flow.New[oldIn, int]("counts")
		flow.Return(f, flow.Node(f, "tally", before, f.Input()))
		def, err := f.Build()
		require.NoError(t, err)
		run, err := runtime.Start(ctx, b.Client, def, oldIn{"three"}, runtime.WithID("r-17"))
		require.NoError(t, err)
		_, err = run.Result(ctx)
		var failed *runtime.RunError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, activityspec.CategoryDecode, failed.Category)
		require.Equal(t, "tally", failed.Node)
		for _, part := range []string{"r-17", "tally", "newIn.Count of type int", "fork the run"} {
			require.ErrorContains(t, err, part)
		}
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, 1, d.Nodes[0].Attempts, "another attempt would see the same bytes")
		b.Settle(t)
	})
}

// A worker returns a node whose input it cannot decode while another live worker has the activity with another input
// type, as during a deploy. The node reports the reason and runs on the other worker; the attempt does not count.
func TestUndecodableInputWaitsForAnotherWorker(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		type oldIn struct{ Count string }
		type newIn struct{ Count int }
		before := activity.New("count", func(_ context.Context, in oldIn) (int, error) { return len(in.Count), nil })
		now := activity.New("count", func(_ context.Context, in newIn) (int, error) { return in.Count, nil })
		f := flow.New[oldIn, int]("counts")
		flow.Return(f, flow.Node(f, "tally", before, f.Input()))
		def, err := f.Build()
		require.NoError(t, err)

		// The worker with the old type takes nothing yet: its only slot is in use.
		entered, leave := make(chan struct{}), make(chan struct{})
		hold := activity.New("hold", func(context.Context, int) (int, error) {
			close(entered)
			<-leave
			return 0, nil
		})
		b.KeepingWorker(t, []activity.Handler{before, hold}, runtime.WorkerConfig{Name: "old", Concurrency: 1})
		_, err = runtime.Start(ctx, b.Client, fixture.Single(t, hold), 1)
		require.NoError(t, err)
		<-entered
		b.Worker(t, []activity.Handler{now}, runtime.WorkerConfig{Name: "new"})
		enginetest.Eventually(t, func() string {
			list, err := b.Client.Workers(ctx)
			require.NoError(t, err)
			if len(list) < 2 {
				return "a worker has not reported"
			}
			return ""
		})
		run, err := runtime.Start(ctx, b.Client, def, oldIn{"three"})
		require.NoError(t, err)
		enginetest.Eventually(t, func() string {
			d, err := run.Describe(ctx)
			require.NoError(t, err)
			why := d.Nodes[0].Waiting
			if why.Reason != "undecodable" {
				return "the node says " + why.Sentence
			}
			for _, part := range []string{"worker new-", "newIn.Count of type int", "worker old on", "tried again at"} {
				require.Contains(t, why.Sentence, part)
			}
			require.NotEmpty(t, why.Remedy)
			return ""
		})
		b.Check(t, invariant.AnyTime)
		// The worker that cannot decode the input would win some of the next claims.
		list, err := b.Client.Workers(ctx)
		require.NoError(t, err)
		for _, w := range list {
			if w.Name == "new" {
				require.NoError(t, b.Client.DrainWorker(ctx, w.Instance))
			}
		}
		close(leave)
		result, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 5, result)
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, 1, d.Nodes[0].Attempts)
		b.Settle(t)
	})
}

func TestOpenFaults(t *testing.T) {
	t.Parallel()
	ctx := enginetest.Context(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nobody := listener.Addr().String()
	require.NoError(t, listener.Close())
	quick, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err = runtime.Open(quick, "redis://"+nobody, runtime.OpenConfig{})
	require.ErrorIs(t, err, enginecore.ErrNotReachable)
	require.ErrorContains(t, err, nobody)

	for _, url := range []string{"http://x", "redis+magic://x", "redis://", "redis+sentinel://x", "embedded:?fsync=maybe", "embedded:?x=1", "redis://:secret@h:%zz"} {
		_, err := runtime.Open(ctx, url, runtime.OpenConfig{})
		require.ErrorIs(t, err, runtime.ErrInvalid, url)
		require.NotContains(t, err.Error(), "secret")
	}
	_, err = runtime.Open(ctx, "", runtime.OpenConfig{Prefix: "Not A Prefix"})
	require.ErrorIs(t, err, runtime.ErrInvalid)
	for _, name := range []string{strings.Repeat("x", 129), "a\nb", "\xff"} {
		_, err = runtime.Open(ctx, "", runtime.OpenConfig{Namespace: name})
		require.ErrorIs(t, err, runtime.ErrInvalid, name)
		require.ErrorContains(t, err, "Namespace", name)
	}

	for _, kind := range testserver.Servers(t) {
		t.Run(string(kind), func(t *testing.T) {
			s := testserver.Start(t, testserver.Options{Kind: kind, Password: "right"})
			for _, url := range []string{string(kind) + "://:wrong@" + s.Addr(), string(kind) + "://" + s.Addr()} {
				_, err := runtime.Open(ctx, url, runtime.OpenConfig{})
				require.ErrorIs(t, err, enginecore.ErrUnauthorized)
				require.NotContains(t, err.Error(), "wrong@")
			}
			e, err := runtime.Open(ctx, s.URL(), runtime.OpenConfig{})
			require.NoError(t, err)
			require.NoError(t, e.Close())
		})
	}
}

func TestWorkerConfiguration(t *testing.T) {
	t.Parallel()
	b := enginetest.New(t, testserver.Embedded)
	ctx := enginetest.Context(t)
	for text, config := range map[string]runtime.WorkerConfig{
		"Concurrency -1: must be 1 to 10000": {Concurrency: -1}, "Concurrency 10001": {Concurrency: 10_001},
		"Lease 1ms: must be 300ms to 1h0m0s": {Lease: time.Millisecond}, "Lanes: ": {Lanes: []string{"tab\there"}},
		`Lanes: "a" is given twice`:           {Lanes: []string{"a", "b", "a"}},
		`Capabilities: capability "a,b"`:      {Capabilities: []string{"a,b"}},
		`Capabilities: a capability is empty`: {Capabilities: []string{""}},
	} {
		_, err := runtime.NewWorker(b.Engine, config)
		require.ErrorIs(t, err, runtime.ErrInvalid, text)
		require.ErrorContains(t, err, text)
		_, err = runtime.OpenLocal(ctx, runtime.LocalConfig{Worker: config})
		require.ErrorIs(t, err, runtime.ErrInvalid, text)
		require.ErrorContains(t, err, "Worker."+text)
		require.ErrorContains(t, err, "Activities: at least one is needed")
	}
	_, err := runtime.NewWorker(b.Engine, runtime.WorkerConfig{Concurrency: -1, Name: "a b", Lease: 1})
	for _, field := range []string{"Concurrency", "Name", "Lease"} {
		require.ErrorContains(t, err, field)
	}

	keeper := runtime.KeeperConfig{Lanes: []string{"tab\there"}, HeartbeatInterval: time.Hour, ReconcileEvery: -1, SiblingTagValue: "one"}
	_, keeperErr := runtime.NewKeeper(b.Engine, keeper)
	_, taskErr := b.RunKeeperTask(ctx, "budget", keeper)
	for _, err := range []error{keeperErr, taskErr} {
		require.ErrorIs(t, err, runtime.ErrInvalid)
		for _, text := range []string{"Lanes: ", "HeartbeatInterval 1h0m0s: must be 10ms to 1m0s", "ReconcileEvery -1ns: must be at least 100ms", "SiblingTagValue \"one\": needs SiblingTag"} {
			require.ErrorContains(t, err, text)
		}
	}

	_, err = runtime.Open(ctx, "redis://h?tls=yes", runtime.OpenConfig{
		Prefix: "No Prefix", Namespace: "a\nb", Partitions: -1, MaxWatches: -1, WaitpointSecret: enginecore.WaitpointSecret{KID: "k", Hex: "5ecret"},
		Retention: runtime.Retention{Failed: -2}, Keeper: keeper, ReplaceForeignLibrary: true,
		Backend: contract.Backend(contract.Config{PollInterval: 1, ReconcileInterval: -1}),
	})
	require.ErrorIs(t, err, runtime.ErrInvalid)
	require.NotContains(t, err.Error(), "5ecret")
	for _, text := range []string{
		"engine URL: ", "Prefix: ", "Namespace: ", "Partitions -1: must be 1 to 65536", "MaxWatches -1: must be 1 to 100000", "WaitpointSecret.Hex: ", "Retention: ",
		"Keeper.Lanes: ", "Keeper.HeartbeatInterval 1h0m0s: ", "Keeper.ReconcileEvery -1ns: ", "Backend: contract.Config.PollInterval 1ns: must be at least 10ms", "contract.Config.ReconcileInterval -1ns: must be at least 10ms",
	} {
		require.ErrorContains(t, err, text)
	}
}

// A secret does not get into logs with its config.
func TestSecretIsNotShown(t *testing.T) {
	t.Parallel()
	config := runtime.OpenConfig{WaitpointSecret: enginecore.WaitpointSecret{KID: "mine", Hex: "5ec4e7"}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		require.NotContains(t, fmt.Sprintf(format, config), "5ec4e7", format)
	}
}

func TestRegister(t *testing.T) {
	b := enginetest.New(t, testserver.Embedded)
	ctx := enginetest.Context(t)
	require.ErrorIs(t, enginetest.NewWorker(t, b.Engine, runtime.WorkerConfig{}).Run(ctx), runtime.ErrInvalid, "nothing registered")

	w := enginetest.NewWorker(t, b.Engine, runtime.WorkerConfig{})
	a := fixture.AddOne()
	require.NoError(t, w.Register(a))
	require.NoError(t, w.Register(a), "the same activity again does not conflict")
	twin := activity.New("sum", func(_ context.Context, n int) (int, error) { return n, nil }, activity.Alias("add"))
	require.ErrorIs(t, w.Register(twin), runtime.ErrInvalid)
	require.ErrorIs(t, w.Register(nil), runtime.ErrInvalid)
	bad := activity.New("no good name", func(_ context.Context, n int) (int, error) { return n, nil })
	err := w.Register(bad)
	require.ErrorIs(t, err, runtime.ErrInvalid)
	require.ErrorIs(t, err, activity.ErrInvalid)

	none, err := runtime.Start[int, int](ctx, b.Client, nil, 1)
	require.ErrorContains(t, err, "definition of the flow is nil")
	require.Nil(t, none)

	over, cancel := context.WithCancel(ctx)
	cancel()
	require.NoError(t, w.Run(over))
	require.ErrorIs(t, w.Run(ctx), runtime.ErrInvalid, "a worker runs once")
	require.ErrorIs(t, w.Register(twin), runtime.ErrInvalid)
}

func TestList(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := fixture.AddOne()
		def := fixture.ChainOf(t, a, 1)
		var started []string
		var last time.Time
		for i := range 12 {
			// Two runs of one millisecond have no order.
			enginetest.Eventually(t, func() string {
				now, err := engine.ConnOf(b.Engine.Internal()).Now(ctx)
				if err == nil && now.After(last.Add(time.Millisecond)) {
					last = now
					return ""
				}
				return fmt.Sprint("another millisecond ", err)
			})
			id := fmt.Sprintf("run-%02d", i)
			_, err := runtime.Start(ctx, b.Client, def, i, runtime.WithID(id))
			require.NoError(t, err)
			started = append([]string{id}, started...)
			last, err = engine.ConnOf(b.Engine.Internal()).Now(ctx)
			require.NoError(t, err)
		}
		ids := func(limit int) []string {
			page, err := b.Client.ListRuns(ctx, runtime.RunQuery{Flow: "chain"}, "", limit)
			require.NoError(t, err)
			var out []string
			for _, r := range page.Items {
				require.Equal(t, fabrictype.RunRunning, r.State)
				require.False(t, r.CreatedAt.IsZero())
				out = append(out, r.Run)
			}
			return out
		}
		require.Equal(t, started, ids(0))
		require.Equal(t, started[:5], ids(5))
		page, err := b.Client.ListRuns(ctx, runtime.RunQuery{Flow: "no such flow"}, "", 0)
		require.NoError(t, err)
		require.Empty(t, page.Items)
		b.Worker(t, []activity.Handler{a})
		run, err := runtime.Attach(b.Client.Run(def.Name(), "run-00"), def)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.NoError(t, err)
		page, err = b.Client.ListRuns(ctx, runtime.RunQuery{Flow: "chain"}, "", 501)
		require.NoError(t, err)
		require.Len(t, page.Items, 12)
		require.Equal(t, fabrictype.RunSucceeded, page.Items[11].State)
		require.False(t, page.Items[11].ClosedAt.IsZero())
		b.Settle(t)
	})
}

// Two prefixes on one server are two worlds.
func TestPrefixesAreApart(t *testing.T) {
	t.Parallel()
	for _, kind := range testserver.Servers(t) {
		t.Run(string(kind), func(t *testing.T) {
			ctx := enginetest.Context(t)
			one, two := enginetest.New(t, kind), enginetest.New(t, kind)
			a := fixture.AddOne()
			def := fixture.ChainOf(t, a, 2)
			one.Worker(t, []activity.Handler{a})
			left, err := runtime.Start(ctx, one.Client, def, 1, runtime.WithID("same"))
			require.NoError(t, err)
			right, err := runtime.Start(ctx, two.Client, def, 5, runtime.WithID("same"))
			require.NoError(t, err)
			require.False(t, right.Existed())
			out, err := left.Result(ctx)
			require.NoError(t, err)
			require.Equal(t, 3, out)
			d, err := right.Describe(ctx)
			require.NoError(t, err)
			require.Equal(t, 2, d.OpenNodes, "the other world has no worker")
			page, err := two.Client.ListRuns(ctx, runtime.RunQuery{Flow: "chain"}, "", 0)
			require.NoError(t, err)
			require.Len(t, page.Items, 1)
			two.Worker(t, []activity.Handler{a})
			out, err = right.Result(ctx)
			require.NoError(t, err)
			require.Equal(t, 7, out)
			one.Settle(t)
			two.Settle(t)
		})
	}
}

func TestResultWaits(t *testing.T) {
	t.Parallel()
	b := enginetest.New(t, testserver.Embedded)
	ctx := enginetest.Context(t)
	run, err := runtime.Start(ctx, b.Client, fixture.ChainOf(t, fixture.AddOne(), 1), 1)
	require.NoError(t, err)
	why := errors.New("enough")
	short, cancel := context.WithCancelCause(ctx)
	got := make(chan error, 1)
	go func() {
		_, err := run.Result(short)
		got <- err
	}()
	cancel(why)
	require.ErrorIs(t, <-got, why)
	go func() {
		_, err := run.Result(ctx)
		got <- err
	}()
	b.Client.Close()
	require.ErrorContains(t, <-got, "closed")
}
