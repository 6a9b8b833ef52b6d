package propertytest

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
)

// interfere interferes with a run as its trial defines.
func (c *workerPool) interfere(t testing.TB, ctx context.Context, r *rand.Rand, x *trial) {
	switch x.meddling {
	case cancelledByClient:
		time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond) //nolint:forbidigo // a random moment of the run
		if err := x.run.Cancel(ctx, "the test says so"); err != nil && !errors.Is(err, engine.ErrRunOver) {
			t.Errorf("cancel: %v", err)
		}
	case cancelledByOthers:
		time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond) //nolint:forbidigo // a random moment of the run
		_, err := engine.ConnOf(c.bench.Engine.Internal()).ContractCancelFlow(ctx, enginerpc.ContractCancelFlowCall{
			Partition: x.plan.Partition, FlowID: x.plan.FlowID, Reason: "others say so", CancellationPolicy: "cancel_all",
			Grace: time.Duration(1+r.IntN(20)) * time.Millisecond,
		})
		if err != nil && !errors.Is(err, enginecore.ErrFlowAlreadyTerminal) {
			t.Errorf("ff_cancel_flow: %v", err)
		}
	case operated:
		o := &operator{t: t, ctx: ctx, r: r, workerPool: c, trial: x, core: engine.ConnOf(c.bench.Engine.Internal())}
		for range 30 + r.IntN(60) {
			time.Sleep(time.Duration(r.IntN(2000)) * time.Microsecond) //nolint:forbidigo // a random moment of the run
			o.operate()
		}
		o.clear()
	}
}

// operator uses the contract's own calls on the members of a managed flow.
type operator struct {
	t          testing.TB
	ctx        context.Context
	r          *rand.Rand
	workerPool *workerPool
	trial      *trial
	core       *enginerpc.Conn
}

// member has the fields of an execution that the calls need.
type member struct {
	node    string
	id      enginecore.ExecutionID
	lane    enginecore.LaneID
	worker  enginecore.WorkerInstanceID
	attempt enginecore.AttemptIndex
	phase   string
	fields  map[string]string
}

func (o *operator) read(node string) member {
	id := o.trial.plan.ExecutionID(node)
	fields, err := fixture.NodeFields(o.ctx, o.core, id, "current_attempt_index", "current_worker_instance_id", "lane_id",
		"lifecycle_phase", "eligibility_state", "terminal_outcome", "total_attempt_count")
	if err != nil {
		o.t.Errorf("read core: %v", err)
	}
	index, _ := strconv.Atoi(fields["current_attempt_index"])
	if fields["current_worker_instance_id"] == "" {
		fields["current_worker_instance_id"] = "nobody"
	}
	return member{
		node: node, id: id, lane: enginecore.LaneID(fields["lane_id"]), attempt: enginecore.AttemptIndex(index), fields: fields,
		worker: enginecore.WorkerInstanceID(fields["current_worker_instance_id"]), phase: fields["lifecycle_phase"],
	}
}

// refusals are fine: the state may have changed since it was read. So is a reply that was lost. Anything else is a
// fault.
func (o *operator) done(function string, err error) bool {
	var refusal *enginecore.Error
	if err != nil && !errors.As(err, &refusal) && !errors.Is(err, enginecore.ErrOutcomeUnknown) {
		o.t.Errorf("%s: %v", function, err)
	}
	if err == nil {
		o.workerPool.lab.tally(function)
	} else if refusal != nil {
		o.workerPool.lab.tally(function + ": " + string(refusal.Code))
	}
	return err == nil
}

// operate picks a member, such as has not ended if possible, and does something with it.
func (o *operator) operate() {
	var m member
	for range 8 {
		m = o.read(o.trial.sketch.nodes[o.r.IntN(len(o.trial.sketch.nodes))].name)
		if m.phase != "terminal" && m.fields["eligibility_state"] != "blocked_by_dependencies" {
			break
		}
	}
	switch o.r.IntN(15) {
	case 0:
		o.end(m)
	case 1:
		_, err := o.core.PromoteDelayed(o.ctx, enginerpc.PromoteDelayedCall{LaneID: m.lane, ExecutionID: m.id, Now: time.Now().Add(time.Hour)})
		o.done("ff_promote_delayed", err)
	case 2:
		_, err := o.core.ChangePriority(o.ctx, enginerpc.ChangePriorityCall{LaneID: m.lane, ExecutionID: m.id, NewPriority: o.r.Int64N(9001)})
		o.done("ff_change_priority", err)
	case 3:
		_, err := o.core.DelayExecution(o.ctx, enginerpc.DelayExecutionCall{
			AttemptIndex: m.attempt, WorkerInstanceID: m.worker, LaneID: m.lane, ExecutionID: m.id, Source: fixture.Override,
			DelayUntil: time.Now().Add(time.Duration(o.r.IntN(20)) * time.Millisecond),
		})
		o.done("ff_delay_execution", err)
	case 4:
		_, err := o.core.RevokeLease(o.ctx, enginerpc.RevokeLeaseCall{WorkerInstanceID: m.worker, ExecutionID: m.id, RevokeReason: "the test says so"})
		o.done("ff_revoke_lease", err)
	case 5:
		_, err := o.core.MarkLeaseExpiredIfDue(o.ctx, enginerpc.MarkLeaseExpiredIfDueCall{ExecutionID: m.id})
		o.done("ff_mark_lease_expired_if_due", err)
	case 6:
		_, err := o.core.BlockExecutionForAdmission(o.ctx, enginerpc.BlockExecutionForAdmissionCall{
			LaneID: m.lane, ExecutionID: m.id, BlockingReason: "waiting_for_budget", BlockingDetail: "the test says so",
		})
		o.done("ff_block_execution_for_admission", err)
	case 7:
		o.unblock(m)
	case 8:
		o.resolveAgain(m)
	case 9:
		o.replay()
	default:
		o.work(m)
	}
}

// clear unblocks the executions that the operator has blocked, so that the run can end.
func (o *operator) clear() {
	for i := range o.trial.sketch.nodes {
		if m := o.read(o.trial.sketch.nodes[i].name); m.fields["eligibility_state"] == "blocked_by_budget" {
			o.unblock(m)
		}
	}
}

func (o *operator) unblock(m member) {
	_, err := o.core.UnblockExecution(o.ctx, enginerpc.UnblockExecutionCall{
		LaneID: m.lane, ExecutionID: m.id, ExpectedBlockingReason: "waiting_for_budget",
	})
	o.done("ff_unblock_execution", err)
}

// end ends a member from outside.
func (o *operator) end(m member) {
	// The call is noted first: it may end the member although its reply is an error.
	switch o.r.IntN(4) {
	case 0:
		_, err := o.core.CancelExecution(o.ctx, enginerpc.CancelExecutionCall{
			AttemptIndex: m.attempt, WorkerInstanceID: m.worker, LaneID: m.lane, ExecutionID: m.id, Reason: "operator", Source: fixture.Override,
			WaitpointID: enginecore.WaitpointID(uuid.NewString()),
		})
		o.touch(m, o.done("ff_cancel_execution", err))
	case 1:
		_, err := o.core.FailExecution(o.ctx, enginerpc.FailExecutionCall{
			AttemptIndex: m.attempt, WorkerInstanceID: m.worker, LaneID: m.lane, ExecutionID: m.id, FailureReason: "operator",
			FailureCategory: "operator", Source: fixture.Override,
		})
		o.touch(m, o.done("ff_fail_execution", err))
	case 2:
		_, err := o.core.CompleteExecution(o.ctx, enginerpc.CompleteExecutionCall{
			AttemptIndex: m.attempt, WorkerInstanceID: m.worker, LaneID: m.lane, ExecutionID: m.id, ResultPayload: []byte(`"operator"`),
			Source: fixture.Override,
		})
		o.touch(m, o.done("ff_complete_execution", err))
	case 3:
		_, err := o.core.ExpireExecution(o.ctx, enginerpc.ExpireExecutionCall{
			AttemptIndex: m.attempt, WorkerInstanceID: m.worker, LaneID: m.lane, ExecutionID: m.id, ExpireReason: "operator",
		})
		o.touch(m, o.done("ff_expire_execution", err))
	}
}

func (o *operator) touch(m member, done bool) {
	if done {
		o.trial.touched[m.node] = true
	}
}

// resolveAgain reports the outcome of an ended upstream to a member once more.
func (o *operator) resolveAgain(m member) {
	i, _ := strconv.Atoi(m.node[1:])
	n := &o.trial.sketch.nodes[i]
	for _, up := range n.upstreams() {
		u := o.read(nodeName(up))
		if u.phase != "terminal" {
			continue
		}
		_, err := o.core.ResolveDependency(o.ctx, enginerpc.ResolveDependencyCall{
			DownstreamExecutionID: m.id, LaneID: m.lane, AttemptIndex: m.attempt, UpstreamExecutionID: u.id,
			EdgeID:          keyspace.EdgeIDFor(o.trial.plan.FlowID, nodeName(up), m.node),
			UpstreamOutcome: u.fields["terminal_outcome"],
		})
		o.done("ff_resolve_dependency", err)
		return
	}
}

// replay runs a member again that has not succeeded although its upstreams have. To replay a skipped one before those
// would leave it waiting for ever.
func (o *operator) replay() {
	n := &o.trial.sketch.nodes[o.r.IntN(len(o.trial.sketch.nodes))]
	m := o.read(n.name)
	if m.phase != "terminal" || m.fields["terminal_outcome"] == "success" {
		return
	}
	for _, up := range n.upstreams() {
		if o.read(nodeName(up)).fields["terminal_outcome"] != "success" {
			return
		}
	}
	_, err := o.core.ReplayExecution(o.ctx, enginerpc.ReplayExecutionCall{LaneID: m.lane, ExecutionID: m.id})
	if o.done("ff_replay_execution", err) {
		o.trial.replayed = true
	}
}

// work acts as a worker that has the contract's calls only: grant, claim, then complete or fail.
func (o *operator) work(m member) {
	const worker = "contract"
	instance := enginecore.WorkerInstanceID("contract-" + uuid.NewString())
	_, err := o.core.IssueClaimGrant(o.ctx, enginerpc.IssueClaimGrantCall{Grant: enginerpc.Grant{
		ExecutionID: m.id, WorkerID: worker, WorkerInstanceID: instance, LaneID: m.lane, GrantTTL: time.Minute,
	}})
	if !o.done("ff_issue_claim_grant", err) {
		return
	}
	lease := enginecore.LeaseID(uuid.NewString())
	epoch, attemptID, index, ok := o.claim(m, worker, instance, lease)
	if !ok {
		return
	}
	i, _ := strconv.Atoi(m.node[1:])
	n := &o.trial.sketch.nodes[i]
	inputs := make([]string, len(n.data))
	for k, up := range n.data {
		result, err := fixture.ResultOf(o.ctx, o.workerPool.bench, o.trial.plan.ExecutionID(nodeName(up)))
		if err != nil || json.Unmarshal(result, &inputs[k]) != nil {
			o.t.Errorf("node %s started, but its upstream %s has no result: %v", m.node, nodeName(up), err)
		}
	}
	c, do, _ := o.workerPool.lab.begin(o.ctx, o.trial.run.ID(), m.node, int(index)+1, inputs)
	defer o.workerPool.lab.end(c)
	if do == succeed || do == slowly {
		result, _ := json.Marshal(c.result)
		_, err = o.core.CompleteExecution(o.ctx, enginerpc.CompleteExecutionCall{
			AttemptIndex: index, WorkerInstanceID: instance, LaneID: m.lane, ExecutionID: m.id, LeaseID: lease, LeaseEpoch: epoch,
			AttemptID: attemptID, ResultPayload: result,
		})
		o.done("ff_complete_execution", err)
		return
	}
	call := enginerpc.FailExecutionCall{
		AttemptIndex: index, WorkerInstanceID: instance, LaneID: m.lane, ExecutionID: m.id, LeaseID: lease, LeaseEpoch: epoch,
		AttemptID: attemptID, FailureReason: "scripted", FailureCategory: "error",
	}
	if do != failForAll {
		call.RetryPolicyJSON, _ = json.Marshal(map[string]any{
			"max_retries": n.script.attempts - 1, "backoff": map[string]any{"type": "fixed", "delay_ms": 1},
		})
	}
	_, err = o.core.FailExecution(o.ctx, call)
	o.done("ff_fail_execution", err)
}

func (o *operator) claim(m member, worker enginecore.WorkerID, instance enginecore.WorkerInstanceID, lease enginecore.LeaseID) (enginecore.LeaseEpoch, keyspace.AttemptID, enginecore.AttemptIndex, bool) {
	total, _ := strconv.Atoi(m.fields["total_attempt_count"])
	reply, err := o.core.ClaimExecution(o.ctx, enginerpc.ClaimExecutionCall{
		AttemptIndex: enginecore.AttemptIndex(total), ExecutionID: m.id, WorkerID: worker, WorkerInstanceID: instance, LaneID: m.lane,
		LeaseID: lease, LeaseTTL: 500 * time.Millisecond, RenewBefore: 300 * time.Millisecond,
		AttemptID: keyspace.AttemptID(uuid.NewString()),
	})
	if o.done("ff_claim_execution", err) {
		return reply.LeaseEpoch, reply.AttemptID, reply.AttemptIndex, true
	}
	if !errors.Is(err, errorcode.UseClaimResumedExecution) {
		return 0, "", 0, false
	}
	resumed, err := o.core.ClaimResumedExecution(o.ctx, enginerpc.ClaimResumedExecutionCall{
		AttemptIndex: m.attempt, ExecutionID: m.id, WorkerID: worker, WorkerInstanceID: instance, LaneID: m.lane, LeaseID: lease,
		LeaseTTL: 500 * time.Millisecond,
	})
	if !o.done("ff_claim_resumed_execution", err) {
		return 0, "", 0, false
	}
	return resumed.LeaseEpoch, resumed.AttemptID, resumed.AttemptIndex, true
}
