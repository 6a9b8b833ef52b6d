package limittest

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A call that names the limit that has refused gets a returned permit granted to an execution that does not need that
// limit, until an execution that holds its permit requests one.
func TestReturnedPermitSkipsTheRefused(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		core := engine.ConnOf(b.Engine.Internal())
		id, full := keyspace.QuotaIDFor("test", "asked", ""), keyspace.QuotaIDFor("test", "full", "")
		partition, err := core.Partitioning().QuotaPartition(id)
		require.NoError(t, err)
		request := func(i int, needs string, ready bool) enginerpc.ExchangeRequest {
			return enginerpc.ExchangeRequest{
				Execution: fmt.Sprint("e", i), Token: 1, Score: strconv.Itoa(i), Needs: needs, Ready: ready,
			}
		}
		exchange := func(change func(*enginerpc.ExchangeCall)) []string {
			t.Helper()
			call := enginerpc.ExchangeCall{Partition: partition, QuotaPolicyID: id, Name: "asked", Cap: 2}
			change(&call)
			reply, err := core.Exchange(ctx, call)
			require.NoError(t, err)
			require.True(t, reply.Contended)
			var granted []string
			for _, p := range reply.Granted {
				granted = append(granted, p.Execution)
			}
			return granted
		}
		require.Equal(t, []string{"e1", "e2"}, exchange(func(call *enginerpc.ExchangeCall) {
			call.Want = 2
			for i := range 7 {
				needs := string(full)
				if i == 4 {
					needs = ""
				}
				call.Requests = append(call.Requests, request(1+i, needs, false))
			}
		}))
		require.Equal(t, []string{"e5"}, exchange(func(call *enginerpc.ExchangeCall) {
			call.Full = string(full)
			call.Releases = []enginerpc.ExchangeRelease{{Execution: "e1", Token: 1, Refund: true}}
		}), "the permit goes to the one that does not need the full limit")
		require.Equal(t, []string{"e8"}, exchange(func(call *enginerpc.ExchangeCall) {
			call.Releases = []enginerpc.ExchangeRelease{{Execution: "e5", Token: 1}}
			call.Requests = []enginerpc.ExchangeRequest{request(8, string(full), true)}
		}), "the permits of the full limit are with the execution that asks")
		require.Equal(t, []string{"e3"}, exchange(func(call *enginerpc.ExchangeCall) {
			call.Releases = []enginerpc.ExchangeRelease{{Execution: "e8", Token: 1}}
		}), "nothing is skipped any more")
	})
}

// severalLimits is a run whose executions have two limits and wait until the test ends them.
type severalLimits struct {
	limits []activity.Option
	most   int // executions that may run at a time
	window int // executions that may start in the window; 0 for no window
	asMap  bool
}

// Every execution under two limits waits in the queue of one, and few permits are granted in vain. No keeper offers
// executions again: an execution outside the queues would never run.
func TestExecutionsUnderTwoLimitsKeepWaiting(t *testing.T) {
	t.Parallel()
	atOnce := activity.Limit("other", activity.LimitConfig{AtOnce: 3})
	window := []activity.Option{activity.Limit("svc", activity.LimitConfig{AtMost: 5, Per: time.Hour}), atOnce}
	caps := []activity.Option{activity.Limit("svc", activity.LimitConfig{AtOnce: 4}), atOnce}
	for name, s := range map[string]severalLimits{
		"window, map":   {limits: window, most: 3, window: 5, asMap: true},
		"window, nodes": {limits: window, most: 3, window: 5},
		"cap, map":      {limits: caps, most: 3, asMap: true},
		"cap, nodes":    {limits: caps, most: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) { s.test(t, b) })
		})
	}
}

func (s severalLimits) test(t *testing.T, b *enginetest.Bench) {
	const executions = 80
	ctx := enginetest.Context(t)
	started, end := make(chan struct{}, executions), make(chan struct{})
	hold := activity.New("hold", func(ctx context.Context, n int) (int, error) {
		started <- struct{}{}
		select {
		case <-end:
		case <-ctx.Done():
		}
		return n, nil
	}, s.limits...)
	def := s.flow(t, hold, executions)
	for range 2 {
		b.MessageWorker(t, def.Handlers(), runtime.WorkerConfig{Concurrency: 10})
	}
	run, err := runtime.Start(ctx, b.Client, def, make([]int, executions))
	require.NoError(t, err)
	running, begun, allowed := 0, 0, s.window
	for begun < executions {
		expected := min(s.most, executions-begun+running)
		if s.window > 0 {
			expected = min(expected, allowed-begun+running)
		}
		enginetest.Eventually(t, func() string {
			if _, err := b.RunKeeperTask(ctx, "quota"); err != nil {
				return err.Error()
			}
			for len(started) > 0 {
				<-started
				running, begun = running+1, begun+1
			}
			require.LessOrEqual(t, running, expected)
			limits, err := b.Client.Limits(ctx)
			if err != nil {
				return err.Error()
			}
			waiting := 0
			for _, l := range limits {
				waiting += l.Waiting
			}
			if running < expected || waiting < executions-begun {
				return fmt.Sprintf("%d of %d run; %d of %d wait at a limit", running, expected, waiting, executions-begun)
			}
			return ""
		})
		switch {
		case running > 0:
			end <- struct{}{}
			running--
		case begun < executions:
			allowed += s.window
			require.NoError(t, b.Client.Limit("svc", "").Set(ctx, activity.LimitConfig{AtMost: allowed, Per: time.Hour}))
		}
	}
	answers := grantAnswers(ctx, t, b)
	close(end)
	b.Keeper(t) // completes the map
	_, err = run.Result(ctx)
	require.NoError(t, err)
	t.Logf("%.1f replies with permits for each execution", float64(answers)/executions)
	// Executions that circulate between two limits take dozens. Each probe above runs the keeper, so a slow machine
	// takes some more than the usual two or three.
	require.LessOrEqual(t, answers, int64(12*executions))
}

// flow declares a flow that runs the activity for each element of its input: as the items of a map, or as nodes.
func (s severalLimits) flow(
	t *testing.T, hold *activity.Activity[int, int], n int,
) *flow.Definition[[]int, []int] {
	f := flow.New[[]int, []int]("several")
	if s.asMap {
		flow.Return(f, flow.Map(f, "each", hold, f.Input()))
	} else {
		first := activity.New("first", func(_ context.Context, in []int) (int, error) { return len(in), nil })
		gather := activity.New("gather", func(_ context.Context, in []int) ([]int, error) { return in, nil })
		head := flow.Node(f, "head", first, f.Input())
		var refs []flow.Ref[int]
		for i := range n {
			refs = append(refs, flow.Node(f, fmt.Sprint("n", i), hold, head))
		}
		flow.Return(f, flow.Node(f, "all", gather, flow.List(refs...)))
	}
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

// grantAnswers returns how many replies of limits granted permits.
func grantAnswers(ctx context.Context, t *testing.T, b *enginetest.Bench) (answers int64) {
	core := engine.ConnOf(b.Engine.Internal())
	client := core.Client()
	for i := range core.Partitioning().Quota {
		partition := keyspace.Partition{Family: keyspace.QuotaFamily, Index: uint16(i)}
		reply, err := core.Quotas(ctx, enginerpc.QuotasCall{Partition: partition})
		require.NoError(t, err)
		for _, q := range reply.Quotas {
			record := client.B().Hget().Key(core.Keys().QuotaRecord(partition, q.QuotaPolicyID)).Field("grants").Build()
			n, err := client.Do(ctx, record).AsInt64()
			require.NoError(t, err)
			answers += n
		}
	}
	return answers
}
