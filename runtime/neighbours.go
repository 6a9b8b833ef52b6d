package runtime

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// neighbourRuns is how many runs in a row go into one partition while many are started.
	neighbourRuns = 64
	// neighbourTime is how fast so many must have been started for that.
	neighbourTime = 500 * time.Millisecond
	// neighbourTries bounds the search for an id; the last one is taken as it is.
	neighbourTries = 256
)

// neighbours gives ids to runs that have none. While a client starts many, those that it starts one after the other go into
// the same partition, and then into another one: workers find more of them at a time there, and complete more with one call.
// In the long run, all partitions get the same.
type neighbours struct {
	mu        sync.Mutex
	partition int
	since     time.Time
	started   int
	busy      bool
}

// next is the partition of the next run; none while few are started.
func (n *neighbours) next(now time.Time, partitions int) (partition int, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.started++
	if n.started >= neighbourRuns {
		n.busy = now.Sub(n.since) < neighbourTime
		n.partition, n.since, n.started = rand.IntN(partitions), now, 0
	}
	return n.partition, n.busy && now.Sub(n.since) < neighbourTime
}

// runID is a random UUID.
func (n *neighbours) runID(e *Engine, flowName string) string {
	id := uuid.New()
	partitions := e.core.Partitioning()
	wanted, ok := n.next(time.Now(), partitions.Flow)
	if !ok {
		return id.String()
	}
	for range neighbourTries {
		if int(partitions.FlowPartitionFor(e.namespace, flowName, id.String()).Index) == wanted {
			break
		}
		low := rand.Uint32()
		id[13], id[14], id[15] = byte(low>>16), byte(low>>8), byte(low)
	}
	return id.String()
}
