package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// LaneTotals returns the number of executions of each lane by state, summed over all partitions and sorted by lane.
// The time since which a lane is paused is the time in the first partition in which it is paused. LaneTotals fails if
// the call of any partition fails. It makes one call for each partition, regardless of the number of runs: the counts
// are stored.
func (s *Session) LaneTotals(ctx context.Context) ([]enginerpc.LaneState, error) {
	replies, err := InAllPartitions(ctx, s, func(p keyspace.Partition) enginerpc.LanesCall { return enginerpc.LanesCall{Partition: p} })
	if err != nil {
		return nil, fmt.Errorf("list lanes: %w", err)
	}
	byName := make(map[enginecore.LaneID]*enginerpc.LaneState)
	for _, reply := range replies {
		for _, part := range reply.Lanes {
			if byName[part.LaneID] == nil {
				byName[part.LaneID] = &enginerpc.LaneState{LaneID: part.LaneID}
			}
			addLane(byName[part.LaneID], part)
		}
	}
	lanes := make([]enginerpc.LaneState, 0, len(byName))
	for _, lane := range byName {
		lanes = append(lanes, *lane)
	}
	slices.SortFunc(lanes, func(a, b enginerpc.LaneState) int { return cmp.Compare(a.LaneID, b.LaneID) })
	return lanes, nil
}

// addLane adds the counts of one partition.
func addLane(total *enginerpc.LaneState, part enginerpc.LaneState) {
	total.Paused = cmp.Or(total.Paused, part.Paused)
	total.Eligible += part.Eligible
	total.Delayed += part.Delayed
	total.Active += part.Active
	total.Suspended += part.Suspended
	total.BlockedDependencies += part.BlockedDependencies
	total.BlockedBudget += part.BlockedBudget
	total.BlockedQuota += part.BlockedQuota
	total.BlockedRoute += part.BlockedRoute
	total.BlockedOperator += part.BlockedOperator
	if oldest := part.OldestEligibleAt; !oldest.IsZero() &&
		(total.OldestEligibleAt.IsZero() || oldest.Before(total.OldestEligibleAt)) {
		total.OldestEligibleAt = oldest
	}
}

// InAllPartitions makes one call in every flow partition and returns the replies of the calls that succeeded. The
// error joins the errors of the other calls. In contract mode it is ErrNotInContract, and nothing is sent.
func InAllPartitions[R any, C enginerpc.Call[R]](
	ctx context.Context, s *Session, callFor func(keyspace.Partition) C,
) ([]R, error) {
	if _, err := s.Library("pauses and totals of lanes"); err != nil {
		return nil, err
	}
	var calls []C
	for _, p := range s.Partitions() {
		calls = append(calls, callFor(p))
	}
	results, _ := batching.SendAll[R](ctx, s.Core, calls) // the results have the errors
	replies := []R{}
	var faults []error
	for _, r := range results {
		if r.Err != nil {
			faults = append(faults, r.Err)
			continue
		}
		replies = append(replies, r.Reply)
	}
	return replies, enginerpc.JoinSame("partitions", faults)
}

// Subjects of a pause, as the engine names them.
const (
	PausedLane     = "lane"
	PausedActivity = "kind"
)
