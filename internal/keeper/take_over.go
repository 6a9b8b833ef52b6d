package keeper

import (
	"sync"

	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// takeOvers are the partitions for which a keeper knows that no previous keeper is working on their schedules and bulk
// jobs, or that it does not matter. In all others, its next tick takes over the work that other keepers have taken:
// they may have died while they started a fire, or acted on a run. The zero value has none. It is safe for concurrent
// use.
type takeOvers struct {
	mu    sync.Mutex
	taken map[keyspace.Partition]bool
}

// begin forgets all partitions: the keeper starts.
func (t *takeOvers) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken = make(map[keyspace.Partition]bool)
}

// isDue reports whether a partition is to be taken over.
func (t *takeOvers) isDue(p keyspace.Partition) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.taken[p]
}

// done records that a partition has been taken over.
func (t *takeOvers) done(p keyspace.Partition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken[p] = true
}

// share forgets the partitions that others own now: they may come back.
func (t *takeOvers) share(owns func(keyspace.Partition) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for p := range t.taken {
		if !owns(p) {
			delete(t.taken, p)
		}
	}
}
