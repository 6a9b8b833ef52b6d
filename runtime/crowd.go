package runtime

import (
	"math/bits"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/stablehash"
)

const (
	// presenceEvery is how often a worker tells the others that it is there.
	presenceEvery = 15 * time.Second
	// presenceLasts is how long a worker counts that is not heard any more.
	presenceLasts = 3 * presenceEvery
	// greetWithin is how soon a newcomer learns of those that are there already. They answer at random times, and once
	// for all newcomers of that time.
	greetWithin = 250 * time.Millisecond
	// minTurn and maxTurn bound the time between two turns, maxDutyTurn for those on duty. In between, it is a few times what
	// a claim takes.
	minTurn       = 2 * time.Millisecond
	maxTurn       = 20 * time.Millisecond
	maxDutyTurn   = 10 * time.Millisecond
	claimsPerTurn = 3
)

// crowd knows the workers that hear the same wake-ups. They answer in turns: one at once, two a few milliseconds later,
// then four, and so on, in an order that is another for each wake-up and that each works out by itself. Those on duty
// (rota) answer one after the other. Whoever hears meanwhile that nothing is left does not answer. What a worker knows of
// the others may be wrong; that costs a claim or a few milliseconds.
type crowd struct {
	self uint64
	// changed has a value when others have come or gone.
	changed chan struct{}

	mu    sync.Mutex
	peers map[enginecore.LaneID]map[string]peer
	claim time.Duration // what a claim takes, on average
}

type peer struct {
	hash uint64
	seen time.Time
}

func newCrowd(self enginecore.WorkerInstanceID) *crowd {
	return &crowd{self: stablehash.Of(string(self)), changed: make(chan struct{}, 1), peers: make(map[enginecore.LaneID]map[string]peer)}
}

// here notes that another worker of a lane is there, and tells whether it is new.
func (c *crowd) here(lane enginecore.LaneID, instance string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.peers[lane] == nil {
		c.peers[lane] = make(map[string]peer)
	}
	_, known := c.peers[lane][instance]
	c.peers[lane][instance] = peer{stablehash.Of(instance), now}
	if !known {
		signalChange(c.changed)
	}
	return !known
}

func (c *crowd) left(lane enginecore.LaneID, instance string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.peers[lane], instance)
	signalChange(c.changed)
}

// forgetSilent drops those that have not been heard for long.
func (c *crowd) forgetSilent(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, peers := range c.peers {
		for instance, p := range peers {
			if now.Sub(p.seen) > presenceLasts {
				delete(peers, instance)
				signalChange(c.changed)
			}
		}
	}
}

// size is the number of other workers on the lane that has most.
func (c *crowd) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	most := 0
	for _, peers := range c.peers {
		most = max(most, len(peers))
	}
	return most
}

// claimTook notes how long a claim took.
func (c *crowd) claimTook(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.claim += (d - c.claim) / 8
}

// wait is how long to leave a wake-up to others, and whether this worker is of the first two turns.
func (c *crowd) wait(lane enginecore.LaneID, message string) (wait time.Duration, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	peers := c.peers[lane]
	if len(peers) == 0 {
		return 0, true
	}
	seed := stablehash.Of(message)
	mine, before := stablehash.Mix(c.self^seed), 0
	for _, p := range peers {
		if stablehash.Mix(p.hash^seed) < mine {
			before++
		}
	}
	turn := bits.Len(uint(before+1)) - 1
	return time.Duration(turn) * c.turnTime(maxTurn), turn <= 1
}

// turnTime is the time between two turns. It needs the lock.
func (c *crowd) turnTime(most time.Duration) time.Duration {
	return min(max(claimsPerTurn*c.claim, minTurn), most)
}

func (c *crowd) rotaOf(lane enginecore.LaneID) rota {
	c.mu.Lock()
	defer c.mu.Unlock()
	return newRota(c.self, c.peers[lane])
}

// duty is how long to leave a wake-up at a place of the rota to the others on duty, and when to hand it on to all if none
// of them has taken the work.
func (c *crowd) duty(lane enginecore.LaneID, place int, at int64) (wait, handOn time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	turn := newRota(c.self, c.peers[lane]).turn(place, at)
	between := c.turnTime(maxDutyTurn)
	return time.Duration(turn) * between, time.Duration(onDuty+turn) * between
}
