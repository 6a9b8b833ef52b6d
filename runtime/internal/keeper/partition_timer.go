package keeper

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// foreignTurns is how many turns of a loop a keeper leaves the partitions of others alone. It looks at them now and then all the
// same, in case keepers do not agree on whose they are.
const foreignTurns = 10

// partitionTimer knows when to look at which partition.
type partitionTimer struct {
	changed chan struct{}
	every   time.Duration

	mu       sync.Mutex
	next     map[enginecore.Partition]time.Time
	clocks   map[enginecore.Partition]engine.ClockReading
	owned    map[enginecore.Partition]bool
	failures map[enginecore.Partition]int // in a row, although the engine is there
	// failing are the partitions whose last step failed, for whatever reason, with the error.
	failing map[enginecore.Partition]error
}

// newPartitionTimer returns a timer of which all partitions are owned and due.
func NewPartitionTimer(partitions []enginecore.Partition, every time.Duration) *partitionTimer {
	t := &partitionTimer{
		changed: make(chan struct{}, 1), every: every, next: make(map[enginecore.Partition]time.Time, len(partitions)),
		clocks: make(map[enginecore.Partition]engine.ClockReading, len(partitions)),
		owned:  make(map[enginecore.Partition]bool, len(partitions)), failures: make(map[enginecore.Partition]int),
		failing: make(map[enginecore.Partition]error),
	}
	for _, p := range partitions {
		t.next[p], t.owned[p] = time.Time{}, true
	}
	return t
}

// spread puts the first looks off, to different times within the time of the loop.
func (t *partitionTimer) spread(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for p := range t.next {
		t.next[p] = now.Add(rand.N(t.every))
	}
}

// due returns the partitions to look at now, or how long there is nothing to do. One in which steps have failed is looked
// at alone, so that it keeps none of the others from their turn.
func (t *partitionTimer) Due(now time.Time) ([]enginecore.Partition, time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list, suspects []enginecore.Partition
	wait := t.every
	for p, at := range t.next {
		switch left := at.Sub(now); {
		case left > 0:
			wait = min(wait, left)
		case t.failures[p] > 0:
			suspects = append(suspects, p)
		case len(list) < KeeperBatch:
			list = append(list, p)
		}
	}
	if len(list) == 0 && len(suspects) > 0 {
		list = suspects[:1]
	}
	for _, p := range list {
		t.next[p] = now.Add(t.pace(p))
	}
	return list, wait
}

// pace is how long a partition is left alone when nothing is known to be due in it.
func (t *partitionTimer) pace(p enginecore.Partition) time.Duration {
	if t.owned[p] {
		return t.every
	}
	return foreignTurns*t.every + t.every*time.Duration(p.Index%16)/16
}

// stepped notes when a partition that was just looked at is due again; zero is with the next turn of the loop.
func (t *partitionTimer) Stepped(p enginecore.Partition, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.failures, p)
	delete(t.failing, p)
	if !at.IsZero() {
		t.advance(p, at)
	}
}

// noteClock notes what time it was for the engine in a partition between the question and its answer. In a cluster, every primary
// has a clock of its own. It returns by how much, at least, that clock has been set back since the last time; 0 when it has not.
func (t *partitionTimer) NoteClock(p enginecore.Partition, now, asked, heard time.Time) (back time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, known := t.clocks[p]; known {
		back = max(0, last.Engine.Add(asked.Sub(last.Local)).Sub(now))
	}
	t.clocks[p] = engine.ReadAt(now, heard)
	return back
}

// failed notes that a step has failed in a partition.
func (t *partitionTimer) Failed(p enginecore.Partition, now time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failing[p] = err
	away := errors.Is(err, enginecore.ErrUnavailable)
	pause := MinKeeperPause
	if !away {
		pause = min(MaxKeeperPause, MinKeeperPause<<min(t.failures[p], 5))
		t.failures[p]++
	}
	if t.owned[p] {
		t.next[p] = now.Add(pause)
	}
}

// noteDue brings the next look at a partition forward to a time of the engine, unless it is left to another keeper or has to
// rest after a failure.
func (t *partitionTimer) NoteDue(p enginecore.Partition, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	clock, known := t.clocks[p]
	if !known {
		t.advance(p, time.Time{}) // one step too early reads the engine's time
		return
	}
	t.advance(p, clock.ToLocal(at))
}

// advance brings the next look at a partition forward to a time of this machine.
func (t *partitionTimer) advance(p enginecore.Partition, at time.Time) {
	if next := t.next[p]; t.owned[p] && t.failures[p] == 0 && at.Before(next) {
		t.next[p] = at
		engine.Notify(t.changed)
	}
}

// advanceNow makes a partition due at once if it is owned and does not rest after a failure.
func (t *partitionTimer) advanceNow(p enginecore.Partition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advance(p, time.Time{})
}

// makeDue makes a partition due, whoever owns it, unless it is due soon anyway or has to rest after a failure.
func (t *partitionTimer) makeDue(p enginecore.Partition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failures[p] == 0 && time.Until(t.next[p]) > KeeperSweep {
		t.next[p] = time.Time{}
		engine.Notify(t.changed)
	}
}

// allDue makes every owned partition due, because messages may have been lost.
func (t *partitionTimer) AllDue() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for p, owned := range t.owned {
		if owned {
			t.next[p] = time.Time{}
		}
	}
	engine.Notify(t.changed)
}

// share takes over what the keeper has come to own, at once, and leaves to others what it does not own any more.
func (t *partitionTimer) share(now time.Time, mine func(enginecore.Partition) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for p, owned := range t.owned {
		t.owned[p] = mine(p)
		switch {
		case t.owned[p] && !owned:
			t.next[p] = time.Time{}
		case !t.owned[p] && owned:
			t.next[p] = now.Add(t.pace(p))
		}
	}
	engine.Notify(t.changed)
}

// allFailing is the error of one of the owned partitions when the last step failed in each of them, nil otherwise.
func (t *partitionTimer) allFailing() (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for p, owned := range t.owned {
		if !owned {
			continue
		}
		if t.failing[p] == nil {
			return nil
		}
		err = t.failing[p]
	}
	return err
}

// ownedCount counts the partitions that the keeper owns.
func (t *partitionTimer) ownedCount() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, owned := range t.owned {
		if owned {
			n++
		}
	}
	return n
}
