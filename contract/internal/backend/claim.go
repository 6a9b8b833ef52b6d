package backend

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/contractnode"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

const (
	// contractGrant is the lifetime of a grant. The claim that follows uses it up at once; a grant left over by a
	// lost call keeps other workers from the execution for that long.
	contractGrant = 5 * time.Second
)

// contractCandidate is an execution that may be claimed, with its engine.ClaimFields.
type contractCandidate struct {
	id   enginecore.ExecutionID
	core engine.Record
	// granted is whether a scheduler has issued the grant.
	granted bool
}

// isEligible reports whether a worker may claim the execution for its next attempt.
func (x contractCandidate) isEligible() bool {
	return x.core["lifecycle_phase"] == "runnable" && x.core["eligibility_state"] == "eligible_now"
}

// suits reports whether the requesting worker can claim the execution.
func (x contractCandidate) suits(r *enginerpc.ClaimRequest) bool {
	return (x.isEligible() || x.core.IsReclaimable()) && x.isKnown(r)
}

// isKnown reports whether the requesting worker can run the execution, in any state.
func (x contractCandidate) isKnown(r *enginerpc.ClaimRequest) bool {
	return x.core.Lane() == r.LaneID && enginerpc.InKindSet(r.Kinds, x.core["execution_kind"]) &&
		x.isRoutable(r.Capabilities)
}

// isRoutable reports whether capabilities, separated by commas, are all that the execution needs.
func (x contractCandidate) isRoutable(capabilities string) bool {
	offered := strings.Split(capabilities, ",")
	for need := range strings.SplitSeq(x.core["required_capabilities"], ",") {
		if need != "" && !slices.Contains(offered, need) {
			return false
		}
	}
	return true
}

// Claim reads the head of the lane and the executions without a worker, and claims the ones that the worker can run:
// each with a grant and a claim. A repeated call returns the executions that an earlier try has claimed.
func (c *contract) Claim(ctx context.Context, call enginerpc.ClaimCall) (enginerpc.ClaimReply, error) {
	reply := enginerpc.ClaimReply{Status: enginerpc.StatusOK}
	if call.Repeated {
		var err error
		if reply.Executions, err = c.claimedBefore(ctx, call.Partition, &call.ClaimRequest); err != nil ||
			len(reply.Executions) > 0 {
			return reply, err
		}
	}
	candidates, err := c.candidates(ctx, call.Partition, &call.ClaimRequest)
	if err != nil {
		return reply, err
	}
	reply.Executions, reply.Remaining, err = c.takeSome(ctx, call.Partition, &call.ClaimRequest, candidates)
	return reply, err
}

// ClaimGranted claims an execution by the grant of a scheduler. It claims none if the grant is no longer valid.
func (c *contract) ClaimGranted(
	ctx context.Context, call enginerpc.ClaimGrantedCall,
) (enginerpc.ClaimGrantedReply, error) {
	reply := enginerpc.ClaimGrantedReply{Status: enginerpc.StatusOK}
	var err error
	if call.Repeated {
		reply.Executions, err = c.claimedBefore(ctx, call.Partition, &call.ClaimRequest)
		if err != nil || len(reply.Executions) > 0 {
			return reply, err
		}
	}
	cores, err := c.readCores(ctx, []enginecore.ExecutionID{call.ExecutionID}, engine.ClaimFields)
	if err != nil {
		return reply, err
	}
	x := contractCandidate{id: call.ExecutionID, core: cores[0], granted: true}
	if x.suits(&call.ClaimRequest) {
		reply.Executions, err = c.take(ctx, call.Partition, &call.ClaimRequest, []contractCandidate{x})
	}
	return reply, err
}

// takeSome claims up to r.Count of the candidates; where another worker was faster, it tries the next one. It returns
// the number of candidates that it left.
func (c *contract) takeSome(
	ctx context.Context, p keyspace.Partition, r *enginerpc.ClaimRequest, candidates []contractCandidate,
) (taken []enginerpc.ClaimedExecution, left int64, err error) {
	for len(candidates) > 0 && int64(len(taken)) < r.Count {
		batch := candidates[:min(int(r.Count)-len(taken), len(candidates))]
		candidates = candidates[len(batch):]
		claimed, err := c.take(ctx, p, r, batch)
		taken = append(taken, claimed...)
		if err != nil {
			if len(taken) > 0 && !errors.Is(err, enginecore.ErrOutcomeUnknown) {
				return taken, int64(len(candidates)), nil
			}
			return taken, int64(len(candidates)), err
		}
	}
	return taken, int64(len(candidates)), nil
}

// contractClaim is one claim under way.
type contractClaim struct {
	contractCandidate
	claim  func() (enginerpc.ClaimExecutionReply, error)
	policy *rueidis.RedisResult
	input  *rueidis.RedisResult
	tags   *rueidis.RedisResult
	flow   *rueidis.RedisResult
	header *rueidis.RedisResult
}

// take claims executions and reads the data that their worker needs, in one round trip.
func (c *contract) take(
	ctx context.Context, p keyspace.Partition, r *enginerpc.ClaimRequest, candidates []contractCandidate,
) ([]enginerpc.ClaimedExecution, error) {
	b := c.batch()
	claims := make([]*contractClaim, len(candidates))
	for i, x := range candidates {
		claims[i] = &contractClaim{contractCandidate: x}
		c.addClaim(b, claims[i], r)
		c.addReads(b, claims[i], p)
	}
	fault := b.run(ctx)
	var taken []enginerpc.ClaimedExecution
	var ended []contractEnd
	for _, x := range claims {
		reply, err := x.claim()
		if err == nil && fault == nil {
			err = x.damage(ctx)
			c.warnOfDamage(ctx, x.id, err)
		}
		if errors.Is(err, errorcode.MaxRetriesExhausted) {
			ended = append(ended, contractEnd{id: x.id, flow: enginecore.FlowID(x.core["flow_id"]), outcome: "failed"})
		}
		if retry.IsUnavailable(err) {
			fault = err
		}
		if err != nil {
			c.logger.LogAttrs(ctx, slog.LevelDebug, "flowfabric: another worker claimed the execution first",
				observe.EventClaimLost.Attr(), slog.String("execution", string(x.id)),
				slog.Any("error", err))
			continue
		}
		taken = append(taken, c.claimed(x, reply, p, r))
	}
	if fault == nil {
		fault = c.nodes.AddInputs(ctx, p, taken)
	}
	if fault != nil {
		// The worker may hold executions that no answer shows, or whose inputs are missing: a repeat finds them.
		return nil, errors.Join(enginecore.ErrOutcomeUnknown, fault)
	}
	if len(ended) > 0 {
		_, fault = c.propagate(ctx, p, r.LaneID, ended...)
	}
	return taken, fault
}

// addClaim adds the grant and the claim of one execution to a batch.
func (c *contract) addClaim(b *contractBatch, x *contractClaim, r *enginerpc.ClaimRequest) {
	grant := enginerpc.Grant{
		ExecutionID: x.id, WorkerID: r.WorkerID, WorkerInstanceID: r.WorkerInstanceID, LaneID: r.LaneID,
		GrantTTL:              contractGrant,
		WorkerCapabilitiesCSV: r.Capabilities,
	}
	lease := contractLeaseID(r.ClaimID, x.id)
	attempt := keyspace.AttemptID(contractID(r.ClaimID, x.id, "attempt"))
	current := enginecore.AttemptIndex(x.core.Int("current_attempt_index"))
	next := enginecore.AttemptIndex(x.core.Int("total_attempt_count"))
	if !x.granted && !x.core.IsReclaimable() {
		addOnce[enginerpc.IssueClaimGrantReply](b, enginerpc.IssueClaimGrantCall{Grant: grant})
	}
	switch {
	case x.core.IsReclaimable():
		if !x.granted {
			addOnce[enginerpc.IssueReclaimGrantReply](b, enginerpc.IssueReclaimGrantCall{Grant: grant})
		}
		a := addOnce[enginerpc.ReclaimExecutionReply](b, enginerpc.ReclaimExecutionCall{
			OldAttemptIndex: current, AttemptIndex: next, ExecutionID: x.id, WorkerID: r.WorkerID,
			WorkerInstanceID: r.WorkerInstanceID, LaneID: r.LaneID, LeaseID: lease, LeaseTTL: r.LeaseTTL,
			AttemptID: attempt,
		})
		x.claim = func() (enginerpc.ClaimExecutionReply, error) { return enginerpc.ClaimExecutionReply(a.Reply), a.Err }
	case x.core["attempt_state"] == "attempt_interrupted":
		a := addOnce[enginerpc.ClaimResumedExecutionReply](b, enginerpc.ClaimResumedExecutionCall{
			AttemptIndex: current, ExecutionID: x.id, WorkerID: r.WorkerID, WorkerInstanceID: r.WorkerInstanceID,
			LaneID: r.LaneID, LeaseID: lease, LeaseTTL: r.LeaseTTL,
		})
		x.claim = func() (enginerpc.ClaimExecutionReply, error) { return enginerpc.ClaimExecutionReply(a.Reply), a.Err }
	default:
		a := addOnce[enginerpc.ClaimExecutionReply](b, enginerpc.ClaimExecutionCall{
			AttemptIndex: next, ExecutionID: x.id, WorkerID: r.WorkerID, WorkerInstanceID: r.WorkerInstanceID,
			LaneID: r.LaneID, LeaseID: lease, LeaseTTL: r.LeaseTTL, RenewBefore: r.LeaseTTL * 2 / 3, AttemptID: attempt,
		})
		x.claim = func() (enginerpc.ClaimExecutionReply, error) { return a.Reply, a.Err }
	}
}

// addReads adds reads of the data that a worker needs of an execution to a batch.
func (c *contract) addReads(b *contractBatch, x *contractClaim, p keyspace.Partition) {
	x.policy = b.look(c.client.B().Get().Key(c.keys.ExecPolicy(x.id)).Build())
	x.input = b.look(c.client.B().Get().Key(c.keys.ExecPayload(x.id)).Build())
	x.tags = b.look(c.client.B().Hgetall().Key(c.keys.ExecTags(x.id)).Build())
	if id := enginecore.FlowID(x.core["flow_id"]); id != "" {
		x.flow = b.look(c.hmget(c.keys.FlowCore(p, id), contractnode.FlowFields()))
		x.header = b.look(c.hmget(c.keys.FlowTags(p, id), contractnode.HeaderTags()))
	}
}

// damage returns the error of a read without which the execution cannot run. Its lease is given back or runs out, and
// it is tried again.
func (x *contractClaim) damage(ctx context.Context) error {
	for _, result := range []*rueidis.RedisResult{x.policy, x.input, x.tags, x.flow, x.header} {
		if result != nil {
			if err := readFault(ctx, *result); err != nil {
				return err
			}
		}
	}
	return nil
}

// warnOfDamage logs that a worker left out an execution whose records it cannot read.
func (c *contract) warnOfDamage(ctx context.Context, id enginecore.ExecutionID, err error) {
	if err != nil && ctx.Err() == nil {
		c.logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: the worker cannot read an execution, and leaves it out",
			observe.EventClaimFailed.Attr(), slog.String("execution", string(id)), slog.Any("error", err))
	}
}

// contractID derives the id of a record that a claim creates, so that a repeat finds the record.
func contractID(claimID string, id enginecore.ExecutionID, kind string) string {
	space, err := uuid.Parse(claimID)
	if err != nil {
		space = uuid.NewSHA1(uuid.NameSpaceOID, []byte(claimID))
	}
	return uuid.NewSHA1(space, []byte(kind+" "+string(id))).String()
}

// contractLeaseID derives the id of the lease that a claim creates.
func contractLeaseID(claimID string, id enginecore.ExecutionID) enginecore.LeaseID {
	return enginecore.LeaseID(contractID(claimID, id, "lease"))
}

// claimed records a lease and returns the description of its execution for the worker.
func (c *contract) claimed(
	x *contractClaim, reply enginerpc.ClaimExecutionReply, p keyspace.Partition, r *enginerpc.ClaimRequest,
) enginerpc.ClaimedExecution {
	tags, _ := x.tags.AsStrMap() // nil if there are none
	out := enginerpc.ClaimedExecution{
		ExecutionID: x.id, Node: tags[contractnode.TagNode], Kind: x.core["execution_kind"],
		FlowID:       enginecore.FlowID(x.core["flow_id"]),
		AttemptIndex: reply.AttemptIndex, AttemptID: reply.AttemptID, AttemptType: reply.AttemptType,
		LeaseID:    reply.LeaseID,
		LeaseEpoch: reply.LeaseEpoch, LeaseExpiresAt: reply.LeaseExpiresAt, RetryCount: x.core.Int("retry_count"),
		CreatedAt: x.core.Time("created_at"), InputsComplete: true,
	}
	if out.Node == "" {
		out.Node = string(x.id)
	}
	lease := contractLease{
		partition: p, lane: r.LaneID, flow: out.FlowID, node: tags[contractnode.TagNode], attempt: out.AttemptIndex,
		worker: r.WorkerInstanceID, retries: out.RetryCount, epoch: out.LeaseEpoch, attemptID: out.AttemptID,
	}
	out.Tags = contractnode.UserTags(tags)
	out.Policy, _ = x.policy.AsBytes() // nil where there is none
	out.Payload, _ = x.input.AsBytes()
	lease.policy = out.Policy
	if x.header != nil {
		lease.graphHash = contractnode.DescribeRun(&out, *x.flow, *x.header)
	}
	c.leases.add(x.id, out.LeaseID, &lease, r.LeaseTTL)
	return out
}

// claimedBefore returns the executions that an earlier try of the same claim has claimed.
func (c *contract) claimedBefore(
	ctx context.Context, p keyspace.Partition, r *enginerpc.ClaimRequest,
) ([]enginerpc.ClaimedExecution, error) {
	results, err := c.read(ctx, c.client.B().Smembers().Key(c.keys.IndexWorkerLeases(p, r.WorkerInstanceID)).Build())
	if err != nil {
		return nil, err
	}
	ids := idsOf[enginecore.ExecutionID](results[0])
	cores, err := c.readCores(ctx, ids, engine.ClaimFields)
	if err != nil {
		return nil, err
	}
	b := c.batch()
	var claims []*contractClaim
	for i, id := range ids {
		if lease := contractLeaseID(r.ClaimID, id); cores[i]["current_lease_id"] == string(lease) {
			x := &contractClaim{contractCandidate: contractCandidate{id: id, core: cores[i]}}
			c.addReads(b, x, p)
			claims = append(claims, x)
		}
	}
	if err := b.run(ctx); err != nil {
		return nil, err
	}
	taken := make([]enginerpc.ClaimedExecution, len(claims))
	for i, x := range claims {
		taken[i] = c.claimed(x, enginerpc.ClaimExecutionReply{
			LeaseID:        enginecore.LeaseID(x.core["current_lease_id"]),
			LeaseEpoch:     enginecore.LeaseEpoch(x.core.Int("current_lease_epoch")),
			AttemptID:      keyspace.AttemptID(x.core["current_attempt_id"]),
			AttemptIndex:   enginecore.AttemptIndex(x.core.Int("current_attempt_index")),
			LeaseExpiresAt: x.core.Time("lease_expires_at"),
		}, p, r)
	}
	return taken, c.nodes.AddInputs(ctx, p, taken)
}
