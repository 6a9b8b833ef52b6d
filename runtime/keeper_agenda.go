package runtime

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// foreignRounds is how many rounds a keeper leaves the partitions of others alone. It looks at them now and then all the
// same, in case keepers do not agree on whose they are.
const foreignRounds = 10

// agenda knows when to look at which partition.
type agenda struct {
	changed chan struct{}
	every   time.Duration

	mu       sync.Mutex
	next     map[enginecore.Partition]time.Time
	clocks   map[enginecore.Partition]clockReading
	owned    map[enginecore.Partition]bool
	failures map[enginecore.Partition]int // in a row, although the engine is there
	// failing are the partitions whose last step failed, for whatever reason, with the error.
	failing map[enginecore.Partition]error
}

// newAgenda returns an agenda of which all partitions are owned and due.
func newAgenda(partitions []enginecore.Partition, every time.Duration) *agenda {
	a := &agenda{
		changed: make(chan struct{}, 1), every: every, next: make(map[enginecore.Partition]time.Time, len(partitions)),
		clocks: make(map[enginecore.Partition]clockReading, len(partitions)),
		owned:  make(map[enginecore.Partition]bool, len(partitions)), failures: make(map[enginecore.Partition]int),
		failing: make(map[enginecore.Partition]error),
	}
	for _, p := range partitions {
		a.next[p], a.owned[p] = time.Time{}, true
	}
	return a
}

// spread puts the first looks off, to different times within a round.
func (a *agenda) spread(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for p := range a.next {
		a.next[p] = now.Add(rand.N(a.every))
	}
}

// due returns the partitions to look at now, or how long there is nothing to do. One in which steps have failed is looked
// at alone, so that it keeps none of the others from their turn.
func (a *agenda) due(now time.Time) ([]enginecore.Partition, time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var list, suspects []enginecore.Partition
	wait := a.every
	for p, at := range a.next {
		switch left := at.Sub(now); {
		case left > 0:
			wait = min(wait, left)
		case a.failures[p] > 0:
			suspects = append(suspects, p)
		case len(list) < keeperBatch:
			list = append(list, p)
		}
	}
	if len(list) == 0 && len(suspects) > 0 {
		list = suspects[:1]
	}
	for _, p := range list {
		a.next[p] = now.Add(a.pace(p))
	}
	return list, wait
}

// pace is how long a partition is left alone when nothing is known to be due in it.
func (a *agenda) pace(p enginecore.Partition) time.Duration {
	if a.owned[p] {
		return a.every
	}
	return foreignRounds*a.every + a.every*time.Duration(p.Index%16)/16
}

// stepped notes when a partition that was just looked at is due again; zero is with the next round.
func (a *agenda) stepped(p enginecore.Partition, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.failures, p)
	delete(a.failing, p)
	if !at.IsZero() {
		a.bring(p, at)
	}
}

// learn notes what time it was for the engine in a partition between the question and its answer. In a cluster, every primary
// has a clock of its own. It returns by how much, at least, that clock has been set back since the last time; 0 when it has not.
func (a *agenda) learn(p enginecore.Partition, now, asked, heard time.Time) (back time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if last, known := a.clocks[p]; known {
		back = max(0, last.engine.Add(asked.Sub(last.local)).Sub(now))
	}
	a.clocks[p] = readAt(now, heard)
	return back
}

// failed notes that a step has failed in a partition.
func (a *agenda) failed(p enginecore.Partition, now time.Time, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failing[p] = err
	away := errors.Is(err, enginecore.ErrUnavailable)
	pause := minKeeperPause
	if !away {
		pause = min(maxKeeperPause, minKeeperPause<<min(a.failures[p], 5))
		a.failures[p]++
	}
	if a.owned[p] {
		a.next[p] = now.Add(pause)
	}
}

// note brings the next look at a partition forward to a time of the engine, unless it is left to another keeper or has to
// rest after a failure.
func (a *agenda) note(p enginecore.Partition, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	clock, known := a.clocks[p]
	if !known {
		a.bring(p, time.Time{}) // one look too early tells the engine's time
		return
	}
	a.bring(p, clock.here(at))
}

// bring brings the next look at a partition forward to a time of this machine.
func (a *agenda) bring(p enginecore.Partition, at time.Time) {
	if next := a.next[p]; a.owned[p] && a.failures[p] == 0 && at.Before(next) {
		a.next[p] = at
		notify(a.changed)
	}
}

// bringNow makes a partition due at once if it is owned and does not rest after a failure.
func (a *agenda) bringNow(p enginecore.Partition) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bring(p, time.Time{})
}

// makeDue makes a partition due, whoever owns it, unless it is due soon anyway or has to rest after a failure.
func (a *agenda) makeDue(p enginecore.Partition) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failures[p] == 0 && time.Until(a.next[p]) > keeperSweep {
		a.next[p] = time.Time{}
		notify(a.changed)
	}
}

// allDue makes every owned partition due, because messages may have been lost.
func (a *agenda) allDue() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for p, owned := range a.owned {
		if owned {
			a.next[p] = time.Time{}
		}
	}
	notify(a.changed)
}

// share takes over what the keeper has come to own, at once, and leaves to others what it does not own any more.
func (a *agenda) share(now time.Time, mine func(enginecore.Partition) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for p, owned := range a.owned {
		a.owned[p] = mine(p)
		switch {
		case a.owned[p] && !owned:
			a.next[p] = time.Time{}
		case !a.owned[p] && owned:
			a.next[p] = now.Add(a.pace(p))
		}
	}
	notify(a.changed)
}

// allFailing is the error of one of the owned partitions when the last step failed in each of them, nil otherwise.
func (a *agenda) allFailing() (err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for p, owned := range a.owned {
		if !owned {
			continue
		}
		if a.failing[p] == nil {
			return nil
		}
		err = a.failing[p]
	}
	return err
}

// owns counts the partitions that the keeper owns.
func (a *agenda) owns() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, owned := range a.owned {
		if owned {
			n++
		}
	}
	return n
}
