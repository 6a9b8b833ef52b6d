package runtime

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
)

const (
	// neighbourRuns is how many runs in a row go into one partition while many are started.
	neighbourRuns = 64
	// neighbourTime is how fast so many must have been started for that.
	neighbourTime = 500 * time.Millisecond
	// neighbourRounds is how many times as many go there while they are started so many times as fast. One server serves
	// all partitions then: those of a cluster take turns sooner.
	neighbourRounds = 4
	// maxKept is how many ids are kept for a partition.
	maxKept = neighbourRounds * neighbourRuns
	// neighbourTries bounds the search for an id; the last one is taken as it is.
	neighbourTries = 1024
	// maxStocks is for how many flows ids are kept.
	maxStocks = 4
	// neighbourChoice is among how many partitions the next one is chosen.
	neighbourChoice = 8
)

// neighbours gives ids to runs that have none. While a client starts many, those that it starts one after the other go into
// the same partition, and then into another one: they are sent together, workers find more of them at a time there, and
// complete more with one call. In the long run, all partitions get the same.
type neighbours struct {
	maxRounds int // 1 or neighbourRounds

	mu        sync.Mutex
	partition int
	since     time.Time
	started   int
	rounds    int // of neighbourRuns that have gone into the partition
	busy      bool
	stocks    map[string]idStock // by flow
}

func newNeighbours(e *session) *neighbours {
	n := &neighbours{maxRounds: neighbourRounds}
	if e.core.Client().Mode() == rueidis.ClientModeCluster {
		n.maxRounds = 1
	}
	return n
}

// runID is a random UUID.
func (n *neighbours) runID(e *session, flowName string) string {
	partitions := e.core.Partitioning()
	n.mu.Lock()
	defer n.mu.Unlock()
	stock, grouped := n.next(time.Now(), partitions.Flow, flowName)
	if !grouped {
		return randomUUID().String()
	}
	return stock.take(n.partition, func(id string) int {
		return int(partitions.FlowPartitionFor(e.namespace, flowName, id).Index)
	})
}

// next counts a run and reports whether it belongs into the partition of those before it, with ids of its flow: not while
// few are started.
func (n *neighbours) next(now time.Time, partitions int, flowName string) (stock idStock, grouped bool) {
	n.started++
	if n.started >= neighbourRuns {
		took := now.Sub(n.since)
		n.busy = took < neighbourTime
		n.since, n.started = now, 0
		n.rounds++
		if n.rounds >= n.maxRounds || took >= neighbourTime/neighbourRounds {
			n.partition, n.rounds = n.stock(flowName, partitions).choose(), 0
		}
	}
	if !n.busy || now.Sub(n.since) >= neighbourTime {
		return nil, false
	}
	return n.stock(flowName, partitions), true
}

func (n *neighbours) stock(flowName string, partitions int) idStock {
	stock := n.stocks[flowName]
	if stock != nil {
		return stock
	}
	if n.stocks == nil || len(n.stocks) >= maxStocks {
		n.stocks = make(map[string]idStock)
	}
	stock = make(idStock, partitions)
	n.stocks[flowName] = stock
	return stock
}

// idStock keeps ids by the partition into which they lead. Which one that is shows only in a hash, so a search for one
// partition finds ids for all others on the way; kept, they spare the next search. Of each partition it keeps at most
// maxKept.
type idStock [][]uuid.UUID

// choose picks a partition: of some, one with most ids. An id leads into any partition with the same probability, and is
// taken sooner or later, so this favours none.
func (s idStock) choose() int {
	best := rand.IntN(len(s))
	for range neighbourChoice - 1 {
		if other := rand.IntN(len(s)); len(s[other]) > len(s[best]) {
			best = other
		}
	}
	return best
}

// take gives an id that leads into a partition.
func (s idStock) take(wanted int, partitionOf func(id string) int) string {
	if list := s[wanted]; len(list) > 0 {
		id := list[len(list)-1]
		s[wanted] = list[:len(list)-1]
		return id.String()
	}
	for tries := 1; ; tries++ {
		id := randomUUID()
		text := id.String()
		partition := partitionOf(text)
		if partition == wanted || tries == neighbourTries {
			return text
		}
		if len(s[partition]) < maxKept {
			s[partition] = append(s[partition], id)
		}
	}
}

// randomUUID is a UUID of version 4, from a generator that costs less than that of package uuid: ids of runs and of claims are no secrets.
func randomUUID() uuid.UUID {
	var id uuid.UUID
	binary.LittleEndian.PutUint64(id[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(id[8:], rand.Uint64())
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}
