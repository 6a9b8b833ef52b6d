package budgettest

import (
	"context"
	"encoding/json"
	"fmt"
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
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// brittle makes the calls on a run's budget one by one, so that a test can stop after any of them.
type brittle struct {
	t      *testing.T
	ctx    context.Context
	bench  *enginetest.Bench
	core   *enginerpc.Conn
	run    *runtime.Run[string]
	part   keyspace.Partition // of the run
	budget keyspace.Partition
	call   enginerpc.UseBudgetCall
	flow   enginecore.FlowID
	lease  string // by which ids of its reservations begin
}

func newBrittle(ctx context.Context, t *testing.T, b *enginetest.Bench, run *runtime.Run[string]) *brittle {
	x := &brittle{t: t, ctx: ctx, bench: b, core: engine.ConnOf(b.Engine.Internal()), run: run}
	var err error
	x.part, err = x.core.FlowPartition(run.FlowID())
	require.NoError(t, err)
	client := x.core.Client()
	text, err := client.Do(ctx, client.B().Get().Key(x.core.Keys().FlowBudgets(x.part, run.FlowID())).Build()).AsBytes()
	require.NoError(t, err)
	var stored []struct {
		ID                      enginecore.BudgetID
		Scope, Of, Name, Effect string
		At                      int64
		Dims                    []struct {
			N    string
			H, S int64
		}
	}
	require.NoError(t, json.Unmarshal(text, &stored))
	x.budget, err = x.core.Partitioning().BudgetPartition(stored[0].ID)
	require.NoError(t, err)
	x.call = enginerpc.UseBudgetCall{
		Partition: x.budget, BudgetID: stored[0].ID, Declares: true,
		BudgetDeclaration: enginerpc.BudgetDeclaration{
			Name: stored[0].Name, ScopeType: stored[0].Scope, ScopeID: stored[0].Of, Effect: stored[0].Effect, Declared: "by hand", DeclaredAt: stored[0].At,
		},
	}
	for _, d := range stored[0].Dims {
		x.call.Dims = append(x.call.Dims, enginerpc.UseBudgetDim{Name: d.N, Hard: d.H, Soft: d.S})
	}
	x.flow, x.lease = run.FlowID(), fmt.Sprint(keyspace.ExecutionIDFor(x.part, run.FlowID(), "n0"), "/1/")
	return x
}

// use makes the call of a worker, without its consequences.
func (x *brittle) use(kind string, n int64) enginerpc.UseBudgetReply {
	call := x.call
	call.Entries = []enginerpc.UseBudgetEntry{{
		Kind: kind, Dimension: "calls", Amount: n, ID: x.lease + uuid.NewString(), FlowID: x.flow, Node: "n0", Lease: time.Second,
	}}
	reply, err := x.core.UseBudget(x.ctx, call)
	require.NoError(x.t, err)
	return reply
}

// keep advances to the time at which keepers perform pending steps, and runs a keeper once.
func (x *brittle) keep() admin.KeeperTaskReport {
	client := x.core.Client()
	due := x.core.Keys().BudgetDue(x.budget)
	for _, text := range x.owed() {
		require.NoError(x.t, client.Do(x.ctx, client.B().Zadd().Key(due).ScoreMember().ScoreMember(1, text).Build()).Error())
	}
	report, err := x.bench.RunKeeperTask(x.ctx, "budget")
	require.NoError(x.t, err)
	return report
}

// heldUntil returns the expiry times of the leases of reservations.
func (x *brittle) heldUntil() (at []int64) {
	client := x.core.Client()
	scores, err := client.Do(x.ctx, client.B().Zrange().Key(x.core.Keys().BudgetDue(x.budget)).Min("0").Max("-1").Withscores().Build()).AsZScores()
	require.NoError(x.t, err)
	for _, s := range scores {
		if strings.HasPrefix(s.Member, "held ") {
			at = append(at, int64(s.Score))
		}
	}
	return at
}

func (x *brittle) owed() []string {
	client := x.core.Client()
	texts, err := client.Do(x.ctx, client.B().Zrange().Key(x.core.Keys().BudgetDue(x.budget)).Min("0").Max("-1").Build()).AsStrSlice()
	require.NoError(x.t, err)
	return texts
}

func (x *brittle) state() enginerpc.BudgetState {
	reply, err := x.core.GetBudgets(x.ctx, enginerpc.GetBudgetsCall{Partition: x.budget, BudgetIDs: []enginecore.BudgetID{x.call.BudgetID}})
	require.NoError(x.t, err)
	require.Len(x.t, reply.Budgets, 1)
	return reply.Budgets[0]
}

func (x *brittle) blocked() (n int) {
	d, err := x.run.Describe(x.ctx)
	require.NoError(x.t, err)
	for _, node := range d.Nodes {
		if node.State == fabrictype.NodeRateLimited {
			n++
		}
	}
	return n
}

func (x *brittle) awaitBlocked(want int) {
	enginetest.Eventually(x.t, func() string {
		if n := x.blocked(); n != want {
			return fmt.Sprint(n, " blocked, not ", want)
		}
		return ""
	})
}

func idle(name string) *activity.Activity[string, string] {
	return activity.New(name, func(_ context.Context, in string) (string, error) { return in, nil })
}

// A process may die after any step that closes or opens a budget: keepers publish the state to the affected partitions.
func TestCrashBeforeGateIsPublished(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		const width = 230 // more than one call releases
		def := fan(t, "gated", idle("idle"), width, flow.Budget("calls", flow.BudgetConfig{Hard: map[string]int64{"calls": 5}, OnExceeded: flow.BlockNodes}))
		run := start(ctx, t, b, def, "x")
		x := newBrittle(ctx, t, b, run)
		reply := x.use("report", 5)
		require.True(t, reply.Told)
		require.NotEmpty(t, reply.Closed)
		// The process dies before it publishes the state.
		x.keep()
		work(t, b, def)
		x.awaitBlocked(width)
		b.Check(t, invariant.AnyTime)

		// The budget is reset, and the process dies: first at once, then in the middle of publishing.
		_, err := x.core.ResetBudget(ctx, enginerpc.ResetBudgetCall{Partition: x.budget, BudgetID: x.call.BudgetID, Now: time.Now()})
		require.NoError(t, err)
		state := x.state()
		require.Empty(t, state.Closed)
		gate := enginerpc.SetBudgetGatesGate{BudgetID: state.BudgetID, Gate: state.Gate}
		told, err := x.core.SetBudgetGates(ctx, enginerpc.SetBudgetGatesCall{Partition: x.part, Gates: []enginerpc.SetBudgetGatesGate{gate}})
		require.NoError(t, err)
		require.True(t, told.More)
		// Gates published from an older state change nothing.
		_, err = x.core.SetBudgetGates(ctx, enginerpc.SetBudgetGatesCall{Partition: x.part, Gates: []enginerpc.SetBudgetGatesGate{
			{BudgetID: state.BudgetID, Gate: reply.Gate, Closed: reply.Closed},
		}})
		require.NoError(t, err)
		x.keep()
		b.Keeper(t)
		_, err = run.Result(ctx)
		require.NoError(t, err)
		b.Settle(t)
	})
}

// Keepers apply a breach that was not applied, and report a breach once that was applied but not acknowledged.
func TestCrashBeforeBreachIsApplied(t *testing.T) {
	t.Parallel()
	for _, carriedOut := range []bool{false, true} {
		t.Run(fmt.Sprint("carried out ", carriedOut), func(t *testing.T) {
			enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
				ctx := enginetest.Context(t)
				def := fan(t, "owed", idle("idle"), 1,
					flow.Budget("calls", flow.BudgetConfig{Hard: map[string]int64{"calls": 5}, Soft: map[string]int64{"calls": 3}, OnExceeded: flow.CancelRun}))
				run := start(ctx, t, b, def, "x")
				x := newBrittle(ctx, t, b, run)
				require.Len(t, x.use("report", 4).Owed, 1)
				refused := x.use("report", 4)
				require.Len(t, refused.Owed, 1)
				if carriedOut {
					fields := strings.SplitN(refused.Owed[0], " ", 11)
					_, err := x.core.NoteBreach(ctx, enginerpc.NoteBreachCall{
						Partition: x.part, FlowID: run.FlowID(), BudgetID: x.call.BudgetID, ID: fields[2], Kind: fields[3], Node: "n0", Words: fields[10],
					})
					require.NoError(t, err)
				}
				x.keep()
				b.Keeper(t)
				_, err := run.Result(ctx)
				require.ErrorIs(t, err, runtime.ErrRunCancelled)
				counts := make(map[fabrictype.EventKind]int)
				for event, err := range run.Watch(ctx, "") {
					require.NoError(t, err)
					counts[event.Kind]++
				}
				require.Equal(t, [2]int{1, 1}, [2]int{counts[fabrictype.EventBudgetSoft], counts[fabrictype.EventBudgetHard]})
				b.Settle(t)
			})
		})
	}
}

// A worker's reservation is returned when its lease has expired, not before, and nodes that waited for it continue.
func TestReservationOfDeadWorker(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		def := fan(t, "dead", idle("idle"), 2, flow.Budget("calls", flow.BudgetConfig{Hard: map[string]int64{"calls": 5}, OnExceeded: flow.BlockNodes}))
		run := start(ctx, t, b, def, "x")
		x := newBrittle(ctx, t, b, run)
		claim := enginerpc.ClaimCall{Partition: x.part, ClaimRequest: enginerpc.ClaimRequest{
			LaneID: activity.DefaultLane, WorkerID: "brittle", WorkerInstanceID: enginecore.WorkerInstanceID(uuid.NewString()), ClaimID: uuid.NewString(),
			LeaseTTL: time.Second, Kinds: "\nidle\n", Count: 1,
		}}
		leased := time.Now()
		claimed, err := x.core.Claim(ctx, claim)
		require.NoError(t, err)
		require.Len(t, claimed.Executions, 1)
		x.lease = fmt.Sprintf("%s/%d/", claimed.Executions[0].ExecutionID, claimed.Executions[0].LeaseEpoch)
		require.Equal(t, "ok", x.use("reserve", 4).Uses[0].State)
		require.Equal(t, "refused", x.use("reserve", 4).Uses[0].State)
		x.keep()
		if time.Since(leased) < 900*time.Millisecond {
			require.EqualValues(t, 4, x.state().Dims[0].Reserved)
			// The task checks it again when the lease has expired.
			require.Equal(t, []int64{claimed.Executions[0].LeaseExpiresAt.UnixMilli()}, x.heldUntil())
		}
		work(t, b, def)
		b.Keeper(t)
		enginetest.Eventually(t, func() string {
			if d := x.state().Dims[0]; d.Reserved != 0 {
				return fmt.Sprintf("%+v", d)
			}
			return ""
		})
		_, err = run.Result(ctx)
		require.NoError(t, err)
		require.Zero(t, x.state().Dims[0].Spent)
		b.Settle(t)
	})
}

// The budget of a run is removed with the run, by whichever path.
func TestBudgetOfPurgedRun(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		def := fan(t, "purged", idle("idle"), 1, flow.Budget("calls", flow.BudgetConfig{Hard: map[string]int64{"calls": 5}}))
		run := start(ctx, t, b, def, "x")
		x := newBrittle(ctx, t, b, run)
		x.use("report", 1)
		x.keep()
		require.Len(t, x.owed(), 1, "a live run is checked later")
		work(t, b, def)
		_, err := run.Result(ctx)
		require.NoError(t, err)
		// Not by the client, which removes the budget at once.
		for more := true; more; {
			reply, err := x.core.PurgeFlow(ctx, enginerpc.PurgeFlowCall{Partition: x.part, FlowID: run.FlowID()})
			require.NoError(t, err)
			more = reply.More
		}
		x.keep()
		require.Empty(t, x.owed())
		list, err := b.Client.Budgets(ctx)
		require.NoError(t, err)
		require.Empty(t, list)
		b.Settle(t)
	})
}

// Resets follow the schedule that began with the budget, and release nodes.
func TestPeriodicReset(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		const every = 200 * time.Millisecond
		a := activity.New("spend", func(ctx context.Context, in string) (string, error) { return in, activity.ReportUsage(ctx, "calls", 1) })
		def := fan(t, "periodic", a, 5,
			flow.Budget("calls", flow.BudgetConfig{Hard: map[string]int64{"calls": 2}, ResetEvery: every, OnExceeded: flow.BlockNodes}))
		work(t, b, def)
		b.Keeper(t)
		begun := time.Now()
		run := start(ctx, t, b, def, "x")
		_, err := run.Result(ctx)
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(begun), 2*every, "five calls need three times")
		s, err := b.Client.Budget(fabrictype.BudgetName{Name: "calls", Flow: "periodic", Run: run.ID()}).Describe(ctx)
		require.NoError(t, err)
		require.GreaterOrEqual(t, s.Resets, 2)
		require.Equal(t, every, s.ResetEvery.Duration)
		// A manual reset does not move the times of later resets.
		require.NoError(t, b.Client.Budget(s.BudgetName).Reset(ctx))
		later, err := b.Client.Budget(s.BudgetName).Describe(ctx)
		require.NoError(t, err)
		require.Greater(t, later.Resets, s.Resets)
		require.Zero(t, later.ResetsAt.Sub(s.ResetsAt)%every)
	})
}
