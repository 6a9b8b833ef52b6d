package admission

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

const (
	// searchedPartitions is the number of partitions that one call searches; rotationWindow is the time for
	// which calls begin at the same partition.
	searchedPartitions = 32
	rotationWindow     = 250 * time.Millisecond
	// retryBlockedEvery is the number of grants of which one searches blocked executions first.
	retryBlockedEvery = 8
)

// GrantIssuer issues grants. It records from which partitions, so that all of them take turns. It is safe for
// concurrent use; make one with NewGrantIssuer.
type GrantIssuer struct {
	session *engine.Session

	mu        sync.Mutex
	window    int64
	first     int // partition at which calls begin
	grants    int64
	lastGrant map[grantShard]int64 // number of the last grant of each shard
}

// grantShard is a lane in a partition.
type grantShard struct {
	lane      enginecore.LaneID
	partition keyspace.Partition
}

// NewGrantIssuer returns an issuer of grants for the executions of a session's engine.
func NewGrantIssuer(s *engine.Session) *GrantIssuer {
	return &GrantIssuer{session: s, lastGrant: make(map[grantShard]int64)}
}

// ClaimForWorker issues a grant for one execution that the worker of the request may run. It returns
// enginecore.ErrNoGrant if there is none, and an error that wraps engine.ErrInvalid if the request is invalid.
func (g *GrantIssuer) ClaimForWorker(ctx context.Context, r enginecore.GrantRequest) (enginecore.Grant, error) {
	s, err := g.newSearch(ctx, r)
	if err != nil {
		return enginecore.Grant{}, err
	}
	// A search that blocked an execution, or lost one to another worker, may find another one when repeated.
	for range maxSearches {
		s.changed = false
		grant, granted, err := s.run(ctx)
		if err != nil {
			return enginecore.Grant{}, fmt.Errorf("claim for worker %s: %w", r.Instance, err)
		}
		if granted {
			return grant, nil
		}
		if !s.changed {
			break
		}
	}
	return enginecore.Grant{}, enginecore.ErrNoGrant
}

// rotate returns the partition at which a call begins; it advances once in each rotationWindow.
func (g *GrantIssuer) rotate(now time.Time, partitions int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if window := now.UnixMilli() / rotationWindow.Milliseconds(); window != g.window {
		g.window = window
		g.first = (g.first + searchedPartitions) % partitions
	}
	return g.first
}

// noteGrant records a grant, so that the partition is searched last for its lane.
func (g *GrantIssuer) noteGrant(at grantShard) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.grants++
	g.lastGrant[at] = g.grants
}

// isBlockedTurn reports whether the next grant searches blocked executions first.
func (g *GrantIssuer) isBlockedTurn() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.grants%retryBlockedEvery == retryBlockedEvery-1
}

// sortByLastGrant sorts partitions of a lane by the time of their last grant, the oldest first.
func (g *GrantIssuer) sortByLastGrant(lane enginecore.LaneID, list []partitionHeads) {
	g.mu.Lock()
	defer g.mu.Unlock()
	slices.SortStableFunc(list, func(a, b partitionHeads) int {
		return cmp.Compare(g.lastGrant[grantShard{lane, a.partition}], g.lastGrant[grantShard{lane, b.partition}])
	})
}
