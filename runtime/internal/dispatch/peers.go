package dispatch

import (
	"math/bits"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/stablehash"
)

const (
	// PresenceEvery is how often a worker announces its presence to the others.
	PresenceEvery = 15 * time.Second
	// presenceLasts is how long a silent worker counts as present.
	presenceTimeout = 3 * PresenceEvery
	// AnnounceWithin is how soon the workers that are present announce themselves to a new one. They do so at random
	// times, once for all that came meanwhile.
	AnnounceWithin = 250 * time.Millisecond
	// minTurnInterval and maxTurnInterval bound the time between two turns, maxSlotTurnInterval among the workers of a
	// slot of the wake ring. In between, it is claimsPerTurn times the duration of a claim.
	minTurnInterval     = 2 * time.Millisecond
	maxTurnInterval     = 20 * time.Millisecond
	maxSlotTurnInterval = 10 * time.Millisecond
	claimsPerTurn       = 3
)

// PeerSet tracks the other workers of each lane by their announcements. Peers answer a wake-up in turns: one at once,
// two a few milliseconds later, then four, and so on, in an order that differs for each wake-up and that each worker
// computes by itself. Workers of a slot of the wake ring answer one after the other. A worker that learns meanwhile
// that nothing is left does not claim. The set may be out of date; that costs a claim or a few milliseconds.
type PeerSet struct {
	self uint64
	// Changed has a value when peers have come or gone.
	Changed chan struct{}

	mu        sync.Mutex
	peers     map[enginecore.LaneID]map[string]peer
	claimTime time.Duration // duration of a claim, moving average
}

type peer struct {
	hash uint64
	seen time.Time
}

func NewPeerSet(self enginecore.WorkerInstanceID) *PeerSet {
	return &PeerSet{self: stablehash.Of(string(self)), Changed: make(chan struct{}, 1), peers: make(map[enginecore.LaneID]map[string]peer)}
}

// Add records that another worker of a lane is present, and reports whether it is new.
func (s *PeerSet) Add(lane enginecore.LaneID, instance string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.peers[lane] == nil {
		s.peers[lane] = make(map[string]peer)
	}
	_, known := s.peers[lane][instance]
	s.peers[lane][instance] = peer{stablehash.Of(instance), now}
	if !known {
		signalChange(s.Changed)
	}
	return !known
}

// Remove removes a peer that has announced that it leaves.
func (s *PeerSet) Remove(lane enginecore.LaneID, instance string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.peers[lane], instance)
	signalChange(s.Changed)
}

// RemoveSilent removes peers that have not announced themselves for presenceTimeout.
func (s *PeerSet) RemoveSilent(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, peers := range s.peers {
		for instance, p := range peers {
			if now.Sub(p.seen) > presenceTimeout {
				delete(peers, instance)
				signalChange(s.Changed)
			}
		}
	}
}

// Size is the number of other workers on the lane that has most.
func (s *PeerSet) Size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := 0
	for _, peers := range s.peers {
		most = max(most, len(peers))
	}
	return most
}

// ObserveClaim records how long a claim took.
func (s *PeerSet) ObserveClaim(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claimTime += (d - s.claimTime) / 8
}

// TurnDelay returns how long this worker leaves a wake-up to others, and whether it is in one of the first two turns.
func (s *PeerSet) TurnDelay(lane enginecore.LaneID, message string) (wait time.Duration, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	peers := s.peers[lane]
	if len(peers) == 0 {
		return 0, true
	}
	seed := stablehash.Of(message)
	mine, before := stablehash.Mix(s.self^seed), 0
	for _, p := range peers {
		if stablehash.Mix(p.hash^seed) < mine {
			before++
		}
	}
	turn := bits.Len(uint(before+1)) - 1
	return time.Duration(turn) * s.turnInterval(maxTurnInterval), turn <= 1
}

// turnInterval is the time between two turns. It needs the lock.
func (s *PeerSet) turnInterval(most time.Duration) time.Duration {
	return min(max(claimsPerTurn*s.claimTime, minTurnInterval), most)
}

// Ring returns the wake ring of a lane.
func (s *PeerSet) Ring(lane enginecore.LaneID) wakeRing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return newWakeRing(s.self, s.peers[lane])
}

// SlotDelay returns how long this worker leaves a wake-up in a slot of the wake ring to the others of the slot, and
// after how long it hands the wake-up on to all if none of them has claimed the work.
func (s *PeerSet) SlotDelay(lane enginecore.LaneID, slot int, at int64) (wait, handOff time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	turn := newWakeRing(s.self, s.peers[lane]).turn(slot, at)
	between := s.turnInterval(maxSlotTurnInterval)
	return time.Duration(turn) * between, time.Duration(wakeFanout+turn) * between
}
