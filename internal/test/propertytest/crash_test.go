package propertytest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/randseed"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver/proxy"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// When the lease of a killed worker has run out, another worker takes over its execution and commits it once.
func TestWorkerKilled(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		b := enginetest.New(t, kind)
		ctx := enginetest.Context(t)
		var calls atomic.Int64
		a := holdForEver(func(n int) (int, error) { calls.Add(1); return n, nil })
		sum := fixture.Adder()
		def, err := killFlow(a, sum)
		require.NoError(t, err)
		b.Keeper(t)
		other := startChild(t, b.URL, b.Prefix, "")
		run, err := runtime.Start(ctx, b.Client, def, 3)
		require.NoError(t, err)
		other.await(t, 8)
		// Fewer slots than executions to take over: none may wait for a later offer.
		b.Worker(t, []activity.Handler{a, sum}, runtime.WorkerConfig{Concurrency: 2})
		other.kill(t)
		killed := time.Now()
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 24, out)
		t.Logf("taken over and finished %s after the kill, lease %s", time.Since(killed), killedLease)
		require.EqualValues(t, 8, calls.Load())
		s := b.Settle(t)
		f, _ := s.Flow(string(run.FlowID()))
		for i := range 8 {
			n := f.Nodes[fmt.Sprintf("n%d", i)]
			require.Positive(t, n.Reclaims, "the other program may have lost it before it was killed, too")
			require.Equal(t, n.Reclaims+1, n.Attempts)
		}
	})
}

// A program with an embedded engine is killed and started again: it continues at once, without waiting for leases.
func TestEmbeddedProgramKilled(t *testing.T) {
	t.Parallel()
	enginetest.Only(t, testserver.Embedded)
	url, prefix := "embedded:"+t.TempDir()+"?fsync=always", enginetest.NewPrefix()
	ctx := enginetest.Context(t)
	for range 2 { // a second time, to see that a directory survives more than one kill
		first := startChild(t, url, prefix, "the-run")
		first.await(t, 8)
		first.kill(t)
	}
	begun := time.Now()
	b := enginetest.Open(t, testserver.Embedded, url, prefix)
	b.Check(t, invariant.AnyTime)
	a := holdForEver(func(n int) (int, error) { return n, nil })
	sum := fixture.Adder()
	def, err := killFlow(a, sum)
	require.NoError(t, err)
	run, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID("the-run"))
	require.NoError(t, err)
	require.True(t, run.Existed(), "the acknowledged run exists")
	b.Keeper(t)
	b.Worker(t, []activity.Handler{a, sum})
	out, err := run.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, 8, out)
	t.Logf("finished %s after the restart, without waiting for leases of %s", time.Since(begun), leaseOfChild(url))
	b.Settle(t)
}

// The server is killed twice under load. Nothing that it acknowledged is lost.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Start(t, testserver.Options{Kind: kind, Persist: true})
		b := enginetest.Open(t, kind, server.URL(), enginetest.NewPrefix())
		ctx := enginetest.Context(t)
		c := &workerPool{tb: t, bench: b, lab: newLab()}
		for range 2 {
			b.Keeper(t)
			b.Worker(t, []activity.Handler{c.lab.common, c.lab.rare}, runtime.WorkerConfig{
				Lanes: []string{"default", "other"}, Lease: time.Second,
			})
		}
		r := rand.New(rand.NewPCG(randseed.Of(t, 0), 0))
		var trials []*trial
		started := make(chan struct{}, 40)
		starting := make(chan struct{})
		go func() {
			defer close(starting)
			for i := range cap(started) {
				x := c.startUntilAcknowledged(t, ctx, r, fmt.Sprintf("run-%d", i))
				if x == nil {
					return
				}
				trials = append(trials, x)
				started <- struct{}{}
			}
		}()
		for range 2 {
			for range 8 { // in the middle of the next start, while the former ones run
				select {
				case <-started:
				case <-starting:
				}
			}
			server.Kill()
			server.Restart()
		}
		<-starting
		require.Len(t, trials, 40)
		s := c.finish(t, ctx, trials)
		for _, x := range trials {
			c.judge(t, s, x)
		}
	})
}

// startUntilAcknowledged starts a random run, again and again while the engine is away.
func (c *workerPool) startUntilAcknowledged(t *testing.T, ctx context.Context, r *rand.Rand, id string) *trial {
	x := &trial{sketch: newSketch(r, 12), meddling: leftAlone, touched: make(map[string]bool)}
	def, err := x.sketch.define("lab", c.lab.common, c.lab.rare)
	if err != nil {
		t.Error(err)
		return nil
	}
	c.lab.add(id, x.sketch)
	for ctx.Err() == nil {
		if x.run, err = runtime.Start(ctx, c.bench.Client, def, []string{}, runtime.WithID(id)); err == nil {
			return x
		}
	}
	t.Errorf("run %s was not started: %v", id, err)
	return nil
}

// finish waits for the results.
func (c *workerPool) finish(t *testing.T, ctx context.Context, trials []*trial) *invariant.Snapshot {
	t.Helper()
	for _, x := range trials {
		_, err := x.run.Result(ctx)
		var over *runtime.RunError
		if err != nil && !errors.As(err, &over) {
			d, _ := x.run.Describe(context.Background())
			t.Errorf("%v\n%s", err, fixture.StateOf(d))
		}
	}
	return c.bench.Settle(t)
}

// Replies get lost at random, for workers, keepers and clients. Calls are repeated and change nothing more.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Shared(t, kind)
		p := proxy.Start(t, server.Addr())
		b := enginetest.Open(t, kind, string(kind)+"://"+p.Addr(), enginetest.NewPrefix())
		runThroughCuts(t, b, p, 30, 12)
	})
}

// runThroughCuts runs random flows while one reply in oneIn is lost. The results are right all the same.
func runThroughCuts(t *testing.T, b *enginetest.Bench, p *proxy.Proxy, oneIn, runs int) {
	t.Helper()
	ctx := enginetest.Context(t)
	c := &workerPool{tb: t, bench: b, lab: newLab()}
	for range 2 {
		b.Keeper(t)
		b.Worker(t, []activity.Handler{c.lab.common, c.lab.rare}, runtime.WorkerConfig{
			Lanes: []string{"default", "other"}, Lease: time.Second,
		})
	}
	p.Intercept(proxy.CutCalls(oneIn))
	r := rand.New(rand.NewPCG(randseed.Of(t, 0), 0))
	var trials []*trial
	for i := range runs {
		x := c.startUntilAcknowledged(t, ctx, r, fmt.Sprintf("run-%d", i))
		require.NotNil(t, x)
		trials = append(trials, x)
	}
	for _, x := range trials {
		c.awaitThroughCuts(t, ctx, x)
	}
	for p.Lost() == 0 && ctx.Err() == nil { // small runs may have had luck
		x := c.startUntilAcknowledged(t, ctx, r, fmt.Sprintf("run-%d", len(trials)))
		require.NotNil(t, x)
		trials = append(trials, x)
		c.awaitThroughCuts(t, ctx, x)
	}
	p.Intercept(nil)
	s := c.finish(t, ctx, trials)
	t.Logf("%d replies were lost", p.Lost())
	require.NotZero(t, p.Lost())
	for _, x := range trials {
		c.judge(t, s, x)
	}
}

// awaitThroughCuts waits for a run on a connection that breaks all the time.
func (c *workerPool) awaitThroughCuts(t *testing.T, ctx context.Context, x *trial) {
	for ctx.Err() == nil {
		_, err := x.run.Result(ctx)
		var over *runtime.RunError
		if err == nil || errors.As(err, &over) {
			return
		}
	}
	t.Errorf("run %s: %v", x.run.ID(), ctx.Err())
}

// The replies of all claims are lost for a while. The leased executions are released or claimed again, and none is
// stuck.
func TestLostClaims(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Shared(t, kind)
		p := proxy.Start(t, server.Addr())
		prefix := enginetest.NewPrefix()
		near := enginetest.Open(t, kind, server.URL(), prefix)
		far := enginetest.Open(t, kind, string(kind)+"://"+p.Addr(), prefix)
		ctx := enginetest.Context(t)
		a, sum := fixture.AddOne(), fixture.Adder()
		near.Keeper(t)
		claims := make(chan struct{})
		p.Intercept(proxy.StallAfter("ffx3_claim", 1, claims))
		w := far.Worker(t, []activity.Handler{a, sum}, runtime.WorkerConfig{Lease: 2 * time.Second})
		run, err := runtime.Start(ctx, near.Client, fixture.Wide(t, a, sum, 20), 1)
		require.NoError(t, err)
		<-claims
		p.Intercept(proxy.CutCalls(5))
		p.Break()
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 60, out)
		p.Intercept(nil)
		require.NoError(t, w.Stop())
		near.Settle(t)
	})
}

// A lease that the engine has for a worker, which knows nothing of it, is given back once a call of the worker has
// failed.
func TestUnknownLeasesAreReleased(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Shared(t, kind)
		p := proxy.Start(t, server.Addr())
		prefix := enginetest.NewPrefix()
		near := enginetest.Open(t, kind, server.URL(), prefix)
		far := enginetest.Open(t, kind, string(kind)+"://"+p.Addr(), prefix)
		ctx := enginetest.Context(t)
		near.Keeper(t) // for a lease that lapses because the machine is slow
		a := fixture.AddOne()
		w := enginetest.NewWorker(t, far.Engine, runtime.WorkerConfig{Lease: 2 * time.Second, NoKeeper: true})
		require.NoError(t, w.Register(a))

		def := fixture.Single(t, a)
		run, err := runtime.Start(ctx, near.Client, def, 1)
		require.NoError(t, err)
		partition, err := engine.ConnOf(near.Engine.Internal()).FlowPartition(run.FlowID())
		require.NoError(t, err)
		claimed, err := engine.ConnOf(near.Engine.Internal()).Claim(ctx, enginerpc.ClaimCall{Partition: partition, ClaimRequest: enginerpc.ClaimRequest{
			LaneID: "default", WorkerID: "worker", WorkerInstanceID: w.Instance(), ClaimID: uuid.NewString(), Count: 1,
			LeaseTTL: time.Hour, Kinds: "\nadd\n",
		}})
		require.NoError(t, err)
		require.Len(t, claimed.Executions, 1)

		p.Intercept(proxy.CutFunction("ffx3_claim"))
		working, stop := context.WithCancel(ctx)
		stopped := make(chan error, 1)
		go func() { stopped <- w.Run(working) }()
		enginetest.Eventually(t, func() string {
			if p.Lost() == 0 {
				b := engine.ConnOf(near.Engine.Internal()).Client().B()
				wake := b.Publish().Channel(engine.ConnOf(near.Engine.Internal()).Keys().ChannelWake("default")).Message("work 0 1").Build()
				require.NoError(t, engine.ConnOf(near.Engine.Internal()).Client().Do(ctx, wake).Error())
				return "a lost reply"
			}
			return ""
		})
		p.Intercept(nil)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 2, out)
		stop()
		require.NoError(t, <-stopped)
		f, _ := near.Settle(t).Flow(string(run.FlowID()))
		require.Equal(t, 1, f.Nodes["only"].Attempts-f.Nodes["only"].Reclaims, "a claim that ran nothing is not an attempt")
	})
}

// A client dies between the calls that store the graph of a run. The run does not exist, and starting it again
// continues.
func TestClientKilledWhileSubmitting(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Shared(t, kind)
		for _, calls := range []int{1, 3, 5} {
			t.Run(fmt.Sprintf("after %d calls", calls), func(t *testing.T) {
				ctx := enginetest.Context(t)
				prefix := enginetest.NewPrefix()
				b := enginetest.Open(t, kind, server.URL(), prefix)
				var ran atomic.Int64
				a := activity.New("add", func(_ context.Context, n int) (int, error) { ran.Add(1); return n + 1, nil })
				sum := fixture.Adder()
				def := fixture.Wide(t, a, sum, 150)
				b.Worker(t, []activity.Handler{a, sum})

				p := proxy.Start(t, server.Addr())
				far := enginetest.Open(t, kind, string(kind)+"://"+p.Addr(), prefix)
				stalled := make(chan struct{})
				p.Intercept(proxy.StallAfter("ffx3_put_graph", calls, stalled))
				dying, die := context.WithCancel(ctx)
				started := make(chan error, 1)
				go func() {
					_, err := runtime.Start(dying, far.Client, def, 1, runtime.WithID("large"))
					started <- err
				}()
				<-stalled
				die()
				p.Break()
				require.Error(t, <-started)

				b.Check(t, invariant.AnyTime)
				_, err := b.Client.Run("wide", "large").Describe(ctx)
				require.ErrorIs(t, err, engine.ErrRunNotFound)
				run, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID("large"))
				require.NoError(t, err)
				out, err := run.Result(ctx)
				require.NoError(t, err)
				require.Equal(t, 450, out)
				require.EqualValues(t, 151, ran.Load())
				b.Settle(t)
			})
		}
	})
}

// A worker that is cut off ends its functions before the engine gives their executions to another one.
func TestWorkerCutOff(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Shared(t, kind)
		p := proxy.Start(t, server.Addr())
		prefix := enginetest.NewPrefix()
		b := enginetest.Open(t, kind, server.URL(), prefix)
		far := enginetest.Open(t, kind, string(kind)+"://"+p.Addr(), prefix)
		ctx := enginetest.Context(t)
		begun, ends := make(chan struct{}, 4), make(chan fixture.Ended, 4)
		cutOff := activity.New("work", func(ctx context.Context, n int) (int, error) {
			begun <- struct{}{}
			<-ctx.Done()
			ends <- fixture.Ended{At: time.Now(), Cause: context.Cause(ctx)}
			return 0, ctx.Err()
		})
		taken := make(chan time.Time, 1)
		healthy := activity.New("work", func(context.Context, int) (int, error) { taken <- time.Now(); return 1, nil })
		b.Keeper(t)
		far.Worker(t, []activity.Handler{cutOff}, runtime.WorkerConfig{Lease: 3 * time.Second})
		run, err := runtime.Start(ctx, b.Client, fixture.Single(t, cutOff), 1)
		require.NoError(t, err)
		<-begun
		p.Blackhole()
		b.Worker(t, []activity.Handler{healthy})
		_, err = run.Result(ctx)
		require.NoError(t, err)
		end := <-ends
		require.ErrorIs(t, end.Cause, runtime.ErrLeaseLost)
		require.True(t, end.At.Before(<-taken), "two workers had the execution at a time")
		p.Restore()
		b.Settle(t)
	})
}

// A claim that is repeated after the leases of its first try have run out makes new ones, with other ids.
func TestClaimRepeatedTooLate(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		run, err := runtime.Start(ctx, b.Client, fixture.Single(t, fixture.AddOne()), 1)
		require.NoError(t, err)
		partition, err := engine.ConnOf(b.Engine.Internal()).FlowPartition(run.FlowID())
		require.NoError(t, err)
		b.Keeper(t)
		call := enginerpc.ClaimCall{Partition: partition, ClaimRequest: enginerpc.ClaimRequest{
			LaneID: "default", WorkerID: "worker", WorkerInstanceID: "forgotten", ClaimID: uuid.NewString(), Count: 1,
			LeaseTTL: 50 * time.Millisecond, Kinds: "\nadd\n",
		}}
		var claims []enginerpc.ClaimedExecution
		for len(claims) < 3 {
			enginetest.Eventually(t, func() string {
				reply, err := engine.ConnOf(b.Engine.Internal()).Claim(ctx, call)
				require.NoError(t, err)
				call.Repeated = true
				if len(reply.Executions) == 0 || len(claims) > 0 && reply.Executions[0].LeaseEpoch == claims[len(claims)-1].LeaseEpoch {
					return "an execution to claim"
				}
				claims = append(claims, reply.Executions[0])
				return ""
			})
		}
		seen := make(map[string]bool)
		for _, claimed := range claims {
			require.False(t, seen[string(claimed.LeaseID)], "lease %s twice", claimed.LeaseID)
			require.False(t, seen[string(claimed.AttemptID)], "attempt %s twice", claimed.AttemptID)
			seen[string(claimed.LeaseID)], seen[string(claimed.AttemptID)] = true, true
		}
		b.Check(t, invariant.AnyTime)
	})
}
