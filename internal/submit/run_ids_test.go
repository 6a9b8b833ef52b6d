package submit

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

var someParts = keyspace.Partitioning{Flow: 64}

func partitionOf(id uuid.UUID) int {
	return int(someParts.FlowPartitionForUUID("default", "orders", id).Index)
}

// TestGroupedRunIDs checks the ids of a client that starts many runs: they differ, come in groups of one partition,
// and all partitions get about the same number; and nearly every computed hash yields an id.
func TestGroupedRunIDs(t *testing.T) {
	const runs = 200_000
	a := runIDAllocator{maxFactor: maxGroupFactor}
	now := time.Now()
	seen := make(map[uuid.UUID]bool, runs)
	counts := make([]int, someParts.Flow)
	hashes, together, last := 0, 0, -1
	for range runs {
		pool, grouped := a.count(now, someParts.Flow, "orders")
		if !grouped {
			continue
		}
		id := pool.take(a.partition, func(id uuid.UUID) int { hashes++; return partitionOf(id) })
		require.False(t, seen[id])
		seen[id] = true
		p := partitionOf(id)
		counts[p]++
		if p == last {
			together++
		}
		last = p
	}
	require.Greater(t, len(seen), runs*9/10)
	assert.Greater(t, together, len(seen)*9/10)
	assert.Less(t, hashes, 3*len(seen))
	for p, count := range counts {
		assert.InDelta(t, len(seen)/len(counts), count, 6*maxPooledIDs, "partition %d", p)
	}
}

// TestFewRunsAreNotGrouped starts runs too slowly for groups.
func TestFewRunsAreNotGrouped(t *testing.T) {
	a := runIDAllocator{maxFactor: maxGroupFactor}
	now := time.Now()
	for range 3 * idGroupSize {
		now = now.Add(idGroupTime / idGroupSize * 2)
		_, grouped := a.count(now, someParts.Flow, "orders")
		require.False(t, grouped)
	}
}

func BenchmarkRunIDs(b *testing.B) {
	a := runIDAllocator{maxFactor: maxGroupFactor}
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		if pool, grouped := a.count(now, someParts.Flow, "orders"); grouped {
			pool.take(a.partition, partitionOf)
		}
	}
}
