package propertytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
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
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// fleetTime is how long a fleet starts work. FLOWFABRIC_SOAK makes it two minutes, or the duration that it names.
const fleetTime = 3 * time.Second

func fleetDuration() time.Duration {
	soak := os.Getenv("FLOWFABRIC_SOAK")
	if soak == "" {
		return fleetTime
	}
	if d, err := time.ParseDuration(soak); err == nil {
		return d
	}
	return 2 * time.Minute
}

// A mixed fleet shares lanes, flows, budgets and waits: two workers in contract mode, of which one claims by grants; a
// program that holds its tasks; a program of another vendor that calls ff_* functions; processes that are killed. All
// started runs end with the expected results, and no keys are left over.
func TestMixedFleet(t *testing.T) {
	t.Parallel()
	enginetest.EachContract(t, func(t *testing.T, b *enginetest.Bench) {
		f := newFleet(t, b)
		b.Keeper(t)
		handlers := []activity.Handler{f.add, f.asks, f.flaky, holdForEver(func(n int) (int, error) { return n, nil }), fixture.Adder()}
		b.Worker(t, handlers, runtime.WorkerConfig{Lease: killedLease})
		b.Worker(t, handlers, runtime.WorkerConfig{
			Lease: killedLease, ClaimThrough: b.Engine.ClaimForWorker,
		})
		vendor := newVendor(f)
		b.Run(t, "vendor", vendor.run)
		h := fixture.NewHolder(t, b, runtime.WorkerConfig{Lease: killedLease})
		b.Run(t, "holding program", func(ctx context.Context) error { return f.hold(ctx, h.Worker) })

		end := time.Now().Add(fleetDuration())
		for i := 0; time.Now().Before(end) && !t.Failed(); i++ {
			f.start(i)
			vendor.start(i)
			if i%20 == 10 && b.Kind != testserver.Embedded {
				f.kill()
			}
			time.Sleep(10 * time.Millisecond) //nolint:forbidigo // the pace of the fleet
		}
		f.finish()
		vendor.finish()
		f.checkUsage()
		f.bench.Settle(t)
		t.Logf("%d runs, of which %d were cancelled, %d executions of the vendor, %d kills", len(f.runs), f.cancelled,
			len(vendor.mine), f.kills)
	}, runtime.OpenConfig{Partitions: 4})
}

// fleet has the state that the programs share.
type fleet struct {
	t        *testing.T
	bench    *enginetest.Bench
	ctx      context.Context
	core     *enginerpc.Conn
	operator *admin.Client

	add, flaky *activity.Activity[int, int]
	asks       *activity.Activity[int, int]
	budget     enginecore.BudgetID
	reported   sync.Map // ids of the executions whose use was reported to the budget

	// foreign is the result of the node that another program runs, by its input.
	foreign func(n int) int

	flows     map[string]*flow.Definition[int, int]
	started   []string // names of flows, in turn
	runs      []fleetRun
	cancelled int
	kills     int
}

// fleetRun is a run with its expected result.
type fleetRun struct {
	run  *runtime.Run[int]
	want int
	// mayCancel is whether the run was cancelled: it may have ended before.
	mayCancel bool
}

func newFleet(t *testing.T, b *enginetest.Bench) *fleet {
	operator, err := admin.New(b.Engine)
	require.NoError(t, err)
	f := &fleet{
		t: t, bench: b, ctx: enginetest.Context(t), core: engine.ConnOf(b.Engine.Internal()), operator: operator, add: fixture.AddOne(),
		started: []string{"diamond", "foreign", "asking", "gated", "held"},
		flows:   make(map[string]*flow.Definition[int, int]), foreign: func(int) int { return vendorResult },
	}
	_, err = operator.RotateSecret(f.ctx, enginecore.WaitpointSecret{KID: "k1", Hex: strings.Repeat("5a", 32)}, time.Hour)
	require.NoError(t, err)
	f.budget, _, err = operator.CreateBudget(f.ctx, admin.BudgetSpec{
		ScopeType: "fleet", ScopeID: "all", Dimensions: map[string]admin.Limits{"calls": {Hard: 1 << 40}},
	})
	require.NoError(t, err)
	f.asks = activity.New("asks", func(ctx context.Context, n int) (int, error) {
		answer, err := activity.Await[int](ctx, "answer", activity.Signals("yes"))
		return n + answer, err
	})
	f.flaky = activity.New("flaky", func(ctx context.Context, n int) (int, error) {
		if info, _ := activity.Info(ctx); info.Attempt == 1 && n%2 == 0 {
			return 0, errors.New("not yet")
		}
		return n + 1, nil
	}, activity.Retry(activity.RetryPolicy{First: 5 * time.Millisecond, Attempts: 5}))
	f.declare()
	return f
}

// declare makes the flows of the fleet. Nodes of the kinds "vendor" and "work" are run by programs without handlers.
func (f *fleet) declare() {
	vendors, works, sum := fixture.Passing("vendor"), fixture.Passing("work"), fixture.Adder()
	declare := func(name string, declared func(b *flow.Builder[int, int]) flow.Ref[int]) {
		b := flow.New[int, int](name)
		flow.Return(b, declared(b))
		def, err := b.Build()
		require.NoError(f.t, err)
		f.flows[name] = def
	}
	declare("diamond", func(b *flow.Builder[int, int]) flow.Ref[int] {
		first := flow.Node(b, "first", f.add, b.Input())
		sides := flow.List(flow.Node(b, "left", f.flaky, first), flow.Node(b, "right", works, first))
		return flow.Node(b, "sum", sum, sides)
	})
	declare("foreign", func(b *flow.Builder[int, int]) flow.Ref[int] {
		return flow.Node(b, "last", f.add, flow.Node(b, "middle", vendors, flow.Node(b, "first", f.add, b.Input())))
	})
	declare("asking", func(b *flow.Builder[int, int]) flow.Ref[int] {
		return flow.Node(b, "last", f.add, flow.Node(b, "ask", f.asks, b.Input()))
	})
	declare("gated", func(b *flow.Builder[int, int]) flow.Ref[int] {
		gate := flow.Waitpoint[int](b, "gate", activity.Signals("yes"))
		return flow.Node(b, "sum", sum, flow.List(gate, flow.Node(b, "first", f.add, b.Input())))
	})
	declare("held", func(b *flow.Builder[int, int]) flow.Ref[int] {
		return flow.Node(b, "hold", holdForEver(nil), b.Input())
	})
}

// vendorResult is the result of the vendor's program for each node, whatever its input.
const vendorResult = 100

// start starts one run, and cancels or answers it.
func (f *fleet) start(i int) {
	name := f.started[i%len(f.started)]
	run, err := runtime.Start(f.ctx, f.bench.Client, f.flows[name], i)
	require.NoError(f.t, err)
	x := fleetRun{run: run}
	switch name {
	case "diamond":
		x.want = (i + 2) + (i + 1)
	case "foreign":
		x.want = f.foreign(i+1) + 1
	case "asking":
		x.want = i + 7 + 1
	case "gated":
		x.want = 7 + i + 1
	case "held":
		x.want = i
	}
	if rand.IntN(8) == 0 {
		x.mayCancel = true
		_, err := f.operator.CancelFlow(f.ctx, run.FlowID(), admin.FlowCancel{Reason: "another program says so"})
		require.NoError(f.t, err)
	}
	f.runs = append(f.runs, x)
}

// hold is a program that works on tasks itself and reports usage.
func (f *fleet) hold(ctx context.Context, w *runtime.Worker) error {
	for {
		task, err := w.Next(ctx)
		if err != nil {
			return nil // the test is over
		}
		var n int
		err = task.Decode(&n)
		if err == nil {
			err = task.ReportUsageTo(ctx, f.budget, "done", map[string]int64{"calls": 1})
		}
		if err == nil {
			f.reported.Store(enginecore.ExecutionID(task.Info().ExecutionID), true)
			err = task.Complete(ctx, n)
		}
		// The exceeded deadline is the end of the lease, which lapses on a busy machine.
		isOver := errors.Is(err, runtime.ErrLeaseLost) || errors.Is(err, runtime.ErrCancelled) ||
			errors.Is(err, context.DeadlineExceeded)
		if err != nil && !isOver && ctx.Err() == nil {
			f.t.Errorf("the holding program: %v", err)
		}
	}
}

// kill lets a process claim nodes that it does not finish, and kills it.
func (f *fleet) kill() {
	dying := startChild(f.t, f.bench.URL, f.bench.Prefix, "")
	run, err := runtime.Start(f.ctx, f.bench.Client, f.flows["held"], -1)
	require.NoError(f.t, err)
	f.runs = append(f.runs, fleetRun{run: run, want: -1})
	time.Sleep(300 * time.Millisecond) //nolint:forbidigo // it may or may not have claimed some
	dying.kill(f.t)
	f.kills++
}

// finish answers the waits, and checks how the runs ended.
func (f *fleet) finish() {
	for _, x := range f.runs {
		var result int
		var err error
		over := make(chan struct{})
		go func() {
			defer close(over)
			result, err = x.run.Result(f.ctx)
		}()
		f.answer(x.run, over)
		switch {
		case err == nil:
			require.Equal(f.t, x.want, result, "%s %s", x.run.FlowName(), x.run.ID())
		case errors.Is(err, runtime.ErrRunCancelled) && x.mayCancel:
			f.cancelled++
		default:
			f.t.Errorf("run %s of flow %s: %v", x.run.ID(), x.run.FlowName(), err)
		}
	}
}

// answer sends the signal that a run waits for, by one of the programs, until the run is over.
func (f *fleet) answer(run *runtime.Run[int], over <-chan struct{}) {
	name := run.FlowName()
	for {
		select {
		case <-over:
			return
		case <-time.After(20 * time.Millisecond):
		}
		if name != "asking" && name != "gated" {
			continue
		}
		waits, err := run.Waitpoints(f.ctx)
		require.NoError(f.t, err)
		for _, w := range waits {
			if w.State != fabrictype.WaitOpen {
				continue
			}
			if rand.IntN(2) == 0 {
				f.answerRaw(w)
				continue
			}
			_, err := f.bench.Client.Signal(f.ctx, w.Token, runtime.Signal{Name: "yes", Payload: 7, IdempotencyKey: "one"})
			require.NoError(f.t, err)
		}
	}
}

// answerRaw sends the signal as another program does: with the data that it reads of the waitpoint.
func (f *fleet) answerRaw(w runtime.Waitpoint) {
	points, err := f.operator.Waitpoints(f.ctx, enginecore.ExecutionID(w.ExecutionID))
	require.NoError(f.t, err)
	for _, point := range points {
		_, err := f.operator.DeliverSignal(f.ctx, admin.Signal{
			Execution: enginecore.ExecutionID(w.ExecutionID), Waitpoint: point.ID, Token: point.Token, Name: "yes", Payload: []byte("7"),
			IdempotencyKey: "one",
		})
		var refusal *enginecore.Error
		require.True(f.t, err == nil || errors.As(err, &refusal), "%v", err) // the run may have been cancelled
	}
}

// checkUsage compares the usage of the budget with the reports.
func (f *fleet) checkUsage() {
	budget, err := f.operator.Budget(f.ctx, f.budget)
	require.NoError(f.t, err)
	var reports int64
	for range f.reported.Range {
		reports++
	}
	require.Equal(f.t, reports, budget.Usage["calls"])
}

// vendor is a program of another vendor: a client and a worker that only call ff_* functions.
type vendor struct {
	*fleet
	instance enginecore.WorkerInstanceID

	mu   sync.Mutex
	mine []enginecore.ExecutionID // created by it, all to succeed
}

func newVendor(f *fleet) *vendor {
	return &vendor{fleet: f, instance: enginecore.WorkerInstanceID("vendor-" + uuid.NewString())}
}

// start creates a flow of two executions call by call: one for our workers, then one of another kind.
func (v *vendor) start(i int) {
	if i%3 != 0 {
		return
	}
	first, second := "add", "vendor"
	if i%2 == 0 {
		first, second = second, first
	}
	id, _, err := v.operator.CreateFlow(v.ctx, admin.FlowSpec{Kind: "vendor's"})
	require.NoError(v.t, err)
	var members []enginecore.ExecutionID
	for i, kind := range []string{first, second} {
		spec := admin.ExecutionSpec{Flow: id, Kind: kind, Lane: enginetest.ProgramLane, Payload: []byte("1")}
		if i > 0 {
			spec.DelayUntil = time.Now().Add(300 * time.Millisecond) // its edge is there before
		}
		x, _, err := v.operator.CreateExecution(v.ctx, spec)
		require.NoError(v.t, err)
		_, _, err = v.operator.AddExecution(v.ctx, id, x)
		require.NoError(v.t, err)
		members = append(members, x)
	}
	info, err := v.operator.Flow(v.ctx, id)
	require.NoError(v.t, err)
	edge := admin.Edge{Flow: id, Upstream: members[0], Downstream: members[1], Input: "value"}
	var revision int64
	edge.ID, revision, err = v.operator.StageEdge(v.ctx, edge, info.Revision)
	require.NoError(v.t, err)
	_, _, err = v.operator.ApplyEdge(v.ctx, edge, revision)
	require.NoError(v.t, err)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.mine = append(v.mine, members...)
}

// run claims executions of the vendor's kind, in all partitions: it completes most, some after a wait for a signal,
// and loses some.
func (v *vendor) run(ctx context.Context) error {
	client, keys := v.core.Client(), v.core.Keys()
	for ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond) //nolint:forbidigo // its poll interval
		for i := range v.core.Partitioning().Flow {
			p := keyspace.Partition{Family: keyspace.FlowFamily, Index: uint16(i)}
			for _, index := range []string{keys.LaneEligible(p, enginetest.ProgramLane), keys.IndexLeaseExpiry(p)} {
				ids, err := client.Do(ctx, client.B().Zrange().Key(index).Min("0").Max("31").Build()).AsStrSlice()
				if err != nil {
					continue
				}
				for _, id := range ids {
					v.work(ctx, enginecore.ExecutionID(id))
				}
			}
		}
	}
	return nil
}

// vendorFields are the fields of an execution that the vendor reads.
var vendorFields = []string{
	"execution_kind", "lifecycle_phase", "ownership_state", "attempt_state", "total_attempt_count", "current_attempt_index",
}

// work is one execution of the vendor's worker.
func (v *vendor) work(ctx context.Context, id enginecore.ExecutionID) {
	client := v.core.Client()
	core := hashrecord.Read(client.Do(ctx, client.B().Hmget().Key(v.core.Keys().ExecCore(id)).Field(vendorFields...).Build()),
		vendorFields)
	if core["execution_kind"] != "vendor" {
		return
	}
	lease, ok := v.claim(ctx, id, core)
	if !ok {
		return
	}
	if lease.AttemptIndex == 0 && core["attempt_state"] != "attempt_interrupted" {
		switch rand.IntN(6) {
		case 0:
			return // it crashes, and its lease runs out
		case 1:
			v.suspend(ctx, id, lease)
			return
		}
	}
	v.done("ff_report_usage_and_check", v.report(ctx, id))
	_, err := v.core.CompleteExecution(ctx, enginerpc.CompleteExecutionCall{
		AttemptIndex: lease.AttemptIndex, WorkerInstanceID: v.instance, LaneID: enginetest.ProgramLane, ExecutionID: id,
		LeaseID: lease.LeaseID, LeaseEpoch: lease.LeaseEpoch, AttemptID: lease.AttemptID,
		ResultPayload: []byte(strconv.Itoa(vendorResult)),
	})
	v.done("ff_complete_execution", err)
}

// claim leases an execution: a fresh one, one that continues after a wait, or one whose lease ran out.
func (v *vendor) claim(
	ctx context.Context, id enginecore.ExecutionID, core hashrecord.Record,
) (reply enginerpc.ClaimExecutionReply, ok bool) {
	grant := enginerpc.Grant{
		ExecutionID: id, WorkerID: "vendor", WorkerInstanceID: v.instance, LaneID: enginetest.ProgramLane, GrantTTL: time.Second,
	}
	lease, attempt := enginecore.LeaseID(uuid.NewString()), keyspace.AttemptID(uuid.NewString())
	current, next := enginecore.AttemptIndex(core.Int("current_attempt_index")), enginecore.AttemptIndex(core.Int("total_attempt_count"))
	if core["lifecycle_phase"] == "active" {
		if !core.IsReclaimable() {
			return reply, false
		}
		if _, err := v.core.IssueReclaimGrant(ctx, enginerpc.IssueReclaimGrantCall{Grant: grant}); !v.done("ff_issue_reclaim_grant", err) {
			return reply, false
		}
		taken, err := v.core.ReclaimExecution(ctx, enginerpc.ReclaimExecutionCall{
			OldAttemptIndex: current, AttemptIndex: next, ExecutionID: id, WorkerID: "vendor", WorkerInstanceID: v.instance,
			LaneID: enginetest.ProgramLane, LeaseID: lease, LeaseTTL: killedLease, AttemptID: attempt,
		})
		return enginerpc.ClaimExecutionReply(taken), v.done("ff_reclaim_execution", err)
	}
	if _, err := v.core.IssueClaimGrant(ctx, enginerpc.IssueClaimGrantCall{Grant: grant}); !v.done("ff_issue_claim_grant", err) {
		return reply, false
	}
	if core["attempt_state"] == "attempt_interrupted" {
		resumed, err := v.core.ClaimResumedExecution(ctx, enginerpc.ClaimResumedExecutionCall{
			AttemptIndex: current, ExecutionID: id, WorkerID: "vendor", WorkerInstanceID: v.instance,
			LaneID: enginetest.ProgramLane, LeaseID: lease, LeaseTTL: killedLease,
		})
		return enginerpc.ClaimExecutionReply(resumed), v.done("ff_claim_resumed_execution", err)
	}
	reply, err := v.core.ClaimExecution(ctx, enginerpc.ClaimExecutionCall{
		AttemptIndex: next, ExecutionID: id, WorkerID: "vendor", WorkerInstanceID: v.instance, LaneID: enginetest.ProgramLane,
		LeaseID: lease, LeaseTTL: killedLease, RenewBefore: killedLease * 2 / 3, AttemptID: attempt,
	})
	return reply, v.done("ff_claim_execution", err)
}

// suspend lets an execution wait for a signal, which the vendor's client then delivers.
func (v *vendor) suspend(ctx context.Context, id enginecore.ExecutionID, lease enginerpc.ClaimExecutionReply) {
	wait, err := v.core.SuspendExecution(ctx, enginerpc.SuspendExecutionCall{
		ExecutionID: id, WorkerInstanceID: v.instance, LaneID: enginetest.ProgramLane, AttemptIndex: lease.AttemptIndex,
		AttemptID: lease.AttemptID, LeaseID: lease.LeaseID, LeaseEpoch: lease.LeaseEpoch,
		SuspensionID: keyspace.SuspensionID(uuid.NewString()), WaitpointID: enginecore.WaitpointID(uuid.NewString()),
		WaitpointKey: "vendor", ReasonCode: "waiting_for_signal", RequestedBy: "worker", ResumePolicyJSON: []byte("{}"),
		ResumeConditionJSON: []byte(`{"condition_type":"signal_set","required_signal_names":["go"]}`),
	})
	if !v.done("ff_suspend_execution", err) {
		return
	}
	_, err = v.operator.DeliverSignal(ctx, admin.Signal{
		Execution: id, Waitpoint: wait.WaitpointID, Token: wait.WaitpointToken, Name: "go",
	})
	v.done("ff_deliver_signal", err)
}

// report counts one use of the budget that all programs share.
func (v *vendor) report(ctx context.Context, id enginecore.ExecutionID) error {
	reply, err := v.operator.ReportUsage(ctx, v.budget, map[string]int64{"calls": 1}, "vendor-"+string(id[strings.IndexByte(string(id), '}')+2:]))
	if err == nil && (reply.Applied || reply.Repeated) {
		v.reported.Store(id, true)
	}
	return err
}

// done reports whether a call took effect. Refusals are fine: the state may have changed since it was read.
func (v *vendor) done(function string, err error) bool {
	var refusal *enginecore.Error
	if err != nil && !errors.As(err, &refusal) && !errors.Is(err, context.Canceled) && !errors.Is(err, enginecore.ErrClosed) {
		v.t.Errorf("%s: %v", function, err)
	}
	return err == nil
}

// finish waits until everything that the vendor has created has succeeded.
func (v *vendor) finish() {
	for _, id := range v.mine {
		enginetest.Eventually(v.t, func() string {
			e, err := v.operator.Execution(v.ctx, id)
			require.NoError(v.t, err)
			if e.State != fabrictype.NodeSucceeded {
				text, _ := json.Marshal(e)
				return fmt.Sprintf("it is %s: %s", e.State, text)
			}
			return ""
		})
	}
}
