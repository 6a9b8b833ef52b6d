package dispatch

import (
	"math/bits"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/stablehash"
)

const (
	// PresenceEvery is how often a worker announces its presence to few peers. A channel with n workers carries n
	// announcements in that time to n subscribers, so with more peers the interval grows, up to maxPresence:
	// peersPerStep is the number of peers that adds one more PresenceEvery. So up to 80 workers receive some
	// ten announcements a second in all. A peer that died stays known for longer: it subscribes to no slot of the
	// wake ring, so the others of its slots respond in its place, and a slot without subscribers wakes all.
	PresenceEvery = 30 * time.Second
	maxPresence   = 20 * PresenceEvery
	peersPerStep  = 4
	// silentTurns is the number of intervals after which a silent worker no longer counts as present.
	silentTurns = 3
	// AnnounceWithin bounds the random delay after which the workers that are present announce themselves to a new one.
	// One announcement answers all workers that arrive during the delay.
	AnnounceWithin = 250 * time.Millisecond
	// minTurnInterval and maxTurnInterval bound the time between two turns, maxSlotTurnInterval among the workers of a
	// slot of the wake ring. In between, it is claimsPerTurn times the duration of a claim.
	minTurnInterval     = 2 * time.Millisecond
	maxTurnInterval     = 20 * time.Millisecond
	maxSlotTurnInterval = 10 * time.Millisecond
	claimsPerTurn       = 3
)

// PeerSet tracks the other workers of each lane by their announcements and derives this worker's turn from them. It is
// safe for concurrent use. [NewPeerSet] makes one; the zero value is not usable.
//
// Peers respond to a wake-up in turns: one at once, two a few milliseconds later, then four, and so on, in an order
// that differs for each wake-up and that each worker computes by itself. The workers of a slot of the wake ring respond
// one after the other. A worker that receives a message before its turn that nothing is left does not claim. The set
// may be out of date, which costs a claim or a few milliseconds.
type PeerSet struct {
	self uint64
	// Changed has a value when peers were added or removed since the last receive.
	Changed chan struct{}

	mu        sync.Mutex
	peers     map[enginecore.LaneID]map[string]peer
	claimTime time.Duration // duration of a claim, moving average
}

type peer struct {
	hash uint64
	seen time.Time
}

// NewPeerSet returns an empty set of the peers of the worker self.
func NewPeerSet(self enginecore.WorkerInstanceID) *PeerSet {
	return &PeerSet{
		self: stablehash.Of(string(self)), Changed: make(chan struct{}, 1),
		peers: make(map[enginecore.LaneID]map[string]peer),
	}
}

// Add records that another worker of a lane was present at now, and reports whether it is new.
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

// Remove removes a peer that has announced that it leaves. An unknown one is not an error.
func (s *PeerSet) Remove(lane enginecore.LaneID, instance string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.peers[lane], instance)
	signalChange(s.Changed)
}

// presenceInterval returns how often workers with a number of peers announce themselves.
func presenceInterval(peers int) time.Duration {
	return min(time.Duration(1+peers/peersPerStep)*PresenceEvery, maxPresence)
}

// PresenceInterval returns how often this worker announces itself: by its lane with the fewest peers, who
// expect it most often.
func (s *PeerSet) PresenceInterval(lanes []enginecore.LaneID) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	interval := maxPresence
	for _, lane := range lanes {
		interval = min(interval, presenceInterval(len(s.peers[lane])))
	}
	return interval
}

// RemoveSilent removes peers that have not announced themselves for silentTurns intervals before now.
func (s *PeerSet) RemoveSilent(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, peers := range s.peers {
		timeout := silentTurns * presenceInterval(len(peers))
		for instance, p := range peers {
			if now.Sub(p.seen) > timeout {
				delete(peers, instance)
				signalChange(s.Changed)
			}
		}
	}
}

// Size returns the number of peers on the lane that has most.
func (s *PeerSet) Size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := 0
	for _, peers := range s.peers {
		most = max(most, len(peers))
	}
	return most
}

// ObserveClaim adds the duration of a claim to the moving average that sets the time between two turns.
func (s *PeerSet) ObserveClaim(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claimTime += (d - s.claimTime) / 8
}

// TurnDelay returns how long this worker waits before it responds to a wake-up of all workers, and whether it is in one
// of the first two turns. message is the text of the wake-up, from which the order derives.
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

// turnInterval is the time between two turns. The caller holds the lock.
func (s *PeerSet) turnInterval(most time.Duration) time.Duration {
	return min(max(claimsPerTurn*s.claimTime, minTurnInterval), most)
}

// Ring returns the wake ring of a lane as the present peers make it. Later changes of the set do not affect it.
func (s *PeerSet) Ring(lane enginecore.LaneID) WakeRing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return newWakeRing(s.self, s.peers[lane])
}

// SlotDelay returns how long this worker waits before it responds to a wake-up in a slot of the wake ring, and after
// how long it hands the wake-up on to all workers if none of the slot has claimed the work. at is the time of the
// wake-up in Unix milliseconds.
func (s *PeerSet) SlotDelay(lane enginecore.LaneID, slot int, at int64) (wait, patience time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	turn := newWakeRing(s.self, s.peers[lane]).turn(slot, at)
	between := s.turnInterval(maxSlotTurnInterval)
	return time.Duration(turn) * between, time.Duration(wakeFanout+turn) * between
}
