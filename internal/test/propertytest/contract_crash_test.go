package propertytest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/contract"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/lualib"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/randseed"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver/proxy"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A worker takes over the executions of a killed one, each with calls of the contract.
func TestContractWorkerKilled(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		b := enginetest.NewContract(t, kind)
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
			require.Equal(t, 1, f.Nodes[fmt.Sprintf("n%d", i)].Reclaims)
		}
	})
}

// A client dies between two calls of a submission. Nothing of it runs before it is whole, and starting it again goes
// on.
func TestContractClientKilledWhileSubmitting(t *testing.T) {
	t.Parallel() // most of it is waiting
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		server := enginetest.ContractServer(t, kind)
		for _, at := range []struct {
			function string
			calls    int
		}{
			{"ff_create_flow", 1}, {"ff_create_execution", 1}, {"ff_set_flow_tags", 1}, {"ff_create_execution", 40},
			{"ff_add_execution_to_flow", 30}, {"ff_stage_dependency_edge", 1}, {"ff_stage_dependency_edge", 50},
			{"ff_apply_dependency_to_child", 30}, {"ff_set_flow_tags", 2}, {"ff_promote_delayed", 20},
		} {
			t.Run(fmt.Sprintf("%s %d", at.function, at.calls), func(t *testing.T) {
				ctx := enginetest.Context(t)
				prefix, id := enginetest.ContractPrefix, fmt.Sprintf("large-%d-%s", at.calls, at.function)
				b := enginetest.Open(t, kind, server.URL()+enginetest.ContractQuery, prefix, runtime.OpenConfig{
					Backend: contract.Backend(contract.Config{ReconcileInterval: 50 * time.Millisecond}),
				})
				var ran atomic.Int64
				a := activity.New("add", func(_ context.Context, n int) (int, error) { ran.Add(1); return n + 1, nil })
				sum := fixture.Adder()
				def := fixture.Wide(t, a, sum, 60)
				b.Worker(t, []activity.Handler{a, sum})
				b.Keeper(t)

				p := proxy.Start(t, server.Addr())
				far := enginetest.Open(t, kind, string(kind)+"://"+p.Addr()+enginetest.ContractQuery, prefix)
				stalled := make(chan struct{})
				p.Intercept(proxy.StallAfter(at.function, at.calls, stalled))
				dying, die := context.WithCancel(ctx)
				started := make(chan error, 1)
				go func() {
					_, err := runtime.Start(dying, far.Client, def, 1, runtime.WithID(id))
					started <- err
				}()
				<-stalled
				die()
				p.Break()
				require.Error(t, <-started)

				b.Check(t, invariant.AnyTime)
				run, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID(id))
				require.NoError(t, err)
				out, err := run.Result(ctx)
				require.NoError(t, err)
				require.Equal(t, 180, out)
				require.EqualValues(t, 61, ran.Load())
				b.Settle(t)
			})
		}
	})
}

// A client dies before it has released the roots of a flow that is whole. A keeper does it.
func TestContractKeeperReleasesRoots(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		server := enginetest.ContractServer(t, kind)
		ctx := enginetest.Context(t)
		prefix := enginetest.ContractPrefix
		b := enginetest.Open(t, kind, server.URL()+enginetest.ContractQuery, prefix, runtime.OpenConfig{
			Backend: contract.Backend(contract.Config{ReconcileInterval: 50 * time.Millisecond}),
		})
		p := proxy.Start(t, server.Addr())
		far := enginetest.Open(t, kind, string(kind)+"://"+p.Addr()+enginetest.ContractQuery, prefix)
		a := fixture.AddOne()
		def := fixture.ChainOf(t, a, 4)
		fixture.StartWorkerPool(t, b, a)
		stalled := make(chan struct{})
		p.Intercept(proxy.StallAfter("flowfabric.submitted", 2, stalled))
		dying, die := context.WithCancel(ctx)
		go func() { _, _ = runtime.Start(dying, far.Client, def, 1, runtime.WithID("left")) }()
		<-stalled
		run, err := runtime.Attach(b.Client.Run(def.Name(), "left"), def)
		require.NoError(t, err)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 5, out)
		die()
		p.Break()
		b.Settle(t)
	})
}

// Replies get lost at random, for workers, keepers and clients.
func TestContractLostReplies(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		server := enginetest.ContractServer(t, kind)
		p := proxy.Start(t, server.Addr())
		b := enginetest.Open(t, kind, string(kind)+"://"+p.Addr()+enginetest.ContractQuery, enginetest.ContractPrefix, runtime.OpenConfig{
			Backend: contract.Backend(contract.Config{PollInterval: 50 * time.Millisecond, ReconcileInterval: 200 * time.Millisecond}),
		})
		runThroughCuts(t, b, p, 100, 6)
	})
}

// A library as the reference has it leaves the choice of an index to the caller of ff_create_execution, forgets that a
// member was delayed once it has dependencies, and leaves it in the index of delayed executions.
func TestContractOnAPlainLibrary(t *testing.T) {
	t.Parallel()
	library := lualib.ContractSource()
	for _, change := range [][2]string{
		{"key.lane_delayed(c, A.lane_id)", "K.scheduling"},
		{"order.enter(c, A.lane_id, A.execution_id, core)", "order.enter(c, A.lane_id, A.execution_id, core, K.scheduling)"},
		{"own_delay = true, values = { 'attempt_state', child.attempt_state }", "values = { 'attempt_state', child.attempt_state }"},
		{"redis.call('ZREM', key.lane_delayed(c, record.lane(child)), child_id)", ""},
	} {
		require.Equal(t, 1, strings.Count(library, change[0]), change[0])
		library = strings.Replace(library, change[0], change[1], 1)
	}
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		b := enginetest.Open(t, kind, enginetest.ServerWith(t, kind, library).URL()+enginetest.ContractQuery, enginetest.ContractPrefix, runtime.OpenConfig{
			Backend: contract.Backend(contract.Config{PollInterval: 50 * time.Millisecond, ReconcileInterval: 200 * time.Millisecond}),
		})
		ctx := enginetest.Context(t)
		c := &workerPool{tb: t, bench: b, lab: newLab()}
		b.Keeper(t)
		for range 2 {
			b.Worker(t, []activity.Handler{c.lab.common, c.lab.rare}, runtime.WorkerConfig{
				Lanes: []string{"default", "other"},
			})
		}
		r := rand.New(rand.NewPCG(randseed.Of(t, 0), 0))
		var trials []*trial
		for i := range 12 {
			x := c.startUntilAcknowledged(t, ctx, r, fmt.Sprintf("run-%d", i))
			require.NotNil(t, x)
			trials = append(trials, x)
		}
		s := c.finish(t, ctx, trials)
		for _, x := range trials {
			c.judge(t, s, x)
		}
	})
}

// A worker dies between committing a result and resolving the edges to the downstreams. A keeper resolves them, also
// when it has not received the message of the completion.
func TestContractKeeper_ResolvesEdgesOfLostWorker(t *testing.T) {
	t.Parallel()
	enginetest.EachContract(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := fixture.AddOne()
		run, err := runtime.Start(ctx, b.Client, fixture.ChainOf(t, a, 4), 1)
		require.NoError(t, err)
		partition, err := engine.ConnOf(b.Engine.Internal()).FlowPartition(run.FlowID())
		require.NoError(t, err)
		first := keyspace.ExecutionIDFor(partition, run.FlowID(), "n0")
		program := b.Program(ctx, t)
		program.Complete(program.Claim(first, 0), "7")
		fixture.StartWorkerPool(t, b, a) // nothing has received the message of the completion
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 10, out)
		b.Settle(t)
	})
}

// A node that loses its worker again and again fails for good, and its downstreams are skipped, although the contract
// sends no message about such an end.
func TestContractPoisonNode(t *testing.T) {
	t.Parallel()
	enginetest.EachContract(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		core := engine.ConnOf(b.Engine.Internal())
		run, err := runtime.Start(ctx, b.Client, fixture.ChainOf(t, fixture.AddOne(), 2), 1)
		require.NoError(t, err)
		partition, err := core.FlowPartition(run.FlowID())
		require.NoError(t, err)
		id := keyspace.ExecutionIDFor(partition, run.FlowID(), "n0")
		b.Keeper(t)
		grant := enginerpc.Grant{ExecutionID: id, WorkerID: "w", WorkerInstanceID: "dies", LaneID: "default", GrantTTL: time.Minute}
		_, err = core.IssueClaimGrant(ctx, enginerpc.IssueClaimGrantCall{Grant: grant})
		require.NoError(t, err)
		_, err = core.ClaimExecution(ctx, enginerpc.ClaimExecutionCall{
			ExecutionID: id, WorkerID: "w", WorkerInstanceID: "dies", LaneID: "default", LeaseID: enginecore.LeaseID(uuid.NewString()),
			LeaseTTL: 5 * time.Millisecond, RenewBefore: time.Millisecond, AttemptID: keyspace.AttemptID(uuid.NewString()),
		})
		require.NoError(t, err)
		for i := range 5 {
			enginetest.Eventually(t, func() string {
				_, err := core.IssueReclaimGrant(ctx, enginerpc.IssueReclaimGrantCall{Grant: grant})
				if err != nil {
					return err.Error()
				}
				_, err = core.ReclaimExecution(ctx, enginerpc.ReclaimExecutionCall{
					OldAttemptIndex: enginecore.AttemptIndex(i), AttemptIndex: enginecore.AttemptIndex(i + 1), ExecutionID: id,
					WorkerID: "w", WorkerInstanceID: "dies", LaneID: "default", LeaseID: enginecore.LeaseID(uuid.NewString()),
					LeaseTTL: 5 * time.Millisecond, AttemptID: keyspace.AttemptID(uuid.NewString()),
				})
				require.NoError(t, err)
				return ""
			})
		}
		b.Worker(t, []activity.Handler{fixture.AddOne()})
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunFailed)
		require.Equal(t, "its worker was lost too often", fixture.Failure(t, err).Reason)
		require.Equal(t, engine.CategoryWorkerLost, fixture.Failure(t, err).Category)
		require.Equal(t, "n0", fixture.Failure(t, err).Node)
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, "its worker was lost too often", d.Nodes[0].Reason)
		require.Equal(t, engine.CategoryWorkerLost, d.Nodes[0].Category)
		b.Settle(t)
	})
}

// A program with an embedded engine continues in its directory at once.
func TestContractDirectory(t *testing.T) {
	t.Parallel()
	enginetest.Only(t, testserver.Embedded)
	url, prefix := "embedded:"+t.TempDir()+enginetest.ContractQuery, enginetest.ContractPrefix
	ctx := enginetest.Context(t)
	first := startChild(t, url, prefix, "the-run")
	first.await(t, 8)
	first.kill(t)
	b := enginetest.Open(t, testserver.Embedded, url, prefix, runtime.OpenConfig{
		Backend: contract.Backend(contract.Config{ReconcileInterval: 50 * time.Millisecond}),
	})
	a, sum := holdForEver(func(n int) (int, error) { return n, nil }), fixture.Adder()
	def, err := killFlow(a, sum)
	require.NoError(t, err)
	run, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID("the-run"))
	require.NoError(t, err)
	require.True(t, run.Existed(), "the acknowledged run exists")
	fixture.StartWorkerPool(t, b, a, sum)
	out, err := run.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, 8, out)
	b.Settle(t)
}

// A worker that cannot read the results of upstreams reads them again; it does not take them for missing.
func TestContractWorker_RetriesUnreadableInputs(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		server := enginetest.ContractServer(t, kind)
		prefix := enginetest.ContractPrefix
		b := enginetest.Open(t, kind, server.URL()+enginetest.ContractQuery, prefix)
		p := proxy.Start(t, server.Addr())
		far := enginetest.Open(t, kind, string(kind)+"://"+p.Addr()+enginetest.ContractQuery, prefix)
		ctx := enginetest.Context(t)
		stalled := make(chan struct{})
		var reads atomic.Int64
		p.Intercept(func(chunk []byte) proxy.Fate {
			if !bytes.Contains(chunk, []byte(":result\r\n")) || !bytes.Contains(chunk, []byte("GET\r\n")) || reads.Add(1) != 2 {
				return proxy.Pass
			}
			close(stalled)
			return proxy.Stall
		})
		a := fixture.AddOne()
		far.Worker(t, []activity.Handler{a}, runtime.WorkerConfig{Lease: time.Second})
		b.Keeper(t)
		run, err := runtime.Start(ctx, b.Client, fixture.ChainOf(t, a, 6), 0)
		require.NoError(t, err)
		<-stalled
		time.Sleep(1500 * time.Millisecond) //nolint:forbidigo // longer than the lease, and so than the worker waits for an answer
		p.Break()
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 6, out)
		b.Settle(t)
	})
}
