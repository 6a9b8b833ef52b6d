package keeper

import (
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/sleep"
	"github.com/flowfabric/flowfabric-go/internal/stablehash"
)

const (
	minHeartbeat = 10 * time.Millisecond
	maxHeartbeat = time.Minute
	// SilentBeats is the number of its heartbeats without a message after which a keeper counts as gone. Another
	// keeper notices that at its own next heartbeat.
	SilentBeats = 3
	// StuckAfter is how long a step may take before the keeper stops sending heartbeats.
	StuckAfter = 5 * time.Second
	// maxBuiltInKeepers bounds the workers' keepers that run on an engine at a time. All others are on standby.
	maxBuiltInKeepers = 2
	// builtInMark marks the messages of workers' keepers.
	builtInMark = "builtin"
)

// Membership holds the known other keepers of the engine and decides which partitions this one owns: each partition
// belongs to the keeper whose hash together with the partition's is the highest. So every keeper computes the same
// owner, and a keeper that joins or leaves changes the ownership of its partitions only. Its view may be outdated for a
// while: then a partition is visited twice or a little later, and every step is safe either way.
//
// A Membership is safe for concurrent use.
type Membership struct {
	self      string
	heartbeat time.Duration
	// builtIn marks the keeper that workers share, which is on standby while others run.
	builtIn bool
	// turned receives a value when standsBy may have changed.
	turned chan struct{}

	mu    sync.Mutex
	peers map[string]peer
	// receives is set once this keeper receives the messages of other keepers.
	receives bool
	// steps holds the steps under way by their beginning; failing is set when the last step failed in all its
	// partitions.
	steps   map[*time.Time]struct{}
	failing bool
}

// peer is another keeper, counted as alive until a local time.
type peer struct {
	hash    uint64
	beat    time.Duration
	until   time.Time
	builtIn bool
}

// NewMembership returns the membership of a keeper with the given id that knows no other keeper, and so owns every
// partition. The heartbeat is the interval of the keeper's own messages.
func NewMembership(self string, heartbeat time.Duration) *Membership {
	return &Membership{
		self: self, heartbeat: heartbeat, turned: make(chan struct{}, 1), peers: make(map[string]peer),
		steps: make(map[*time.Time]struct{}),
	}
}

// Begin records the beginning of a step. The caller passes the results of the step to the returned function.
func (m *Membership) Begin(now time.Time) func([]StepResult) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.steps[&now] = struct{}{}
	return func(results []StepResult) {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.steps, &now)
		m.failing = len(results) > 0
		for _, o := range results {
			m.failing = m.failing && o.Err != nil
		}
	}
}

// Healthy reports whether the keeper makes progress: no step takes longer than StuckAfter, and the last one did not
// fail everywhere. An unhealthy keeper sends no heartbeats, so that others take over its partitions.
func (m *Membership) Healthy(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for begun := range m.steps {
		if now.Sub(*begun) > StuckAfter {
			return false
		}
	}
	return !m.failing
}

// Handle applies a message of another keeper, that it is present or has stopped. It reports whether the set of keepers
// has changed or the sender needs a heartbeat of this keeper. It ignores malformed messages and its own.
func (m *Membership) Handle(message string, now time.Time) bool {
	if here, ok := enginerpc.ParseKeeperHereMessage(message); ok {
		return here.KeeperID != m.self && m.addPeer(here, now)
	}
	if gone, ok := enginerpc.ParseKeeperGoneMessage(message); ok {
		return gone.KeeperID != m.self && m.removePeer(gone.KeeperID)
	}
	return false
}

// addPeer applies a heartbeat of another keeper.
func (m *Membership) addPeer(here enginerpc.KeeperHereMessage, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, known := m.peers[here.KeeperID]
	beat := min(max(here.Heartbeat, minHeartbeat), maxHeartbeat)
	builtIn := here.Mark == builtInMark
	if builtIn && !m.builtIn {
		return true // it enters standby once it receives a message of this keeper, and owns nothing until then
	}
	m.peers[here.KeeperID] = peer{stablehash.Of(here.KeeperID), beat, now.Add(SilentBeats * beat), builtIn}
	sleep.Wake(m.turned)
	return !known
}

// removePeer removes a keeper that has stopped, and reports whether it was known.
func (m *Membership) removePeer(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, known := m.peers[id]
	delete(m.peers, id)
	sleep.Wake(m.turned)
	return known
}

// ForgetSilent removes the keepers whose heartbeats have stopped, and reports whether there were any.
func (m *Membership) ForgetSilent(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := len(m.peers)
	for id, p := range m.peers {
		if now.After(p.until) {
			delete(m.peers, id)
		}
	}
	if len(m.peers) == before {
		return false
	}
	sleep.Wake(m.turned)
	return true
}

// resume counts the known keepers as alive for as long as after a heartbeat, after a time in which this one did not
// listen.
func (m *Membership) resume(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, p := range m.peers {
		p.until = now.Add(SilentBeats * p.beat)
		m.peers[id] = p
	}
}

// Size returns the number of known keepers, including this one.
func (m *Membership) Size() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return 1 + len(m.peers)
}

// Owns reports whether this keeper owns a partition.
func (m *Membership) Owns(p keyspace.Partition) bool {
	seed := stablehash.Of(p.Tag())
	own := stablehash.Mix(stablehash.Of(m.self) ^ seed)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, other := range m.peers {
		if stablehash.Mix(other.hash^seed) > own {
			return false
		}
	}
	return true
}

// listens records that messages of other keepers arrive from now on.
func (m *Membership) listens() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.receives = true
	sleep.Wake(m.turned)
}

// isListening reports whether messages of other keepers arrive.
func (m *Membership) isListening() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.receives
}

// isStandby reports whether this keeper leaves all partitions to others. Only the keeper of workers does: while a
// keeper made by the public NewKeeper runs, which may have other options, or while enough other workers' keepers run.
func (m *Membership) isStandby() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.builtIn {
		return false
	}
	before := 0
	for id, p := range m.peers {
		if !p.builtIn {
			return true
		}
		if id < m.self {
			before++
		}
	}
	return before >= maxBuiltInKeepers
}
