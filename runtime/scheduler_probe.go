package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/stablehash"
)

const (
	// probedHeads is how many executions one call looks at in an index of a partition: those behind one that this worker may not
	// run.
	probedHeads = 16
	// maxProbes bounds how often one call looks again.
	maxProbes = 64
)

// look grants the first execution of the probed partitions that the worker may run.
func (p *probe) look(ctx context.Context) (Grant, bool, error) {
	spots, err := p.heads(ctx)
	if err != nil {
		return Grant{}, false, err
	}
	if p.whole {
		p.scheduler.inLine(p.lane, spots)
	}
	for _, spot := range spots {
		grant, granted, err := p.from(ctx, spot)
		if granted {
			p.scheduler.noteGrant(grantPlace{p.lane, spot.partition})
		}
		if err != nil || granted {
			return grant, granted, err
		}
	}
	return Grant{}, false, nil
}

// probe is one call of ClaimForWorker.
type probe struct {
	scheduler *Scheduler
	request   GrantRequest
	lane      enginecore.LaneID
	csv       string
	now       time.Time
	places    []enginecore.Partition
	budgets   map[string]string // id → what is exceeded, "" when nothing is
	moved     bool              // something that was eligible is not any more
	whole     bool              // the engine has the whole library, and tells what is next
	refused   []string          // ids of what may not be granted now
}

func (s *Scheduler) newProbe(ctx context.Context, r GrantRequest) (*probe, error) {
	csv, err := r.check()
	if err != nil {
		return nil, err
	}
	now, err := s.session.core.Now(ctx)
	if err != nil {
		return nil, fmt.Errorf("claim for worker %s: %w", r.Instance, err)
	}
	p := &probe{scheduler: s, request: r, lane: enginecore.LaneID(r.Lane), csv: csv, now: now, budgets: make(map[string]string)}
	p.whole = has[limitStore](s.session.backend)
	all := s.session.partitions()
	if r.Partition != nil {
		if !slices.Contains(all, *r.Partition) {
			return nil, fmt.Errorf("%w: partition %s: the engine has {fp:0} to {fp:%d}", ErrGrantRequest, r.Partition, len(all)-1)
		}
		p.places = []enginecore.Partition{*r.Partition}
		return p, nil
	}
	first := s.rotate(now, len(all)) + int(uint16(stablehash.Of(string(r.Instance))))%len(all)
	for i := range min(probedPartitions, len(all)) {
		p.places = append(p.places, all[(first+i)%len(all)])
	}
	return p, nil
}

// from grants one execution of a partition: what comes next there or, when that is nothing, something that was blocked and is not
// any more. Every retakeEvery-th grant looks at what was blocked first, so that what comes later does not keep it out.
func (p *probe) from(ctx context.Context, spot grantSpot) (Grant, bool, error) {
	ways := []func(context.Context, grantSpot) (Grant, bool, error){p.next, p.first}
	if p.scheduler.isRetakeTurn() {
		slices.Reverse(ways)
	}
	for _, way := range ways {
		if grant, granted, err := way(ctx, spot); err != nil || granted {
			return grant, granted, err
		}
	}
	return Grant{}, false, nil
}

// next grants what the engine says is next.
func (p *probe) next(ctx context.Context, spot grantSpot) (Grant, bool, error) {
	if !spot.ready {
		return Grant{}, false, nil
	}
	r := p.request
	call := enginecore.GrantNextCall{
		Partition: spot.partition, LaneID: p.lane, WorkerID: r.WorkerID, WorkerInstanceID: r.Instance, GrantTTL: r.TTL, Capabilities: p.csv,
	}
	if r.Activities != nil {
		call.Kinds = "\n" + strings.Join(r.Activities, "\n") + "\n"
	}
	for range maxProbes {
		call.PassedOver = strings.Join(p.refused, "\n")
		reply, err := p.scheduler.session.core.GrantNext(ctx, call)
		if err != nil || reply.ExecutionID == "" {
			return Grant{}, false, err
		}
		id := enginecore.ExecutionID(reply.ExecutionID)
		if reply.Granted {
			return p.grantOf(spot.partition, id, reply.Reclaim), true, nil
		}
		asked := []grantCandidate{{id: id}}
		if err := p.readCores(ctx, asked); err != nil {
			return Grant{}, false, err
		}
		// Somebody else may have taken it by now. To ask for its places as those of its next lease would give up the ones that it
		// runs under.
		if p.mayTake(&asked[0]) {
			grant, granted, err := p.ask(ctx, spot.partition, &asked[0])
			if err != nil || granted {
				return grant, granted, err
			}
		}
		p.refused = append(p.refused, reply.ExecutionID)
	}
	return Grant{}, false, nil
}

// first grants the first one of the candidates.
func (p *probe) first(ctx context.Context, spot grantSpot) (Grant, bool, error) {
	if len(spot.ids) == 0 {
		return Grant{}, false, nil
	}
	paused, err := p.pauses(ctx, spot)
	if err != nil || paused[pausedLane+" "+p.request.Lane] {
		return Grant{}, false, err
	}
	if err := p.readCores(ctx, spot.ids); err != nil {
		return Grant{}, false, err
	}
	for i := range spot.ids {
		x := &spot.ids[i]
		if paused[pausedActivity+" "+x.core["execution_kind"]] || !p.mayTake(x) {
			continue
		}
		grant, granted, err := p.try(ctx, spot.partition, x)
		if err != nil || granted {
			return grant, granted, err
		}
	}
	return Grant{}, false, nil
}

// pauses reads what is paused in a partition, when the mark of a pause stands at the head of the lane.
func (p *probe) pauses(ctx context.Context, spot grantSpot) (map[string]bool, error) {
	if !spot.marked {
		return nil, nil
	}
	client, keys := p.scheduler.session.client, p.scheduler.session.core.Keys()
	stored, err := client.Do(ctx, client.B().Hgetall().Key(keys.FfxPauses(spot.partition)).Build()).AsStrMap()
	if err != nil {
		return nil, err
	}
	paused := make(map[string]bool, len(stored))
	for what := range stored {
		paused[what] = true
	}
	return paused, nil
}

// pauseMark stands at the head of an eligible set while its lane or an activity is paused.
const pauseMark = "paused"

// mayTake tells that an execution is for somebody to take, as far as its record says.
func (p *probe) mayTake(x *grantCandidate) bool {
	switch {
	case x.core.Lane() != p.lane || x.blocked != "" && !p.knows(x):
		return false
	case x.core.IsReclaimable():
		return true
	case x.core["lifecycle_phase"] != "runnable":
		return false
	case x.blocked == "":
		return x.core["eligibility_state"] == "eligible_now"
	case x.blocked == blockedByQuota && x.core["limits"] != "":
		return false // its quotas let it go
	}
	return x.core["blocking_reason"] == x.blocked
}

// knows tells that the worker knows the activity of an execution.
func (p *probe) knows(x *grantCandidate) bool {
	return p.request.Activities == nil || slices.Contains(p.request.Activities, x.core["execution_kind"])
}

// try grants one execution if nothing speaks against it.
func (p *probe) try(ctx context.Context, at enginecore.Partition, x *grantCandidate) (Grant, bool, error) {
	if !p.knows(x) {
		return Grant{}, false, p.block(ctx, x, blockedByRoute, fmt.Sprintf("no running worker knows activity %q", x.core["execution_kind"]))
	}
	if missing := p.missing(x.core["required_capabilities"]); missing != "" {
		return Grant{}, false, p.block(ctx, x, blockedByRoute, "no connected worker satisfies required_capabilities: "+missing)
	}
	idle, err := p.idle(ctx, at, x)
	if err != nil || !idle {
		return Grant{}, false, err
	}
	return p.ask(ctx, at, x)
}

// ask grants one execution that the worker may run, if its budgets, quotas and limits let it.
func (p *probe) ask(ctx context.Context, at enginecore.Partition, x *grantCandidate) (Grant, bool, error) {
	a, err := p.admit(ctx, x)
	if err != nil {
		return Grant{}, false, err
	}
	switch a.reason {
	case "":
	case alreadyBlocked:
		return Grant{}, false, nil
	default:
		return Grant{}, false, p.block(ctx, x, a.reason, a.detail)
	}
	if err := p.unblock(ctx, x); err != nil {
		return Grant{}, false, err
	}
	grant, err := p.issue(ctx, at, x)
	if err != nil {
		a.release(context.WithoutCancel(ctx)) // a caller that has gone away is the most likely reason
		p.moved = true
		p.scheduler.session.logger.LogAttrs(ctx, slog.LevelDebug, "flowfabric: an execution could not be granted", eventGrantFailed.attr(),
			slog.String("execution", string(x.id)), slog.Any("error", err))
		return Grant{}, false, nil
	}
	return grant, true, nil
}

// missing lists what an execution requires and the worker does not offer.
func (p *probe) missing(required string) string {
	var missing []string
	for need := range strings.SplitSeq(required, ",") {
		if need != "" && !slices.Contains(p.request.Capabilities, need) {
			missing = append(missing, need)
		}
	}
	return strings.Join(missing, ",")
}

// idle tells that nobody has a grant for the execution and its run is not paused.
func (p *probe) idle(ctx context.Context, at enginecore.Partition, x *grantCandidate) (bool, error) {
	client, keys := p.scheduler.session.client, p.scheduler.session.core.Keys()
	reads := rueidis.Commands{client.B().Exists().Key(keys.ExecClaimGrant(x.id)).Build()}
	if id := enginecore.FlowID(x.core["flow_id"]); id != "" {
		reads = append(reads, client.B().Hexists().Key(keys.FlowCore(at, id)).Field("paused").Build())
	}
	for _, result := range client.DoMulti(ctx, reads...) {
		if n, err := result.AsInt64(); err != nil || n > 0 {
			return false, err
		}
	}
	return true, nil
}

// block takes an eligible execution out of the way of others. One that is blocked already, or was abandoned, stays where it is.
func (p *probe) block(ctx context.Context, x *grantCandidate, reason, detail string) error {
	if x.core["eligibility_state"] != "eligible_now" {
		return nil
	}
	p.moved = true
	_, err := p.scheduler.session.core.BlockExecutionForAdmission(ctx, enginecore.BlockExecutionForAdmissionCall{
		LaneID: p.lane, ExecutionID: x.id, BlockingReason: reason, BlockingDetail: detail, Now: p.now,
	})
	if errors.Is(err, enginecore.ErrExecutionNotEligible) || errors.Is(err, enginecore.ErrExecutionNotActive) || errors.Is(err, enginecore.ErrExecutionNotFound) {
		return nil // it has moved on
	}
	return err
}

// unblock lets an execution go whose reason is gone.
func (p *probe) unblock(ctx context.Context, x *grantCandidate) error {
	if x.blocked == "" {
		return nil
	}
	_, err := p.scheduler.session.core.UnblockExecution(ctx, enginecore.UnblockExecutionCall{
		LaneID: p.lane, ExecutionID: x.id, Now: p.now, ExpectedBlockingReason: x.blocked,
	})
	if errors.Is(err, enginecore.ErrExecutionNotEligible) || errors.Is(err, enginecore.ErrExecutionNotFound) {
		return nil // issuing the grant tells
	}
	return err
}

// issue writes the grant.
func (p *probe) issue(ctx context.Context, at enginecore.Partition, x *grantCandidate) (Grant, error) {
	core, r := p.scheduler.session.core, p.request
	call := enginecore.Grant{
		ExecutionID: x.id, WorkerID: r.WorkerID, WorkerInstanceID: r.Instance, LaneID: p.lane, GrantTTL: r.TTL,
		WorkerCapabilitiesCSV: p.csv,
	}
	reclaim := x.core.IsReclaimable()
	var err error
	if reclaim {
		_, err = core.IssueReclaimGrant(ctx, enginecore.IssueReclaimGrantCall{Grant: call})
	} else {
		_, err = core.IssueClaimGrant(ctx, enginecore.IssueClaimGrantCall{Grant: call})
	}
	if err != nil {
		return Grant{}, err
	}
	return p.grantOf(at, x.id, reclaim), nil
}

func (p *probe) grantOf(at enginecore.Partition, id enginecore.ExecutionID, reclaim bool) Grant {
	r := p.request
	return Grant{
		ExecutionID: id, Partition: at, Lane: p.lane, WorkerID: r.WorkerID, Instance: r.Instance, Reclaim: reclaim,
		Key: p.scheduler.session.core.Keys().ExecClaimGrant(id), ExpiresAt: p.now.Add(r.TTL),
	}
}
