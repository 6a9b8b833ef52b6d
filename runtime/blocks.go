package runtime

import (
	"log/slog"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

const (
	// blockPause is how often a worker tells of a block in which it starts executions, and for how long it keeps places of it
	// that it does not use.
	blockPause = 20 * time.Millisecond
	// blockFresh is for how long after its last word a worker starts executions in a block without another one. It is far less
	// than the time after which a keeper takes places from a block that is not heard of.
	blockFresh = 50 * time.Millisecond
)

// blocks are the places that a worker holds for whatever it runs, by limit. Where a limit is far away, executions take turns
// in them, so that one call goes for many of them. Once it comes near, each place goes back as it becomes free.
type blocks struct {
	shift *shift

	mu     sync.Mutex
	blocks map[enginecore.QuotaPolicyID]*block
}

// block is what a worker holds of one limit. Its fields are under the lock of all blocks.
type block struct {
	*blocks
	kick  chan struct{} // has a value when there is something to tell at once
	limit storedLimit
	lane  enginecore.LaneID // of the last task
	users int               // tasks that have it or wait for it
	// held is how many places the engine has given, used how many of them are taken; peak is the most since the last word.
	held, used, peak int64
	waiting          []*task
	// heard is when the last word was sent that was answered, started tells whether a task has begun since.
	heard   time.Time
	started bool
	// near tells that the limit is not far away: nothing is kept.
	near bool
	// unsure tells that the engine may have given places of which it could not tell.
	unsure  bool
	seq     int64
	running bool
}

// fits tells whether executions can take turns under limits: a rate counts every start, and what a worker holds that is not
// known to live is taken back.
func (b *blocks) fits(limits []storedLimit) bool {
	return len(limits) == 1 && limits[0].Rate == 0 && b.shift.leases.known.Load()
}

// take gives a task its place, or lets it wait for one. The caller is one of the shift's tasks.
func (b *blocks) take(t *task, limit storedLimit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	x := b.blocks[limit.Quota]
	if x == nil {
		if b.blocks == nil {
			b.blocks = make(map[enginecore.QuotaPolicyID]*block)
		}
		// What an earlier block of this worker said last is before this time.
		x = &block{blocks: b, kick: make(chan struct{}, 1), seq: time.Now().UnixMilli()}
		b.blocks[limit.Quota] = x
	}
	t.block = x
	x.limit, x.lane = limit, t.spot.lane // the latest declaration counts
	x.users++
	if !x.near && !x.unsure && x.used < x.held && time.Since(x.heard) < blockFresh {
		x.occupy(t)
	} else {
		x.waiting = append(x.waiting, t)
	}
	x.wake()
}

// surplus is how many places of a limit are held and not used.
func (b *blocks) surplus(quota enginecore.QuotaPolicyID) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	x := b.blocks[quota]
	if x == nil || x.near {
		return 0
	}
	return max(0, x.held-x.used)
}

// leave ends the turn of a task, which may have got no place. The caller is that task.
func (b *block) leave(placed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if placed {
		b.used--
	}
	b.users--
	b.wake()
}

// occupy, and the following down to next, need the lock.
func (b *block) occupy(t *task) {
	b.used++
	b.peak = max(b.peak, b.used)
	b.started = true
	t.places <- true
}

// wake makes somebody look whether there is something to tell.
func (b *block) wake() {
	wait := b.wait()
	switch {
	case b.running && wait == 0:
		notify(b.kick)
	case !b.running && wait >= 0:
		b.running = true
		b.shift.tasks.Go(b.run)
	case !b.running:
		b.forget()
	}
}

// wait is the time until there is something to tell; negative when there is nothing.
func (b *block) wait() time.Duration {
	surplus := b.held > b.used
	switch {
	case len(b.waiting) > 0, b.unsure, surplus && (b.near || b.shift.board.isClosed()):
		return 0
	case surplus, b.started:
		return max(0, blockPause-time.Since(b.heard))
	}
	return -1
}

// forget drops a block that nobody uses.
func (b *block) forget() {
	if b.users == 0 && b.held == 0 {
		delete(b.blocks.blocks, b.limit.Quota)
	}
}

// next is the time until run has something to tell; when there is nothing, it is over.
func (b *block) next() (wait time.Duration, over bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if wait = b.wait(); wait < 0 {
		b.running = false
		b.forget()
		return 0, true
	}
	return wait, false
}

// run tells the engine what the worker needs, until it needs nothing.
func (b *block) run() {
	for {
		wait, over := b.next()
		switch {
		case over:
			return
		case wait > 0:
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-b.kick:
			}
			timer.Stop()
		case !b.tell():
			pause(b.shift.base, claimPause)
		}
	}
}

// word is what the engine is told of a block, with what it was made of.
type word struct {
	enginecore.HoldPlacesCall
	limit   storedLimit
	lane    enginecore.LaneID
	waiting int // tasks that wait for a place and are counted
	freed   int // places for which there is no task
}

// word is the next one: how many places the worker wants, and how many it needs for the tasks that there are.
func (b *block) word() word {
	b.mu.Lock()
	defer b.mu.Unlock()
	// A malformed id is refused by the call itself.
	partition, _ := b.shift.session.core.Partitioning().QuotaPartition(b.limit.Quota)
	b.seq++
	needed := b.used + int64(len(b.waiting))
	wanted := needed
	if !b.near && !b.shift.board.isClosed() {
		wanted = max(needed, b.peak)
	}
	w := word{limit: b.limit, lane: b.lane, waiting: len(b.waiting)}
	if b.near {
		w.freed = int(max(0, b.held-needed))
	}
	b.peak, b.started = b.used, false
	w.HoldPlacesCall = enginecore.HoldPlacesCall{
		Partition: partition, QuotaPolicyID: b.limit.Quota, Name: b.limit.Name, Key: b.limit.Key, Rate: b.limit.Rate,
		WindowMs: b.limit.WindowMS, Cap: b.limit.Cap, WorkerInstanceID: b.shift.worker.instance, Places: wanted, Needed: needed, Seq: b.seq,
	}
	return w
}

// tell tells the engine, and the tasks that wait what came of it. It reports whether the engine has answered.
func (b *block) tell() bool {
	said := b.word()
	by := &taker{b.shift, said.lane, b.shift.reserve(said.freed)}
	sentAt := time.Now()
	reply, err := b.shift.session.core.HoldPlaces(b.shift.base, said.HoldPlacesCall)
	if err != nil {
		b.shift.session.logger.LogAttrs(b.shift.base, slog.LevelWarn, "flowfabric: places of a limit could not be asked for", eventLimitsFailed.attr(),
			slog.String("limit", said.Name), slog.Any("error", err))
	}
	b.learn(said, sentAt, reply, err)
	b.shift.limits.heard(said.QuotaPolicyID, limitNews{reply.Crowded, reply.Room}) // none when there is no answer
	if err != nil || len(reply.Granted) == 0 {
		b.shift.board.restore(by.slots)
		return err == nil
	}
	w := &walk{admitter: admitter{b.shift.session}, ctx: b.shift.base, by: by}
	for _, g := range reply.Granted {
		w.noteOther(said.limit, place{said.QuotaPolicyID, g.Execution, g.Token}, g.Grant)
	}
	// The next word does not wait until they have been told.
	b.shift.tasks.Go(func() {
		w.deliver()
		b.shift.begin(w.tasks)
		b.shift.board.restore(by.slots - len(w.tasks))
	})
	return true
}

// learn takes in the answer to a word. Tasks that were counted in it and get no place go back.
func (b *block) learn(said word, sentAt time.Time, reply enginecore.HoldPlacesReply, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		// Once the worker stops, a keeper sees to what it holds.
		b.unsure = !b.shift.board.isClosed()
	} else {
		b.unsure, b.heard, b.held, b.near = false, sentAt, reply.Held, reply.Room == 0
	}
	waiting := said.waiting
	for waiting > 0 && err == nil && b.used < b.held {
		b.occupy(b.waiting[0])
		b.waiting = b.waiting[1:]
		waiting--
	}
	if err == nil && reply.LastSeq > said.Seq {
		b.seq = reply.LastSeq // the word came too late, the next one counts
		return
	}
	for ; waiting > 0; waiting-- {
		b.waiting[0].places <- false
		b.waiting = b.waiting[1:]
	}
}
