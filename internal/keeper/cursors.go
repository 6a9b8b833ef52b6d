package keeper

import (
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

const (
	// reconciledAtOnce bounds the records that one step reads, reconciledByHand the records of a step of RunTask, whose
	// caller waits.
	reconciledAtOnce = 128
	reconciledByHand = 500
	// stepsPerTurn is the number of steps that a partition with many records gets in one interval of a loop.
	stepsPerTurn = 10
)

// cursors holds the position of a reconciliation in each partition.
type cursors struct {
	mu sync.Mutex
	at map[keyspace.Partition]string
	// repaired holds the partitions in which the current pass has repaired something; passes counts the completed
	// passes.
	repaired map[keyspace.Partition]bool
	passes   map[keyspace.Partition]int
}

func newCursors() *cursors {
	return &cursors{
		at: make(map[keyspace.Partition]string), repaired: make(map[keyspace.Partition]bool),
		passes: make(map[keyspace.Partition]int),
	}
}

func (c *cursors) get(p keyspace.Partition) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at[p]
}

// moved records the position after a step, and returns whether the next step follows at once or after which time.
func (c *cursors) moved(
	p keyspace.Partition, cursor string, every time.Duration, byHand bool,
) (more bool, next time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at[p] = cursor
	if cursor == "" {
		delete(c.at, p)
		return false, 0
	}
	return byHand, every / stepsPerTurn
}

// maxPasses bounds the passes of RunTask through a partition.
const maxPasses = 4

// again reports, at the end of a pass, whether RunTask needs another one: repairs may have revealed unknown lanes and
// keys.
func (c *cursors) again(p keyspace.Partition, repaired bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.repaired[p] = c.repaired[p] || repaired
	if c.at[p] != "" {
		return false
	}
	c.passes[p]++
	again := c.repaired[p] && c.passes[p] < maxPasses
	c.repaired[p] = false
	return again
}
