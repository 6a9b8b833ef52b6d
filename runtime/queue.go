package runtime

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// spot is a lane in a partition: a place where work may be waiting.
type laneShard struct {
	lane      enginecore.LaneID
	partition enginecore.Partition
}

// visit is a look at a spot that a claim is going to take.
type claimTarget struct {
	laneShard
	partitionHint
	slots    int  // reserved for what the claim brings
	setAside bool // look at what was set aside, too
	// heard tells that other workers have heard of the spot as well, and want to know when nothing is left there.
	shared bool
	// first tells that this worker answers before most others do, so that they want to know when nothing was there.
	early bool
	// place is that of the rota where it was heard, as text, so that more workers are to be woken when this one leaves work.
	// It is empty when all workers have heard of it: those that are idle come anyway.
	ringSlot string
}

// charge is a wake-up that a worker heard on duty: it sees to it that the work is taken.
type pendingHandoff struct {
	slot    string
	timer   *time.Timer
	handOff func()
}

// board is what a worker's dispatcher decides by: the free slots, and the spots where work is said to wait.
type dispatchQueue struct {
	changed chan struct{} // has a value when there may be something to claim

	mu       sync.Mutex
	free     int
	claims   int // under way
	queue    []claimTarget
	queued   map[laneShard]int              // number of the latest word of what is in the queue
	version  int                            // heard so far
	lanes    map[enginecore.LaneID]laneLoad // the queue by lanes
	setAside map[laneShard]bool             // spots where something was set aside that this worker can run
	delayed  map[laneShard]*time.Timer      // spots that others visit first
	handoffs map[laneShard]pendingHandoff
	closed   bool
}

// maxClaims bounds the claims of one worker that are under way at a time.
const maxClaims = 4

func newDispatchQueue(slots int) *dispatchQueue {
	return &dispatchQueue{
		changed: make(chan struct{}, 1), free: slots, queued: make(map[laneShard]int), lanes: make(map[enginecore.LaneID]laneLoad),
		setAside: make(map[laneShard]bool), delayed: make(map[laneShard]*time.Timer), handoffs: make(map[laneShard]pendingHandoff),
	}
}

// addSetAside notes that something was set aside at a spot that this worker can run. It is claimed from there when a slot is
// free: to make it eligible before would let the worker that set it aside do so again.
func (b *dispatchQueue) addSetAside(s laneShard) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.setAside[s] = true
	b.enqueue(claimTarget{laneShard: s})
}

// add notes that work may wait at a spot. Spots are visited in the order in which they were noted.
func (b *dispatchQueue) add(s laneShard) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.enqueue(claimTarget{laneShard: s})
}

// addShared notes a wake-up that all workers have heard. A worker with free slots leaves the spot to others for a time, unless
// it is its turn; one without notes it for later. turn tells how long to wait, and whether that is less than most others
// do; it is asked when it matters only, since it looks at all other workers.
func (b *dispatchQueue) addShared(s laneShard, turn func() (wait time.Duration, first bool)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropHandoff(s)
	if b.closed || b.bumpIfQueued(s) || b.delayed[s] != nil {
		return
	}
	if b.free == 0 {
		b.enqueue(claimTarget{laneShard: s, shared: true})
		return
	}
	wait, first := turn()
	b.enqueueAfter(wait, claimTarget{laneShard: s, shared: true, early: first})
}

// addAssigned notes a wake-up that only few workers have heard, at a place of the rota. When it is neither taken by this
// one nor said to be taken by others within a time, handOn tells all.
func (b *dispatchQueue) addAssigned(s laneShard, place int, wait, patience time.Duration, handOn func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		handOn()
		return
	}
	b.dropHandoff(s)
	var timer *time.Timer
	timer = time.AfterFunc(patience, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.handoffs[s].timer == timer {
			delete(b.handoffs, s)
			handOn()
		}
	})
	b.handoffs[s] = pendingHandoff{strconv.Itoa(place), timer, handOn}
	if b.bumpIfQueued(s) || b.delayed[s] != nil {
		return
	}
	if b.free == 0 {
		wait = 0 // others may answer first, but it comes when it can
	}
	b.enqueueAfter(wait, claimTarget{laneShard: s})
}

// dropHandoff needs the lock.
func (b *dispatchQueue) dropHandoff(s laneShard) (c pendingHandoff, on bool) {
	if c, on = b.handoffs[s]; on {
		c.timer.Stop()
		delete(b.handoffs, s)
	}
	return c, on
}

// enqueueAfter needs the lock.
func (b *dispatchQueue) enqueueAfter(wait time.Duration, v claimTarget) {
	if wait <= 0 {
		b.enqueue(v)
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(wait, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.delayed[v.laneShard] == timer {
			b.enqueue(v)
		}
	})
	b.delayed[v.laneShard] = timer
}

// markEmpty notes that others have taken all there was at a spot.
func (b *dispatchQueue) markEmpty(s laneShard) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropDelayed(s)
	b.dropHandoff(s)
	if !b.setAside[s] {
		b.remove(s)
	}
}

// bumpIfQueued tells that a spot of which there is word is in the queue already. It needs the lock.
func (b *dispatchQueue) bumpIfQueued(s laneShard) bool {
	_, queued := b.queued[s]
	if queued {
		b.version++
		b.queued[s] = b.version
	}
	return queued
}

// remove takes a spot out of the queue. It needs the lock.
func (b *dispatchQueue) remove(s laneShard) {
	i := slices.IndexFunc(b.queue, func(v claimTarget) bool { return v.laneShard == s })
	if i < 0 {
		return
	}
	b.queue = slices.Delete(b.queue, i, i+1)
	delete(b.queued, s)
	b.lanes[s.lane] = b.lanes[s.lane].withQueued(-1)
}

// enqueue needs the lock.
func (b *dispatchQueue) enqueue(v claimTarget) {
	b.dropDelayed(v.laneShard)
	if b.closed || b.bumpIfQueued(v.laneShard) {
		return
	}
	b.version++
	b.queued[v.laneShard] = b.version
	b.lanes[v.lane] = b.lanes[v.lane].withQueued(1)
	b.queue = append(b.queue, v)
	if b.free > 0 {
		signalChange(b.changed)
	}
}

// dropDelayed needs the lock.
func (b *dispatchQueue) dropDelayed(s laneShard) {
	if timer := b.delayed[s]; timer != nil {
		timer.Stop()
		delete(b.delayed, s)
	}
}

// take picks a spot to claim from and reserves slots for what the claim brings. Where several spots of its lane wait, the
// server may choose among them (canChoose); they stay in the queue until visited tells where the claim has been.
func (b *dispatchQueue) take(canChoose bool) (v claimTarget, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.free == 0 || b.claims >= maxClaims {
		return claimTarget{}, false
	}
	i := slices.IndexFunc(b.queue, func(v claimTarget) bool { return b.lanes[v.lane].unclaimed() > 0 })
	if i < 0 {
		return claimTarget{}, false
	}
	v = b.queue[i]
	rivals := 0
	for _, l := range b.lanes {
		rivals += max(0, l.unclaimed())
	}
	v.slots = max(1, b.free/min(rivals, maxClaims-b.claims))
	if canChoose && b.lanes[v.lane].queued > 1 {
		b.queue = append(slices.Delete(b.queue, i, i+1), v)
		v.partitionHint = b.makeHint(v.lane)
	} else {
		b.remove(v.laneShard)
		if c, on := b.dropHandoff(v.laneShard); on {
			v.shared, v.early, v.ringSlot = true, true, c.slot
		}
		v.setAside = b.setAside[v.laneShard]
		delete(b.setAside, v.laneShard)
	}
	b.free -= v.slots
	b.claims++
	return v, true
}

// finishClaim ends a claim that left some of its slots unused.
func (b *dispatchQueue) finishClaim(unused int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.claims--
	b.free += unused
	if len(b.queue) > 0 {
		signalChange(b.changed)
	}
}

// releaseSlot frees a slot.
func (b *dispatchQueue) releaseSlot() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free++
	if len(b.queue) > 0 {
		signalChange(b.changed)
	}
}

// reserve takes up to n free slots. What is not used of them goes back with restore.
func (b *dispatchQueue) reserve(n int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0
	}
	n = min(n, b.free)
	b.free -= n
	return n
}

// restore frees slots that were reserved.
func (b *dispatchQueue) restore(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += n
	if n > 0 && len(b.queue) > 0 {
		signalChange(b.changed)
	}
}

// hasWaiting tells that other spots wait for a slot.
func (b *dispatchQueue) hasWaiting() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue) > 0
}

// close ends the claiming.
func (b *dispatchQueue) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.queue = nil
	for s := range b.delayed {
		b.dropDelayed(s)
	}
	for s, c := range b.handoffs {
		b.dropHandoff(s)
		c.handOff()
	}
}

func (b *dispatchQueue) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// signalChange leaves a value in a channel of capacity one, which wakes the goroutine that receives from it.
func signalChange(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
