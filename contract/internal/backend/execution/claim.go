package execution

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/contract/internal/backend/flows"
	"github.com/flowfabric/flowfabric-go/contract/internal/backend/link"
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
	// grantTTL is the lifetime of a grant. The claim that follows uses it up at once; a grant left over by a
	// lost call keeps other workers from the execution for that long.
	grantTTL = 5 * time.Second
)

// Steps takes the steps of executions: it claims them, ends them, and propagates their ends to their downstreams. It
// serves the waitpoint nodes, which only it claims: the end of an execution can make such a node eligible, whose end is
// propagated in turn. It is safe for concurrent use.
type Steps struct {
	*flows.Flows
	leases   heldLeases
	searched searchCursors
	// waitWorker is the worker instance that claims waitpoint nodes for this process.
	waitWorker enginecore.WorkerInstanceID
}

func New(f *flows.Flows) *Steps {
	return &Steps{Flows: f, waitWorker: enginecore.WorkerInstanceID("flowfabric-waits-" + uuid.NewString())}
}

// Candidate is an execution that may be claimed, with its engine.ClaimFields.
type Candidate struct {
	id   enginecore.ExecutionID
	core engine.Record
	// granted is whether a scheduler has issued the grant.
	granted bool
}

// isEligible reports whether a worker may claim the execution for its next attempt.
func (x Candidate) isEligible() bool {
	return x.core["lifecycle_phase"] == "runnable" && x.core["eligibility_state"] == "eligible_now"
}

// suits reports whether the requesting worker can claim the execution.
func (x Candidate) suits(r *enginerpc.ClaimRequest) bool {
	return (x.isEligible() || x.core.IsReclaimable()) && x.isKnown(r)
}

// isKnown reports whether the requesting worker can run the execution, in any state.
func (x Candidate) isKnown(r *enginerpc.ClaimRequest) bool {
	return x.core.Lane() == r.LaneID && enginerpc.InKindSet(r.Kinds, x.core["execution_kind"]) &&
		x.isRoutable(r.Capabilities)
}

// isRoutable reports whether capabilities, separated by commas, are all that the execution needs.
func (x Candidate) isRoutable(capabilities string) bool {
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
func (c *Steps) Claim(ctx context.Context, call enginerpc.ClaimCall) (enginerpc.ClaimReply, error) {
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
func (c *Steps) ClaimGranted(
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
	cores, err := c.ReadCores(ctx, []enginecore.ExecutionID{call.ExecutionID}, engine.ClaimFields)
	if err != nil {
		return reply, err
	}
	x := Candidate{id: call.ExecutionID, core: cores[0], granted: true}
	if x.suits(&call.ClaimRequest) {
		reply.Executions, err = c.take(ctx, call.Partition, &call.ClaimRequest, []Candidate{x})
	}
	return reply, err
}

// takeSome claims up to r.Count of the candidates; where another worker was faster, it tries the next one. It returns
// the number of candidates that it left.
func (c *Steps) takeSome(
	ctx context.Context, p keyspace.Partition, r *enginerpc.ClaimRequest, candidates []Candidate,
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

// pendingClaim is one claim under way.
type pendingClaim struct {
	Candidate
	claim  func() (enginerpc.ClaimExecutionReply, error)
	policy *rueidis.RedisResult
	input  *rueidis.RedisResult
	tags   *rueidis.RedisResult
	flow   *rueidis.RedisResult
	header *rueidis.RedisResult
}

// take claims executions and reads the data that their worker needs, in one round trip.
func (c *Steps) take(
	ctx context.Context, p keyspace.Partition, r *enginerpc.ClaimRequest, candidates []Candidate,
) ([]enginerpc.ClaimedExecution, error) {
	b := c.Batch()
	claims := make([]*pendingClaim, len(candidates))
	for i, x := range candidates {
		claims[i] = &pendingClaim{Candidate: x}
		c.addClaim(b, claims[i], r)
		c.addReads(b, claims[i], p)
	}
	fault := b.Run(ctx)
	var taken []enginerpc.ClaimedExecution
	var ended []End
	for _, x := range claims {
		reply, err := x.claim()
		if err == nil && fault == nil {
			err = x.damage(ctx)
			c.warnOfDamage(ctx, x.id, err)
		}
		if errors.Is(err, errorcode.MaxRetriesExhausted) {
			ended = append(ended, End{ID: x.id, Flow: enginecore.FlowID(x.core["flow_id"]), Outcome: "failed"})
		}
		if retry.IsUnavailable(err) {
			fault = err
		}
		if err != nil {
			c.Logger.LogAttrs(ctx, slog.LevelDebug, "flowfabric: another worker claimed the execution first",
				observe.EventClaimLost.Attr(), slog.String("execution", string(x.id)),
				slog.Any("error", err))
			continue
		}
		taken = append(taken, c.claimed(x, reply, p, r))
	}
	if fault == nil {
		fault = c.Nodes.AddInputs(ctx, p, taken)
	}
	if fault != nil {
		// The worker may hold executions that no answer shows, or whose inputs are missing: a repeat finds them.
		return nil, errors.Join(enginecore.ErrOutcomeUnknown, fault)
	}
	if len(ended) > 0 {
		_, fault = c.Propagate(ctx, p, r.LaneID, ended...)
	}
	return taken, fault
}

// addClaim adds the grant and the claim of one execution to a batch.
func (c *Steps) addClaim(b *link.Batch, x *pendingClaim, r *enginerpc.ClaimRequest) {
	grant := enginerpc.Grant{
		ExecutionID: x.id, WorkerID: r.WorkerID, WorkerInstanceID: r.WorkerInstanceID, LaneID: r.LaneID,
		GrantTTL:              grantTTL,
		WorkerCapabilitiesCSV: r.Capabilities,
	}
	lease := derivedLeaseID(r.ClaimID, x.id)
	attempt := keyspace.AttemptID(derivedID(r.ClaimID, x.id, "attempt"))
	current := enginecore.AttemptIndex(x.core.Int("current_attempt_index"))
	next := enginecore.AttemptIndex(x.core.Int("total_attempt_count"))
	if !x.granted && !x.core.IsReclaimable() {
		link.AddOnce[enginerpc.IssueClaimGrantReply](b, enginerpc.IssueClaimGrantCall{Grant: grant})
	}
	switch {
	case x.core.IsReclaimable():
		if !x.granted {
			link.AddOnce[enginerpc.IssueReclaimGrantReply](b, enginerpc.IssueReclaimGrantCall{Grant: grant})
		}
		a := link.AddOnce[enginerpc.ReclaimExecutionReply](b, enginerpc.ReclaimExecutionCall{
			OldAttemptIndex: current, AttemptIndex: next, ExecutionID: x.id, WorkerID: r.WorkerID,
			WorkerInstanceID: r.WorkerInstanceID, LaneID: r.LaneID, LeaseID: lease, LeaseTTL: r.LeaseTTL,
			AttemptID: attempt,
		})
		x.claim = func() (enginerpc.ClaimExecutionReply, error) { return enginerpc.ClaimExecutionReply(a.Reply), a.Err }
	case x.core["attempt_state"] == "attempt_interrupted":
		a := link.AddOnce[enginerpc.ClaimResumedExecutionReply](b, enginerpc.ClaimResumedExecutionCall{
			AttemptIndex: current, ExecutionID: x.id, WorkerID: r.WorkerID, WorkerInstanceID: r.WorkerInstanceID,
			LaneID: r.LaneID, LeaseID: lease, LeaseTTL: r.LeaseTTL,
		})
		x.claim = func() (enginerpc.ClaimExecutionReply, error) { return enginerpc.ClaimExecutionReply(a.Reply), a.Err }
	default:
		a := link.AddOnce[enginerpc.ClaimExecutionReply](b, enginerpc.ClaimExecutionCall{
			AttemptIndex: next, ExecutionID: x.id, WorkerID: r.WorkerID, WorkerInstanceID: r.WorkerInstanceID,
			LaneID: r.LaneID, LeaseID: lease, LeaseTTL: r.LeaseTTL, RenewBefore: r.LeaseTTL * 2 / 3, AttemptID: attempt,
		})
		x.claim = func() (enginerpc.ClaimExecutionReply, error) { return a.Reply, a.Err }
	}
}

// addReads adds reads of the data that a worker needs of an execution to a batch.
func (c *Steps) addReads(b *link.Batch, x *pendingClaim, p keyspace.Partition) {
	x.policy = b.Look(c.Client.B().Get().Key(c.Keys.ExecPolicy(x.id)).Build())
	x.input = b.Look(c.Client.B().Get().Key(c.Keys.ExecPayload(x.id)).Build())
	x.tags = b.Look(c.Client.B().Hgetall().Key(c.Keys.ExecTags(x.id)).Build())
	if id := enginecore.FlowID(x.core["flow_id"]); id != "" {
		x.flow = b.Look(c.Hmget(c.Keys.FlowCore(p, id), contractnode.FlowFields()))
		x.header = b.Look(c.Hmget(c.Keys.FlowTags(p, id), contractnode.HeaderTags()))
	}
}

// damage returns the error of a read without which the execution cannot run. Its lease is given back or runs out, and
// it is tried again.
func (x *pendingClaim) damage(ctx context.Context) error {
	for _, result := range []*rueidis.RedisResult{x.policy, x.input, x.tags, x.flow, x.header} {
		if result != nil {
			if err := link.ReadFault(ctx, *result); err != nil {
				return err
			}
		}
	}
	return nil
}

// warnOfDamage logs that a worker left out an execution whose records it cannot read.
func (c *Steps) warnOfDamage(ctx context.Context, id enginecore.ExecutionID, err error) {
	if err != nil && ctx.Err() == nil {
		c.Logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: the worker cannot read an execution, and leaves it out",
			observe.EventClaimFailed.Attr(), slog.String("execution", string(id)), slog.Any("error", err))
	}
}

// derivedID derives the id of a record that a claim creates, so that a repeat finds the record.
func derivedID(claimID string, id enginecore.ExecutionID, kind string) string {
	space, err := uuid.Parse(claimID)
	if err != nil {
		space = uuid.NewSHA1(uuid.NameSpaceOID, []byte(claimID))
	}
	return uuid.NewSHA1(space, []byte(kind+" "+string(id))).String()
}

// derivedLeaseID derives the id of the lease that a claim creates.
func derivedLeaseID(claimID string, id enginecore.ExecutionID) enginecore.LeaseID {
	return enginecore.LeaseID(derivedID(claimID, id, "lease"))
}

// claimed records a lease and returns the description of its execution for the worker.
func (c *Steps) claimed(
	x *pendingClaim, reply enginerpc.ClaimExecutionReply, p keyspace.Partition, r *enginerpc.ClaimRequest,
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
	lease := heldLease{
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
func (c *Steps) claimedBefore(
	ctx context.Context, p keyspace.Partition, r *enginerpc.ClaimRequest,
) ([]enginerpc.ClaimedExecution, error) {
	results, err := c.Read(ctx, c.Client.B().Smembers().Key(c.Keys.IndexWorkerLeases(p, r.WorkerInstanceID)).Build())
	if err != nil {
		return nil, err
	}
	ids := link.IDsOf[enginecore.ExecutionID](results[0])
	cores, err := c.ReadCores(ctx, ids, engine.ClaimFields)
	if err != nil {
		return nil, err
	}
	b := c.Batch()
	var claims []*pendingClaim
	for i, id := range ids {
		if lease := derivedLeaseID(r.ClaimID, id); cores[i]["current_lease_id"] == string(lease) {
			x := &pendingClaim{Candidate: Candidate{id: id, core: cores[i]}}
			c.addReads(b, x, p)
			claims = append(claims, x)
		}
	}
	if err := b.Run(ctx); err != nil {
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
	return taken, c.Nodes.AddInputs(ctx, p, taken)
}

// ReadInputs implements [engine.Backend].
func (c *Steps) ReadInputs(ctx context.Context, call enginerpc.ReadInputsCall) (enginerpc.ReadInputsReply, error) {
	return c.Nodes.ReadInputs(ctx, call)
}

// UpdateProgress calls the contract's function of the same purpose.
func (c *Steps) UpdateProgress(
	ctx context.Context, call enginerpc.UpdateProgressCall,
) (enginerpc.UpdateProgressReply, error) {
	return c.Core.UpdateProgress(ctx, call)
}
