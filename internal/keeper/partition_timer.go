package keeper

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/sleep"
)

// foreignTurns is the number of intervals after which a keeper visits a partition that it does not own, in case the
// keepers disagree about its owner.
const foreignTurns = 10

// spreadTimes is the number of times over which spread distributes the first visits.
const spreadTimes = 8

// PartitionTimer decides when a loop visits which partition. It is safe for concurrent use.
type PartitionTimer struct {
	changed chan struct{}
	every   time.Duration
	began   time.Time
	// foreign is the time between two visits of a partition that is not owned.
	foreign time.Duration
	// aligned sets the regular visits of owned partitions to common times, so that one round trip visits many of them.
	aligned bool

	// batch bounds the partitions of one visit.
	batch int

	// oneClock reports that one server has all partitions, so that the clock read in one of them counts for all.
	oneClock bool

	mu       sync.Mutex
	next     map[keyspace.Partition]time.Time
	shared   engine.ClockReading // the best of all partitions if oneClock
	clocks   map[keyspace.Partition]engine.ClockReading
	owned    map[keyspace.Partition]bool
	failures map[keyspace.Partition]int // in a row, while the engine was reachable
	// visits holds the partitions with a step of their own under way.
	visits map[keyspace.Partition]bool
	// failing holds the partitions whose last step failed, for any reason, with the error.
	failing map[keyspace.Partition]error
}

// NewPartitionTimer returns a timer for a loop with the given interval, under which all partitions are owned and due.
func NewPartitionTimer(partitions []keyspace.Partition, every time.Duration) *PartitionTimer {
	t := &PartitionTimer{
		changed: make(chan struct{}, 1), every: every, began: time.Now(),
		foreign: foreignTurns * every, batch: BatchSize,
		next:   make(map[keyspace.Partition]time.Time, len(partitions)),
		clocks: make(map[keyspace.Partition]engine.ClockReading, len(partitions)),
		owned:  make(map[keyspace.Partition]bool, len(partitions)), failures: make(map[keyspace.Partition]int),
		visits: make(map[keyspace.Partition]bool), failing: make(map[keyspace.Partition]error),
	}
	for _, p := range partitions {
		t.next[p], t.owned[p] = time.Time{}, true
	}
	return t
}

// spread defers the first visits to random times within the interval. It rounds them to spreadTimes different ones, so
// that one round trip visits several partitions.
func (t *PartitionTimer) spread(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for p := range t.next {
		t.next[p] = now.Add(t.every / spreadTimes * rand.N(time.Duration(spreadTimes)))
	}
}

// Due returns the partitions to visit now, at most as many as one visit takes, or the time until the next one is due. A
// partition with failed steps is returned alone, so that it delays no other. One with a visit under way is left out.
func (t *PartitionTimer) Due(now time.Time) ([]keyspace.Partition, time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list, suspects []keyspace.Partition
	wait := t.every
	for p, at := range t.next {
		switch left := at.Sub(now); {
		case t.visits[p]:
		case left > 0:
			wait = min(wait, left)
		case t.failures[p] > 0:
			suspects = append(suspects, p)
		case len(list) < t.batch:
			list = append(list, p)
		}
	}
	if len(list) == 0 && len(suspects) > 0 {
		list = suspects[:1]
	}
	for _, p := range list {
		t.next[p] = t.align(p, now.Add(t.pace(p)))
	}
	return list, wait
}

// beginVisit records that a step has begun in a partition alone, until endVisit.
func (t *PartitionTimer) beginVisit(p keyspace.Partition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.visits[p] = true
}

func (t *PartitionTimer) endVisit(p keyspace.Partition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.visits, p)
	sleep.Wake(t.changed)
}

// align moves the regular visit of an owned partition forward to the common time before it.
func (t *PartitionTimer) align(p keyspace.Partition, at time.Time) time.Time {
	if !t.aligned || !t.owned[p] {
		return at
	}
	return at.Add(-at.Sub(t.began) % t.every)
}

// pace returns the time to the next regular visit of a partition.
func (t *PartitionTimer) pace(p keyspace.Partition) time.Duration {
	if t.owned[p] {
		return t.every
	}
	return t.foreign + t.foreign/foreignTurns*time.Duration(p.Index%16)/16
}

// Stepped records a successful step in a partition, and when the partition is due again: the zero time leaves it
// until the next regular visit.
func (t *PartitionTimer) Stepped(p keyspace.Partition, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.failures, p)
	delete(t.failing, p)
	if !at.IsZero() {
		t.advance(p, at)
	}
}

// NoteClock records the engine's clock in a partition, read between two local times: asked and receivedAt. In a
// cluster, every primary has its own clock. It returns the least time by which that clock was set back since the last
// reading; 0 if it was not.
func (t *PartitionTimer) NoteClock(p keyspace.Partition, now, asked, receivedAt time.Time) (back time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, known := t.clocks[p]; known {
		back = max(0, last.Engine.Add(asked.Sub(last.Local)).Sub(now))
	}
	fresh := engine.ReadAt(now, receivedAt)
	t.clocks[p] = t.clocks[p].Better(fresh, asked)
	if t.oneClock {
		t.shared = t.shared.Better(fresh, asked)
	}
	return back
}

// ToLocal converts a time of the engine's clock in a partition to a local time, by the best of the latest readings;
// known is false without any.
func (t *PartitionTimer) ToLocal(p keyspace.Partition, at time.Time) (local time.Time, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	clock, known := t.clock(p)
	return clock.ToLocal(at), known
}

// clock returns the best reading of the engine's clock in a partition, if there is one.
func (t *PartitionTimer) clock(p keyspace.Partition) (reading engine.ClockReading, known bool) {
	if t.oneClock {
		return t.shared, !t.shared.Local.IsZero()
	}
	reading, known = t.clocks[p]
	return reading, known
}

// Failed records a failed step in a partition and defers its next visit: by MinPause while the engine is
// unreachable, otherwise by a pause that doubles up to MaxPause.
func (t *PartitionTimer) Failed(p keyspace.Partition, now time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failing[p] = err
	away := retry.IsUnreached(err)
	pause := MinPause
	if !away {
		pause = min(MaxPause, MinPause<<min(t.failures[p], 5))
		t.failures[p]++
	}
	if t.owned[p] {
		t.next[p] = now.Add(pause)
	}
}

// NoteDue advances the next visit of a partition to a time of the engine's clock. It has no effect on partitions that
// are not owned or that pause after a failure.
func (t *PartitionTimer) NoteDue(p keyspace.Partition, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	clock, known := t.clock(p)
	if !known {
		t.advance(p, time.Time{}) // a step that comes too early reads the engine's clock
		return
	}
	t.advance(p, clock.ToLocal(at))
}

// advance advances the next visit of a partition to a local time.
func (t *PartitionTimer) advance(p keyspace.Partition, at time.Time) {
	if next := t.next[p]; t.owned[p] && t.failures[p] == 0 && at.Before(next) {
		t.next[p] = at
		sleep.Wake(t.changed)
	}
}

// advanceNow makes a partition due at once if it is owned and does not pause after a failure.
func (t *PartitionTimer) advanceNow(p keyspace.Partition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advance(p, time.Time{})
}

// makeDue makes a partition due, owned or not, unless it is due soon anyway or pauses after a failure.
func (t *PartitionTimer) makeDue(p keyspace.Partition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failures[p] == 0 && time.Until(t.next[p]) > ShortSweep {
		t.next[p] = time.Time{}
		sleep.Wake(t.changed)
	}
}

// AllDue makes every owned partition due, after a time in which due messages may have been lost.
func (t *PartitionTimer) AllDue() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for p, owned := range t.owned {
		if owned {
			t.next[p] = time.Time{}
		}
	}
	sleep.Wake(t.changed)
}

// share updates the ownership: newly owned partitions are due at once, those that another keeper owns are deferred.
func (t *PartitionTimer) share(now time.Time, mine func(keyspace.Partition) bool) {
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
	sleep.Wake(t.changed)
}

// allFailing returns the error of one of the owned partitions if the last step failed in each of them, nil otherwise.
func (t *PartitionTimer) allFailing() (err error) {
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

// ownedCount returns the number of owned partitions.
func (t *PartitionTimer) ownedCount() int {
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

const (
	// BatchSize bounds the partitions that a loop visits in one round trip, and repairBatch the partitions of a loop
	// that reads many records in each of them, which delays other calls.
	BatchSize   = 64
	repairBatch = 4
	// MinPause and MaxPause bound the pause of a partition after a failed step. The pause doubles with
	// each failure in a row. While the engine is unreachable, it remains MinPause.
	MinPause = time.Second
	// MaxPause is the upper bound of that pause.
	MaxPause = 30 * time.Second
)
