package runtime

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// spot is a lane in a partition: a place where work may be waiting.
type spot struct {
	lane      enginecore.LaneID
	partition enginecore.Partition
}

// visit is a look at a spot that a claim is going to take.
type visit struct {
	spot
	choice
	slots int  // reserved for what the claim brings
	aside bool // look at what was set aside, too
	// heard tells that other workers have heard of the spot as well, and want to know when nothing is left there.
	heard bool
	// first tells that this worker answers before most others do, so that they want to know when nothing was there.
	first bool
	// place is that of the rota where it was heard, as text, so that more workers are to be woken when this one leaves work.
	// It is empty when all workers have heard of it: those that are idle come anyway.
	place string
}

// charge is a wake-up that a worker heard on duty: it sees to it that the work is taken.
type charge struct {
	place  string
	timer  *time.Timer
	handOn func()
}

// board is what a worker's dispatcher decides by: the free slots, and the spots where work is said to wait.
type board struct {
	changed chan struct{} // has a value when there may be something to claim

	mu     sync.Mutex
	free   int
	claims int // under way
	queue  []visit
	queued map[spot]int               // number of the latest word of what is in the queue
	words  int                        // heard so far
	lines  map[enginecore.LaneID]line // the queue by lanes
	aside  map[spot]bool              // spots where something was set aside that this worker can run
	later  map[spot]*time.Timer       // spots that others visit first
	duty   map[spot]charge
	closed bool
}

// maxClaims bounds the claims of one worker that are under way at a time.
const maxClaims = 4

func newBoard(slots int) *board {
	return &board{
		changed: make(chan struct{}, 1), free: slots, queued: make(map[spot]int), lines: make(map[enginecore.LaneID]line),
		aside: make(map[spot]bool), later: make(map[spot]*time.Timer), duty: make(map[spot]charge),
	}
}

// addAside notes that something was set aside at a spot that this worker can run. It is claimed from there when a slot is
// free: to make it eligible before would let the worker that set it aside do so again.
func (b *board) addAside(s spot) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.aside[s] = true
	b.enqueue(visit{spot: s})
}

// add notes that work may wait at a spot. Spots are visited in the order in which they were noted.
func (b *board) add(s spot) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.enqueue(visit{spot: s})
}

// hear notes a wake-up that all workers have heard. A worker with free slots leaves the spot to others for a time, unless
// it is its turn; one without notes it for later. turn tells how long to wait, and whether that is less than most others
// do; it is asked when it matters only, since it looks at all other workers.
func (b *board) hear(s spot, turn func() (wait time.Duration, first bool)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.discharge(s)
	if b.closed || b.isQueued(s) || b.later[s] != nil {
		return
	}
	if b.free == 0 {
		b.enqueue(visit{spot: s, heard: true})
		return
	}
	wait, first := turn()
	b.enqueueAfter(wait, visit{spot: s, heard: true, first: first})
}

// hearOnDuty notes a wake-up that only few workers have heard, at a place of the rota. When it is neither taken by this
// one nor said to be taken by others within a time, handOn tells all.
func (b *board) hearOnDuty(s spot, place int, wait, patience time.Duration, handOn func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		handOn()
		return
	}
	b.discharge(s)
	var timer *time.Timer
	timer = time.AfterFunc(patience, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.duty[s].timer == timer {
			delete(b.duty, s)
			handOn()
		}
	})
	b.duty[s] = charge{strconv.Itoa(place), timer, handOn}
	if b.isQueued(s) || b.later[s] != nil {
		return
	}
	if b.free == 0 {
		wait = 0 // others may answer first, but it comes when it can
	}
	b.enqueueAfter(wait, visit{spot: s})
}

// discharge needs the lock.
func (b *board) discharge(s spot) (c charge, on bool) {
	if c, on = b.duty[s]; on {
		c.timer.Stop()
		delete(b.duty, s)
	}
	return c, on
}

// enqueueAfter needs the lock.
func (b *board) enqueueAfter(wait time.Duration, v visit) {
	if wait <= 0 {
		b.enqueue(v)
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(wait, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.later[v.spot] == timer {
			b.enqueue(v)
		}
	})
	b.later[v.spot] = timer
}

// nothingAt notes that others have taken all there was at a spot.
func (b *board) nothingAt(s spot) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forgetLater(s)
	b.discharge(s)
	if !b.aside[s] {
		b.remove(s)
	}
}

// isQueued tells that a spot of which there is word is in the queue already. It needs the lock.
func (b *board) isQueued(s spot) bool {
	_, queued := b.queued[s]
	if queued {
		b.words++
		b.queued[s] = b.words
	}
	return queued
}

// remove takes a spot out of the queue. It needs the lock.
func (b *board) remove(s spot) {
	i := slices.IndexFunc(b.queue, func(v visit) bool { return v.spot == s })
	if i < 0 {
		return
	}
	b.queue = slices.Delete(b.queue, i, i+1)
	delete(b.queued, s)
	b.lines[s.lane] = b.lines[s.lane].grown(-1)
}

// enqueue needs the lock.
func (b *board) enqueue(v visit) {
	b.forgetLater(v.spot)
	if b.closed || b.isQueued(v.spot) {
		return
	}
	b.words++
	b.queued[v.spot] = b.words
	b.lines[v.lane] = b.lines[v.lane].grown(1)
	b.queue = append(b.queue, v)
	if b.free > 0 {
		signalChange(b.changed)
	}
}

// forgetLater needs the lock.
func (b *board) forgetLater(s spot) {
	if timer := b.later[s]; timer != nil {
		timer.Stop()
		delete(b.later, s)
	}
}

// take picks a spot to claim from and reserves slots for what the claim brings. Where several spots of its lane wait, the
// server may choose among them (canChoose); they stay in the queue until visited tells where the claim has been.
func (b *board) take(canChoose bool) (v visit, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.free == 0 || b.claims >= maxClaims {
		return visit{}, false
	}
	i := slices.IndexFunc(b.queue, func(v visit) bool { return b.lines[v.lane].free() > 0 })
	if i < 0 {
		return visit{}, false
	}
	v = b.queue[i]
	rivals := 0
	for _, l := range b.lines {
		rivals += max(0, l.free())
	}
	v.slots = max(1, b.free/min(rivals, maxClaims-b.claims))
	if canChoose && b.lines[v.lane].length > 1 {
		b.queue = append(slices.Delete(b.queue, i, i+1), v)
		v.choice = b.choose(v.lane)
	} else {
		b.remove(v.spot)
		if c, on := b.discharge(v.spot); on {
			v.heard, v.first, v.place = true, true, c.place
		}
		v.aside = b.aside[v.spot]
		delete(b.aside, v.spot)
	}
	b.free -= v.slots
	b.claims++
	return v, true
}

// claimed ends a claim that left some of its slots unused.
func (b *board) claimed(unused int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.claims--
	b.free += unused
	if len(b.queue) > 0 {
		signalChange(b.changed)
	}
}

// release frees a slot.
func (b *board) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free++
	if len(b.queue) > 0 {
		signalChange(b.changed)
	}
}

// reserve takes up to n free slots. What is not used of them goes back with restore.
func (b *board) reserve(n int) int {
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
func (b *board) restore(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += n
	if n > 0 && len(b.queue) > 0 {
		signalChange(b.changed)
	}
}

// crowded tells that other spots wait for a slot.
func (b *board) crowded() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue) > 0
}

// close ends the claiming.
func (b *board) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.queue = nil
	for s := range b.later {
		b.forgetLater(s)
	}
	for s, c := range b.duty {
		b.discharge(s)
		c.handOn()
	}
}

func (b *board) isClosed() bool {
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
