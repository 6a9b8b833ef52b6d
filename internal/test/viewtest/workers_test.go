package viewtest

import (
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A worker is listed with its lanes and activities from its begin to its end.
func TestWorkersAreListed(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		w := b.Worker(t, []activity.Handler{fixture.AddOne()}, runtime.WorkerConfig{
			Name: "census", Lanes: []string{"slow", "default"}, Concurrency: 7, Capabilities: []string{"gpu"}, NoKeeper: true,
		})
		got := fixture.Listed(ctx, t, b.Client, "one", fixture.Number(1))[0]
		host, err := os.Hostname()
		require.NoError(t, err)
		require.Equal(t, []string{"default", "slow"}, got.Lanes)
		require.Equal(t, []string{fixture.AddOne().Name()}, got.Activities, "maps and sub-flows go without saying")
		require.Equal(t, []string{"gpu"}, got.Capabilities)
		require.Equal(t, [2]int{7, 7}, [2]int{got.Slots, got.Free()})
		require.Equal(t, [3]any{"census", host, os.Getpid()}, [3]any{got.Name, got.Host, got.PID})
		require.Equal(t, "running", got.State)
		require.True(t, strings.HasPrefix(got.Instance, "census-"))
		require.NotEmpty(t, got.Build.Library)
		require.False(t, got.Since.IsZero() || got.ReportedAt.IsZero())
		require.NoError(t, w.Stop())
		fixture.Listed(ctx, t, b.Client, "gone", fixture.Number(0))
		b.Settle(t)
	})
}

// A worker reports how many attempts it has begun in each lane.
func TestWorkersCountStarts(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		w := b.Worker(t, []activity.Handler{fixture.AddOne()}, runtime.WorkerConfig{Lanes: []string{"slow", "default"}, NoKeeper: true})
		for range 3 {
			run, err := runtime.Start(ctx, b.Client, fixture.Single(t, fixture.AddOne()), 1)
			require.NoError(t, err)
			_, err = run.Result(ctx)
			require.NoError(t, err)
		}
		one := fixture.Listed(ctx, t, b.Client, "one", fixture.Number(1))[0]
		require.NoError(t, b.Client.DrainWorker(ctx, one.Instance)) // it reports at once
		fixture.Listed(ctx, t, b.Client, "counting", func(list []fabrictype.Worker) bool {
			return len(list) == 1 && list[0].Started["default"] == 3 && len(list[0].Started) == 1
		})
		require.NoError(t, w.Stop())
	})
}

// A worker that drains takes no more work, lets its functions end, and stays in the list until it stops.
func TestDrainWorker(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		entered, gate := make(chan struct{}, 4), make(chan struct{})
		held := activity.New("held", func(context.Context, int) (int, error) {
			entered <- struct{}{}
			<-gate
			return 1, nil
		})
		f := flow.New[int, int]("two")
		flow.Return(f, flow.Node(f, "second", held, flow.Node(f, "first", held, f.Input())))
		def, err := f.Build()
		require.NoError(t, err)
		w := b.Worker(t, []activity.Handler{held}, runtime.WorkerConfig{NoKeeper: true})
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		<-entered
		instance := fixture.Listed(ctx, t, b.Client, "one", fixture.Number(1))[0].Instance
		require.NoError(t, b.Client.DrainWorker(ctx, instance, runtime.WithActor("ann")))
		require.NoError(t, b.Client.DrainWorker(ctx, instance), "again")
		got := fixture.Listed(ctx, t, b.Client, "draining", func(list []fabrictype.Worker) bool {
			return len(list) == 1 && list[0].State == "draining"
		})[0]
		require.Equal(t, [3]any{1, 0, "ann"}, [3]any{got.Used, got.Free(), got.DrainRequestedBy})
		close(gate)
		enginetest.Eventually(t, func() string {
			d, err := run.Describe(ctx)
			require.NoError(t, err)
			if d.Nodes[0].State != fabrictype.NodeSucceeded {
				return "the function has not ended"
			}
			require.Contains(t, d.Nodes[1].Waiting.Sentence, "no live worker serves activity \"held\" on lane default; last one seen")
			require.Contains(t, d.Nodes[1].Waiting.Sentence, "(it drains)")
			return ""
		})
		b.Worker(t, []activity.Handler{held}, runtime.WorkerConfig{NoKeeper: true})
		_, err = run.Result(ctx)
		require.NoError(t, err)
		require.NoError(t, w.Stop())
		require.ErrorIs(t, b.Client.DrainWorker(ctx, instance), enginecore.ErrWorkerNotFound)
		require.ErrorIs(t, b.Client.DrainWorker(ctx, ""), runtime.ErrInvalid)
		b.Settle(t)
	})
}

// The reply to a worker's report contains the drain of a lost message, and the report restores a record that was lost.
func TestReportsMakeUpForLostMessages(t *testing.T) {
	t.Parallel()
	enginetest.Only(t, testserver.Embedded)
	synctest.Test(t, func(t *testing.T) {
		b := enginetest.New(t, testserver.Embedded)
		ctx := enginetest.Context(t)
		b.Worker(t, []activity.Handler{fixture.AddOne()}, runtime.WorkerConfig{NoKeeper: true})
		first := fixture.Listed(ctx, t, b.Client, "one", fixture.Number(1))[0]
		operator := b.Operator()
		record := b.Prefix + ":ffx:{fp:0}:worker_record:" + first.Instance
		require.NoError(t, operator.Do(ctx, operator.B().Del().Key(record).Build()).Error())
		require.Empty(t, fixture.Listed(ctx, t, b.Client, "gone", fixture.Number(0)))
		again := fixture.Listed(ctx, t, b.Client, "one", fixture.Number(1))[0]
		require.Equal(t, first.Activities, again.Activities)
		set := operator.B().Hset().Key(record).FieldValue().FieldValue("drain_requested_at", "1").Build()
		require.NoError(t, operator.Do(ctx, set).Error())
		fixture.Listed(ctx, t, b.Client, "draining", func(list []fabrictype.Worker) bool {
			return len(list) == 1 && list[0].State == "draining"
		})
	})
}

// A worker reports within two seconds that another number of its slots is in use, and does not while it stays the same.
func TestWorkersReportTheirUse(t *testing.T) {
	t.Parallel()
	enginetest.Only(t, testserver.Embedded)
	synctest.Test(t, func(t *testing.T) {
		b := enginetest.New(t, testserver.Embedded)
		ctx := enginetest.Context(t)
		c := fixture.NewCourse()
		b.Worker(t, []activity.Handler{c.Act}, runtime.WorkerConfig{Concurrency: 4, NoKeeper: true})
		fixture.Listed(ctx, t, b.Client, "one", fixture.Number(1))
		listed := func() fabrictype.Worker {
			list, err := b.Client.Workers(ctx)
			require.NoError(t, err)
			require.Len(t, list, 1)
			return list[0]
		}
		f := flow.New[fixture.None, string]("busy")
		flow.Return(f, c.Nodes(f, "gate")[0])
		var runs []*runtime.Run[string]
		for used := range 3 {
			runs = append(runs, fixture.StartOf(t, b, f))
			time.Sleep(2 * time.Second) //nolint:forbidigo // by the virtual clock
			require.Equal(t, used+1, listed().Used)
		}
		last := listed().ReportedAt
		time.Sleep(20 * time.Second) //nolint:forbidigo // by the virtual clock
		require.Equal(t, last, listed().ReportedAt)
		close(c.Gate)
		for _, run := range runs {
			_, err := run.Result(ctx)
			require.NoError(t, err)
		}
		time.Sleep(2 * time.Second) //nolint:forbidigo // by the virtual clock
		require.Zero(t, listed().Used)
	})
}

// A worker that reports no more is gone after a while, and remembered as the last one.
func TestSilentWorkersAreGone(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		conn := engine.ConnOf(b.Engine.Internal())
		call := enginerpc.ReportWorkerCall{
			Partition: keyspace.Partition{Family: keyspace.FlowFamily}, WorkerInstanceID: "w-1", State: "running",
			TTL: 50 * time.Millisecond,
		}
		reply, err := conn.ReportWorker(ctx, call)
		require.NoError(t, err)
		require.False(t, reply.Known, "the record is not there")
		call.Lanes, call.Kinds = enginerpc.KindSet([]string{"default"}), enginerpc.KindSet([]string{fixture.AddOne().Name()})
		call.About = []byte(`{"host":"alpha"}`)
		reply, err = conn.ReportWorker(ctx, call)
		require.NoError(t, err)
		require.True(t, reply.Known)
		enginetest.Pass(t, conn, 100*time.Millisecond)
		list, err := b.Client.Workers(ctx)
		require.NoError(t, err)
		require.Empty(t, list)
		run, err := runtime.Start(ctx, b.Client, fixture.Single(t, fixture.AddOne()), 1)
		require.NoError(t, err)
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.Contains(t, d.Nodes[0].Waiting.Sentence, "on host alpha (it is silent)")
		call.State = "asleep"
		_, err = conn.ReportWorker(ctx, call)
		require.ErrorIs(t, err, errorcode.InvalidInput)
		call.State, call.TTL = "running", time.Hour
		const many = 450 // more than two pages
		for i := range many {
			call.WorkerInstanceID = enginecore.WorkerInstanceID("w-" + time.Duration(i).String())
			_, err = conn.ReportWorker(ctx, call)
			require.NoError(t, err)
		}
		fixture.Listed(ctx, t, b.Client, "all", fixture.Number(many))
	})
}
