package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// ErrNoGrant is returned by Scheduler.ClaimForWorker when it found nothing that the worker may run, and ErrGrantRequest for a
// request that is not valid.
var (
	ErrNoGrant      = errors.New("nothing to grant")
	ErrGrantRequest = errors.New("bad request for a grant")
)

const (
	// MaxGrantTTL bounds GrantRequest.TTL.
	MaxGrantTTL = time.Minute
	// maxGrantCapabilities and maxGrantCapabilityBytes bound what a worker offers, in number and as a sorted list.
	maxGrantCapabilities    = 256
	maxGrantCapabilityBytes = 4096
	// probedPartitions is how many partitions one call looks into, and rotationWindow how long calls begin at the same one.
	probedPartitions = 32
	rotationWindow   = 250 * time.Millisecond
	// probedHeads is how many executions one call looks at in a partition: those behind one that this worker may not run.
	probedHeads = 16
	// maxProbes bounds how often one call looks again.
	maxProbes = 64
)

// GrantRequest says for whom a grant is.
type GrantRequest struct {
	// Lane to take from.
	Lane string
	// WorkerID and Instance name the worker. The grant is good for this instance only.
	WorkerID enginecore.WorkerID
	Instance enginecore.WorkerInstanceID
	// Capabilities that the worker offers: it may run what requires a subset of them.
	Capabilities []string
	// Activities that the worker knows; others are set aside for a worker that does. Nil is all.
	Activities []string
	// TTL is how long the worker has to claim by the grant: 1 ms to MaxGrantTTL.
	TTL time.Duration
	// Partition to take from; nil looks into 32 of them, others from call to call.
	Partition *enginecore.Partition
}

// Grant lets one worker instance claim one execution, for a short time. After ExpiresAt somebody else may be granted it.
type Grant struct {
	ExecutionID enginecore.ExecutionID
	Partition   enginecore.Partition
	Lane        enginecore.LaneID
	WorkerID    enginecore.WorkerID
	Instance    enginecore.WorkerInstanceID
	// Key is where the engine keeps the grant.
	Key       string
	ExpiresAt time.Time
	// Reclaim tells that another worker has lost the execution: it is claimed with ff_reclaim_execution, others with
	// ff_claim_execution or, as that says, ff_claim_resumed_execution.
	Reclaim bool
}

// Granter issues grants. A Scheduler is one; so is a client of a service around a Scheduler.
type Granter interface {
	ClaimForWorker(ctx context.Context, r GrantRequest) (Grant, error)
}

// Scheduler claims on behalf of workers that are not trusted with admission: it checks budgets, quotas, limits and
// capabilities, and hands out grants. It uses the contract's functions, so workers and schedulers of other FlowFabric
// programs may work on the same lanes, and it works in contract mode. What it may not grant, it takes out of the way with the
// reason in the record, and takes up again when the reason is gone.
//
// Grants follow the eligible sets: priority, then age. FairBy and ageing are for workers that claim for themselves.
//
// Keep one Scheduler for the life of a process: where its next call looks depends on those before. It may be used by several
// goroutines.
type Scheduler struct {
	engine *Engine

	mu     sync.Mutex
	window int64
	cursor int
}

// NewScheduler returns a scheduler of an engine.
func NewScheduler(e *Engine) *Scheduler { return &Scheduler{engine: e} }

// ClaimForWorker grants the worker one execution. It looks at the first ones that wait in each partition that it probes,
// asks for room in their budgets and quotas, and writes one grant. It returns ErrNoGrant when there is nothing, which in a
// deployment with more partitions than it probes says nothing of the others: call again. Other errors are ErrGrantRequest, and
// those of the engine; when a budget or a quota cannot be asked, nothing is granted.
func (s *Scheduler) ClaimForWorker(ctx context.Context, r GrantRequest) (Grant, error) {
	p, err := s.newProbe(ctx, r)
	if err != nil {
		return Grant{}, err
	}
	// What was taken out of the way, or taken by others meanwhile, has made room for others.
	for range maxProbes {
		p.moved = false
		grant, granted, err := p.look(ctx)
		if err != nil {
			return Grant{}, fmt.Errorf("claim for worker %s: %w", r.Instance, err)
		}
		if granted {
			return grant, nil
		}
		if !p.moved {
			break
		}
	}
	return Grant{}, ErrNoGrant
}

// look grants the first execution of the probed partitions that the worker may run.
func (p *probe) look(ctx context.Context) (Grant, bool, error) {
	spots, err := p.heads(ctx)
	if err != nil {
		return Grant{}, false, err
	}
	for _, spot := range spots {
		grant, granted, err := p.from(ctx, spot)
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
}

func (s *Scheduler) newProbe(ctx context.Context, r GrantRequest) (*probe, error) {
	csv, err := r.check()
	if err != nil {
		return nil, err
	}
	now, err := s.engine.core.Now(ctx)
	if err != nil {
		return nil, fmt.Errorf("claim for worker %s: %w", r.Instance, err)
	}
	p := &probe{scheduler: s, request: r, lane: enginecore.LaneID(r.Lane), csv: csv, now: now, budgets: make(map[string]string)}
	all := s.engine.partitions()
	if r.Partition != nil {
		if !slices.Contains(all, *r.Partition) {
			return nil, fmt.Errorf("%w: partition %s: the engine has {fp:0} to {fp:%d}", ErrGrantRequest, r.Partition, len(all)-1)
		}
		p.places = []enginecore.Partition{*r.Partition}
		return p, nil
	}
	first := s.rotate(now, len(all)) + int(uint16(hashOf(string(r.Instance))))%len(all)
	for i := range min(probedPartitions, len(all)) {
		p.places = append(p.places, all[(first+i)%len(all)])
	}
	return p, nil
}

// check returns the capabilities as the engine wants them.
func (r GrantRequest) check() (csv string, err error) {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: "+format, append([]any{ErrGrantRequest}, args...)...))
	}
	if _, err := enginecore.ParseLaneID(r.Lane); err != nil {
		fault("lane: %w", err)
	}
	if r.WorkerID == "" || r.Instance == "" {
		fault("worker id and instance must be given")
	}
	if r.TTL < time.Millisecond || r.TTL > MaxGrantTTL {
		fault("ttl %s: must be 1ms to %s", r.TTL, MaxGrantTTL)
	}
	list := slices.Compact(slices.Sorted(slices.Values(r.Capabilities)))
	for _, name := range list {
		if name == "" || strings.ContainsFunc(name, func(c rune) bool { return c == ',' || unicode.IsSpace(c) || unicode.IsControl(c) }) {
			fault("capability %q: must not be empty or contain commas, white space or control characters", name)
		}
	}
	csv = strings.Join(list, ",")
	if len(list) > maxGrantCapabilities || len(csv) > maxGrantCapabilityBytes {
		fault("%d capabilities of %d bytes, at most %d of %d are allowed", len(list), len(csv), maxGrantCapabilities, maxGrantCapabilityBytes)
	}
	return csv, errors.Join(faults...)
}

// rotate moves the first partition on, once in each window of time.
func (s *Scheduler) rotate(now time.Time, partitions int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if window := now.UnixMilli() / rotationWindow.Milliseconds(); window != s.window {
		s.window = window
		s.cursor = (s.cursor + probedPartitions) % partitions
	}
	return s.cursor
}

// grantCandidate is an execution that stands first in one of the indexes of its lane.
type grantCandidate struct {
	id      enginecore.ExecutionID
	core    contractRecord
	blocked string // why, by its index; "" when it is eligible or abandoned
}

// grantSpot is what a probe has found in a partition.
type grantSpot struct {
	partition enginecore.Partition
	ids       []grantCandidate
}

// Reasons of a block, as the engine names them.
const (
	blockedByBudget = "waiting_for_budget"
	blockedByQuota  = "waiting_for_quota"
	blockedByRoute  = "waiting_for_capable_worker"
)

// heads reads what stands first in the probed partitions, in one go: what was abandoned, what is eligible, and behind that
// what was blocked by a scheduler. Partitions that hold nothing are left out.
func (p *probe) heads(ctx context.Context) ([]grantSpot, error) {
	client, keys := p.scheduler.engine.client, p.scheduler.engine.core.Keys()
	indexes := func(at enginecore.Partition) []grantIndex {
		list := []grantIndex{
			{keys.LaneEligible(at, p.lane), ""}, {keys.LaneBlockedRoute(at, p.lane), blockedByRoute},
			{keys.LaneBlockedBudget(at, p.lane), blockedByBudget}, {keys.LaneBlockedQuota(at, p.lane), blockedByQuota},
		}
		if _, err := p.scheduler.engine.composites(); err == nil {
			list = append([]grantIndex{{keys.FfxReclaimable(at, p.lane), ""}}, list...)
		}
		return list
	}
	var reads rueidis.Commands
	for _, at := range p.places {
		for _, index := range indexes(at) {
			reads = append(reads, client.B().Zrange().Key(index.key).Min("0").Max(decimalText(probedHeads-1)).Build())
		}
	}
	results := client.DoMulti(ctx, reads...)
	var spots []grantSpot
	for _, at := range p.places {
		spot := grantSpot{partition: at}
		for _, index := range indexes(at) {
			ids, err := results[0].AsStrSlice()
			if err != nil && !rueidis.IsRedisNil(err) {
				return nil, err
			}
			results = results[1:]
			for _, id := range ids {
				spot.ids = append(spot.ids, grantCandidate{id: enginecore.ExecutionID(id), blocked: index.reason})
			}
		}
		if len(spot.ids) > 0 {
			spots = append(spots, spot)
		}
	}
	return spots, nil
}

type grantIndex struct{ key, reason string }

// grantFields are what a scheduler has to know of an execution.
var grantFields = append([]string{"budget_ids", "quota_policy_id", "limits", "admission", "blocking_reason", "priority"}, claimFields...)

// from grants one execution of a partition.
func (p *probe) from(ctx context.Context, spot grantSpot) (Grant, bool, error) {
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

// readCores reads the records of candidates, and drops what stands in an index without being an execution.
func (p *probe) readCores(ctx context.Context, list []grantCandidate) error {
	client, keys := p.scheduler.engine.client, p.scheduler.engine.core.Keys()
	reads := make(rueidis.Commands, len(list))
	for i := range list {
		reads[i] = client.B().Hmget().Key(keys.ExecCore(list[i].id)).Field(grantFields...).Build()
	}
	for i, result := range client.DoMulti(ctx, reads...) {
		if err := result.Error(); err != nil {
			return err
		}
		list[i].core = recordOf(result, grantFields)
	}
	return nil
}

// pauses reads what is paused in a partition, when the mark of a pause stands at the head of the lane.
func (p *probe) pauses(ctx context.Context, spot grantSpot) (map[string]bool, error) {
	if !slices.ContainsFunc(spot.ids, func(x grantCandidate) bool { return x.id == pauseMark }) {
		return nil, nil
	}
	client, keys := p.scheduler.engine.client, p.scheduler.engine.core.Keys()
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
	candidate := contractCandidate{x.id, x.core}
	switch {
	case laneOf(x.core) != p.lane || x.blocked != "" && !p.knows(x):
		return false
	case candidate.reclaimable():
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
		p.scheduler.engine.logger.LogAttrs(ctx, slog.LevelDebug, "flowfabric: an execution could not be granted", eventGrantFailed.attr(),
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
	client, keys := p.scheduler.engine.client, p.scheduler.engine.core.Keys()
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
	_, err := p.scheduler.engine.core.BlockExecutionForAdmission(ctx, enginecore.BlockExecutionForAdmissionCall{
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
	_, err := p.scheduler.engine.core.UnblockExecution(ctx, enginecore.UnblockExecutionCall{
		LaneID: p.lane, ExecutionID: x.id, Now: p.now, ExpectedBlockingReason: x.blocked,
	})
	if errors.Is(err, enginecore.ErrExecutionNotEligible) || errors.Is(err, enginecore.ErrExecutionNotFound) {
		return nil // issuing the grant tells
	}
	return err
}

// issue writes the grant.
func (p *probe) issue(ctx context.Context, at enginecore.Partition, x *grantCandidate) (Grant, error) {
	core, r := p.scheduler.engine.core, p.request
	call := enginecore.Grant{
		ExecutionID: x.id, WorkerID: r.WorkerID, WorkerInstanceID: r.Instance, LaneID: p.lane, GrantTTL: r.TTL,
		WorkerCapabilitiesCSV: p.csv,
	}
	reclaim := contractCandidate{x.id, x.core}.reclaimable()
	var err error
	if reclaim {
		_, err = core.IssueReclaimGrant(ctx, enginecore.IssueReclaimGrantCall{Grant: call})
	} else {
		_, err = core.IssueClaimGrant(ctx, enginecore.IssueClaimGrantCall{Grant: call})
	}
	if err != nil {
		return Grant{}, err
	}
	return Grant{
		ExecutionID: x.id, Partition: at, Lane: p.lane, WorkerID: r.WorkerID, Instance: r.Instance, Reclaim: reclaim,
		Key: core.Keys().ExecClaimGrant(x.id), ExpiresAt: p.now.Add(r.TTL),
	}, nil
}
