package admission

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

const (
	// searchedPartitions is how many partitions one call searches, and rotationWindow for how long calls begin at the same one.
	searchedPartitions = 32
	rotationWindow     = 250 * time.Millisecond
	// retryBlockedEvery is how often a grant looks first at executions that were blocked.
	retryBlockedEvery = 8
)

// grantIssuer issues grants, and remembers where it did so that all partitions get their turn.
type GrantIssuer struct {
	session *engine.Session

	mu        sync.Mutex
	window    int64
	first     int // partition at which calls begin
	grants    int64
	lastGrant map[grantShard]int64 // by its number
}

// grantShard is a lane in a partition.
type grantShard struct {
	lane      enginecore.LaneID
	partition enginecore.Partition
}

func NewGrantIssuer(s *engine.Session) *GrantIssuer {
	return &GrantIssuer{session: s, lastGrant: make(map[grantShard]int64)}
}

// claimForWorker implements GrantIssuer.ClaimForWorker.
func (g *GrantIssuer) ClaimForWorker(ctx context.Context, r GrantRequest) (IssuedGrant, error) {
	s, err := g.newSearch(ctx, r)
	if err != nil {
		return IssuedGrant{}, err
	}
	// An execution that was blocked, or taken by others meanwhile, has made room for others.
	for range maxSearches {
		s.changed = false
		grant, granted, err := s.run(ctx)
		if err != nil {
			return IssuedGrant{}, fmt.Errorf("claim for worker %s: %w", r.Instance, err)
		}
		if granted {
			return grant, nil
		}
		if !s.changed {
			break
		}
	}
	return IssuedGrant{}, ErrNoGrant
}

// rotate returns the partition at which a call begins, which moves on once in each window of time.
func (g *GrantIssuer) rotate(now time.Time, partitions int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if window := now.UnixMilli() / rotationWindow.Milliseconds(); window != g.window {
		g.window = window
		g.first = (g.first + searchedPartitions) % partitions
	}
	return g.first
}

// noteGrant records a grant, which makes the partition the last to be searched for its lane.
func (g *GrantIssuer) noteGrant(at grantShard) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.grants++
	g.lastGrant[at] = g.grants
}

// isBlockedTurn reports whether the next grant looks first at executions that were blocked.
func (g *GrantIssuer) isBlockedTurn() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.grants%retryBlockedEvery == retryBlockedEvery-1
}

// sortByLastGrant sorts partitions of a lane by when the last grant was issued from them, the oldest first.
func (g *GrantIssuer) sortByLastGrant(lane enginecore.LaneID, list []partitionHeads) {
	g.mu.Lock()
	defer g.mu.Unlock()
	slices.SortStableFunc(list, func(a, b partitionHeads) int {
		return cmp.Compare(g.lastGrant[grantShard{lane, a.partition}], g.lastGrant[grantShard{lane, b.partition}])
	})
}
