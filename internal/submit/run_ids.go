package submit

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/google/uuid"
	"github.com/redis/rueidis"
)

const (
	// idGroupSize is how many runs in a row go into one partition while many are started.
	idGroupSize = 64
	// idGroupTime is the longest time in which that many runs have to be started.
	idGroupTime = 500 * time.Millisecond
	// maxGroupFactor bounds how large groups grow with the start rate: up to this multiple of the base size. It is for
	// one server, which serves all partitions; a cluster has groups of the base size, so that its servers take turns.
	maxGroupFactor = 4
	// maxPooledIDs bounds the ids that are kept for a partition.
	maxPooledIDs = maxGroupFactor * idGroupSize
	// maxIDTries bounds the search for an id in a partition; the last one is used in any partition.
	maxIDTries = 1024
	// maxIDPools bounds the flows for which ids are kept.
	maxIDPools = 4
	// partitionSamples is among how many random partitions the next one is chosen.
	partitionSamples = 8
)

// runIDAllocator makes ids for runs that have none. While a process starts many runs, ids of consecutive ones lead into
// the same partition, group by group: such runs are submitted with one call, claimed several at a time, and completed
// with fewer calls. In the long run, all partitions get the same number.
type runIDAllocator struct {
	session   *engine.Session
	maxFactor int // 1 or maxGroupFactor

	mu        sync.Mutex
	partition int
	since     time.Time
	started   int
	groups    int               // of idGroupSize runs that have gone into the partition
	grouping  bool              // the start rate was high enough for the last group
	pools     map[string]idPool // by flow
}

func newRunIDAllocator(s *engine.Session) *runIDAllocator {
	a := &runIDAllocator{session: s, maxFactor: maxGroupFactor}
	if s.Core.Client().Mode() == rueidis.ClientModeCluster {
		a.maxFactor = 1
	}
	return a
}

// Next returns an id for a run of a flow: a random UUID.
func (a *runIDAllocator) Next(flowName string) string {
	partitions := a.session.Core.Partitioning()
	a.mu.Lock()
	defer a.mu.Unlock()
	pool, grouped := a.count(time.Now(), partitions.Flow, flowName)
	if !grouped {
		return RandomUUID().String()
	}
	return pool.take(a.partition, a.partitionsOf(flowName)).String()
}

// partitionsOf returns a function that returns the partition of the run of a flow with an id.
func (a *runIDAllocator) partitionsOf(flowName string) func(uuid.UUID) int {
	partitions, namespace := a.session.Core.Partitioning(), a.session.Namespace
	return func(id uuid.UUID) int { return int(partitions.FlowPartitionForUUID(namespace, flowName, id).Index) }
}

// count counts a run and reports whether it belongs into the partition of its group, with an id from the pool: not
// while few runs are started.
func (a *runIDAllocator) count(now time.Time, partitions int, flowName string) (pool idPool, grouped bool) {
	a.started++
	if a.started >= idGroupSize {
		took := now.Sub(a.since)
		a.grouping = took < idGroupTime
		a.since, a.started = now, 0
		a.groups++
		if a.groups >= a.maxFactor || took >= idGroupTime/maxGroupFactor {
			a.partition, a.groups = a.pool(flowName, partitions).choose(), 0
		}
	}
	if !a.grouping || now.Sub(a.since) >= idGroupTime {
		return nil, false
	}
	return a.pool(flowName, partitions), true
}

func (a *runIDAllocator) pool(flowName string, partitions int) idPool {
	pool := a.pools[flowName]
	if pool != nil {
		return pool
	}
	if a.pools == nil || len(a.pools) >= maxIDPools {
		a.pools = make(map[string]idPool)
	}
	pool = make(idPool, partitions)
	a.pools[flowName] = pool
	return pool
}

// idPool keeps ids by the partition that they lead into, at most maxPooledIDs for each. The partition of an id shows
// only in its hash, so a search for one partition finds ids for all others, which spare later searches.
type idPool [][]uuid.UUID

// choose picks a partition: among some random ones, that with most ids. An id leads into any partition with the same
// probability and is taken sooner or later, so this favours none.
func (p idPool) choose() int {
	best := rand.IntN(len(p))
	for range partitionSamples - 1 {
		if other := rand.IntN(len(p)); len(p[other]) > len(p[best]) {
			best = other
		}
	}
	return best
}

// take returns an id that leads into a partition.
func (p idPool) take(wanted int, partitionOf func(uuid.UUID) int) uuid.UUID {
	if list := p[wanted]; len(list) > 0 {
		id := list[len(list)-1]
		p[wanted] = list[:len(list)-1]
		return id
	}
	for tries := 1; ; tries++ {
		id := RandomUUID()
		partition := partitionOf(id)
		if partition == wanted || tries == maxIDTries {
			return id
		}
		if len(p[partition]) < maxPooledIDs {
			p[partition] = append(p[partition], id)
		}
	}
}

// RandomUUID returns a UUID of version 4 from a generator that is cheaper than the generator of package uuid, and
// predictable: use it for ids of runs and claims, not for tokens.
func RandomUUID() uuid.UUID {
	var id uuid.UUID
	binary.LittleEndian.PutUint64(id[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(id[8:], rand.Uint64())
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}
