package tasktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/admission"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A grant is for one worker and one execution; when it has run out, another worker gets the execution and the first one
// may no longer claim it.
func TestGrant(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		run, err := runtime.Start(ctx, b.Client, fixture.Single(t, fixture.Passing("pass")), 1)
		require.NoError(t, err)
		s := b.Engine
		short := fixture.RequestFor("first")
		short.TTL = 1500 * time.Millisecond
		first, err := s.ClaimForWorker(ctx, short)
		require.NoError(t, err)
		require.False(t, first.Reclaim)
		_, err = s.ClaimForWorker(ctx, fixture.RequestFor("second"))
		require.ErrorIs(t, err, enginecore.ErrNoGrant, "it is granted already")

		var second enginecore.Grant
		enginetest.Eventually(t, func() string {
			if second, err = s.ClaimForWorker(ctx, fixture.RequestFor("second")); err != nil {
				return err.Error()
			}
			return ""
		})
		require.Equal(t, first.ExecutionID, second.ExecutionID)
		_, err = claimBy(ctx, b, first)
		require.ErrorIs(t, err, errorcode.InvalidClaimGrant)
		lease, err := claimBy(ctx, b, second)
		require.NoError(t, err)
		_, err = claimBy(ctx, b, second)
		require.ErrorIs(t, err, errorcode.ExecutionNotLeaseable, "it is leased")
		_, err = engine.ConnOf(b.Engine.Internal()).CompleteExecution(ctx, enginerpc.CompleteExecutionCall{
			LaneID: activity.DefaultLane, WorkerInstanceID: second.Instance, AttemptIndex: lease.AttemptIndex, ExecutionID: second.ExecutionID,
			LeaseID: lease.LeaseID, LeaseEpoch: lease.LeaseEpoch, AttemptID: lease.AttemptID, ResultPayload: []byte("1"),
		})
		require.NoError(t, err)
		_, err = s.ClaimForWorker(ctx, fixture.RequestFor("second"))
		require.ErrorIs(t, err, enginecore.ErrNoGrant)
		b.Keeper(t)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 1, out)
	}, runtime.OpenConfig{Partitions: 2})
}

// claimBy claims as a worker of another FlowFabric program does.
func claimBy(ctx context.Context, b *enginetest.Bench, g enginecore.Grant) (enginerpc.ClaimExecutionReply, error) {
	return engine.ConnOf(b.Engine.Internal()).ClaimExecution(ctx, enginerpc.ClaimExecutionCall{
		ExecutionID: g.ExecutionID, WorkerID: g.WorkerID, WorkerInstanceID: g.Instance, LaneID: g.Lane, LeaseTTL: 10 * time.Second,
		LeaseID: enginecore.LeaseID(uuid.NewString()), AttemptID: keyspace.AttemptID(uuid.NewString()), RenewBefore: 5 * time.Second,
	})
}

// An execution for which the worker lacks capabilities does not hide others, has its reason in its description, and is
// granted to a worker with the capabilities.
func TestGrantByCapability(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := fixture.Passing("pass")
		picky, err := runtime.Start(ctx, b.Client, fixture.Single(t, a, activity.Capabilities("gpu", "ssd"), activity.Priority(1)), 1)
		require.NoError(t, err)
		f := flow.New[int, int]("plain")
		flow.Return(f, flow.Node(f, "only", a, f.Input()))
		plain, err := f.Build()
		require.NoError(t, err)
		_, err = runtime.Start(ctx, b.Client, plain, 1)
		require.NoError(t, err)

		s := b.Engine
		grant, err := s.ClaimForWorker(ctx, fixture.RequestFor("simple", "gpu"))
		require.NoError(t, err)
		d, err := picky.Describe(ctx)
		require.NoError(t, err)
		require.NotEqualValues(t, d.Nodes[0].ExecutionID, grant.ExecutionID)
		require.Equal(t, fabrictype.NodeRateLimited, d.Nodes[0].State)
		require.Contains(t, d.Nodes[0].Waiting.Sentence, "ssd")
		_, err = s.ClaimForWorker(ctx, fixture.RequestFor("simple", "gpu"))
		require.ErrorIs(t, err, enginecore.ErrNoGrant)
		grant, err = s.ClaimForWorker(ctx, fixture.RequestFor("strong", "cuda", "gpu", "ssd"))
		require.NoError(t, err)
		require.EqualValues(t, d.Nodes[0].ExecutionID, grant.ExecutionID)
	}, runtime.OpenConfig{Partitions: 1})
}

func TestGrantRequests(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, s := enginetest.Context(t), b.Engine
		many := make([]string, 257)
		for i := range many {
			many[i] = fmt.Sprintf("c%d", i)
		}
		for name, change := range map[string]func(*enginecore.GrantRequest){
			"no lane":       func(r *enginecore.GrantRequest) { r.Lane = "" },
			"no worker":     func(r *enginecore.GrantRequest) { r.Instance = "" },
			"no time":       func(r *enginecore.GrantRequest) { r.TTL = 0 },
			"too long":      func(r *enginecore.GrantRequest) { r.TTL = admission.MaxGrantTTL + 1 },
			"comma":         func(r *enginecore.GrantRequest) { r.Capabilities = []string{"a,b"} },
			"unicode space": func(r *enginecore.GrantRequest) { r.Capabilities = []string{"a\u2003b"} },
			"empty":         func(r *enginecore.GrantRequest) { r.Capabilities = []string{""} },
			"too many":      func(r *enginecore.GrantRequest) { r.Capabilities = many },
			"too large":     func(r *enginecore.GrantRequest) { r.Capabilities = []string{strings.Repeat("x", 4097)} },
			"no partition":  func(r *enginecore.GrantRequest) { r.Partition = "{fp:1}" },
			"wrong family":  func(r *enginecore.GrantRequest) { r.Partition = "{b:0}" },
			"no tag":        func(r *enginecore.GrantRequest) { r.Partition = "0" },
		} {
			r := fixture.RequestFor("w")
			change(&r)
			_, err := s.ClaimForWorker(ctx, r)
			require.ErrorIs(t, err, runtime.ErrInvalid, name)
		}
		_, err := s.ClaimForWorker(ctx, fixture.RequestFor("w", many[:256]...))
		require.ErrorIs(t, err, enginecore.ErrNoGrant)
	}, runtime.OpenConfig{Partitions: 1})
}

// Hard limits of budgets and quotas of the contract keep an execution from being granted until there is room.
func TestGrantByBudgetAndQuota(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, core := enginetest.Context(t), engine.ConnOf(b.Engine.Internal())
		client, keys := core.Client(), core.Keys()
		budget, quota := enginecore.BudgetID(uuid.NewString()), enginecore.QuotaPolicyID(uuid.NewString())
		at, err := core.Partitioning().BudgetPartition(budget)
		require.NoError(t, err)
		quotaAt, err := core.Partitioning().QuotaPartition(quota)
		require.NoError(t, err)
		set := func(key string, pairs ...string) {
			require.NoError(t, client.Do(ctx, client.B().Arbitrary("HSET").Keys(key).Args(pairs...).Build()).Error())
		}
		set(keys.BudgetLimits(at, budget), "hard:tokens", "10")
		set(keys.BudgetUsage(at, budget), "tokens", "10")
		_, err = core.CreateQuotaPolicy(ctx, enginerpc.CreateQuotaPolicyCall{
			Partition: quotaAt, QuotaPolicyID: quota, MaxConcurrent: 1, WindowSeconds: 60, Now: time.Now(),
		})
		require.NoError(t, err)
		for range 2 {
			id := keyspace.NewExecutionID(keyspace.Partition{Family: keyspace.FlowFamily})
			_, err := core.CreateExecution(ctx, enginerpc.CreateExecutionCall{
				ExecutionID: id, Namespace: "default", LaneID: "default", ExecutionKind: "pass", CreatorIdentity: "test", PartitionID: "0",
			})
			require.NoError(t, err)
			set(keys.ExecCore(id), "budget_ids", " "+string(budget)+" ", "quota_policy_id", string(quota))
		}
		s := b.Engine
		_, err = s.ClaimForWorker(ctx, fixture.RequestFor("w"))
		require.ErrorIs(t, err, enginecore.ErrNoGrant, "the budget is used up")
		set(keys.BudgetUsage(at, budget), "tokens", "9")
		first, err := s.ClaimForWorker(ctx, fixture.RequestFor("w"))
		require.NoError(t, err)
		_, err = s.ClaimForWorker(ctx, fixture.RequestFor("w"))
		require.ErrorIs(t, err, enginecore.ErrNoGrant, "one at a time")
		_, err = core.ReleaseAdmission(ctx, enginerpc.ReleaseAdmissionCall{Partition: quotaAt, QuotaPolicyID: quota, ExecutionID: first.ExecutionID})
		require.NoError(t, err)
		second, err := s.ClaimForWorker(ctx, fixture.RequestFor("w"))
		require.NoError(t, err)
		require.NotEqual(t, first.ExecutionID, second.ExecutionID)
	}, runtime.OpenConfig{Partitions: 1})
}

// Workers that run only granted executions support all that others do: chains, retries, limits, and the take-over from
// a worker that died. Each grant is for one of them.
func TestWorkersClaimThroughGrants(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		s := &countingGranter{inner: b.Engine, to: make(map[enginecore.ExecutionID]int)}
		var g fixture.Gauge
		limited := g.Measured("limited", 3*time.Millisecond, activity.Limit("two", activity.LimitConfig{AtOnce: 2}))
		failing := activity.New("failing", func(ctx context.Context, n int) (int, error) {
			if info, _ := activity.Info(ctx); info.Attempt < 2 {
				return 0, errors.New("not yet")
			}
			return n, nil
		}, activity.Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: 3}))
		f := flow.New[int, int]("mixed")
		first := flow.Node(f, "first", limited, f.Input())
		flow.Return(f, flow.Node(f, "second", failing, first, activity.Capabilities("gpu")))
		def, err := f.Build()
		require.NoError(t, err)
		handlers := []activity.Handler{limited, failing}
		b.Keeper(t)
		for range 3 {
			b.Worker(t, handlers, runtime.WorkerConfig{ClaimThrough: s.ClaimForWorker, Capabilities: []string{"gpu"}, Concurrency: 3})
		}
		fixture.AwaitAll(ctx, t, fixture.StartAll(ctx, t, b.Client, def, 12))
		require.LessOrEqual(t, g.Most, 2)
		require.GreaterOrEqual(t, s.grants(), 36, "two attempts of the one and one of the other, for each run")
		b.Settle(t)
	}, runtime.OpenConfig{Partitions: 2})
}

type countingGranter struct {
	inner *runtime.Engine
	mu    sync.Mutex
	to    map[enginecore.ExecutionID]int
}

func (g *countingGranter) ClaimForWorker(ctx context.Context, r enginecore.GrantRequest) (enginecore.Grant, error) {
	grant, err := g.inner.ClaimForWorker(ctx, r)
	if err == nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.to[grant.ExecutionID]++
	}
	return grant, err
}

func (g *countingGranter) grants() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for _, times := range g.to {
		n += times
	}
	return n
}

// The execution of a dead worker is granted as a take-over.
func TestGrant_OfDeadWorkersExecution(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := fixture.Passing("pass")
		run, err := runtime.Start(ctx, b.Client, fixture.Single(t, a), 1)
		require.NoError(t, err)
		s := b.Engine
		grant, err := s.ClaimForWorker(ctx, fixture.RequestFor("dying"))
		require.NoError(t, err)
		_, err = engine.ConnOf(b.Engine.Internal()).ClaimExecution(ctx, enginerpc.ClaimExecutionCall{
			ExecutionID: grant.ExecutionID, WorkerID: grant.WorkerID, WorkerInstanceID: grant.Instance, LaneID: grant.Lane,
			LeaseTTL: 30 * time.Millisecond, RenewBefore: 20 * time.Millisecond,
			LeaseID: enginecore.LeaseID(uuid.NewString()), AttemptID: keyspace.AttemptID(uuid.NewString()),
		})
		require.NoError(t, err)
		r := fixture.RequestFor("successor")
		r.TTL = 100 * time.Millisecond
		var successor enginecore.Grant
		enginetest.Eventually(t, func() string {
			at, err := keyspace.PartitionOf(grant.ExecutionID)
			require.NoError(t, err)
			_, err = engine.ConnOf(b.Engine.Internal()).Tick(ctx, enginerpc.TickCall{Partition: at, Limit: 10})
			require.NoError(t, err)
			if successor, err = s.ClaimForWorker(ctx, r); err != nil {
				return err.Error()
			}
			return ""
		})
		require.True(t, successor.Reclaim)
		enginetest.Pass(t, engine.ConnOf(b.Engine.Internal()), r.TTL) // the grant runs out, and another worker gets one
		b.Keeper(t)
		b.Worker(t, []activity.Handler{a}, runtime.WorkerConfig{ClaimThrough: s.ClaimForWorker})
		_, err = run.Result(ctx)
		require.NoError(t, err)
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, 2, d.Nodes[0].Attempts)
		b.Settle(t)
	}, runtime.OpenConfig{Partitions: 1})
}

// grantAll grants and claims until nothing is left, and returns the tenants and labels in the order of the grants.
func grantAll(ctx context.Context, t *testing.T, b *enginetest.Bench, s *runtime.Engine, held bool) []string {
	t.Helper()
	var order []string
	core := engine.ConnOf(b.Engine.Internal())
	for {
		grant, err := s.ClaimForWorker(ctx, fixture.RequestFor("w"))
		if errors.Is(err, enginecore.ErrNoGrant) {
			return order
		}
		require.NoError(t, err)
		fields, err := fixture.NodeFields(ctx, core, grant.ExecutionID, "fair_key", "priority")
		require.NoError(t, err)
		order = append(order, fields["fair_key"]+fields["priority"])
		if !held {
			_, err = claimBy(ctx, b, grant)
			require.NoError(t, err)
		}
	}
}

// Grants come in the order of claims: the keys of tenants take turns, and one grant of eight takes the oldest, whether
// earlier grants have been claimed or are still held.
func TestGrantsFollowTheOrderOfClaims(t *testing.T) {
	t.Parallel()
	for _, held := range []bool{false, true} {
		t.Run(fmt.Sprintf("grants are held %t", held), func(t *testing.T) {
			t.Parallel()
			enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
				ctx, l := enginetest.Context(t), fixture.NewLedger()
				fair, s := flow.FairBy("Tenant"), b.Engine
				start := func(def *flow.Definition[fixture.Job, string], tenant string) {
					_, err := runtime.Start(ctx, b.Client, def, fixture.Job{Tenant: tenant})
					require.NoError(t, err)
				}
				start(l.Flow(t, "many", 6, false, fair, flow.Priority(7)), "a")
				start(l.Flow(t, "one", 1, false, fair), "b")
				start(l.Flow(t, "two", 2, false, fair), "c")
				require.Equal(t, []string{"a7", "b0", "c0", "a7", "c0", "a7", "a7", "a7", "a7"}, grantAll(ctx, t, b, s, held))
			}, runtime.OpenConfig{Partitions: 1})
			enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
				ctx, l, s := enginetest.Context(t), fixture.NewLedger(), b.Engine
				_, err := runtime.Start(ctx, b.Client, l.Flow(t, "old", 1, false, flow.Priority(1)), fixture.Job{})
				require.NoError(t, err)
				enginetest.Pass(t, engine.ConnOf(b.Engine.Internal()), 0) // the urgent run is younger than the first one
				_, err = runtime.Start(ctx, b.Client, l.Flow(t, "urgent", 12, false, flow.Priority(9)), fixture.Job{})
				require.NoError(t, err)
				order := grantAll(ctx, t, b, s, held)
				require.Len(t, order, 13)
				require.Equal(t, 7, slices.Index(order, "1"), "%v", order)
			}, runtime.OpenConfig{Partitions: 1})
		})
	}
}

// On one server, grants follow the order of the lane, in whatever partitions its executions are. In a cluster, the
// partitions take turns.
func TestGrantsFollowTheLane(t *testing.T) {
	t.Parallel()
	const partitions, rounds = 6, 4
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, l, s := enginetest.Context(t), fixture.NewLedger(), b.Engine
		many := l.Flow(t, "many", rounds, false)
		for p := range partitions {
			fixture.StartAt(ctx, t, b, many, "many", p, "")
			enginetest.Pass(t, engine.ConnOf(b.Engine.Internal()), 0) // each run is younger than the one before
		}
		clustered := engine.ConnOf(b.Engine.Internal()).Client().Mode() == rueidis.ClientModeCluster
		seen := make(map[keyspace.Partition]int)
		for n := range partitions * rounds {
			grant, err := s.ClaimForWorker(ctx, fixture.RequestFor("w"))
			require.NoError(t, err)
			of, err := keyspace.PartitionOf(grant.ExecutionID)
			require.NoError(t, err)
			if !clustered {
				require.EqualValues(t, n/rounds, of.Index, "grant %d", n)
				continue
			}
			require.Equal(t, n/partitions, seen[of], "%s again", of)
			seen[of]++
		}
	}, runtime.OpenConfig{Partitions: partitions})
}

// A budget of a run whose effect is to block its nodes, a paused run and a paused lane keep grants away as they keep
// claims away.
func TestGrantsHeedBudgetsAndPausesOfRuns(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, s := enginetest.Context(t), b.Engine
		var calls atomic.Int64
		spend := activity.New("spend", func(ctx context.Context, n int) (int, error) {
			if err := activity.ReportUsage(ctx, "calls", 1); err != nil {
				return 0, err
			}
			calls.Add(1)
			return n, nil
		})
		f := flow.New[int, int]("spending", flow.Budget("shared", flow.BudgetConfig{Hard: map[string]int64{"calls": 3}, PerFlow: true, OnExceeded: flow.BlockNodes}))
		flow.Return(f, flow.Node(f, "only", spend, f.Input()))
		def, err := f.Build()
		require.NoError(t, err)
		b.Keeper(t)
		worker := b.Worker(t, []activity.Handler{spend}, runtime.WorkerConfig{ClaimThrough: s.ClaimForWorker, Concurrency: 1})
		runs := fixture.StartAll(ctx, t, b.Client, def, 5)
		const why = `budget "shared": 3 of 3 calls used`
		var waiting []*runtime.Run[int]
		enginetest.Eventually(t, func() string {
			waiting = nil
			for _, run := range runs {
				d, err := run.Describe(ctx)
				require.NoError(t, err)
				if d.Nodes[0].Waiting.Sentence == why {
					waiting = append(waiting, run)
				}
			}
			if len(waiting) != 2 {
				return fmt.Sprintf("%d wait", len(waiting))
			}
			return ""
		})
		require.NoError(t, worker.Stop())
		_, err = s.ClaimForWorker(ctx, fixture.RequestFor("w"))
		require.ErrorIs(t, err, enginecore.ErrNoGrant, "the budget is used up")
		require.NoError(t, waiting[0].Pause(ctx, ""))
		ref := fabrictype.BudgetName{Name: "shared", Flow: "spending"}
		require.NoError(t, b.Client.Budget(ref).Set(ctx, flow.BudgetConfig{Hard: map[string]int64{"calls": 5}, OnExceeded: flow.BlockNodes}))
		var grant enginecore.Grant
		enginetest.Eventually(t, func() string {
			if grant, err = s.ClaimForWorker(ctx, fixture.RequestFor("w")); err != nil {
				return err.Error()
			}
			return ""
		})
		d, err := waiting[1].Describe(ctx)
		require.NoError(t, err)
		require.EqualValues(t, d.Nodes[0].ExecutionID, grant.ExecutionID)
		_, err = s.ClaimForWorker(ctx, fixture.RequestFor("w"))
		require.ErrorIs(t, err, enginecore.ErrNoGrant, "the run is paused")
		require.NoError(t, b.Client.Lane(activity.DefaultLane).Pause(ctx, ""))
		require.NoError(t, waiting[0].Resume(ctx))
		_, err = s.ClaimForWorker(ctx, fixture.RequestFor("w"))
		require.ErrorIs(t, err, enginecore.ErrNoGrant, "the lane is paused")
		require.NoError(t, b.Client.Lane(activity.DefaultLane).Resume(ctx))
		client := engine.ConnOf(b.Engine.Internal()).Client()
		require.NoError(t, client.Do(ctx, client.B().Del().Key(grant.Key).Build()).Error())
		b.Worker(t, []activity.Handler{spend}, runtime.WorkerConfig{ClaimThrough: s.ClaimForWorker})
		fixture.AwaitAll(ctx, t, runs)
		require.EqualValues(t, 5, calls.Load())
		b.Settle(t)
	}, runtime.OpenConfig{Partitions: 2})
}
