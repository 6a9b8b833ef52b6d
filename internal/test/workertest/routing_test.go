package workertest

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func TestActivityWithoutWorkerWaits(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		known, unknown := fixture.AddOne(), activity.New("unknown", func(_ context.Context, n int) (int, error) { return -n, nil })
		run, err := runtime.Start(ctx, b.Client, fixture.Single(t, unknown), 4)
		require.NoError(t, err)
		enginetest.Eventually(t, fixture.DescribedAs(ctx, run, "waiting", `no live worker serves activity `))

		b.MessageWorker(t, []activity.Handler{known})
		enginetest.Eventually(t, fixture.DescribedAs(ctx, run, "rate_limited", `no running worker knows activity "unknown"`))
		other, err := runtime.Start(ctx, b.Client, fixture.ChainOf(t, known, 3), 1)
		require.NoError(t, err)
		out, err := other.Result(ctx)
		require.NoError(t, err, "a node that can run is not hidden")
		require.Equal(t, 4, out)

		b.MessageWorker(t, []activity.Handler{unknown})
		out, err = run.Result(ctx)
		require.NoError(t, err, "a new worker claims the nodes that waited for it")
		require.Equal(t, -4, out)
		b.Settle(t)
	})
}

func TestCapabilityWithoutWorkerWaits(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := fixture.AddOne()
		b.MessageWorker(t, []activity.Handler{a}, runtime.WorkerConfig{Capabilities: []string{"ssd"}})
		run, err := runtime.Start(ctx, b.Client, fixture.Single(t, a, activity.Capabilities("gpu", "ssd")), 4)
		require.NoError(t, err)
		enginetest.Eventually(t, fixture.DescribedAs(ctx, run, "rate_limited", "no running worker offers: gpu"))
		b.MessageWorker(t, []activity.Handler{a}, runtime.WorkerConfig{Capabilities: []string{"ssd", "gpu", "gpu"}})
		_, err = run.Result(ctx)
		require.NoError(t, err, "a new worker claims the nodes that waited for it")
		b.Settle(t)
	})
}

// An old name of an activity finds the one that was renamed.
func TestRenamedActivity(t *testing.T) {
	t.Parallel()
	b := enginetest.New(t, testserver.Embedded)
	ctx := enginetest.Context(t)
	run, err := runtime.Start(ctx, b.Client, fixture.Single(t, fixture.AddOne()), 4)
	require.NoError(t, err)
	b.Worker(t, []activity.Handler{activity.New("plus", func(_ context.Context, n int) (int, error) { return n + 1, nil }, activity.Alias("add"))})
	out, err := run.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, 5, out)
}

// The lanes that a worker does not serve are not its business.
func TestLanes(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := fixture.AddOne()
		b.Worker(t, []activity.Handler{a}, runtime.WorkerConfig{Lanes: []string{"fast"}})
		slow, err := runtime.Start(ctx, b.Client, fixture.Single(t, a, activity.Lane("slow")), 1)
		require.NoError(t, err)
		fast, err := runtime.Start(ctx, b.Client, fixture.Single(t, a, activity.Lane("fast")), 2)
		require.NoError(t, err)
		_, err = fast.Result(ctx)
		require.NoError(t, err)
		d, err := slow.Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, fabrictype.NodeWaiting, d.Nodes[0].State)
		require.Contains(t, d.Nodes[0].Waiting.Sentence, "lane slow")
		b.Worker(t, []activity.Handler{a}, runtime.WorkerConfig{Lanes: []string{"slow", "fast"}})
		_, err = slow.Result(ctx)
		require.NoError(t, err)
		b.Settle(t)
	})
}

// Higher priorities run first, then the older ones.
func TestPriorities(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		order := make(chan int, 10)
		a := activity.New("note", func(_ context.Context, n int) (int, error) { order <- n; return n, nil })
		var runs []*runtime.Run[int]
		for _, priority := range []int{0, 5, 9000, 5} {
			run, err := runtime.Start(ctx, b.Client, fixture.Single(t, a, activity.Priority(priority)), priority)
			require.NoError(t, err)
			runs = append(runs, run)
		}
		b.Worker(t, []activity.Handler{a}, runtime.WorkerConfig{Concurrency: 1})
		for _, run := range runs {
			_, err := run.Result(ctx)
			require.NoError(t, err)
		}
		b.Settle(t)
	}, runtime.OpenConfig{Partitions: 1})
}

// A worker that does not know an activity and one that does but is full must not pass the work to and fro.
func TestFullWorkerDoesNotSpin(t *testing.T) {
	t.Parallel()
	for _, kind := range testserver.Servers(t) {
		t.Run(string(kind), func(t *testing.T) {
			server := testserver.Start(t, testserver.Options{Kind: kind})
			b := enginetest.Open(t, kind, server.URL(), enginetest.NewPrefix())
			ctx := enginetest.Context(t)
			gate, begun := make(chan struct{}), make(chan struct{}, 4)
			hold := activity.New("hold", func(_ context.Context, n int) (int, error) {
				begun <- struct{}{}
				<-gate
				return n, nil
			})
			b.Worker(t, []activity.Handler{hold}, runtime.WorkerConfig{Concurrency: 1})
			b.Worker(t, []activity.Handler{fixture.AddOne()})
			var runs []*runtime.Run[int]
			for i := range 3 {
				run, err := runtime.Start(ctx, b.Client, fixture.Single(t, hold), i)
				require.NoError(t, err)
				runs = append(runs, run)
			}
			<-begun
			before := commandsOf(t, ctx, b)
			counting := time.Now()
			time.Sleep(time.Second) //nolint:forbidigo // for which the commands are counted
			spent := float64(commandsOf(t, ctx, b)-before) / time.Since(counting).Seconds()
			close(gate)
			t.Logf("%.0f commands in a second", spent)
			require.Less(t, spent, 100.0)
			for _, run := range runs {
				_, err := run.Result(ctx)
				require.NoError(t, err)
			}
			b.Settle(t)
		})
	}
}

// commandsOf is the number of commands that a server has processed.
func commandsOf(t *testing.T, ctx context.Context, b *enginetest.Bench) int {
	client := engine.ConnOf(b.Engine.Internal()).Client()
	text, err := client.Do(ctx, client.B().Info().Section("stats").Build()).ToString()
	require.NoError(t, err)
	_, rest, _ := strings.Cut(text, "total_commands_processed:")
	number, _, _ := strings.Cut(rest, "\r\n")
	n, err := strconv.Atoi(number)
	require.NoError(t, err)
	return n
}

// Any number of nodes that no worker can run does not hide one that can run, and all of them run when a capable worker
// starts.
func TestManyUnclaimableNodesHideNoOther(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		const wide = 250 // a claim passes over 256 at most
		runs := 3
		if os.Getenv("FLOWFABRIC_SOAK") != "" {
			runs = 20
		}
		a := fixture.AddOne()
		f := flow.New[int, int]("def")
		for i := range wide {
			last := flow.Node(f, "n"+strconv.Itoa(i), a, f.Input(), activity.Capabilities("gpu"), activity.Priority(1))
			if i == 0 {
				flow.Return(f, last)
			}
		}
		def, err := f.Build()
		require.NoError(t, err)
		var started []*runtime.Run[int]
		for i := range runs {
			run, err := runtime.Start(ctx, b.Client, def, i)
			require.NoError(t, err)
			started = append(started, run)
		}
		free, err := runtime.Start(ctx, b.Client, fixture.Single(t, a), 1)
		require.NoError(t, err)
		b.Worker(t, []activity.Handler{a}, runtime.WorkerConfig{Concurrency: 1})
		_, err = free.Result(ctx)
		require.NoError(t, err)
		lanes, err := b.Client.Lanes(ctx)
		require.NoError(t, err)
		require.Equal(t, runs*wide, lanes[0].Blocked.Route)
		b.Worker(t, []activity.Handler{a}, runtime.WorkerConfig{Capabilities: []string{"gpu"}, Concurrency: 32})
		for _, run := range started {
			_, err := run.Result(ctx)
			require.NoError(t, err)
		}
	}, runtime.OpenConfig{Partitions: 1})
}
