package worker

import (
	"log/slog"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/admission"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/submit"
)

const (
	// poolReportDelay is how often a worker reports on a pool in which it starts executions, and for how long it keeps permits in
	// it that it does not use.
	poolReportDelay = 20 * time.Millisecond
	// poolFresh is for how long after its last report a worker starts executions in a pool without another one. It is far less
	// than the time after which a keeper takes permits from a pool without reports.
	poolFresh = 50 * time.Millisecond
)

// permitPools are the permits that a worker has acquired in advance, by limit. While a limit has plenty of room, executions reuse
// them one after the other, so that one call serves many executions. Once its room ends, each permit is returned as soon
// as it is free.
type permitPools struct {
	run *WorkerRun

	mu    sync.Mutex
	pools map[enginecore.QuotaPolicyID]*permitPool
}

// permitPool holds the permits of one limit. Its fields are guarded by the lock of all pools.
type permitPool struct {
	*permitPools
	wakeup chan struct{} // has a value when a report is due at once
	limit  submit.StoredLimit
	lane   enginecore.LaneID // of the last task
	users  int               // tasks that hold a permit or wait for one
	// held is how many permits the engine has granted, used how many of them tasks hold; peak is the most since the last report.
	held, used, peak int64
	waiting          []*Task
	// reportedAt is when the last report was sent that was answered, started whether a task has begun since.
	reportedAt time.Time
	started    bool
	// scarce is set when the limit has no room beyond what is needed: nothing is kept.
	scarce bool
	// uncertain is set when the engine may have granted permits in a reply that was lost.
	uncertain bool
	seq       int64
	running   bool
}

// accepts reports whether executions under these limits can use a pool. A rate counts every start, so it needs a permit for each;
// and permits of a worker that is not registered are taken back.
func (ps *permitPools) accepts(limits []submit.StoredLimit) bool {
	return len(limits) == 1 && limits[0].Rate == 0 && ps.run.Leases.known.Load()
}

// take gives a task a permit, or lets it wait for one. The caller is one of the run's tasks.
func (ps *permitPools) take(t *Task, limit submit.StoredLimit) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.pools[limit.Quota]
	if p == nil {
		if ps.pools == nil {
			ps.pools = make(map[enginecore.QuotaPolicyID]*permitPool)
		}
		// The reports of an earlier pool of this worker have lower numbers.
		p = &permitPool{permitPools: ps, wakeup: make(chan struct{}, 1), seq: time.Now().UnixMilli()}
		ps.pools[limit.Quota] = p
	}
	t.pool = p
	p.limit, p.lane = limit, t.shard.Lane // the latest declaration counts
	p.users++
	if !p.scarce && !p.uncertain && p.used < p.held && time.Since(p.reportedAt) < poolFresh {
		p.grant(t)
	} else {
		p.waiting = append(p.waiting, t)
	}
	p.reportIfDue()
}

// unused is how many permits of a limit are held and not used.
func (ps *permitPools) unused(limit enginecore.QuotaPolicyID) int64 {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.pools[limit]
	if p == nil || p.scarce {
		return 0
	}
	return max(0, p.held-p.used)
}

// leave ends the use by a task, which may have got no permit. The caller is that task.
func (p *permitPool) leave(permitted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if permitted {
		p.used--
	}
	p.users--
	p.reportIfDue()
}

// grant gives a task a permit. It needs the lock.
func (p *permitPool) grant(t *Task) {
	p.used++
	p.peak = max(p.peak, p.used)
	p.started = true
	t.permits <- true
}

// reportIfDue starts the report loop, or wakes it when a report is due at once. It needs the lock.
func (p *permitPool) reportIfDue() {
	wait := p.untilReport()
	switch {
	case p.running && wait == 0:
		engine.Notify(p.wakeup)
	case !p.running && wait >= 0:
		p.running = true
		p.run.tasks.Go(p.reportLoop)
	case !p.running:
		p.forget()
	}
}

// untilReport is the time until a report is due; negative when there is nothing to report. It needs the lock.
func (p *permitPool) untilReport() time.Duration {
	unused := p.held > p.used
	switch {
	case len(p.waiting) > 0, p.uncertain, unused && (p.scarce || p.run.queue.IsClosed()):
		return 0
	case unused, p.started:
		return max(0, poolReportDelay-time.Since(p.reportedAt))
	}
	return -1
}

// forget drops a pool without users and permits. It needs the lock.
func (p *permitPool) forget() {
	if p.users == 0 && p.held == 0 {
		delete(p.pools, p.limit.Quota)
	}
}

// next returns the time until the next report; over means that there is none and the loop ends.
func (p *permitPool) next() (wait time.Duration, over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if wait = p.untilReport(); wait < 0 {
		p.running = false
		p.forget()
		return 0, true
	}
	return wait, false
}

// reportLoop reports on the pool until there is nothing to report.
func (p *permitPool) reportLoop() {
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
			engine.Pause(p.run.Base, claimPause)
		}
	}
}

// poolReport is what the engine is told about a pool: how many permits the worker wants, and how many of them its tasks need.
type poolReport struct {
	enginerpc.HoldPlacesCall
	limit   submit.StoredLimit
	lane    enginecore.LaneID
	waiting int // tasks that wait for a permit and are counted
	freed   int // permits that no task needs
}

// nextReport makes the next report.
func (p *permitPool) nextReport() poolReport {
	p.mu.Lock()
	defer p.mu.Unlock()
	// A malformed id is refused by the call itself.
	partition, _ := p.run.core.Partitioning().QuotaPartition(p.limit.Quota)
	p.seq++
	needed := p.used + int64(len(p.waiting))
	wanted := needed
	if !p.scarce && !p.run.queue.IsClosed() {
		wanted = max(needed, p.peak)
	}
	r := poolReport{limit: p.limit, lane: p.lane, waiting: len(p.waiting)}
	if p.scarce {
		r.freed = int(max(0, p.held-needed))
	}
	p.peak, p.started = p.used, false
	r.HoldPlacesCall = enginerpc.HoldPlacesCall{
		Partition: partition, QuotaPolicyID: p.limit.Quota, Name: p.limit.Name, Key: p.limit.Key, Rate: p.limit.Rate,
		WindowMs: p.limit.WindowMS, Cap: p.limit.Cap, WorkerInstanceID: p.run.Worker.Instance, Places: wanted, Needed: needed,
		Seq: p.seq,
	}
	return r
}

// report sends the next report, tells the waiting tasks the result, and starts executions that got the permits which the pool
// gave back. It reports whether the engine has answered.
func (p *permitPool) report() bool {
	sent := p.nextReport()
	run := p.run
	slots := run.reserve(sent.freed)
	sentAt := time.Now()
	reply, err := run.core.HoldPlaces(run.Base, sent.HoldPlacesCall)
	if err != nil {
		run.Session.Logger.LogAttrs(run.Base, slog.LevelWarn, "flowfabric: places of a limit could not be asked for",
			engine.EventLimitsFailed.Attr(), slog.String("limit", sent.Name), slog.Any("error", err))
	}
	p.update(sent, sentAt, reply, err)
	run.limits.update(sent.QuotaPolicyID, admission.LimitState{Contended: reply.Crowded, Room: reply.Room}) // zero when there is no answer
	if err != nil || len(reply.Granted) == 0 {
		run.queue.Restore(slots)
		return err == nil
	}
	// The next report does not wait until these executions have been told.
	run.tasks.Go(func() {
		by := runClaimant{run, sent.lane}
		tasks := by.tasks(admission.Admitter{Session: run.Session}.Deliver(run.Base, sent.limit, reply.Granted, by, slots))
		run.begin(tasks)
		run.queue.Restore(slots - len(tasks))
	})
	return true
}

// update takes in the reply to a report. Tasks that were counted in it get a permit, or learn that they get none.
func (p *permitPool) update(sent poolReport, sentAt time.Time, reply enginerpc.HoldPlacesReply, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		// Once the worker stops, a keeper sees to what it holds.
		p.uncertain = !p.run.queue.IsClosed()
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
		p.seq = reply.LastSeq // the report came too late, the next one counts
		return
	}
	for ; waiting > 0; waiting-- {
		p.waiting[0].permits <- false
		p.waiting = p.waiting[1:]
	}
}
