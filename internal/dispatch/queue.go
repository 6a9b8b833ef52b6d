package dispatch

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// LaneShard is the unit that a claim takes work from: a lane in a partition. Where one server has all partitions, the
// engine keeps one order for the whole lane in partition 0, and wake-ups name that shard; other shards of the lane are
// queued only for executions that were set aside in their partition or that no run owns.
type LaneShard struct {
	Lane      enginecore.LaneID
	Partition keyspace.Partition
}

// ClaimTarget is the destination of the next claim, with the notices of the call to other workers. [Queue.Take] makes
// it; the zero value means none.
type ClaimTarget struct {
	LaneShard
	Slots    int  // reserved for the executions that the claim leases
	SetAside bool // claim executions that were set aside, too
	// Shared is set when other workers received the wake-up as well: the claim notifies them when it leaves nothing.
	Shared bool
	// Early is set when this worker claims before most others: the claim notifies them also when it finds nothing.
	Early bool
	// Alone is set when nothing else runs and all slots are reserved, for an execution that is to run alone.
	Alone bool
	// RingSlot is the slot of the wake ring in which the wake-up arrived, as decimal text. The engine wakes more
	// workers when the claim leaves work. It is empty when all workers received the wake-up, since idle ones claim
	// anyway.
	RingSlot string
}

// pendingBroadcast is a wake-up for which this worker is responsible, with few others: unless the work is claimed in
// time, the worker publishes the wake-up to all workers.
type pendingBroadcast struct {
	slot      string
	timer     *time.Timer
	broadcast func()
}

// Queue holds the free slots of one worker and the shards where work may be waiting, each once, in the order of
// arrival. It is safe for concurrent use. [NewQueue] makes one; the zero value is not usable.
type Queue struct {
	Changed chan struct{} // has a value when there may be something to claim

	mu         sync.Mutex
	slots      int // of the worker
	free       int
	owed       int // slots that go as soon as they are free
	claims     int // in flight
	queue      []ClaimTarget
	queued     map[LaneShard]bool        // shards in the queue
	setAside   map[LaneShard]bool        // shards with executions that were set aside and this worker can run
	delayed    map[LaneShard]*time.Timer // shards that other workers claim from first
	broadcasts map[LaneShard]pendingBroadcast
	isolation  *isolation // nil: claims need not wait until nothing runs
	closed     bool
}

// maxClaims bounds the claims of one worker that are in flight at a time.
const maxClaims = 4

// NewQueue returns an empty queue of a worker with the given number of slots, all free.
func NewQueue(slots int) *Queue {
	return &Queue{
		Changed: make(chan struct{}, 1), slots: slots, free: slots, queued: make(map[LaneShard]bool),
		setAside: make(map[LaneShard]bool), delayed: make(map[LaneShard]*time.Timer),
		broadcasts: make(map[LaneShard]pendingBroadcast),
	}
}

// AddSetAside queues a shard with an execution that was set aside and that this worker can run. The claim takes the
// execution from there when a slot is free: making it eligible earlier would let the worker that set it aside do so
// again.
func (q *Queue) AddSetAside(s LaneShard) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.setAside[s] = true
	q.enqueue(ClaimTarget{LaneShard: s})
}

// Add queues a shard where work may be waiting, unless it is queued already. Claims take the shards in the order in
// which they were added.
func (q *Queue) Add(s LaneShard) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.enqueue(ClaimTarget{LaneShard: s})
}

// AddShared queues a shard for which all workers were woken. If this worker has free slots, the shard is queued after
// the worker's turn, otherwise at once. turn returns how long to wait, and whether that is less than most others wait;
// it is called only when that matters, since it goes through all peers.
func (q *Queue) AddShared(s LaneShard, turn func() (wait time.Duration, first bool)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropBroadcast(s)
	if q.closed || q.queued[s] || q.delayed[s] != nil {
		return
	}
	if q.free == 0 {
		q.enqueue(ClaimTarget{LaneShard: s, Shared: true})
		return
	}
	wait, first := turn()
	q.enqueueAfter(wait, ClaimTarget{LaneShard: s, Shared: true, Early: first})
}

// AddAssigned queues a shard after wait, for which only the workers of a slot of the wake ring were woken. broadcast is
// called after patience, unless by then this worker claims from the shard, [Queue.AddShared] reports a wake-up
// of all workers, or [Queue.MarkEmpty] reports that nothing is left. It is also called when the queue is
// closed. broadcast must not block and must not call the queue.
func (q *Queue) AddAssigned(s LaneShard, slot int, wait, patience time.Duration, broadcast func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		broadcast()
		return
	}
	q.dropBroadcast(s)
	var timer *time.Timer
	timer = time.AfterFunc(patience, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.broadcasts[s].timer == timer {
			delete(q.broadcasts, s)
			broadcast()
		}
	})
	q.broadcasts[s] = pendingBroadcast{strconv.Itoa(slot), timer, broadcast}
	if q.queued[s] || q.delayed[s] != nil {
		return
	}
	if q.free == 0 {
		wait = 0 // others may claim first, but this worker does when it can
	}
	q.enqueueAfter(wait, ClaimTarget{LaneShard: s})
}

// dropBroadcast removes and returns the pending broadcast of a shard, if there is one. The caller holds the lock.
func (q *Queue) dropBroadcast(s LaneShard) (h pendingBroadcast, pending bool) {
	if h, pending = q.broadcasts[s]; pending {
		h.timer.Stop()
		delete(q.broadcasts, s)
	}
	return h, pending
}

// enqueueAfter queues a target after a time, unless the shard is queued or found empty before. The caller holds the
// lock.
func (q *Queue) enqueueAfter(wait time.Duration, v ClaimTarget) {
	if wait <= 0 {
		q.enqueue(v)
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(wait, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.delayed[v.LaneShard] == timer {
			q.enqueue(v)
		}
	})
	q.delayed[v.LaneShard] = timer
}

// MarkEmpty removes a shard from which other workers have claimed all work. Executions that were set aside there keep
// the shard in the queue.
func (q *Queue) MarkEmpty(s LaneShard) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropDelayed(s)
	q.dropBroadcast(s)
	if !q.setAside[s] {
		q.remove(s)
	}
}

// remove removes a shard from the queue. The caller holds the lock.
func (q *Queue) remove(s LaneShard) {
	i := slices.IndexFunc(q.queue, func(v ClaimTarget) bool { return v.LaneShard == s })
	if i < 0 {
		return
	}
	q.queue = slices.Delete(q.queue, i, i+1)
	delete(q.queued, s)
}

// enqueue adds a target to the queue unless its shard is there. The caller holds the lock.
func (q *Queue) enqueue(v ClaimTarget) {
	q.dropDelayed(v.LaneShard)
	if q.closed || q.queued[v.LaneShard] {
		return
	}
	q.queued[v.LaneShard] = true
	q.queue = append(q.queue, v)
	if q.free > 0 {
		signalChange(q.Changed)
	}
}

// dropDelayed stops the timer after which a shard would be queued. The caller holds the lock.
func (q *Queue) dropDelayed(s LaneShard) {
	if timer := q.delayed[s]; timer != nil {
		timer.Stop()
		delete(q.delayed, s)
	}
}

// Take returns the target of the next claim, with slots reserved for it; ok is false without a shard or a free slot,
// and while maxClaims claims are in flight. The caller ends the claim with [Queue.FinishClaim].
func (q *Queue) Take() (v ClaimTarget, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.isolation != nil {
		return q.takeAlone()
	}
	if q.closed || q.free == 0 || q.claims >= maxClaims || len(q.queue) == 0 {
		return ClaimTarget{}, false
	}
	v = q.queue[0]
	v.Slots = max(1, q.free/min(len(q.queue), maxClaims-q.claims))
	q.remove(v.LaneShard)
	if h, pending := q.dropBroadcast(v.LaneShard); pending {
		v.Shared, v.Early, v.RingSlot = true, true, h.slot
	}
	v.SetAside = q.setAside[v.LaneShard]
	delete(q.setAside, v.LaneShard)
	q.free -= v.Slots
	q.claims++
	return v, true
}

// FinishClaim ends a claim that Take returned and frees the slots that it left unused.
func (q *Queue) FinishClaim(unused int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.claims--
	q.addFree(unused)
	q.signalWaiting()
}

// ReleaseSlot frees one slot, whose task has ended.
func (q *Queue) ReleaseSlot() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addFree(1)
	q.signalWaiting()
}

// Reserve takes up to n free slots and returns how many; 0 after Close and after Isolate. The caller frees those that
// it does not use with [Queue.Restore].
func (q *Queue) Reserve(n int) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.isolation != nil {
		return 0
	}
	n = min(n, q.free)
	q.free -= n
	return n
}

// Restore frees n slots that Reserve took.
func (q *Queue) Restore(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addFree(n)
	if n > 0 {
		q.signalWaiting()
	}
}

// HasWaiting reports whether a claim waits in the queue that a slot which runs executions of a shard should make way
// for: of another shard, or of the same one if only a claim takes its executions that were set aside, or lets other
// workers know.
func (q *Queue) HasWaiting(at LaneShard) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, v := range q.queue {
		if v.LaneShard != at || v.Shared || q.setAside[at] {
			return true
		}
		if _, pending := q.broadcasts[at]; pending {
			return true
		}
	}
	return false
}

// Close empties the queue for good and publishes pending wake-ups to all workers. Afterwards Take returns no target;
// slots can still be freed.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.queue = nil
	q.endIsolation()
	for s := range q.delayed {
		q.dropDelayed(s)
	}
	for s, h := range q.broadcasts {
		q.dropBroadcast(s)
		h.broadcast()
	}
}

// IsClosed reports whether Close was called.
func (q *Queue) IsClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// signalWaiting wakes the receiver of Changed when a target waits. The caller holds the lock.
func (q *Queue) signalWaiting() {
	if len(q.queue) > 0 || q.isolation != nil {
		signalChange(q.Changed)
	}
}

// signalChange leaves a value in a channel of capacity one, which wakes the goroutine that receives from it.
func signalChange(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// AddSlot adds a free slot, for a worker whose slots are the tasks that its program requests.
func (q *Queue) AddSlot() { q.ReleaseSlot() }

// RemoveSlot takes back a slot that AddSlot has added and that no task has used. If a claim uses it, it goes when the
// claim, or the task that it has leased, frees it.
func (q *Queue) RemoveSlot() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.free > 0 {
		q.free--
	} else {
		q.owed++
	}
}

// addFree frees n slots, except those that RemoveSlot could not take back before. The caller holds the lock.
func (q *Queue) addFree(n int) {
	paid := min(n, q.owed)
	q.owed -= paid
	q.free += n - paid
}
