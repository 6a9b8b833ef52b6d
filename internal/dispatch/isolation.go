package dispatch

import "time"

// isolation keeps a worker from claims until it runs nothing, so that one execution can run alone.
type isolation struct {
	shard LaneShard
	timer *time.Timer // ends it
}

// Isolate keeps [Queue.Take] from returning targets until all slots are free and no claim is in flight. Then Take
// returns the shard with Alone set, and all slots. It ends after patience if this does not happen. A second call has no
// effect until then.
func (q *Queue) Isolate(s LaneShard, patience time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.isolation != nil {
		return
	}
	i := &isolation{shard: s}
	i.timer = time.AfterFunc(patience, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.isolation == i {
			q.isolation = nil
			q.signalWaiting()
		}
	})
	q.isolation = i
	signalChange(q.Changed)
}

// IsIsolating reports whether the worker has to finish its running functions and to begin nothing else.
func (q *Queue) IsIsolating() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.isolation != nil
}

// takeAlone returns the target of the isolation once nothing runs. The caller holds the lock.
func (q *Queue) takeAlone() (v ClaimTarget, ok bool) {
	if q.free < q.slots || q.claims > 0 {
		return ClaimTarget{}, false
	}
	v = ClaimTarget{LaneShard: q.isolation.shard, Slots: q.free, Alone: true}
	q.endIsolation()
	q.free = 0
	q.claims++
	return v, true
}

// endIsolation ends an isolation, if there is one. The caller holds the lock.
func (q *Queue) endIsolation() {
	if q.isolation != nil {
		q.isolation.timer.Stop()
		q.isolation = nil
	}
}
