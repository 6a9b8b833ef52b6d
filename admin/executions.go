package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/payload"
	"github.com/flowfabric/flowfabric-go/internal/recordstate"
)

// ExecutionSpec describes an execution for CreateExecution.
type ExecutionSpec struct {
	// ID is the id of the execution. Defaults to a random one, in the partition of Flow or, without Flow, in the
	// partition of the lane.
	ID enginecore.ExecutionID
	// Flow places an execution without an ID in the partition of this flow, so that AddExecution can make it a member.
	Flow enginecore.FlowID
	// Namespace defaults to "default".
	Namespace string
	// Lane defaults to "default".
	Lane enginecore.LaneID
	// Kind is the activity that workers run. It must be set.
	Kind string
	// Payload is the input that the worker receives.
	Payload []byte
	// Priority is 0 to 9000; executions with higher priorities start earlier.
	Priority int
	// Creator is recorded as the creator. Defaults to "admin".
	Creator string
	// IdempotencyKey makes calls with the same key, namespace and partition return the same execution for
	// IdempotencyTTL, which defaults to 24 hours. It requires a namespace without ':'.
	IdempotencyKey string
	IdempotencyTTL time.Duration
	// Tags have keys such as "team.name".
	Tags map[string]string
	// Policy is the policy of the execution in JSON; empty means none. It has, among others, the capabilities that a
	// worker must offer.
	Policy json.RawMessage
	// DelayUntil is the earliest start; zero means at once.
	DelayUntil time.Time
	// DeadlineAt is when the execution expires; zero means never.
	DeadlineAt time.Time
}

const defaultIdempotencyTTL = 24 * time.Hour

// maxPriority is the highest priority that counts.
const maxPriority = 9000

func (c *Client) prepare(n *ExecutionSpec) error {
	var faults []error
	if n.Kind == "" {
		faults = append(faults, fault("kind", "must not be empty"))
	}
	if n.Namespace == "" {
		n.Namespace = "default"
	}
	if n.Creator == "" {
		n.Creator = "admin"
	}
	if n.Lane == "" {
		n.Lane = "default"
	}
	if _, err := keyspace.ParseLaneID(string(n.Lane)); err != nil {
		faults = append(faults, fault("lane", "%v", err))
	}
	if n.Priority < 0 || n.Priority > maxPriority {
		faults = append(faults, fault("priority", "%d is not between 0 and %d", n.Priority, maxPriority))
	}
	if len(n.Policy) > 0 && !json.Valid(n.Policy) {
		faults = append(faults, fault("policy", "is not JSON"))
	}
	for key, value := range n.Tags {
		if err := checkTag(key, value); err != nil {
			faults = append(faults, err)
		}
	}
	// The key under which the engine finds the execution again joins the two by a colon.
	if n.IdempotencyKey != "" && strings.Contains(string(n.Namespace), ":") {
		faults = append(faults, fault("namespace",
			"%.80q has a colon, so an idempotency key in it could be one of another namespace", n.Namespace))
	}
	if n.IdempotencyTTL < 0 {
		faults = append(faults, fault("idempotency TTL", "%s is negative", n.IdempotencyTTL))
	}
	if n.IdempotencyKey != "" && n.IdempotencyTTL == 0 {
		n.IdempotencyTTL = defaultIdempotencyTTL
	}
	if err := c.chooseID(n); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

func (c *Client) chooseID(n *ExecutionSpec) error {
	if n.ID != "" {
		return c.checkID(n.ID)
	}
	p := c.core.Partitioning().LanePartition(n.Lane)
	if n.Flow != "" {
		var err error
		if p, err = c.flowPartition(n.Flow); err != nil {
			return err
		}
	}
	n.ID = keyspace.NewExecutionID(p)
	return nil
}

// CreateExecution creates an execution, in one atomic step. It returns the id and whether the execution existed,
// because one has that ID or the same idempotency key. Repeating the call creates nothing more.
//
// The error wraps ErrInvalid for invalid arguments, and enginecore.ErrInvalidPolicyJSON or
// enginecore.ErrInvalidCapabilities for an invalid policy.
func (c *Client) CreateExecution(
	ctx context.Context, n ExecutionSpec,
) (id enginecore.ExecutionID, existed bool, err error) {
	if err := c.prepare(&n); err != nil {
		return "", false, err
	}
	p, err := keyspace.PartitionOf(n.ID)
	if err != nil {
		return "", false, err
	}
	call := enginerpc.CreateExecutionCall{
		IdempotencyKey: n.IdempotencyKey, ExecutionID: n.ID, Namespace: n.Namespace, LaneID: n.Lane,
		ExecutionKind: n.Kind,
		Priority:      int64(n.Priority), CreatorIdentity: n.Creator, PolicyJSON: n.Policy, InputPayload: n.Payload,
		DelayUntil: n.DelayUntil, ExecutionDeadlineAt: n.DeadlineAt, PartitionID: p.Tag(),
	}
	if n.IdempotencyKey != "" {
		call.DedupTTL = n.IdempotencyTTL
	}
	if len(n.Tags) > 0 {
		call.TagsJSON, _ = json.Marshal(n.Tags) // a map of strings always has a JSON form
	}
	var reply enginerpc.CreateExecutionReply
	if n.DelayUntil.IsZero() {
		reply, err = c.core.CreateExecution(ctx, call)
	} else {
		reply, err = enginerpc.Do(ctx, c.core, enginerpc.CreateDelayedCall{CreateExecutionCall: call})
	}
	if err != nil {
		return "", false, of(err, "create", "execution", string(n.ID))
	}
	return reply.ExecutionID, reply.Status == enginerpc.StatusDuplicate, nil
}

// Execution is the record of an execution.
type Execution struct {
	ID        enginecore.ExecutionID
	Namespace string
	Lane      enginecore.LaneID
	Kind      string
	Creator   string
	Priority  int
	// Flow is the flow of which the execution is a member; empty if none.
	Flow enginecore.FlowID
	// Node is the node of the flow that it is. FlowName and Run are the name of the flow and the id of the run;
	// listings do not set them. All are empty in a flow that was not started by package runtime.
	Node, FlowName, Run string
	// State is the public state. The engine derives it from the fields Phase to Attempt.
	State fabrictype.NodeState
	// Phase is runnable, active, suspended or terminal.
	Phase string
	// Ownership is unowned, leased, lease_expired_reclaimable or lease_revoked.
	Ownership string
	// Eligibility is eligible_now, or the reason why a runnable execution cannot be claimed, such as
	// blocked_by_dependencies; not_applicable in other phases.
	Eligibility string
	// Blocking is the reason why the execution does not run, such as waiting_for_worker; otherwise none.
	Blocking string
	// Outcome is success, failed, cancelled, expired or skipped; none before the end.
	Outcome string
	// Attempt is the state of the latest attempt, such as running_attempt; none before the first.
	Attempt string
	// BlockingDetail describes in English why the execution waits.
	BlockingDetail string
	// AttemptIndex is the index of the current or last attempt, counted from 0. Attempts counts the attempts that were
	// started, Retries those after a failure, Reclaims those after the loss of a worker, and Replays the resets after
	// an end.
	AttemptIndex                         enginecore.AttemptIndex
	Attempts, Retries, Reclaims, Replays int
	// Worker, Lease and LeaseEpoch identify the lease; LeaseExpiresAt is zero without one.
	Worker         enginecore.WorkerInstanceID
	Lease          enginecore.LeaseID
	LeaseEpoch     enginecore.LeaseEpoch
	LeaseExpiresAt time.Time
	// FailureReason, CancellationReason and CancelledBy describe why the execution ended; empty otherwise.
	FailureReason, CancellationReason, CancelledBy string
	// CreatedAt, StartedAt, CompletedAt and DelayUntil are zero when they do not apply.
	CreatedAt, StartedAt, CompletedAt, DelayUntil time.Time
	// Tags are the tags of the execution. Listings set them only with WithTags.
	Tags map[string]string
}

var executionFields = []string{
	"namespace", "lane_id", "execution_kind", "creator_identity", "priority", "flow_id", "node", "public_state",
	"lifecycle_phase",
	"ownership_state", "eligibility_state", "blocking_reason", "terminal_outcome", "attempt_state", "blocking_detail",
	"current_attempt_index", "total_attempt_count", "retry_count", "lease_reclaim_count", "replay_count",
	"current_worker_instance_id", "current_lease_id", "current_lease_epoch", "lease_expires_at", "failure_reason",
	"cancellation_reason", "cancelled_by", "created_at", "started_at", "completed_at", "delay_until",
}

func executionOf(id enginecore.ExecutionID, r hashrecord.Record) Execution {
	return Execution{
		ID: id, Namespace: r["namespace"], Lane: r.Lane(), Kind: r["execution_kind"], Creator: r["creator_identity"],
		Priority: int(r.Int("priority")), Flow: enginecore.FlowID(r["flow_id"]), Node: r["node"],
		State:          fabrictype.NodeState(r["public_state"]),
		Phase:          r["lifecycle_phase"],
		Ownership:      r["ownership_state"],
		Eligibility:    r["eligibility_state"],
		Blocking:       r["blocking_reason"],
		Outcome:        r["terminal_outcome"],
		Attempt:        r["attempt_state"],
		BlockingDetail: r["blocking_detail"], AttemptIndex: enginecore.AttemptIndex(r.Int("current_attempt_index")),
		Attempts: int(r.Int("total_attempt_count")), Retries: int(r.Int("retry_count")),
		Reclaims: int(r.Int("lease_reclaim_count")), Replays: int(r.Int("replay_count")),
		Worker:     enginecore.WorkerInstanceID(r["current_worker_instance_id"]),
		Lease:      enginecore.LeaseID(r["current_lease_id"]),
		LeaseEpoch: enginecore.LeaseEpoch(r.Int("current_lease_epoch")), LeaseExpiresAt: r.Time("lease_expires_at"),
		FailureReason: r["failure_reason"], CancellationReason: r["cancellation_reason"],
		CancelledBy: r["cancelled_by"],
		CreatedAt:   r.Time("created_at"), StartedAt: r.Time("started_at"), CompletedAt: r.Time("completed_at"),
		DelayUntil: r.Time("delay_until"),
	}
}

// Execution returns an execution with its tags. The record is of one moment; the tags and the name of its run are read
// separately. The error wraps enginecore.ErrExecutionNotFound.
func (c *Client) Execution(ctx context.Context, id enginecore.ExecutionID) (Execution, error) {
	if err := c.checkID(id); err != nil {
		return Execution{}, err
	}
	e, err := c.readExecution(ctx, id)
	if err != nil || e.Flow == "" {
		return e, err
	}
	found, err := c.core.FlowFields(ctx, []enginecore.FlowID{e.Flow}, []string{"flow_kind", "run_id"})
	if err != nil {
		return Execution{}, of(err, "get", "execution", string(id))
	}
	r := found[e.Flow]
	if r["run_id"] != "" { // a flow of another program has a kind as well
		e.FlowName, e.Run = r["flow_kind"], r["run_id"]
	}
	return e, nil
}

func (c *Client) readExecution(ctx context.Context, id enginecore.ExecutionID) (Execution, error) {
	nodes, err := c.readNodes(ctx, []string{string(id)}, executionFields)
	if err != nil {
		return Execution{}, of(err, "get", "execution", string(id))
	}
	if n, found := nodes[string(id)]; found {
		e := executionOf(id, n.fields)
		e.Tags = n.tags
		return e, nil
	}
	results, err := c.read(ctx, c.hmget(c.keys.ExecCore(id), executionFields),
		c.client.B().Hgetall().Key(c.keys.ExecTags(id)).Build())
	if err != nil {
		return Execution{}, of(err, "get", "execution", string(id))
	}
	r := hashrecord.Read(results[0], executionFields)
	if r == nil {
		return Execution{}, of(enginecore.ErrExecutionNotFound, "get", "execution", string(id))
	}
	e := executionOf(id, r)
	e.Tags = tagsOf(results[1])
	return e, nil
}

// tagsOf reads the answer to HGETALL; nil when there are none.
func tagsOf(result rueidis.RedisResult) map[string]string {
	tags, err := result.AsStrMap()
	if err != nil || len(tags) == 0 {
		return nil
	}
	return tags
}

// ExecutionState returns the public state of an execution by reading one field. The error wraps
// enginecore.ErrExecutionNotFound.
func (c *Client) ExecutionState(ctx context.Context, id enginecore.ExecutionID) (fabrictype.NodeState, error) {
	r, err := c.coreOf(ctx, id, "public_state")
	return fabrictype.NodeState(r["public_state"]), of(err, "state of", "execution", string(id))
}

// ExecutionResult returns the stored result of an execution, and whether there is one. An execution that has not
// succeeded or does not exist has none.
func (c *Client) ExecutionResult(
	ctx context.Context, id enginecore.ExecutionID,
) (result []byte, found bool, err error) {
	if isNode(id) {
		result, found, err = c.nodeResult(ctx, id)
	}
	if !found && err == nil {
		result, found, err = c.bytes(ctx, id, c.keys.ExecResult(id))
	}
	if err == nil {
		result, err = c.core.Opened(payload.Result, string(id), result)
	}
	return result, found, of(err, "result of", "execution", string(id))
}

// ExecutionPayload returns the payload of an execution, and whether it has one.
func (c *Client) ExecutionPayload(
	ctx context.Context, id enginecore.ExecutionID,
) (payload []byte, found bool, err error) {
	return c.bytes(ctx, id, c.keys.ExecPayload(id))
}

func (c *Client) bytes(ctx context.Context, id enginecore.ExecutionID, key string) ([]byte, bool, error) {
	if err := c.checkID(id); err != nil {
		return nil, false, err
	}
	return valueOf(ctx, c.client.Do(ctx, c.client.B().Get().Key(key).Build()))
}

// valueOf returns the text of an answer, and whether there is one.
func valueOf(ctx context.Context, answer rueidis.RedisResult) ([]byte, bool, error) {
	value, err := answer.AsBytes()
	if rueidis.IsRedisNil(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, readError(ctx, err)
	}
	return value, true, nil
}

// sourceOperator is the source of a cancel that needs no lease.
const sourceOperator = "operator_override"

// cancelFields are the fields that a cancel reads beforehand.
var cancelFields = []string{"lane_id", "current_attempt_index", "current_worker_instance_id", "current_waitpoint_id"}

// CancelExecution cancels an execution in any state, in one atomic step. It does not check who holds the lease. For a
// member of a managed flow, downstream members are skipped or continue as their joins allow. A worker of this library
// that runs the execution is notified at once, others learn of it when they renew the lease.
//
// It returns the previous phase, as Execution.Phase. The error wraps enginecore.ErrExecutionNotFound;
// enginecore.ErrExecutionNotActive when the execution has ended; or enginecore.ErrOutcomeUnknown when the reply was
// lost: read the state then.
func (c *Client) CancelExecution(
	ctx context.Context, id enginecore.ExecutionID, reason string,
) (phase string, err error) {
	return c.CancelExecutionWith(ctx, id, ExecutionCancel{Reason: reason})
}

// ExecutionCancel has the source and the lease of a cancel.
type ExecutionCancel struct {
	// Reason is stored with the execution. It must be set.
	Reason string
	// Source is the source of the cancel, for the record, such as "worker": at most 128 bytes without white space and
	// control characters. Defaults to "operator_override", which needs no lease.
	Source string
	// Lease and Epoch are the lease and the epoch of the running attempt that is cancelled. They are compared unless
	// Source is "operator_override" or both are unset, and are given together.
	Lease enginecore.LeaseID
	Epoch enginecore.LeaseEpoch
}

// CancelExecutionWith is CancelExecution with a source and a lease: it cancels only the attempt that runs under that
// lease, in one atomic step. The error also wraps enginecore.ErrStaleLease if the execution runs under another lease,
// and enginecore.ErrLeaseRevoked.
func (c *Client) CancelExecutionWith(
	ctx context.Context, id enginecore.ExecutionID, how ExecutionCancel,
) (phase string, err error) {
	err = checkReason(how.Reason)
	if how.Source != "" {
		err = errors.Join(err, checkName("source", how.Source))
	}
	if (how.Lease == "") != (how.Epoch == 0) || how.Epoch < 0 {
		err = errors.Join(err, fault("lease", "lease %.80q and epoch %d must be given together", how.Lease, how.Epoch))
	}
	if err != nil {
		return "", of(err, "cancel", "execution", string(id))
	}
	r, err := c.coreOf(ctx, id, cancelFields...)
	if err != nil {
		return "", of(err, "cancel", "execution", string(id))
	}
	call := cancelCall(id, r, how.Reason)
	call.Source = cmp.Or(how.Source, sourceOperator)
	call.LeaseID, call.LeaseEpoch = how.Lease, how.Epoch
	var reply enginerpc.CancelExecutionReply
	err = c.audited(ctx, auditlink.CancelExecution, string(id), how.Reason, func() (err error) {
		reply, err = c.core.CancelExecution(ctx, call)
		return err
	})
	return reply.PreviousPhase, of(err, "cancel", "execution", string(id))
}

func cancelCall(id enginecore.ExecutionID, r hashrecord.Record, reason string) enginerpc.CancelExecutionCall {
	return enginerpc.CancelExecutionCall{
		AttemptIndex: enginecore.AttemptIndex(r.Int("current_attempt_index")), LaneID: r.Lane(), ExecutionID: id,
		WorkerInstanceID: enginecore.WorkerInstanceID(r["current_worker_instance_id"]),
		WaitpointID:      enginecore.WaitpointID(r["current_waitpoint_id"]), Reason: reason, Source: sourceOperator,
	}
}

// ChangePriority sets the priority of an eligible execution, 0 to 9000, in one atomic step, and returns the previous
// one. The error wraps enginecore.ErrExecutionNotFound, or enginecore.ErrExecutionNotEligible when the execution does
// not wait for a worker.
func (c *Client) ChangePriority(ctx context.Context, id enginecore.ExecutionID, priority int) (before int, err error) {
	if priority < 0 || priority > maxPriority {
		return 0, fault("priority", "%d is not between 0 and %d", priority, maxPriority)
	}
	r, err := c.coreOf(ctx, id, "lane_id")
	if err != nil {
		return 0, of(err, "change priority of", "execution", string(id))
	}
	var reply enginerpc.ChangePriorityReply
	err = c.audited(ctx, auditlink.SetPriority, string(id), strconv.Itoa(priority), func() (err error) {
		reply, err = c.core.ChangePriority(ctx, enginerpc.ChangePriorityCall{
			LaneID: r.Lane(), ExecutionID: id, NewPriority: int64(priority),
		})
		return err
	})
	return int(reply.OldPriority), of(err, "change priority of", "execution", string(id))
}

// ReplayExecution resets an execution that has ended so that it runs again, in one atomic step. It returns the new
// state: waiting, or waiting_children when upstreams have not ended. A member that was skipped waits for its upstreams
// again; those that failed must be replayed as well.
//
// The error wraps enginecore.ErrExecutionNotFound, enginecore.ErrExecutionNotTerminal,
// enginecore.ErrMaxReplaysExhausted or, when the reply was lost, enginecore.ErrOutcomeUnknown.
func (c *Client) ReplayExecution(ctx context.Context, id enginecore.ExecutionID) (fabrictype.NodeState, error) {
	state, err := c.replay(ctx, id)
	return state, of(err, "replay", "execution", string(id))
}

func (c *Client) replay(ctx context.Context, id enginecore.ExecutionID) (fabrictype.NodeState, error) {
	r, err := c.coreOf(ctx, id, "lane_id", "flow_id", "terminal_outcome")
	if err != nil {
		return "", err
	}
	call := enginerpc.ReplayExecutionCall{LaneID: r.Lane(), ExecutionID: id}
	if r["terminal_outcome"] == recordstate.OutcomeSkipped && r["flow_id"] != "" {
		edges, err := c.client.Do(ctx, c.client.B().Smembers().Key(c.keys.FlowIn(enginecore.FlowID(r["flow_id"]),
			id)).Build()).AsStrSlice()
		if err != nil {
			return "", readError(ctx, err)
		}
		for _, edge := range edges {
			call.Edges = append(call.Edges, enginecore.EdgeID(edge))
		}
		if call.Now, err = c.now(ctx); err != nil {
			return "", err
		}
	}
	var reply enginerpc.ReplayExecutionReply
	err = c.audited(ctx, auditlink.ReplayExecution, string(id), "", func() (err error) {
		reply, err = c.core.ReplayExecution(ctx, call)
		return err
	})
	if err != nil {
		return "", err
	}
	if reply.WaitingFor != 0 {
		return fabrictype.NodeWaitingChildren, nil
	}
	return fabrictype.NodeWaiting, nil
}

// Revocation is the result of RevokeLease.
type Revocation struct {
	// Lease and Epoch identify the revoked lease.
	Lease enginecore.LeaseID
	Epoch enginecore.LeaseEpoch
	// Already reports whether there was nothing to do, and Reason why: "already_revoked" or "already_expired". It is
	// empty otherwise.
	Already bool
	Reason  string
}

// RevokeLease revokes the lease of a running execution, in one atomic step: its worker can no longer commit, and
// another worker takes the execution over as after a crash. If expected is not empty, only that lease is revoked. The
// error wraps enginecore.ErrExecutionNotFound, or enginecore.ErrNoActiveLease when no worker holds a lease.
func (c *Client) RevokeLease(
	ctx context.Context, id enginecore.ExecutionID, expected enginecore.LeaseID, reason string,
) (Revocation, error) {
	if err := checkReason(reason); err != nil {
		return Revocation{}, of(err, "revoke lease of", "execution", string(id))
	}
	r, err := c.coreOf(ctx, id, "current_worker_instance_id")
	if err == nil && r["current_worker_instance_id"] == "" {
		err = enginecore.ErrNoActiveLease
	}
	if err != nil {
		return Revocation{}, of(err, "revoke lease of", "execution", string(id))
	}
	if strings.TrimSpace(reason) == "" {
		reason = "operator_revoke"
	}
	var reply enginerpc.RevokeLeaseReply
	err = c.audited(ctx, auditlink.RevokeLease, string(id), reason, func() (err error) {
		reply, err = c.core.RevokeLease(ctx, enginerpc.RevokeLeaseCall{
			WorkerInstanceID: enginecore.WorkerInstanceID(r["current_worker_instance_id"]), ExecutionID: id,
			ExpectedLeaseID: expected, RevokeReason: reason,
		})
		return err
	})
	if err != nil {
		return Revocation{}, of(err, "revoke lease of", "execution", string(id))
	}
	if reply.Status == enginerpc.StatusAlreadySatisfied {
		return Revocation{Already: true, Reason: reply.Outcome}, nil
	}
	return Revocation{Lease: reply.LeaseID, Epoch: reply.LeaseEpoch}, nil
}
