package runtime

import (
	"slices"
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
	slots int  // reserved for what the claim brings
	aside bool // look at what was set aside, too
	// heard tells that other workers have heard of the spot as well, and want to know when nothing is left there.
	heard bool
	// turn tells that this worker answers before others do, and wakes the next ones when it leaves work.
	turn bool
}

// board is what a worker's dispatcher decides by: the free slots, and the spots where work is said to wait.
type board struct {
	changed chan struct{} // has a value when there may be something to claim

	mu     sync.Mutex
	free   int
	claims int // under way
	queue  []visit
	queued map[spot]bool
	aside  map[spot]bool        // spots where something was set aside that this worker can run
	later  map[spot]*time.Timer // spots that others visit first
	closed bool
}

// maxClaims bounds the claims of one worker that are under way at a time.
const maxClaims = 4

func newBoard(slots int) *board {
	return &board{
		changed: make(chan struct{}, 1), free: slots, queued: make(map[spot]bool), aside: make(map[spot]bool),
		later: make(map[spot]*time.Timer),
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

// hear notes a wake-up that others have heard, too. A worker with free slots leaves the spot to others for a time, unless
// it is its turn; one without notes it for later. turn, how long to wait, is asked when it matters only: it looks at all
// other workers.
func (b *board) hear(s spot, turn func() time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.queued[s] || b.later[s] != nil {
		return
	}
	if b.free == 0 {
		b.enqueue(visit{spot: s, heard: true})
		return
	}
	switch wait := turn(); {
	case wait <= 0:
		b.enqueue(visit{spot: s, heard: true, turn: true})
	default:
		var timer *time.Timer
		timer = time.AfterFunc(wait, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.later[s] == timer {
				b.enqueue(visit{spot: s, heard: true, turn: true})
			}
		})
		b.later[s] = timer
	}
}

// nothingAt notes that others have taken all there was at a spot.
func (b *board) nothingAt(s spot) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forgetLater(s)
	if b.queued[s] && !b.aside[s] {
		delete(b.queued, s)
		b.queue = slices.DeleteFunc(b.queue, func(v visit) bool { return v.spot == s })
	}
}

// enqueue needs the lock.
func (b *board) enqueue(v visit) {
	b.forgetLater(v.spot)
	if b.closed || b.queued[v.spot] {
		return
	}
	b.queued[v.spot] = true
	b.queue = append(b.queue, v)
	if b.free > 0 {
		notify(b.changed)
	}
}

// forgetLater needs the lock.
func (b *board) forgetLater(s spot) {
	if timer := b.later[s]; timer != nil {
		timer.Stop()
		delete(b.later, s)
	}
}

// take picks a spot to claim from and reserves slots for what the claim brings.
func (b *board) take() (v visit, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.free == 0 || len(b.queue) == 0 || b.claims >= maxClaims {
		return visit{}, false
	}
	v = b.queue[0]
	b.queue = b.queue[1:]
	delete(b.queued, v.spot)
	v.aside = b.aside[v.spot]
	delete(b.aside, v.spot)
	rivals := min(len(b.queue)+1, maxClaims-b.claims)
	v.slots = max(1, b.free/rivals)
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
		notify(b.changed)
	}
}

// release frees a slot.
func (b *board) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free++
	if len(b.queue) > 0 {
		notify(b.changed)
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
}

func (b *board) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}
