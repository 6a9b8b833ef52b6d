package runtime

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// laneShard is the part of a lane that one partition holds. A claim takes work from one shard.
type laneShard struct {
	lane      enginecore.LaneID
	partition enginecore.Partition
}

// claimTarget is the shard that a claim is about to be sent to, with what the call says about it.
type claimTarget struct {
	laneShard
	partitionHint
	slots    int  // reserved for the executions that the claim leases
	setAside bool // claim executions that were set aside, too
	// shared is set when other workers got the wake-up as well, and have to be told when the claim leaves nothing.
	shared bool
	// early is set when this worker claims before most others, which then have to be told when there was nothing.
	early bool
	// ringSlot is the slot of the wake ring in which the wake-up came, as text, so that the engine wakes more workers when the
	// claim leaves work. It is empty when all workers got the wake-up: idle ones come anyway.
	ringSlot string
}

// pendingHandoff is a wake-up for which this worker is responsible, with few others: unless the work is claimed in time, the
// worker hands the wake-up on to all.
type pendingHandoff struct {
	slot    string
	timer   *time.Timer
	handOff func()
}

// dispatchQueue holds what the dispatch loop of a worker decides by: its free slots, and the shards where work may be waiting. It is
// safe for concurrent use.
type dispatchQueue struct {
	changed chan struct{} // has a value when there may be something to claim

	mu       sync.Mutex
	free     int
	claims   int // in flight
	queue    []claimTarget
	queued   map[laneShard]int              // version of the latest wake-up of each shard in the queue
	version  int                            // of the latest wake-up
	lanes    map[enginecore.LaneID]laneLoad // counts of the queue, by lane
	setAside map[laneShard]bool             // shards with executions that were set aside and this worker can run
	delayed  map[laneShard]*time.Timer      // shards that other workers claim from first
	handoffs map[laneShard]pendingHandoff
	closed   bool
}

// maxClaims bounds the claims of one worker that are in flight at a time.
const maxClaims = 4

func newDispatchQueue(slots int) *dispatchQueue {
	return &dispatchQueue{
		changed: make(chan struct{}, 1), free: slots, queued: make(map[laneShard]int), lanes: make(map[enginecore.LaneID]laneLoad),
		setAside: make(map[laneShard]bool), delayed: make(map[laneShard]*time.Timer), handoffs: make(map[laneShard]pendingHandoff),
	}
}

// addSetAside queues a shard where an execution was set aside that this worker can run. The claim takes it from there when a slot
// is free: making it eligible earlier would let the worker that set it aside do so again.
func (q *dispatchQueue) addSetAside(s laneShard) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.setAside[s] = true
	q.enqueue(claimTarget{laneShard: s})
}

// add queues a shard where work may be waiting. Shards are claimed from in the order in which they were added.
func (q *dispatchQueue) add(s laneShard) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.enqueue(claimTarget{laneShard: s})
}

// addShared queues a shard for which all workers were woken. A worker with free slots waits for its turn, one without queues the
// shard at once. turn returns how long to wait, and whether that is less than most others wait; it is called only when that
// matters, since it looks at all peers.
func (q *dispatchQueue) addShared(s laneShard, turn func() (wait time.Duration, first bool)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropHandoff(s)
	if q.closed || q.bumpIfQueued(s) || q.delayed[s] != nil {
		return
	}
	if q.free == 0 {
		q.enqueue(claimTarget{laneShard: s, shared: true})
		return
	}
	wait, first := turn()
	q.enqueueAfter(wait, claimTarget{laneShard: s, shared: true, early: first})
}

// addAssigned queues a shard after wait, for which only the few workers of a slot of the wake ring were woken. Unless this worker
// claims from it, or learns that others did, handOff is called after patience.
func (q *dispatchQueue) addAssigned(s laneShard, slot int, wait, patience time.Duration, handOff func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		handOff()
		return
	}
	q.dropHandoff(s)
	var timer *time.Timer
	timer = time.AfterFunc(patience, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.handoffs[s].timer == timer {
			delete(q.handoffs, s)
			handOff()
		}
	})
	q.handoffs[s] = pendingHandoff{strconv.Itoa(slot), timer, handOff}
	if q.bumpIfQueued(s) || q.delayed[s] != nil {
		return
	}
	if q.free == 0 {
		wait = 0 // others may claim first, but this worker does when it can
	}
	q.enqueueAfter(wait, claimTarget{laneShard: s})
}

// dropHandoff removes and returns the pending handoff of a shard, if there is one. It needs the lock.
func (q *dispatchQueue) dropHandoff(s laneShard) (h pendingHandoff, pending bool) {
	if h, pending = q.handoffs[s]; pending {
		h.timer.Stop()
		delete(q.handoffs, s)
	}
	return h, pending
}

// enqueueAfter queues a target after a time, unless the shard is queued or found empty before. It needs the lock.
func (q *dispatchQueue) enqueueAfter(wait time.Duration, v claimTarget) {
	if wait <= 0 {
		q.enqueue(v)
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(wait, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.delayed[v.laneShard] == timer {
			q.enqueue(v)
		}
	})
	q.delayed[v.laneShard] = timer
}

// markEmpty removes a shard from which other workers have claimed all work.
func (q *dispatchQueue) markEmpty(s laneShard) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropDelayed(s)
	q.dropHandoff(s)
	if !q.setAside[s] {
		q.remove(s)
	}
}

// bumpIfQueued reports whether a shard is in the queue, and notes a new wake-up of it if so. It needs the lock.
func (q *dispatchQueue) bumpIfQueued(s laneShard) bool {
	_, queued := q.queued[s]
	if queued {
		q.version++
		q.queued[s] = q.version
	}
	return queued
}

// remove removes a shard from the queue. It needs the lock.
func (q *dispatchQueue) remove(s laneShard) {
	i := slices.IndexFunc(q.queue, func(v claimTarget) bool { return v.laneShard == s })
	if i < 0 {
		return
	}
	q.queue = slices.Delete(q.queue, i, i+1)
	delete(q.queued, s)
	q.lanes[s.lane] = q.lanes[s.lane].withQueued(-1)
}

// enqueue adds a target to the queue unless its shard is there. It needs the lock.
func (q *dispatchQueue) enqueue(v claimTarget) {
	q.dropDelayed(v.laneShard)
	if q.closed || q.bumpIfQueued(v.laneShard) {
		return
	}
	q.version++
	q.queued[v.laneShard] = q.version
	q.lanes[v.lane] = q.lanes[v.lane].withQueued(1)
	q.queue = append(q.queue, v)
	if q.free > 0 {
		signalChange(q.changed)
	}
}

// dropDelayed stops the timer after which a shard would be queued. It needs the lock.
func (q *dispatchQueue) dropDelayed(s laneShard) {
	if timer := q.delayed[s]; timer != nil {
		timer.Stop()
		delete(q.delayed, s)
	}
}

// take returns the target of the next claim, with slots reserved for it; false when there is none, or no slot. When several shards
// of the lane wait and the server can choose among them (canChoose), the target has a partition hint, and the shards stay in the
// queue until resolveHint learns which one the claim visited.
func (q *dispatchQueue) take(canChoose bool) (v claimTarget, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.free == 0 || q.claims >= maxClaims {
		return claimTarget{}, false
	}
	i := slices.IndexFunc(q.queue, func(v claimTarget) bool { return q.lanes[v.lane].unclaimed() > 0 })
	if i < 0 {
		return claimTarget{}, false
	}
	v = q.queue[i]
	rivals := 0
	for _, l := range q.lanes {
		rivals += max(0, l.unclaimed())
	}
	v.slots = max(1, q.free/min(rivals, maxClaims-q.claims))
	if canChoose && q.lanes[v.lane].queued > 1 {
		q.queue = append(slices.Delete(q.queue, i, i+1), v)
		v.partitionHint = q.makeHint(v.lane)
	} else {
		q.remove(v.laneShard)
		if h, pending := q.dropHandoff(v.laneShard); pending {
			v.shared, v.early, v.ringSlot = true, true, h.slot
		}
		v.setAside = q.setAside[v.laneShard]
		delete(q.setAside, v.laneShard)
	}
	q.free -= v.slots
	q.claims++
	return v, true
}

// finishClaim ends a claim and frees the slots that it left unused.
func (q *dispatchQueue) finishClaim(unused int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.claims--
	q.free += unused
	if len(q.queue) > 0 {
		signalChange(q.changed)
	}
}

// releaseSlot frees a slot.
func (q *dispatchQueue) releaseSlot() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free++
	if len(q.queue) > 0 {
		signalChange(q.changed)
	}
}

// reserve takes up to n free slots. The caller frees those that it does not use with restore.
func (q *dispatchQueue) reserve(n int) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return 0
	}
	n = min(n, q.free)
	q.free -= n
	return n
}

// restore frees slots that were reserved.
func (q *dispatchQueue) restore(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free += n
	if n > 0 && len(q.queue) > 0 {
		signalChange(q.changed)
	}
}

// hasWaiting reports whether a shard waits for a slot.
func (q *dispatchQueue) hasWaiting() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queue) > 0
}

// close empties the queue for good, and hands pending wake-ups on to other workers.
func (q *dispatchQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.queue = nil
	for s := range q.delayed {
		q.dropDelayed(s)
	}
	for s, h := range q.handoffs {
		q.dropHandoff(s)
		h.handOff()
	}
}

func (q *dispatchQueue) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// signalChange leaves a value in a channel of capacity one, which wakes the goroutine that receives from it.
func signalChange(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
