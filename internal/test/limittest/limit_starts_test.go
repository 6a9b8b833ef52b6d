package limittest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver/proxy"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// beginnings are the times at which functions began, by the monotonic clock.
type beginnings struct {
	mu   sync.Mutex
	list []time.Time
}

// add notes that a function begins. It returns how many have begun.
func (b *beginnings) add() int {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, now)
	return len(b.list)
}

func (b *beginnings) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.list)
}

// requireAtMost fails if more than n functions began within a span of a length, less the time for which a busy machine
// may take the processor from a function before its first instruction.
func (b *beginnings) requireAtMost(t *testing.T, n int, per time.Duration) {
	t.Helper()
	list := slices.SortedFunc(slices.Values(b.list), time.Time.Compare)
	for i := n; i < len(list); i++ {
		if span := list[i].Sub(list[i-n]); span < per-per/10 {
			t.Errorf("%d functions began within %s, at most %d may within %s", n+1, span, n, per)
		}
	}
}

// limitHas waits until a limit has granted running permits.
func limitHas(ctx context.Context, t *testing.T, c *runtime.Client, name string, running int) {
	t.Helper()
	enginetest.Eventually(t, func() string {
		state, err := c.Limit(name, "").Describe(ctx)
		if err != nil || state.Running != running {
			return fmt.Sprintf("%+v, %v", state, err)
		}
		return ""
	})
}

// Executions that were admitted while all slots were busy begin long after their admission, together with those that
// are admitted then.
func TestRateCountsFunctionsThatBegin(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		const n, per = 5, time.Second
		var begun beginnings
		gate := make(chan struct{})
		a := activity.New("slow", func(ctx context.Context, _ int) (int, error) {
			begun.add()
			select {
			case <-gate:
				return 0, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}, activity.Limit("vendor", activity.LimitConfig{AtMost: n, Per: per}))
		b.Worker(t, []activity.Handler{a}, runtime.WorkerConfig{Concurrency: n + 1}) // the additional slot requests permits
		b.Keeper(t)
		runs := fixture.StartAll(ctx, t, b.Client, fixture.Single(t, a), 3*n)
		limitHas(ctx, t, b.Client, "vendor", 2*n)
		busy := time.NewTimer(per - per/10) // the window of those that were admitted just now is nearly over
		<-busy.C
		require.Equal(t, n+1, begun.count())
		close(gate)
		fixture.AwaitAll(ctx, t, runs)
		begun.requireAtMost(t, n, per)
		b.Settle(t)
	})
}

// Workers with few slots and other work, attempts that fail, and steps that make functions begin again.
func TestRateInAStorm(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		const n, per, runs = 10, 500 * time.Millisecond, 40
		var begun beginnings
		hold := func(ctx context.Context) {
			work := time.NewTimer(30 * time.Millisecond)
			defer work.Stop()
			select {
			case <-work.C:
			case <-ctx.Done():
			}
		}
		a := activity.New("limited", func(ctx context.Context, i int) (int, error) {
			begun.add()
			hold(ctx)
			if info, _ := activity.Info(ctx); info.Attempt == 1 && i%4 == 0 {
				return 0, errors.New("once")
			}
			return i, nil
		}, activity.Limit("vendor", activity.LimitConfig{AtMost: n, Per: per, AtOnce: n}),
			activity.Retry(activity.RetryPolicy{First: 5 * time.Millisecond, Attempts: 3, Factor: 1}))
		other := activity.New("other", func(ctx context.Context, i int) (int, error) { hold(ctx); return i, nil })
		for range 3 {
			b.Worker(t, []activity.Handler{a, other}, runtime.WorkerConfig{Concurrency: 2})
		}
		b.Keeper(t)
		all := fixture.StartAll(ctx, t, b.Client, fixture.Single(t, other, activity.Priority(1)), runs)
		all = append(all, fixture.StartAll(ctx, t, b.Client, fixture.Single(t, a), runs)...)
		fixture.AwaitAll(ctx, t, all)
		require.Equal(t, runs+runs/4, begun.count())
		begun.requireAtMost(t, n, per)
		fixture.AtRest(ctx, t, b.Client)
		b.Settle(t)
	})
}

// A worker whose replies come late requests permits again with a longer time, until it begins in time.
func TestRateOverASlowNetwork(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		ctx := enginetest.Context(t)
		const n, per, runs = 3, 400 * time.Millisecond, 15
		server := testserver.Shared(t, kind)
		p, prefix := proxy.Start(t, server.Addr()), enginetest.NewPrefix()
		near := enginetest.Open(t, kind, string(kind)+"://"+server.Addr(), prefix)
		far := enginetest.Open(t, kind, string(kind)+"://"+p.Addr(), prefix)
		var begun beginnings
		a := activity.New("limited", func(context.Context, int) (int, error) {
			begun.add()
			return 0, nil
		}, activity.Limit("vendor", activity.LimitConfig{AtMost: n, Per: per}))
		far.Worker(t, []activity.Handler{a}, runtime.WorkerConfig{Concurrency: 4})
		near.Keeper(t)
		p.Delay(40 * time.Millisecond)
		fixture.AwaitAll(ctx, t, fixture.StartAll(ctx, t, near.Client, fixture.Single(t, a), n)) // by the slow one alone
		near.Worker(t, []activity.Handler{a}, runtime.WorkerConfig{Concurrency: 1})
		fixture.AwaitAll(ctx, t, fixture.StartAll(ctx, t, near.Client, fixture.Single(t, a), runs))
		p.Delay(0)
		require.Equal(t, n+runs, begun.count())
		begun.requireAtMost(t, n, per)
	})
}

// A task that a program takes late counts from when it is handed out.
func TestRateOfHeldTasks(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		const n, per = 2, 500 * time.Millisecond
		var begun beginnings
		b.Keeper(t)
		h := fixture.NewHolder(t, b, runtime.WorkerConfig{Concurrency: 3 * n})
		var runs []*runtime.Run[int]
		for range 3 * n {
			runs = append(runs, h.Started(1, activity.Limit("vendor", activity.LimitConfig{AtMost: n, Per: per})))
		}
		for range 3 * n {
			task := h.Next()
			begun.add()
			require.NoError(t, task.Complete(h.Ctx, []byte("1")))
		}
		for _, run := range runs {
			h.RequireResult(run, 1)
		}
		begun.requireAtMost(t, n, per)
		b.Settle(t)
	})
}

// A rate that an operator sets for a limit that is declared without one counts starts, too.
func TestRateOfAnOperatorCountsStarts(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		const n, per, runs = 4, 400 * time.Millisecond, 12
		require.NoError(t, b.Client.Limit("vendor", "").Set(ctx, activity.LimitConfig{AtMost: n, Per: per}))
		var begun beginnings
		a := activity.New("limited", func(context.Context, int) (int, error) {
			begun.add()
			return 0, nil
		}, activity.Limit("vendor", activity.LimitConfig{AtOnce: runs}))
		for range 2 {
			b.Worker(t, []activity.Handler{a}, runtime.WorkerConfig{Concurrency: 3})
		}
		b.Keeper(t)
		fixture.AwaitAll(ctx, t, fixture.StartAll(ctx, t, b.Client, fixture.Single(t, a), runs))
		require.Equal(t, runs, begun.count())
		begun.requireAtMost(t, n, per)
		b.Settle(t)
	})
}

// places calls a limit of a rate.
type places struct {
	t    *testing.T
	ctx  context.Context
	core *enginerpc.Conn
	call enginerpc.ExchangeCall
}

// want requests the permits of executions, which wait for them unless the caller begins with them.
func (p *places) want(begins, again bool, executions ...int) (begun, reserved []string) {
	p.t.Helper()
	call := p.call
	call.Begins, call.WithinMs = begins, 20
	for _, e := range executions {
		request := enginerpc.ExchangeRequest{Execution: strconv.Itoa(e), Token: 1, Again: again}
		if !begins {
			request.Score = strconv.Itoa(e)
			call.Want++
		}
		call.Requests = append(call.Requests, request)
	}
	return p.send(call)
}

func (p *places) release(execution int) (begun, reserved []string) {
	p.t.Helper()
	call := p.call
	call.Releases = []enginerpc.ExchangeRelease{{Execution: strconv.Itoa(execution), Token: 1}}
	return p.send(call)
}

func (p *places) send(call enginerpc.ExchangeCall) (begun, reserved []string) {
	p.t.Helper()
	reply, err := p.core.Exchange(p.ctx, call)
	require.NoError(p.t, err)
	require.True(p.t, reply.Rated)
	for _, g := range reply.Granted {
		if g.Begins {
			begun = append(begun, g.Execution)
		} else {
			reserved = append(reserved, g.Execution)
		}
	}
	return begun, reserved
}

// A permit of a rate is reserved until its holder reports that it begins, and counts until that begin has left the
// window.
func TestReservedPermits(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		p := &places{t: t, ctx: enginetest.Context(t), core: engine.ConnOf(b.Engine.Internal())}
		id := keyspace.QuotaIDFor("test", "reserved", "")
		partition, err := p.core.Partitioning().QuotaPartition(id)
		require.NoError(t, err)
		p.call = enginerpc.ExchangeCall{
			Partition: partition, QuotaPolicyID: id, Name: "reserved", Rate: 2, WindowMs: time.Hour.Milliseconds(),
		}
		_, reserved := p.want(false, false, 1, 2, 3, 4)
		require.Equal(t, []string{"1", "2"}, reserved)

		begun, reserved := p.want(true, false, 2)
		require.Equal(t, []string{"2"}, begun, "a reserved place is there when its holder begins")
		require.Empty(t, reserved)

		_, reserved = p.release(1)
		require.Equal(t, []string{"3"}, reserved, "a reserved place that is given back goes to the next")
		_, reserved = p.release(2)
		require.Empty(t, reserved, "one that was begun with counts until it has left the window")

		begun, reserved = p.want(true, false, 3)
		require.Equal(t, []string{"3"}, begun)
		require.Empty(t, reserved)
		begun, _ = p.want(true, false, 3)
		require.Equal(t, []string{"3"}, begun, "one that is late counts from now on")
		begun, reserved = p.want(true, true, 3)
		require.Empty(t, append(begun, reserved...), "a function that begins again counts twice, for which there is no room")
		begun, reserved = p.want(true, false, 5)
		require.Empty(t, append(begun, reserved...))
	})
}

// A start counts also when its execution is granted a place under the same token again, by a request that comes late, and
// gives that one back unused.
func TestUnusedPermitAfterAStart(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		p := &places{t: t, ctx: enginetest.Context(t), core: engine.ConnOf(b.Engine.Internal())}
		id := keyspace.QuotaIDFor("test", "late", "")
		partition, err := p.core.Partitioning().QuotaPartition(id)
		require.NoError(t, err)
		p.call = enginerpc.ExchangeCall{
			Partition: partition, QuotaPolicyID: id, Name: "late", Rate: 6, WindowMs: time.Hour.Milliseconds(),
		}
		for range 2 { // in the same millisecond, and later
			begun, _ := p.want(true, false, 1)
			require.Equal(t, []string{"1"}, begun)
			p.release(1)
		}
		started := func() int64 {
			reply, err := p.core.QuotaState(p.ctx, enginerpc.QuotaStateCall{Partition: partition, QuotaPolicyID: id})
			require.NoError(t, err)
			return reply.Quotas[0].InWindow
		}
		require.EqualValues(t, 2, started())
		enginetest.Pass(t, p.core, 5*time.Millisecond)
		begun, _ := p.want(true, false, 1, 2, 3)
		require.Equal(t, []string{"1", "2", "3"}, begun)
		require.EqualValues(t, 5, started())
		for e := range 3 {
			call := p.call
			call.Releases = []enginerpc.ExchangeRelease{{Execution: strconv.Itoa(e + 1), Token: 1, Refund: true}}
			p.send(call)
		}
		require.EqualValues(t, 2, started())
		begun, _ = p.want(true, false, 4, 5, 6, 7, 8)
		require.Len(t, begun, 4)
	})
}

// Windows of different lengths that programs declare for one limit all hold: none forgets the starts of the others.
func TestWindowsOfDifferentLength(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		p := &places{t: t, ctx: enginetest.Context(t), core: engine.ConnOf(b.Engine.Internal())}
		id := keyspace.QuotaIDFor("test", "lengths", "")
		partition, err := p.core.Partitioning().QuotaPartition(id)
		require.NoError(t, err)
		declare := func(n int64, per time.Duration) {
			p.call = enginerpc.ExchangeCall{
				Partition: partition, QuotaPolicyID: id, Name: "lengths", Rate: n, WindowMs: per.Milliseconds(),
			}
		}
		declare(2, time.Hour)
		begun, _ := p.want(true, false, 1, 2, 3)
		require.Equal(t, []string{"1", "2"}, begun)
		declare(100, time.Millisecond)
		begun, _ = p.want(true, false, 4)
		require.Empty(t, begun, "the hour is full for every request")
		declare(2, time.Hour)
		begun, _ = p.want(true, false, 5)
		require.Empty(t, begun, "the millisecond has not forgotten the starts of the hour")
		declare(3, time.Hour)
		begun, _ = p.want(true, false, 6)
		require.Equal(t, []string{"6"}, begun, "the latest number for a length counts")
		declare(100, 2*time.Hour)
		begun, _ = p.want(true, false, 7)
		require.Empty(t, begun)
	})
}

// The limit declared by flows applies at once when an operator removes another window of the limit.
func TestWindowThatWasReset(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		b.Worker(t, []activity.Handler{fixture.Passing("limited")})
		b.Keeper(t)
		def := fixture.Single(t, fixture.Passing("limited"), activity.Limit("vendor", activity.LimitConfig{AtMost: 100, Per: time.Minute}))
		require.NoError(t, b.Client.Limit("vendor", "").Set(ctx, activity.LimitConfig{AtMost: 1, Per: time.Hour}))
		fixture.AwaitAll(ctx, t, fixture.StartAll(ctx, t, b.Client, def, 1))
		require.NoError(t, b.Client.Limit("vendor", "").Reset(ctx))
		fixture.AwaitAll(ctx, t, fixture.StartAll(ctx, t, b.Client, def, 5))
	})
}
