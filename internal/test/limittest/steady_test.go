package limittest

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// steady starts runs that get stuck, each in a state that lasts until the gate opens.
type steady struct {
	*enginetest.Bench
	ctx  context.Context
	gate chan struct{}
	runs map[string]*runtime.Run[int]
}

// hold is an activity that runs until the gate opens.
func (s *steady) hold(name string, opts ...activity.Option) *activity.Activity[int, int] {
	return activity.New(name, func(ctx context.Context, n int) (int, error) {
		select {
		case <-s.gate:
			return n, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}, opts...)
}

// start starts a run of parallel nodes after a first one, and waits until count of them are in a state.
func (s *steady) start(t *testing.T, name string, a *activity.Activity[int, int], width, count int, state fabrictype.NodeState, opts ...flow.Option) {
	t.Helper()
	f := flow.New[int, int](name, opts...)
	free := activity.New("free", func(_ context.Context, n int) (int, error) { return n, nil })
	first := flow.Node(f, "first", free, f.Input())
	var last flow.Ref[int]
	for i := range width {
		last = flow.Node(f, fmt.Sprint("n", i), a, first)
	}
	flow.Return(f, last)
	def, err := f.Build()
	require.NoError(t, err)
	run, err := runtime.Start(s.ctx, s.Client, def, 1)
	require.NoError(t, err)
	s.runs[name] = run
	enginetest.Eventually(t, func() string {
		d, err := run.Describe(s.ctx)
		require.NoError(t, err)
		found := 0
		for _, n := range d.Nodes {
			if n.State == state {
				found++
			}
		}
		if found != count {
			return fmt.Sprintf("%s: %d nodes are %s: %+v", name, found, state, d.Nodes)
		}
		return ""
	})
}

// notLost describes an execution of the lane that is still leased.
func (s *steady) notLost(t *testing.T) string {
	t.Helper()
	core := engine.ConnOf(s.Engine.Internal())
	ids, err := fixture.NodesOf(s.ctx, core)
	require.NoError(t, err)
	for _, id := range ids {
		fields, err := fixture.NodeFields(s.ctx, core, id, "lane_id", "lifecycle_phase", "ownership_state")
		require.NoError(t, err)
		if owner := fields["ownership_state"]; fields["lane_id"] == "lost" && fields["lifecycle_phase"] == "active" &&
			owner != "lease_expired_reclaimable" {
			return string(id) + " is " + owner
		}
	}
	return ""
}

// claimAny leases one execution.
func (x *brittle) claimAny() {
	for _, p := range x.core.Partitioning().FlowPartitions() {
		x.request.ClaimID = uuid.NewString()
		reply, err := x.core.Claim(x.ctx, enginerpc.ClaimCall{Partition: p, ClaimRequest: x.request})
		require.NoError(x.t, err)
		if len(reply.Executions) > 0 {
			return
		}
	}
	require.FailNow(x.t, "nothing to lease")
}

// Reconcilers leave executions in a lasting state alone: those that wait for a limit, a budget, a signal, a worker or
// an operator.
func TestReconcilers_LeaveSteadyStatesAlone(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		s := &steady{Bench: b, ctx: enginetest.Context(t), gate: make(chan struct{}), runs: make(map[string]*runtime.Run[int])}
		free := activity.New("free", func(_ context.Context, n int) (int, error) { return n, nil })
		held := s.hold("held", activity.Limit("two", activity.LimitConfig{AtOnce: 2}))
		spends := activity.New("spends", func(ctx context.Context, n int) (int, error) {
			return n, activity.ReportUsage(ctx, "calls", 1)
		})
		asks := activity.New("asks", func(ctx context.Context, _ int) (int, error) {
			if _, err := activity.OpenWaitpoint(ctx, "later", 0); err != nil {
				return 0, err
			}
			return activity.Await[int](ctx, "answer")
		})
		blocked := activity.New("blocked", func(_ context.Context, n int) (int, error) { return n, nil })
		handlers := []activity.Handler{free, held, spends, asks}
		b.Keeper(t)
		b.Worker(t, handlers, runtime.WorkerConfig{Concurrency: 1})
		b.Worker(t, handlers, runtime.WorkerConfig{Concurrency: 20})
		s.start(t, "limited", held, 4, 2, "active")
		s.start(t, "spending", spends, 3, 2, "rate_limited",
			flow.Budget("calls", flow.BudgetConfig{Hard: map[string]int64{"calls": 1}, OnExceeded: flow.BlockNodes}))
		s.start(t, "asking", asks, 2, 2, "suspended")
		require.NoError(t, b.Client.Activity("blocked").Pause(s.ctx, ""))
		s.start(t, "paused", blocked, 2, 2, "rate_limited", flow.Priority(4))
		for _, x := range []struct {
			name string
			opts []activity.Option
		}{{"lost", nil}, {"measured", []activity.Option{activity.Limit("one", activity.LimitConfig{AtOnce: 1})}}} {
			s.start(t, x.name, s.hold(x.name, append(x.opts, activity.Lane("lost"))...), 2, 2, "waiting")
			dead := newBrittle(s.ctx, t, b)
			dead.request.LaneID, dead.request.Kinds = "lost", "\n"+x.name+"\n"
			if x.opts == nil {
				dead.claimAny()
			} else {
				dead.claimAhead()
			}
			enginetest.Eventually(t, func() string { return s.notLost(t) })
		}
		for _, task := range []string{
			"index_reconciliation", "dependency_reconciliation", "key_reconciliation", "member_reconciliation",
			"quota_reconciliation", "budget_reconciliation", "sibling_cancel_reconciliation",
		} {
			report, err := b.RunKeeperTask(s.ctx, task)
			require.NoError(t, err)
			require.Empty(t, report.Repaired, task)
		}
		close(s.gate)
		require.NoError(t, b.Client.Activity("blocked").Resume(s.ctx))
		b.Worker(t, append(handlers, blocked), runtime.WorkerConfig{Concurrency: 20})
		b.Worker(t, []activity.Handler{free, s.hold("lost", activity.Lane("lost")), s.hold("measured", activity.Lane("lost"),
			activity.Limit("one", activity.LimitConfig{AtOnce: 1}))}, runtime.WorkerConfig{Lanes: []string{"lost"}})
		for name, run := range s.runs {
			switch name {
			case "spending":
				require.NoError(t, run.Cancel(s.ctx, "its budget is used up"))
				_, err := run.Result(s.ctx)
				require.ErrorIs(t, err, runtime.ErrRunCancelled)
				continue
			case "asking":
				waits, err := run.Waitpoints(s.ctx)
				require.NoError(t, err)
				for _, w := range waits {
					if w.Step == "answer" {
						_, err := b.Client.Signal(s.ctx, w.Token, runtime.Signal{Name: "answer", Payload: 1})
						require.NoError(t, err)
					}
				}
			}
			out, err := run.Result(s.ctx)
			require.NoError(t, err)
			require.Equal(t, 1, out)
		}
		b.Settle(t)
	})
}

// Where a lane is not in use, a pause leaves nothing to mend.
func TestPausedActivityMarksLanesInUse(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := activity.New("a", func(_ context.Context, n int) (int, error) { return n, nil })
		require.NoError(t, b.Client.Activity("a").Pause(ctx, ""))
		run, err := runtime.Start(ctx, b.Client, fixture.Single(t, a), 1)
		require.NoError(t, err)
		for range 2 {
			report, err := b.RunKeeperTask(ctx, "index_reconciliation")
			require.NoError(t, err)
			require.Empty(t, report.Repaired)
		}
		require.NoError(t, b.Client.Activity("a").Resume(ctx))
		report, err := b.RunKeeperTask(ctx, "index_reconciliation")
		require.NoError(t, err)
		require.Empty(t, report.Repaired)
		b.Worker(t, []activity.Handler{a})
		_, err = run.Result(ctx)
		require.NoError(t, err)
		b.Settle(t)
	}, runtime.OpenConfig{Partitions: 4})
}
