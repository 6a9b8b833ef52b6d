package permit

import (
	"log/slog"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/admission"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/sleep"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/worker/lease"
)

const (
	// poolReportDelay is the interval of reports on a pool in which the worker starts executions, and the
	// time for which the pool keeps unused permits.
	poolReportDelay = 20 * time.Millisecond
	// poolFresh is the time after an answered report for which the worker starts executions in a pool without
	// another report. It is far less than the time after which a keeper takes permits from a pool without
	// reports.
	poolFresh = 50 * time.Millisecond
)

// poolSet holds the permits that a worker has acquired in advance, by limit. While a limit has ample
// room, executions reuse a permit one after the other, so that one call serves many executions. When the room
// ends, the pool returns each permit as soon as it is free.
type poolSet struct {
	*user
	// hasLiveKey reports whether the worker's live key is set; without it, keepers take permits back.
	hasLiveKey func() bool

	mu    sync.Mutex
	pools map[enginecore.QuotaPolicyID]*pool
}

// pool holds the permits of one limit. The lock of poolSet guards its fields.
type pool struct {
	*poolSet
	wakeup chan struct{} // holds a value if a report is due at once
	limit  submit.StoredLimit
	lane   enginecore.LaneID // of the last task
	users  int               // number of tasks that hold a permit or wait for one
	// held is the number of permits that the engine has granted, used the number of them that tasks hold,
	// peak the maximum of used since the last report.
	held, used, peak int64
	waiting          []*Request
	// reportedAt is when the last answered report was sent; started is set if a task has begun since.
	reportedAt time.Time
	started    bool
	// scarce is set if the limit has no further room; the pool then keeps no unused permits.
	scarce bool
	// uncertain is set if the engine may have granted permits in a reply that was lost.
	uncertain bool
	seq       int64
	running   bool
}

// accepts reports whether executions under these limits can use a pool. A rate, also one that was set for the limit,
// counts every start and therefore needs a permit for each; and keepers take permits back from a worker without a live
// key.
func (ps *poolSet) accepts(limits []submit.StoredLimit) bool {
	return len(limits) == 1 && limits[0].Rate == 0 && ps.limits.rateOf(limits[0].Quota) != admission.Rated &&
		ps.hasLiveKey()
}

// take grants the request of a task of a lane or adds it to the waiting ones. The caller must run in one of the run's
// task goroutines.
func (ps *poolSet) take(r *Request, lane enginecore.LaneID, limit submit.StoredLimit) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.pools[limit.Quota]
	if p == nil {
		if ps.pools == nil {
			ps.pools = make(map[enginecore.QuotaPolicyID]*pool)
		}
		// The clock makes the sequence numbers higher than the numbers of an earlier pool of this worker.
		p = &pool{poolSet: ps, wakeup: make(chan struct{}, 1), seq: time.Now().UnixMilli()}
		ps.pools[limit.Quota] = p
	}
	r.pool = p
	p.limit, p.lane = limit, lane // the latest declaration counts
	p.users++
	if !p.scarce && !p.uncertain && p.used < p.held && time.Since(p.reportedAt) < poolFresh {
		p.grant(r)
	} else {
		p.waiting = append(p.waiting, r)
	}
	p.reportIfDue()
}

// unused returns the number of permits of a limit that the worker holds and no task uses.
func (ps *poolSet) unused(limit enginecore.QuotaPolicyID) int64 {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.pools[limit]
	if p == nil || p.scarce {
		return 0
	}
	return max(0, p.held-p.used)
}

// leave ends the use of the pool by a task. permitted reports whether the task got a permit. The task itself
// is the caller.
func (p *pool) leave(permitted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if permitted {
		p.used--
	}
	p.users--
	p.reportIfDue()
}

// grant grants a request. The caller holds the lock.
func (p *pool) grant(r *Request) {
	p.used++
	p.peak = max(p.peak, p.used)
	p.started = true
	r.result <- result{all: true}
}

// reportIfDue starts the report loop if a report is due, or wakes it if one is due at once. It needs the
// lock.
func (p *pool) reportIfDue() {
	wait := p.untilReport()
	switch {
	case p.running && wait == 0:
		sleep.Wake(p.wakeup)
	case !p.running && wait >= 0:
		p.running = true
		p.slots.Go(p.reportLoop)
	case !p.running:
		p.forget()
	}
}

// untilReport returns the time until a report is due; negative if there is nothing to report. It needs the
// lock.
func (p *pool) untilReport() time.Duration {
	unused := p.held > p.used
	switch {
	case len(p.waiting) > 0, p.uncertain, unused && (p.scarce || p.queue.IsClosed()):
		return 0
	case unused, p.started:
		return max(0, poolReportDelay-time.Since(p.reportedAt))
	}
	return -1
}

// forget removes a pool without users and permits. The caller holds the lock.
func (p *pool) forget() {
	if p.users == 0 && p.held == 0 {
		delete(p.pools, p.limit.Quota)
	}
}

// next returns the time until the next report. over is true if there is nothing to report, which ends the
// loop.
func (p *pool) next() (wait time.Duration, over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if wait = p.untilReport(); wait < 0 {
		p.running = false
		p.forget()
		return 0, true
	}
	return wait, false
}

// reportLoop sends reports until there is nothing to report, or nothing can be reported because the run is over or the
// engine is closed.
func (p *pool) reportLoop() {
	for {
		wait, over := p.next()
		switch {
		case over:
			return
		case wait > 0:
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-p.wakeup:
			}
			timer.Stop()
		case !p.report():
			if p.base.Err() != nil || p.session.Closed().Err() != nil {
				p.abandon()
				return
			}
			sleep.For(p.base, lease.ClaimPause)
		}
	}
}

// abandon ends the reports of a pool. A keeper returns the permits of a worker that is gone.
func (p *pool) abandon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = false
}

// poolReport is one report on a pool: how many permits the worker wants, and how many of them its tasks need.
type poolReport struct {
	enginerpc.HoldPlacesCall
	limit   submit.StoredLimit
	lane    enginecore.LaneID
	waiting int // waiting tasks that the report counts
	freed   int // permits that no task needs
}

// nextReport returns the next report and begins a new reporting interval.
func (p *pool) nextReport() poolReport {
	p.mu.Lock()
	defer p.mu.Unlock()
	// The call itself refuses a malformed id.
	partition, _ := p.session.Core.Partitioning().QuotaPartition(p.limit.Quota)
	p.seq++
	needed := p.used + int64(len(p.waiting))
	wanted := needed
	if !p.scarce && !p.queue.IsClosed() {
		wanted = max(needed, p.peak)
	}
	r := poolReport{limit: p.limit, lane: p.lane, waiting: len(p.waiting)}
	if p.scarce {
		r.freed = int(max(0, p.held-needed))
	}
	p.peak, p.started = p.used, false
	r.HoldPlacesCall = enginerpc.HoldPlacesCall{
		Partition: partition, QuotaPolicyID: p.limit.Quota, Name: p.limit.Name, Key: p.limit.Key, Rate: p.limit.Rate,
		WindowMs: p.limit.WindowMS, Cap: p.limit.Cap, WorkerInstanceID: p.instance, Places: wanted,
		Needed: needed,
		Seq:    p.seq,
	}
	return r
}

// report sends the next report, sends the waiting tasks the result, and starts executions that were granted
// the returned permits. It reports whether the engine replied.
func (p *pool) report() bool {
	if p.base.Err() != nil {
		return false
	}
	sent := p.nextReport()
	slots := p.slots.Reserve(sent.freed)
	sentAt := time.Now()
	reply, err := p.session.Core.HoldPlaces(p.base, sent.HoldPlacesCall)
	if err != nil {
		p.session.Logger.LogAttrs(p.base, slog.LevelWarn,
			"flowfabric: the worker could not acquire permits of a limit",
			observe.EventLimitsFailed.Attr(), slog.String("limit", sent.Name), slog.Any("error", err))
	}
	var state admission.LimitState // unknown without a reply
	if err == nil {
		state = admission.StateOf(reply.Contended, reply.Room, reply.Rated)
	}
	p.limits.update(sent.QuotaPolicyID, state) // before a task that gets no permit is released and claimed again
	p.update(sent, sentAt, reply, err)
	if err != nil || len(reply.Granted) == 0 {
		p.queue.Restore(slots)
		return err == nil
	}
	// The next report does not wait for the admission of these executions.
	p.slots.Go(func() {
		by := p.slots.Claimant(sent.lane)
		leased := admission.Admitter{Session: p.session}.Deliver(p.base, sent.limit, reply.Granted, by, slots)
		p.slots.StartAdmitted(sent.lane, leased, slots)
	})
	return true
}

// update applies the reply to a report. Each waiting task that the report counted receives whether it got a
// permit.
func (p *pool) update(sent poolReport, sentAt time.Time, reply enginerpc.HoldPlacesReply, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		// After the worker has stopped, a keeper returns the permits of the pool.
		p.uncertain = !p.queue.IsClosed()
	} else {
		p.uncertain, p.reportedAt, p.held, p.scarce = false, sentAt, reply.Held, reply.Room == 0
	}
	waiting := sent.waiting
	for waiting > 0 && err == nil && p.used < p.held {
		p.grant(p.waiting[0])
		p.waiting = p.waiting[1:]
		waiting--
	}
	if err == nil && reply.LastSeq > sent.Seq {
		p.seq = reply.LastSeq // the engine has seen a later report; the next one counts
		return
	}
	for ; waiting > 0; waiting-- {
		p.waiting[0].result <- result{}
		p.waiting = p.waiting[1:]
	}
}
