package admission

import (
	"context"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// grantCandidate is an execution at the head of one of the indexes of its lane.
type grantCandidate struct {
	id      enginecore.ExecutionID
	record  engine.Record
	blocked string // reason, by its index; "" if it is eligible or to be reclaimed
}

// partitionHeads are the executions at the heads of the indexes of a lane in one partition.
type partitionHeads struct {
	partition keyspace.Partition
	ready     bool // an execution is eligible or to be reclaimed; the engine chooses which is next
	marked    bool // the eligible index contains pauseMark
	ids       []grantCandidate
}

// Reasons for which an execution is blocked, as the engine names them.
const (
	blockedByBudget = "waiting_for_budget"
	blockedByQuota  = "waiting_for_quota"
	blockedByRoute  = "waiting_for_capable_worker"
)

// readHeads reads the first entries of the indexes of the searched partitions in one round trip: executions
// to be reclaimed, eligible ones, and then those that a grant issuer has blocked. Partitions without any are
// left out.
func (s *grantSearch) readHeads(ctx context.Context) ([]partitionHeads, error) {
	client := s.session.Client
	var reads rueidis.Commands
	indexes := make([][]grantIndex, len(s.partitions))
	for i, at := range s.partitions {
		indexes[i] = s.indexes(at)
		for _, index := range indexes[i] {
			if index.byTime {
				reads = append(reads, client.B().Zrangebyscore().Key(index.key).Min("-inf").
					Max(strconv.FormatInt(s.now.UnixMilli(), 10)).Limit(0, index.last+1).Build())
				continue
			}
			last := strconv.FormatInt(index.last, 10)
			reads = append(reads, client.B().Zrange().Key(index.key).Min("0").Max(last).Build())
		}
	}
	results := client.DoMulti(ctx, reads...)
	var list []partitionHeads
	for i, at := range s.partitions {
		heads := partitionHeads{partition: at}
		for _, index := range indexes[i] {
			ids, err := results[0].AsStrSlice()
			if err != nil && !rueidis.IsRedisNil(err) {
				return nil, err
			}
			results = results[1:]
			heads.marked = heads.marked || slices.Contains(ids, pauseMark)
			if s.native && index.reason == "" {
				heads.ready = heads.ready || len(ids) > 0
				continue
			}
			for _, id := range ids {
				heads.ids = append(heads.ids, grantCandidate{id: enginecore.ExecutionID(id), blocked: index.reason})
			}
		}
		if heads.ready || len(heads.ids) > 0 {
			list = append(list, heads)
		}
	}
	return list, nil
}

// grantIndex is an index of executions of one lane in one partition.
type grantIndex struct {
	key, reason string
	last        int64 // position of the last entry to read
	byTime      bool  // only entries whose time has come are read
}

func (s *grantSearch) indexes(at keyspace.Partition) []grantIndex {
	keys := s.session.Core.Keys()
	blocked := []grantIndex{
		{key: keys.LaneBlockedRoute(at, s.lane), reason: blockedByRoute, last: searchedHeads - 1},
		{key: keys.LaneBlockedBudget(at, s.lane), reason: blockedByBudget, last: searchedHeads - 1},
		{key: keys.LaneBlockedQuota(at, s.lane), reason: blockedByQuota, last: searchedHeads - 1},
	}
	if s.native {
		return append([]grantIndex{{key: keys.FfxReclaimable(at, s.lane)}, {key: keys.LaneEligible(at, s.lane)}},
			blocked...)
	}
	return append([]grantIndex{
		// The contract keeps executions without a worker among the leases, of all lanes.
		{key: keys.IndexLeaseExpiry(at), last: searchedShared - 1, byTime: true},
		{key: keys.LaneEligible(at, s.lane), last: searchedShared - 1},
	}, blocked...)
}

// readRevoked reads the executions of the lane whose lease an operator has revoked, as far as they are among the first
// ones that run in the searched partitions. In the contract, no other index has them.
func (s *grantSearch) readRevoked(ctx context.Context) ([]partitionHeads, error) {
	client := s.session.Client
	var reads rueidis.Commands
	for _, at := range s.partitions {
		reads = append(reads, client.B().Zrange().Key(s.session.Core.Keys().LaneActive(at, s.lane)).Min("0").
			Max(strconv.Itoa(searchedShared-1)).Build())
	}
	var running []grantCandidate
	var counts []int // of each partition
	for _, result := range client.DoMulti(ctx, reads...) {
		ids, err := result.AsStrSlice()
		if err != nil && !rueidis.IsRedisNil(err) {
			return nil, err
		}
		for _, id := range ids {
			running = append(running, grantCandidate{id: enginecore.ExecutionID(id)})
		}
		counts = append(counts, len(ids))
	}
	if err := s.readRecords(ctx, running); err != nil {
		return nil, err
	}
	var list []partitionHeads
	for i, at := range s.partitions {
		lost := slices.DeleteFunc(running[:counts[i]:counts[i]], func(x grantCandidate) bool {
			return !x.record.IsReclaimable()
		})
		running = running[counts[i]:]
		if len(lost) > 0 {
			list = append(list, partitionHeads{partition: at, ids: lost})
		}
	}
	return list, nil
}

// grantFields are the fields of an execution's record that decide whether it can be granted.
var grantFields = []string{
	"budget_ids", "quota_policy_id", "limits", "admission", "blocking_reason", "priority", "lifecycle_phase",
	"ownership_state", "eligibility_state", "lane_id", "execution_kind", "required_capabilities", "flow_id",
	"created_at", "current_lease_epoch",
}

// readRecords reads the records of candidates.
func (s *grantSearch) readRecords(ctx context.Context, list []grantCandidate) error {
	ids := make([]enginecore.ExecutionID, len(list))
	for i := range list {
		ids[i] = list[i].id
	}
	records, err := s.session.ReadExecutions(ctx, ids, grantFields)
	if err != nil {
		return err
	}
	for i := range list {
		list[i].record = records[i]
	}
	return err
}
