package runtime

import (
	"sync"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// spot is a lane in a partition: a place where work may be waiting.
type spot struct {
	lane      enginecore.LaneID
	partition enginecore.Partition
}

// board is what a worker's dispatcher decides by: the free slots, and the spots where work is said to wait.
type board struct {
	changed chan struct{} // has a value when there may be something to claim

	mu     sync.Mutex
	free   int
	claims int // under way
	queue  []spot
	queued map[spot]bool
	aside  map[spot]bool // spots where something was set aside that this worker can run
	closed bool
}

// maxClaims bounds the claims of one worker that are under way at a time.
const maxClaims = 4

func newBoard(slots int) *board {
	return &board{changed: make(chan struct{}, 1), free: slots, queued: make(map[spot]bool), aside: make(map[spot]bool)}
}

// addAside notes that something was set aside at a spot that this worker can run. It is claimed from there when a slot is
// free: to make it eligible before would let the worker that set it aside do so again.
func (b *board) addAside(s spot) {
	b.mu.Lock()
	b.aside[s] = true
	b.mu.Unlock()
	b.add(s)
}

// takeAside tells whether a claim has to look at what was set aside.
func (b *board) takeAside(s spot) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	aside := b.aside[s]
	delete(b.aside, s)
	return aside
}

// add notes that work may wait at a spot. Spots are visited in the order in which they were noted.
func (b *board) add(s spot) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.queued[s] {
		return
	}
	b.queued[s] = true
	b.queue = append(b.queue, s)
	if b.free > 0 {
		notify(b.changed)
	}
}

// take picks a spot to claim from and reserves slots for what the claim brings.
func (b *board) take() (s spot, slots int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.free == 0 || len(b.queue) == 0 || b.claims >= maxClaims {
		return spot{}, 0, false
	}
	s = b.queue[0]
	b.queue = b.queue[1:]
	delete(b.queued, s)
	rivals := min(len(b.queue)+1, maxClaims-b.claims)
	slots = max(1, b.free/rivals)
	b.free -= slots
	b.claims++
	return s, slots, true
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
}

func (b *board) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}
