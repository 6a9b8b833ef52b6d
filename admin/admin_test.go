package admin_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/recordstate"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func TestMain(m *testing.M) {
	enginetest.Main(m)
}

// desk is an engine with an admin client and the methods of a worker that the tests need.
type desk struct {
	*admin.Client
	*enginetest.Program
	t    *testing.T
	ctx  context.Context
	core *enginerpc.Conn
}

func each(t *testing.T, test func(t *testing.T, d *desk, b *enginetest.Bench)) {
	t.Helper()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) { test(t, newDesk(t, b), b) })
}

func newDesk(t *testing.T, b *enginetest.Bench) *desk {
	ctx, core := enginetest.Context(t), engine.ConnOf(b.Engine.Internal())
	operator, err := admin.New(b.Engine)
	require.NoError(t, err)
	return &desk{operator, b.Program(ctx, t), t, ctx, core}
}

func (d *desk) create(n admin.ExecutionSpec) enginecore.ExecutionID {
	d.t.Helper()
	if n.Kind == "" {
		n.Kind = "work"
	}
	id, existed, err := d.CreateExecution(d.ctx, n)
	require.NoError(d.t, err)
	require.False(d.t, existed)
	return id
}

const lane = enginetest.ProgramLane

func (d *desk) state(id enginecore.ExecutionID) fabrictype.NodeState {
	d.t.Helper()
	state, err := d.ExecutionState(d.ctx, id)
	require.NoError(d.t, err)
	return state
}

func TestExecutionOverItsLife(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *desk, b *enginetest.Bench) {
		n := admin.ExecutionSpec{
			Kind: "render", Payload: []byte{0, 1, 0xff}, Priority: 3, IdempotencyKey: "order-7", Tags: map[string]string{"team.name": "x"},
			Policy: json.RawMessage(`{"retry_policy":{"max_retries":1}}`),
		}
		id := d.create(n)
		again, existed, err := d.CreateExecution(d.ctx, n)
		require.NoError(t, err)
		require.True(t, existed)
		require.Equal(t, id, again, "the id of the first one")

		before, err := d.ChangePriority(d.ctx, id, 9)
		require.NoError(t, err)
		require.Equal(t, 3, before)
		e, err := d.Execution(d.ctx, id)
		require.NoError(t, err)
		require.Equal(t, "render", e.Kind)
		require.Equal(t, 9, e.Priority)
		require.Equal(t, fabrictype.NodeWaiting, e.State)
		require.Equal(t, recordstate.EligibleNow, e.Eligibility)
		require.Equal(t, map[string]string{"team.name": "x"}, e.Tags)
		require.WithinDuration(t, time.Now(), e.CreatedAt, time.Hour)
		payload, found, err := d.ExecutionPayload(d.ctx, id)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, n.Payload, payload)

		x := d.Claim(id, 0)
		require.Equal(t, fabrictype.NodeActive, d.state(id))
		_, err = d.ChangePriority(d.ctx, id, 1)
		require.ErrorIs(t, err, enginecore.ErrExecutionNotEligible)
		revoked, err := d.RevokeLease(d.ctx, id, "", "")
		require.NoError(t, err)
		require.Equal(t, admin.Revocation{Lease: x.LeaseID, Epoch: x.LeaseEpoch}, revoked)
		revoked, err = d.RevokeLease(d.ctx, id, "", "")
		require.NoError(t, err)
		require.Equal(t, admin.Revocation{Already: true, Reason: "already_revoked"}, revoked)
		phase, err := d.CancelExecution(d.ctx, id, "enough")
		require.NoError(t, err)
		require.Equal(t, recordstate.PhaseActive, phase)
		_, err = d.CancelExecution(d.ctx, id, "enough")
		require.ErrorIs(t, err, enginecore.ErrExecutionNotActive)
		e, err = d.Execution(d.ctx, id)
		require.NoError(t, err)
		require.Equal(t, fabrictype.NodeCancelled, e.State)
		require.Equal(t, "enough", e.CancellationReason)

		state, err := d.ReplayExecution(d.ctx, id)
		require.NoError(t, err)
		require.Equal(t, fabrictype.NodeWaiting, state)
		_, err = d.ReplayExecution(d.ctx, id)
		require.ErrorIs(t, err, enginecore.ErrExecutionNotTerminal)
		_, found, err = d.ExecutionResult(d.ctx, id)
		require.NoError(t, err)
		require.False(t, found)
		d.Complete(d.Claim(id, 1), "\x00done")
		result, found, err := d.ExecutionResult(d.ctx, id)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, "\x00done", string(result))
		require.NoError(t, d.TagExecution(d.ctx, id, map[string]string{"a.b": "c"}))
		b.Check(t, invariant.AnyTime)
	})
}

func TestUnknownIDsAreNotFound(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *desk, b *enginetest.Bench) {
		id := enginecore.ExecutionID("{fp:0}:" + uuid.NewString())
		_, err := d.Execution(d.ctx, id)
		require.ErrorIs(t, err, enginecore.ErrExecutionNotFound)
		_, err = d.ExecutionState(d.ctx, id)
		require.ErrorIs(t, err, enginecore.ErrExecutionNotFound)
		_, err = d.CancelExecution(d.ctx, id, "")
		require.ErrorIs(t, err, enginecore.ErrExecutionNotFound)
		_, err = d.ReplayExecution(d.ctx, id)
		require.ErrorIs(t, err, enginecore.ErrExecutionNotFound)
		_, err = d.RevokeLease(d.ctx, id, "", "")
		require.ErrorIs(t, err, enginecore.ErrExecutionNotFound)
		_, err = d.Waitpoints(d.ctx, id)
		require.ErrorIs(t, err, enginecore.ErrExecutionNotFound)
		_, err = d.DeliverSignal(d.ctx, admin.Signal{Execution: id, Name: "x"})
		require.ErrorIs(t, err, enginecore.ErrExecutionNotFound)
		_, err = d.Flow(d.ctx, enginecore.FlowID(uuid.NewString()))
		require.ErrorIs(t, err, enginecore.ErrFlowNotFound)
		_, err = d.CancelFlow(d.ctx, enginecore.FlowID(uuid.NewString()), admin.FlowCancel{})
		require.ErrorIs(t, err, enginecore.ErrFlowNotFound)
		_, err = d.Budget(d.ctx, enginecore.BudgetID(uuid.NewString()))
		require.ErrorIs(t, err, enginecore.ErrBudgetNotFound)
		_, err = d.ReportUsage(d.ctx, enginecore.BudgetID(uuid.NewString()), map[string]int64{"x": 1}, "")
		require.ErrorIs(t, err, enginecore.ErrBudgetNotFound)
		_, err = d.Quota(d.ctx, enginecore.QuotaPolicyID(uuid.NewString()))
		require.ErrorIs(t, err, admin.ErrQuotaNotFound)
	})
}

func TestInvalidArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *desk, b *enginetest.Bench) {
		long := strings.Repeat("x", 300)
		for name, call := range map[string]func() error{
			"kind": func() error { _, _, err := d.CreateExecution(d.ctx, admin.ExecutionSpec{}); return err },
			"lane": func() error {
				_, _, err := d.CreateExecution(d.ctx, admin.ExecutionSpec{Kind: "k", Lane: "a\nb"})
				return err
			},
			"priority": func() error {
				_, _, err := d.CreateExecution(d.ctx, admin.ExecutionSpec{Kind: "k", Priority: 9001})
				return err
			},
			"policy": func() error {
				_, _, err := d.CreateExecution(d.ctx, admin.ExecutionSpec{Kind: "k", Policy: json.RawMessage("{")})
				return err
			},
			"id":        func() error { _, err := d.Execution(d.ctx, "nonsense"); return err },
			"flow":      func() error { _, err := d.Flow(d.ctx, "nonsense"); return err },
			"flow kind": func() error { _, _, err := d.CreateFlow(d.ctx, admin.FlowSpec{}); return err },
			"cancel": func() error {
				_, err := d.CancelFlow(d.ctx, enginecore.FlowID(uuid.NewString()), admin.FlowCancel{Policy: "some"})
				return err
			},
			"dimensions": func() error { _, _, err := d.CreateBudget(d.ctx, admin.BudgetSpec{}); return err },
			"limits": func() error {
				_, _, err := d.CreateBudget(d.ctx, admin.BudgetSpec{Dimensions: map[string]admin.Limits{"x": {Hard: -1}}})
				return err
			},
			"usage": func() error {
				_, err := d.ReportUsage(d.ctx, enginecore.BudgetID(uuid.NewString()), nil, "")
				return err
			},
			"dedup": func() error {
				_, err := d.ReportUsage(d.ctx, enginecore.BudgetID(uuid.NewString()), map[string]int64{"x": 1}, long)
				return err
			},
			"window":    func() error { _, _, err := d.CreateQuota(d.ctx, admin.QuotaSpec{Window: time.Millisecond}); return err },
			"no window": func() error { _, _, err := d.CreateQuota(d.ctx, admin.QuotaSpec{MaxStarts: 1}); return err },
			"index": func() error {
				_, err := d.ListExecutions(d.ctx, admin.ExecutionQuery{Index: "odd", Lane: "x"}, "", 0)
				return err
			},
			"index without lane": func() error {
				_, err := d.ListExecutions(d.ctx, admin.ExecutionQuery{Index: "active"}, "", 0)
				return err
			},
			"state": func() error {
				_, err := d.ListExecutions(d.ctx, admin.ExecutionQuery{States: []fabrictype.NodeState{"odd"}}, "", 0)
				return err
			},
			"signal source": func() error {
				_, err := d.DeliverSignal(d.ctx, admin.Signal{Name: "x", SourceIdentity: "ann\u009b"})
				return err
			},
			"tag of flow": func() error {
				return d.TagFlow(d.ctx, enginecore.FlowID(uuid.NewString()), map[string]string{"a.b": "x\ny"})
			},
			"tag of execution": func() error {
				_, _, err := d.CreateExecution(d.ctx, admin.ExecutionSpec{Kind: "k", Tags: map[string]string{"a.b\xff": "x"}})
				return err
			},
			"namespace of idempotency key": func() error {
				_, _, err := d.CreateExecution(d.ctx, admin.ExecutionSpec{Kind: "k", Namespace: "a:b", IdempotencyKey: "c"})
				return err
			},
			"secret": func() error {
				_, err := d.RotateSecret(d.ctx, enginecore.WaitpointSecret{KID: "k", Hex: "zz"}, 0)
				return err
			},
			"kid": func() error {
				_, err := d.RotateSecret(d.ctx, enginecore.WaitpointSecret{KID: "a:b", Hex: "00"}, 0)
				return err
			},
			"from": func() error {
				_, err := d.ReadStream(d.ctx, enginecore.ExecutionID("{fp:0}:"+uuid.NewString()), 0, "(1", "", 0)
				return err
			},
			"wait": func() error {
				_, err := d.TailStream(d.ctx, enginecore.ExecutionID("{fp:0}:"+uuid.NewString()), 0, "", time.Hour, 0)
				return err
			},
		} {
			require.ErrorIs(t, call(), admin.ErrInvalid, name)
		}
		_, err := d.ListExecutions(d.ctx, admin.ExecutionQuery{}, "99.1", 0)
		require.ErrorIs(t, err, runtime.ErrCursor)
		for _, key := range b.Check(t, invariant.Quiescent).KeyNames() {
			require.NotContains(t, key, "{", "nothing has been written")
		}
	})
}

func TestFlowStepByStep(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *desk, b *enginetest.Bench) {
		flow, existed, err := d.CreateFlow(d.ctx, admin.FlowSpec{Kind: "build"})
		require.NoError(t, err)
		require.False(t, existed)
		_, existed, err = d.CreateFlow(d.ctx, admin.FlowSpec{ID: flow, Kind: "build"})
		require.NoError(t, err)
		require.True(t, existed)
		up := d.create(admin.ExecutionSpec{Flow: flow})
		down := d.create(admin.ExecutionSpec{Flow: flow})
		for i, id := range []enginecore.ExecutionID{up, down, down} {
			members, already, err := d.AddExecution(d.ctx, flow, id)
			require.NoError(t, err)
			require.Equal(t, min(i+1, 2), members)
			require.Equal(t, i == 2, already)
		}
		p, _ := keyspace.PartitionOf(up)
		elsewhere := keyspace.NewExecutionID(keyspace.Partition{Family: keyspace.FlowFamily, Index: (p.Index + 1) % 4})
		_, _, err = d.AddExecution(d.ctx, flow, elsewhere)
		require.ErrorIs(t, err, admin.ErrPartition)

		info, err := d.Flow(d.ctx, flow)
		require.NoError(t, err)
		edge := admin.Edge{Flow: flow, Upstream: up, Downstream: down}
		_, _, err = d.StageEdge(d.ctx, edge, info.Revision-1)
		require.ErrorIs(t, err, enginecore.ErrStaleGraphRevision)
		var revision int64
		edge.ID, revision, err = d.StageEdge(d.ctx, edge, info.Revision)
		require.NoError(t, err)
		unsatisfied, already, err := d.ApplyEdge(d.ctx, edge, revision)
		require.NoError(t, err)
		require.Equal(t, 1, unsatisfied)
		require.False(t, already)
		_, already, err = d.ApplyEdge(d.ctx, edge, revision)
		require.NoError(t, err)
		require.True(t, already)
		require.Equal(t, fabrictype.NodeWaitingChildren, d.state(down))
		require.NoError(t, d.TagFlow(d.ctx, flow, map[string]string{"team.name": "x"}))
		b.Check(t, invariant.AnyTime)

		cancelled, err := d.CancelFlowAndWait(d.ctx, flow, admin.FlowCancel{Reason: "enough"})
		require.NoError(t, err)
		require.ElementsMatch(t, []enginecore.ExecutionID{up, down}, cancelled.Members)
		for _, id := range []enginecore.ExecutionID{up, down} {
			require.Equal(t, fabrictype.NodeCancelled, d.state(id))
		}
		cancelled, err = d.CancelFlow(d.ctx, flow, admin.FlowCancel{Policy: "flow_only"})
		require.NoError(t, err)
		require.True(t, cancelled.Already)
		require.Equal(t, "cancel_all", cancelled.Policy)
		require.Len(t, cancelled.Members, 2)
		info, err = d.Flow(d.ctx, flow)
		require.NoError(t, err)
		require.Equal(t, recordstate.FlowCancelled, info.State)
		require.Equal(t, "enough", info.CancelReason)
		require.Equal(t, map[string]string{"team.name": "x"}, info.Tags)
		b.Check(t, invariant.AnyTime)
	})
}

// The keepers complete a cancelled flow without its caller.
func TestCancelledFlowIsEndedByKeepers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *desk, b *enginetest.Bench) {
		flow, _, err := d.CreateFlow(d.ctx, admin.FlowSpec{Kind: "build"})
		require.NoError(t, err)
		var members []enginecore.ExecutionID
		for range 5 {
			id := d.create(admin.ExecutionSpec{Flow: flow})
			_, _, err := d.AddExecution(d.ctx, flow, id)
			require.NoError(t, err)
			members = append(members, id)
		}
		b.Keeper(t)
		cancelled, err := d.CancelFlow(d.ctx, flow, admin.FlowCancel{Reason: "enough"})
		require.NoError(t, err)
		require.Len(t, cancelled.Members, 5)
		for _, id := range members {
			enginetest.Eventually(t, func() string {
				if state := d.state(id); state != fabrictype.NodeCancelled {
					return string(id) + " is " + string(state)
				}
				return ""
			})
		}
	})
}

func TestBudgets(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *desk, _ *enginetest.Bench) {
		id, existed, err := d.CreateBudget(d.ctx, admin.BudgetSpec{
			ScopeType: "team", ScopeID: "x", ResetInterval: time.Hour, Dimensions: map[string]admin.Limits{"tokens": {Hard: 10, Soft: 5}, "calls": {}},
		})
		require.NoError(t, err)
		require.False(t, existed)
		report := func(tokens int64, key string) admin.UsageReport {
			r, err := d.ReportUsage(d.ctx, id, map[string]int64{"tokens": tokens, "calls": 1}, key)
			require.NoError(t, err)
			return r
		}
		require.Equal(t, admin.UsageReport{Applied: true}, report(4, "first"))
		require.Equal(t, admin.UsageReport{Repeated: true}, report(4, "first"))
		require.Equal(t, admin.UsageReport{Applied: true, Dimension: "tokens", Usage: 7, Limit: 5}, report(3, ""))
		require.Equal(t, admin.UsageReport{Hard: true, Dimension: "tokens", Usage: 7, Limit: 10}, report(4, ""))
		status, err := d.Budget(d.ctx, id)
		require.NoError(t, err)
		require.Equal(t, map[string]int64{"tokens": 7, "calls": 2}, status.Usage)
		require.Equal(t, admin.Limits{Hard: 10, Soft: 5}, status.Limits["tokens"])
		require.Equal(t, 1, status.HardBreaches)
		require.Equal(t, "tokens", status.LastBreach)
		require.Equal(t, time.Hour, status.ResetInterval)
		next, err := d.ResetBudget(d.ctx, id)
		require.NoError(t, err)
		require.WithinRange(t, next, time.Now(), time.Now().Add(2*time.Hour))
		status, err = d.Budget(d.ctx, id)
		require.NoError(t, err)
		require.Zero(t, status.Usage["tokens"])
		var all []enginecore.BudgetID
		for id, err := range d.Budgets(d.ctx) {
			require.NoError(t, err)
			all = append(all, id)
		}
		require.Equal(t, []enginecore.BudgetID{id}, all)
	})
}

func TestQuotas(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *desk, _ *enginetest.Bench) {
		id, _, err := d.CreateQuota(d.ctx, admin.QuotaSpec{Window: time.Minute, MaxStarts: 5, MaxConcurrent: 2})
		require.NoError(t, err)
		_, existed, err := d.CreateQuota(d.ctx, admin.QuotaSpec{ID: id, Window: time.Hour, MaxStarts: 1})
		require.NoError(t, err)
		require.True(t, existed)
		p, err := d.core.Partitioning().QuotaPartition(id)
		require.NoError(t, err)
		now, err := d.core.Now(d.ctx)
		require.NoError(t, err)
		_, err = d.core.CheckAdmissionAndRecord(d.ctx, enginerpc.CheckAdmissionAndRecordCall{
			Partition: p, QuotaPolicyID: id, Now: now, WindowSeconds: 60, RateLimit: 5, ConcurrencyCap: 2, ExecutionID: "e",
		})
		require.NoError(t, err)
		q, err := d.Quota(d.ctx, id)
		require.NoError(t, err)
		require.Equal(t, []int64{5, 2, 1, 1}, []int64{q.MaxStarts, q.MaxConcurrent, q.Started, q.Running})
		require.Equal(t, time.Minute, q.Window)
		for found, err := range d.Quotas(d.ctx) {
			require.NoError(t, err)
			require.Equal(t, id, found)
		}
	})
}

// A reason that is too long or cannot be shown on a line is refused, and nothing has been done.
func TestBadReasons(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *desk, _ *enginetest.Bench) {
		id := d.create(admin.ExecutionSpec{Lane: lane})
		flow, _, err := d.CreateFlow(d.ctx, admin.FlowSpec{Kind: "f"})
		require.NoError(t, err)
		for _, reason := range []string{"two\nlines", "\xff", strings.Repeat("x", 2048+1)} {
			_, cancelErr := d.CancelExecution(d.ctx, id, reason)
			_, revokeErr := d.RevokeLease(d.ctx, id, "", reason)
			_, flowErr := d.CancelFlow(d.ctx, flow, admin.FlowCancel{Reason: reason})
			_, waitErr := d.CancelFlowAndWait(d.ctx, flow, admin.FlowCancel{Reason: reason})
			closeErr := d.CloseWaitpoint(d.ctx, id, "w", reason)
			for _, err := range []error{cancelErr, revokeErr, flowErr, waitErr, closeErr} {
				require.ErrorIs(t, err, admin.ErrInvalid)
				require.ErrorContains(t, err, `reason "`)
			}
		}
		require.NotEqual(t, fabrictype.NodeCancelled, d.state(id))
		info, err := d.Flow(d.ctx, flow)
		require.NoError(t, err)
		require.Empty(t, info.CancelReason)
	})
}

// An execution names the run and the node that it is of, before it has begun and after it has failed.
func TestExecutionNamesItsRun(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		d := newDesk(t, b)
		fails := activity.New("fails", func(_ context.Context, n int) (int, error) { return 0, context.Canceled },
			activity.Retry(activity.RetryPolicy{Attempts: 1}))
		f := flow.New[int, int]("shop")
		flow.Return(f, flow.Node(f, "charge", fails, f.Input()))
		def, err := f.Build()
		require.NoError(t, err)
		run, err := runtime.Start(d.ctx, b.Client, def, 1, runtime.WithID("order 7"))
		require.NoError(t, err)
		check := func() {
			described, err := run.Describe(d.ctx)
			require.NoError(t, err)
			e, err := d.Execution(d.ctx, enginecore.ExecutionID(described.Nodes[0].ExecutionID))
			require.NoError(t, err)
			require.Equal(t, []string{"charge", "shop", "order 7"}, []string{e.Node, e.FlowName, e.Run})
		}
		check()
		b.KeepingWorker(t, def.Handlers(), runtime.WorkerConfig{})
		_, err = run.Result(d.ctx)
		require.ErrorIs(t, err, runtime.ErrRunFailed)
		check()
	})
}

// The actions of an operator are in the audit log with the name of the actor, also those that failed.
func TestActionsAreAudited(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		d := newDesk(t, b)
		id := d.create(admin.ExecutionSpec{})
		ann := d.As("ann")
		_, err := ann.ChangePriority(d.ctx, id, 7)
		require.NoError(t, err)
		require.NoError(t, ann.TagExecution(d.ctx, id, map[string]string{"team.name": "x"}))
		_, err = ann.CancelExecution(d.ctx, id, "enough")
		require.NoError(t, err)
		_, err = d.ReplayExecution(d.ctx, id)
		require.NoError(t, err)
		_, err = d.ReplayExecution(d.ctx, id)
		require.Error(t, err)
		var got []fabrictype.AuditEntry
		for e, err := range b.Client.Audit(d.ctx, runtime.AuditQuery{Name: string(id)}) {
			require.NoError(t, err)
			got = append(got, e)
		}
		require.Len(t, got, 6)
		require.NotEmpty(t, got[0].Failure)
		entry := func(e fabrictype.AuditEntry) []string { return []string{e.Actor, e.Action, e.Detail} }
		require.Equal(t, []string{"admin", "replay_execution", ""}, entry(got[0]))
		require.Equal(t, []string{"admin", "replay_execution", ""}, entry(got[2]))
		require.Equal(t, []string{"ann", "cancel_execution", "enough"}, entry(got[3]))
		require.Equal(t, []string{"ann", "set_tags", "team.name x"}, entry(got[4]))
		require.Equal(t, []string{"ann", "set_priority", "7"}, entry(got[5]))
		_, err = d.As("a\nb").ChangePriority(d.ctx, id, 1)
		require.Error(t, err)
	})
}
