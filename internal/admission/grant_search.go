package admission

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
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/stablehash"
)

const (
	// searchedHeads is the number of executions that one call reads from an index of a partition, so that it
	// can skip executions which this worker may not run.
	searchedHeads = 16
	// searchedShared replaces searchedHeads for indexes of the contract, which may contain executions that only other
	// programs can run, or that are leased.
	searchedShared = 64
	// maxSearches bounds the repetitions of a search in one call.
	maxSearches = 64
)

// run grants the first execution of the searched partitions that the worker may run.
func (s *grantSearch) run(ctx context.Context) (enginecore.Grant, bool, error) {
	list, err := s.readHeads(ctx)
	if err != nil {
		return enginecore.Grant{}, false, err
	}
	if s.native {
		s.issuer.sortByLastGrant(s.lane, list)
	}
	grant, granted, err := s.grantFirst(ctx, list)
	if err != nil || granted || s.native {
		return grant, granted, err
	}
	if list, err = s.readRevoked(ctx); err != nil {
		return enginecore.Grant{}, false, err
	}
	return s.grantFirst(ctx, list)
}

// grantFirst grants an execution of the first partition of a list that has one which the worker may run.
func (s *grantSearch) grantFirst(ctx context.Context, list []partitionHeads) (enginecore.Grant, bool, error) {
	for _, heads := range list {
		grant, granted, err := s.grantFrom(ctx, heads)
		if granted {
			s.issuer.noteGrant(grantShard{s.lane, heads.partition})
		}
		if err != nil || granted {
			return grant, granted, err
		}
	}
	return enginecore.Grant{}, false, nil
}

// grantSearch is the state of one call of ClaimForWorker.
type grantSearch struct {
	session      *engine.Session
	issuer       *GrantIssuer
	request      enginecore.GrantRequest
	lane         enginecore.LaneID
	capabilities string // sorted, comma-separated
	now          time.Time
	partitions   []keyspace.Partition
	budgets      map[string]string // budget id → exceeded limits, "" if none is
	changed      bool              // an eligible execution was blocked or lost, so a repeated search may find another
	native       bool              // the engine has the whole library and chooses the next execution
	passedOver   []string          // ids of executions that may not be granted now
}

func (g *GrantIssuer) newSearch(ctx context.Context, r enginecore.GrantRequest) (*grantSearch, error) {
	capabilities, err := checkRequest(r)
	if err != nil {
		return nil, err
	}
	now, err := g.session.Core.Now(ctx)
	if err != nil {
		return nil, fmt.Errorf("claim for worker %s: %w", r.Instance, err)
	}
	s := &grantSearch{
		session: g.session, issuer: g, request: r, lane: enginecore.LaneID(r.Lane), capabilities: capabilities,
		now:     now,
		budgets: make(map[string]string), native: g.session.IsWhole(),
	}
	all := g.session.Partitions()
	if r.Partition != "" {
		i := slices.IndexFunc(all, func(p keyspace.Partition) bool { return p.Tag() == r.Partition })
		if i < 0 {
			return nil, fmt.Errorf("%w: grant request: partition %s: the engine has {fp:0} to {fp:%d}",
				engine.ErrInvalid, r.Partition, len(all)-1)
		}
		s.partitions = all[i : i+1 : i+1]
		return s, nil
	}
	first := g.rotate(now, len(all)) + int(uint16(stablehash.Of(string(r.Instance))))%len(all)
	for i := range min(searchedPartitions, len(all)) {
		s.partitions = append(s.partitions, all[(first+i)%len(all)])
	}
	// Partition 0 keeps the order of the lane for all partitions of the server.
	if g.session.IsOneServer() && !slices.Contains(s.partitions, all[0]) {
		s.partitions = append(s.partitions, all[0])
	}
	return s, nil
}

// grantFrom grants one execution of a partition: the next one by the engine's order or, if there is none, a
// blocked one that can run now. Every retryBlockedEvery-th grant searches the blocked ones first, so that
// they do not starve.
func (s *grantSearch) grantFrom(ctx context.Context, heads partitionHeads) (enginecore.Grant, bool, error) {
	ways := []func(context.Context, partitionHeads) (enginecore.Grant, bool, error){s.grantNext, s.grantHead}
	if s.issuer.isBlockedTurn() {
		slices.Reverse(ways)
	}
	for _, way := range ways {
		if grant, granted, err := way(ctx, heads); err != nil || granted {
			return grant, granted, err
		}
	}
	return enginecore.Grant{}, false, nil
}

// grantNext grants the execution that the engine names as the next one.
func (s *grantSearch) grantNext(ctx context.Context, heads partitionHeads) (enginecore.Grant, bool, error) {
	if !heads.ready {
		return enginecore.Grant{}, false, nil
	}
	r := s.request
	call := enginerpc.GrantNextCall{
		Partition: heads.partition, LaneID: s.lane, WorkerID: r.WorkerID, WorkerInstanceID: r.Instance, GrantTTL: r.TTL,
		Capabilities: s.capabilities,
	}
	if r.Activities != nil {
		call.Kinds = enginerpc.KindSet(r.Activities)
	}
	for range maxSearches {
		call.PassedOver = strings.Join(s.passedOver, "\n")
		reply, err := s.session.Core.GrantNext(ctx, call)
		if err != nil || reply.ExecutionID == "" {
			return enginecore.Grant{}, false, err
		}
		id := enginecore.ExecutionID(reply.ExecutionID)
		at, err := keyspace.PartitionOf(id)
		if err != nil {
			return enginecore.Grant{}, false, err
		}
		if reply.Granted {
			return s.grantOf(id, reply.Reclaim), true, nil
		}
		asked := []grantCandidate{{id: id}}
		if err := s.readRecords(ctx, asked); err != nil {
			return enginecore.Grant{}, false, err
		}
		// Another worker may have claimed the execution in between. Acquiring permits for its next lease would then
		// give up the permits of the current one.
		if s.isClaimable(&asked[0]) {
			grant, granted, err := s.admitAndGrant(ctx, at, &asked[0])
			if err != nil || granted {
				return grant, granted, err
			}
		}
		s.passedOver = append(s.passedOver, reply.ExecutionID)
	}
	return enginecore.Grant{}, false, nil
}

// grantHead grants the first of the heads that the worker may run.
func (s *grantSearch) grantHead(ctx context.Context, heads partitionHeads) (enginecore.Grant, bool, error) {
	if len(heads.ids) == 0 {
		return enginecore.Grant{}, false, nil
	}
	paused, err := s.pauses(ctx, heads)
	if err != nil || paused[engine.PausedLane+" "+s.request.Lane] {
		return enginecore.Grant{}, false, err
	}
	if err := s.readRecords(ctx, heads.ids); err != nil {
		return enginecore.Grant{}, false, err
	}
	for i := range heads.ids {
		x := &heads.ids[i]
		if paused[engine.PausedActivity+" "+x.record["execution_kind"]] || !s.isClaimable(x) {
			continue
		}
		grant, granted, err := s.tryGrant(ctx, heads.partition, x)
		if err != nil || granted {
			return grant, granted, err
		}
	}
	return enginecore.Grant{}, false, nil
}

// pauses returns the pauses in a partition; nil unless the eligible index has a pause mark.
func (s *grantSearch) pauses(ctx context.Context, heads partitionHeads) (map[string]bool, error) {
	if !heads.marked {
		return nil, nil
	}
	client, keys := s.session.Client, s.session.Core.Keys()
	stored, err := client.Do(ctx, client.B().Hgetall().Key(keys.FfxPauses(heads.partition)).Build()).AsStrMap()
	if err != nil {
		return nil, err
	}
	paused := make(map[string]bool, len(stored))
	for what := range stored {
		paused[what] = true
	}
	return paused, nil
}

// pauseMark is the first entry of an eligible index while its lane or an activity is paused.
const pauseMark = "paused"

// isClaimable reports whether an execution can be claimed according to its record.
func (s *grantSearch) isClaimable(x *grantCandidate) bool {
	switch {
	case x.record.Lane() != s.lane || x.blocked != "" && !s.knowsActivity(x):
		return false
	case x.record.IsReclaimable():
		return true
	case x.record["lifecycle_phase"] != "runnable":
		return false
	case x.blocked == "":
		return x.record["eligibility_state"] == "eligible_now"
	case x.blocked == blockedByQuota && x.record["limits"] != "":
		return false // its limits unblock it
	}
	return x.record["blocking_reason"] == x.blocked
}

// knowsActivity reports whether the worker can run the activity of an execution.
func (s *grantSearch) knowsActivity(x *grantCandidate) bool {
	return s.request.Activities == nil || slices.Contains(s.request.Activities, x.record["execution_kind"])
}

// tryGrant grants one execution, or blocks it if the worker may not run it.
func (s *grantSearch) tryGrant(
	ctx context.Context, at keyspace.Partition, x *grantCandidate,
) (enginecore.Grant, bool, error) {
	if !s.knowsActivity(x) {
		if !s.native {
			// Workers of other programs, which this engine does not know, may run it.
			return enginecore.Grant{}, false, nil
		}
		return enginecore.Grant{}, false, s.block(ctx, x, blockedByRoute,
			fmt.Sprintf("no running worker knows activity %q", x.record["execution_kind"]))
	}
	if missing := s.missingCapabilities(x.record["required_capabilities"]); missing != "" {
		return enginecore.Grant{}, false, s.block(ctx, x, blockedByRoute,
			"no connected worker satisfies required_capabilities: "+missing)
	}
	idle, err := s.isIdle(ctx, at, x)
	if err != nil || !idle {
		return enginecore.Grant{}, false, err
	}
	return s.admitAndGrant(ctx, at, x)
}

// admitAndGrant grants an execution that the worker may run if its budgets, quotas and limits admit it, and
// blocks it otherwise.
func (s *grantSearch) admitAndGrant(
	ctx context.Context, at keyspace.Partition, x *grantCandidate,
) (enginecore.Grant, bool, error) {
	a, err := s.Admit(ctx, x)
	if err != nil {
		return enginecore.Grant{}, false, err
	}
	switch a.reason {
	case "":
	case alreadyBlocked:
		return enginecore.Grant{}, false, nil
	default:
		return enginecore.Grant{}, false, s.block(ctx, x, a.reason, a.detail)
	}
	if err := s.unblock(ctx, x); err != nil {
		return enginecore.Grant{}, false, err
	}
	grant, err := s.issue(ctx, at, x)
	if err != nil {
		a.release(context.WithoutCancel(ctx)) // the call most likely failed because ctx ended
		s.changed = true
		s.session.Logger.LogAttrs(ctx, slog.LevelDebug, "flowfabric: the grant issuer could not grant an execution",
			observe.EventGrantFailed.Attr(),
			slog.String("execution", string(x.id)), slog.Any("error", err))
		return enginecore.Grant{}, false, nil
	}
	return grant, true, nil
}

// missingCapabilities lists the capabilities that an execution requires and the worker does not offer.
func (s *grantSearch) missingCapabilities(required string) string {
	var missing []string
	for need := range strings.SplitSeq(required, ",") {
		if need != "" && !slices.Contains(s.request.Capabilities, need) {
			missing = append(missing, need)
		}
	}
	return strings.Join(missing, ",")
}

// isIdle reports whether no worker has a grant for the execution and its run is not paused.
func (s *grantSearch) isIdle(ctx context.Context, at keyspace.Partition, x *grantCandidate) (bool, error) {
	client, keys := s.session.Client, s.session.Core.Keys()
	reads := rueidis.Commands{client.B().Exists().Key(keys.ExecClaimGrant(x.id)).Build()}
	if id := enginecore.FlowID(x.record["flow_id"]); id != "" {
		reads = append(reads, client.B().Hexists().Key(keys.FlowCore(at, id)).Field("paused").Build())
	}
	for _, result := range client.DoMulti(ctx, reads...) {
		if n, err := result.AsInt64(); err != nil || n > 0 {
			return false, err
		}
	}
	return true, nil
}

// block moves an eligible execution to the index of executions blocked for a reason. Executions that are
// blocked already, or to be reclaimed, stay where they are.
func (s *grantSearch) block(ctx context.Context, x *grantCandidate, reason, detail string) error {
	if x.record["eligibility_state"] != "eligible_now" {
		return nil
	}
	s.changed = true
	_, err := s.session.Core.BlockExecutionForAdmission(ctx, enginerpc.BlockExecutionForAdmissionCall{
		LaneID: s.lane, ExecutionID: x.id, BlockingReason: reason, BlockingDetail: detail, Now: s.now,
	})
	if errors.Is(err, enginecore.ErrExecutionNotEligible) || errors.Is(err, enginecore.ErrExecutionNotActive) ||
		errors.Is(err, enginecore.ErrExecutionNotFound) {
		return nil // its state has changed since
	}
	return err
}

// unblock makes a blocked execution eligible again.
func (s *grantSearch) unblock(ctx context.Context, x *grantCandidate) error {
	if x.blocked == "" {
		return nil
	}
	_, err := s.session.Core.UnblockExecution(ctx, enginerpc.UnblockExecutionCall{
		LaneID: s.lane, ExecutionID: x.id, Now: s.now, ExpectedBlockingReason: x.blocked,
	})
	if errors.Is(err, enginecore.ErrExecutionNotEligible) || errors.Is(err, enginecore.ErrExecutionNotFound) {
		return nil // issuing the grant reports the error
	}
	return err
}

// issue writes a claim grant or a reclaim grant of an execution and returns it.
func (s *grantSearch) issue(ctx context.Context, at keyspace.Partition, x *grantCandidate) (enginecore.Grant, error) {
	core, r := s.session.Core, s.request
	call := enginerpc.Grant{
		ExecutionID: x.id, WorkerID: r.WorkerID, WorkerInstanceID: r.Instance, LaneID: s.lane, GrantTTL: r.TTL,
		WorkerCapabilitiesCSV: s.capabilities,
	}
	reclaim := x.record.IsReclaimable()
	var err error
	if reclaim {
		_, err = core.IssueReclaimGrant(ctx, enginerpc.IssueReclaimGrantCall{Grant: call})
	} else {
		_, err = core.IssueClaimGrant(ctx, enginerpc.IssueClaimGrantCall{Grant: call})
	}
	if err != nil {
		return enginecore.Grant{}, err
	}
	return s.grantOf(x.id, reclaim), nil
}

func (s *grantSearch) grantOf(id enginecore.ExecutionID, reclaim bool) enginecore.Grant {
	r := s.request
	return enginecore.Grant{
		ExecutionID: id, Lane: s.lane, WorkerID: r.WorkerID, Instance: r.Instance, Reclaim: reclaim,
		Key: s.session.Core.Keys().ExecClaimGrant(id), ExpiresAt: s.now.Add(r.TTL),
	}
}
