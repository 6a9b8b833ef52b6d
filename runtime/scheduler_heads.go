package runtime

import (
	"context"
	"slices"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
)

// grantCandidate is an execution that stands first in one of the indexes of its lane.
type grantCandidate struct {
	id      enginecore.ExecutionID
	core    record
	blocked string // why, by its index; "" when it is eligible or abandoned
}

// grantSpot is what a probe has found in a partition.
type grantSpot struct {
	partition enginecore.Partition
	ready     bool // something is eligible or abandoned, of which the engine tells what is next
	marked    bool // with the mark of a pause
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
	client := p.scheduler.session.client
	var reads rueidis.Commands
	indexes := make([][]grantIndex, len(p.places))
	for i, at := range p.places {
		indexes[i] = p.indexes(at)
		for _, index := range indexes[i] {
			reads = append(reads, client.B().Zrange().Key(index.key).Min("0").Max(decimal(index.last)).Build())
		}
	}
	results := client.DoMulti(ctx, reads...)
	var spots []grantSpot
	for i, at := range p.places {
		spot := grantSpot{partition: at}
		for _, index := range indexes[i] {
			ids, err := results[0].AsStrSlice()
			if err != nil && !rueidis.IsRedisNil(err) {
				return nil, err
			}
			results = results[1:]
			spot.marked = spot.marked || slices.Contains(ids, pauseMark)
			if p.whole && index.reason == "" {
				spot.ready = spot.ready || len(ids) > 0
				continue
			}
			for _, id := range ids {
				spot.ids = append(spot.ids, grantCandidate{id: enginecore.ExecutionID(id), blocked: index.reason})
			}
		}
		if spot.ready || len(spot.ids) > 0 {
			spots = append(spots, spot)
		}
	}
	return spots, nil
}

type grantIndex struct {
	key, reason string
	last        int64 // entry to look at
}

func (p *probe) indexes(at enginecore.Partition) []grantIndex {
	keys := p.scheduler.session.core.Keys()
	blocked := []grantIndex{
		{keys.LaneBlockedRoute(at, p.lane), blockedByRoute, probedHeads - 1},
		{keys.LaneBlockedBudget(at, p.lane), blockedByBudget, probedHeads - 1},
		{keys.LaneBlockedQuota(at, p.lane), blockedByQuota, probedHeads - 1},
	}
	if !p.whole {
		return append([]grantIndex{{keys.LaneEligible(at, p.lane), "", probedHeads - 1}}, blocked...)
	}
	return append([]grantIndex{{keys.FfxReclaimable(at, p.lane), "", 0}, {keys.LaneEligible(at, p.lane), "", 0}}, blocked...)
}

// grantFields are what a scheduler has to know of an execution.
var grantFields = append([]string{"budget_ids", "quota_policy_id", "limits", "admission", "blocking_reason", "priority"}, claimFields...)

// readCores reads the records of candidates, and drops what stands in an index without being an execution.
func (p *probe) readCores(ctx context.Context, list []grantCandidate) error {
	client, keys := p.scheduler.session.client, p.scheduler.session.core.Keys()
	reads := make(rueidis.Commands, len(list))
	for i := range list {
		reads[i] = client.B().Hmget().Key(keys.ExecCore(list[i].id)).Field(grantFields...).Build()
	}
	for i, result := range client.DoMulti(ctx, reads...) {
		if err := result.Error(); err != nil {
			return err
		}
		list[i].core = hashrecord.Read(result, grantFields)
	}
	return nil
}
