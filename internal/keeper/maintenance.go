package keeper

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/bulkjob"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/schedule"
)

// newLoops returns the loops of a keeper, which cover every task that the backend supports. A family of partitions with
// its own clock, and a reconciliation with its own interval, is a separate loop.
func (k *Keeper) newLoops() []*MaintenanceLoop {
	loops := []*MaintenanceLoop{k.tickLoop(), k.unblockLoop()}
	if k.maintenance != nil {
		loops = append(loops, k.maintenanceLoops()...)
	}
	if o, stepwise := k.Session.Stepwise(); stepwise {
		for _, index := range o.Overdue() {
			loops = append(loops, k.overdueLoop(index))
		}
	}
	for _, l := range loops {
		if k.Session.Quiet {
			l.Every = quietSweep
		}
		l.Timer = NewPartitionTimer(k.partitionsOf(l), l.Every)
		l.Timer.oneClock = !k.inCluster()
		if l.wakesOnDue {
			l.Timer.foreign = max(foreignSweep, l.Every)
			l.Timer.aligned = l.hintKeys != nil
		}
		if l.repairs {
			l.Timer.spread(time.Now())
			if l.noteRestart == nil { // it chooses among those that are due
				l.Timer.batch = repairBatch
			}
		}
	}
	return loops
}

// tickLoop performs the work that is due in partitions of flows. Where messages announce all of it, each visit is a
// call; otherwise the loop checks often for due work.
func (k *Keeper) tickLoop() *MaintenanceLoop {
	l := &MaintenanceLoop{
		family: keyspace.FlowFamily, Every: k.sweepEvery(), wakesOnDue: true, tasks: k.Session.Backend.TickTasks(),
		Step: k.tick,
	}
	if polled, stepwise := k.Session.Stepwise(); stepwise {
		l.hintKeys = func(ctx context.Context, p keyspace.Partition) []string {
			return polled.TickKeys(p, k.knownLanes(ctx))
		}
		l.filled = make(map[keyspace.Partition]int)
	}
	return l
}

// partitionsOf lists the partitions that a loop visits.
func (k *Keeper) partitionsOf(l *MaintenanceLoop) []keyspace.Partition {
	partitions := k.Session.PartitionsOf(l.family)
	if l.engineWide {
		return partitions[:1]
	}
	return partitions
}

// tick calls the backend's tick for some partitions of flows. It promotes the candidates for permits, starts due
// schedules, takes steps of bulk jobs and delivers the notices of child runs that the answers contain.
func (k *Keeper) tick(ctx context.Context, partitions []keyspace.Partition, only engine.TaskID) []StepResult {
	schedules := k.schedules.Load()
	runs := schedules != nil
	if !runs {
		schedules = schedule.NewRunner(k.Session, false)
		defer schedules.Close()
	}
	calls := make([]enginerpc.KeepCall, len(partitions))
	for i, p := range partitions {
		calls[i] = enginerpc.KeepCall{
			Partition: p, Limit: engine.TickLimit, Task: string(only), Lanes: k.Lanes,
			SiblingNamespace: k.SiblingNamespace, SiblingTag: k.SiblingTag, SiblingTagValue: k.SiblingTagValue,
			Quiet: k.Session.Quiet, Keeper: schedules.ID,
			TakesOver: runs && only == "" && k.takeOvers.isDue(p),
		}
	}
	answers, _ := k.Session.Backend.KeepAll(ctx, calls) // each answer has its error
	receivedAt := time.Now()
	bulkJobs := k.bulkJobs.Load()
	if bulkJobs == nil {
		bulkJobs = bulkjob.NewRunner(k.Session, schedules.ID)
		defer bulkJobs.Close()
	}
	results := make([]StepResult, len(partitions))
	for i, a := range answers {
		if len(a.Reply.Candidates) > 0 {
			k.quotas.Promote(ctx, a.Reply.Candidates, 0)
		}
		schedules.Begin(ctx, partitions[i], a.Reply.Schedules, calls[i].TakesOver)
		if calls[i].TakesOver && a.Err == nil && !a.Reply.More {
			k.takeOvers.done(partitions[i])
		}
		bulkJobs.Begin(ctx, partitions[i], a.Reply.BulkJobs)
		k.relay.deliverAll(ctx, partitions[i], a.Reply.RelayEntries)
		now := a.Reply.Now.Add(time.Duration(a.Reply.NowMicros) * time.Microsecond)
		results[i] = StepResult{
			Err: a.Err, Now: now, ReceivedAt: receivedAt, more: a.Reply.More, Next: untilDue(now, a.Reply.NextDueAt),
			unchecked: a.Reply.Unchecked, siblings: a.Reply.Siblings, faults: a.Reply.Faults,
			dispatched: a.Reply.Dispatched,
		}
		for _, d := range a.Reply.Done {
			results[i].done = append(results[i].done, taskDone{engine.TaskID(d.Task), d.Done, d.Lag})
		}
	}
	return results
}

// runLoop takes the steps of a loop when they are due, until ctx ends.
func (k *Keeper) runLoop(ctx context.Context, l *MaintenanceLoop) {
	// The clock of a quiet session is virtual, and only timers follow it.
	exactly := hasPause && l.wakesOnDue && !k.Session.Quiet
	var exact exactWait
	var visits sync.WaitGroup
	defer visits.Wait()
	for {
		due, wait := l.Timer.Due(time.Now())
		if len(due) > 0 && ctx.Err() == nil {
			if k.visitsApart(l) {
				for _, p := range due {
					l.Timer.beginVisit(p)
					visits.Go(func() {
						defer l.Timer.endVisit(p)
						k.Step(ctx, l, []keyspace.Partition{p})
					})
				}
			} else {
				k.Step(ctx, l, due)
			}
			exact = exactWait{} // the wait was not too short
			continue
		}
		if exactly {
			if wait = exact.timer(wait); wait == 0 {
				continue
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-l.Timer.changed:
			timer.Stop()
		}
	}
}

// visitsApart reports whether each partition that is due gets a step of its own, concurrently: in a cluster, a step in
// several partitions would end with the answer of the slowest server, and the calls to a server that has fallen silent
// are repeated for a while. A loop that polls first reads which partitions have work.
func (k *Keeper) visitsApart(l *MaintenanceLoop) bool {
	return l.wakesOnDue && l.hintKeys == nil && k.inCluster()
}

// Step takes one step of a loop in some partitions and sets when each of them is due next. It logs failures; the
// loop's timer retries them.
func (k *Keeper) Step(ctx context.Context, l *MaintenanceLoop, partitions []keyspace.Partition) {
	var failed error
	asked := time.Now()
	results := k.guarded(ctx, l, partitions, "")
	if !k.inCluster() {
		separateAnswers(results)
	}
	for i, r := range results {
		p := partitions[i]
		k.logFaults(ctx, p, r.faults)
		if r.ReceivedAt.IsZero() {
			r.ReceivedAt = time.Now()
		}
		if !r.Now.IsZero() {
			if back := l.Timer.NoteClock(p, r.Now, asked, r.ReceivedAt); back > clockTolerance && l.wakesOnDue {
				k.clockSetBack(ctx, p, back)
			}
		}
		if r.unchecked != checkDone && k.noteRestart != nil {
			k.noteRestart(ctx, p, r.unchecked == checkNeeded)
		}
		switch {
		case r.Err != nil:
			l.Timer.Failed(p, time.Now(), r.Err)
			failed = r.Err
		case r.more:
			l.Timer.Stepped(p, time.Now())
		case r.Next > 0:
			next := r.ReceivedAt.Add(r.Next)
			if local, known := l.Timer.ToLocal(p, r.Now.Add(r.Next)); known && !r.Now.IsZero() {
				next = local
			}
			l.Timer.Stepped(p, next)
		default:
			l.Timer.Stepped(p, time.Time{})
		}
	}
	if failed == nil && l == k.Loops[0] {
		k.liveness.Touch() // other loops may find nothing due by reads alone, which prove less than a tick
	}
	if failed != nil && ctx.Err() == nil {
		k.Session.Logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: the keeper could not complete a task and retries",
			observe.EventTickFailed.Attr(), slog.Any("tasks", l.tasks), slog.Any("error", failed))
	}
}

// logFaults logs the items of a partition that a step put off.
func (m *maintainer) logFaults(ctx context.Context, p keyspace.Partition, faults []enginerpc.ItemFault) {
	for _, f := range faults {
		m.Session.Logger.LogAttrs(ctx, slog.LevelWarn,
			"flowfabric: the keeper could not work on an item, and tries it again later",
			observe.EventItemFailed.Attr(), slog.String("task", f.Task), slog.String("partition", p.Tag()),
			slog.String("item", f.Item), slog.String("error", f.Item+": "+f.Error)) // repeated records differ in their errors
	}
}

// separateAnswers sets for each of the answers of one server, which arrived together, how much earlier the server gave
// it than the last of them. Otherwise, due work in the partitions that answered first would be delayed by the time that
// the other calls took.
func separateAnswers(results []StepResult) {
	var last time.Time
	for _, r := range results {
		if r.Now.After(last) {
			last = r.Now
		}
	}
	for i, r := range results {
		if !r.Now.IsZero() && !r.ReceivedAt.IsZero() {
			results[i].ReceivedAt = r.ReceivedAt.Add(r.Now.Sub(last))
		}
	}
}

// guarded takes one step and counts it in the statistics. It turns a panic into an error of all partitions of the
// step.
func (k *Keeper) guarded(
	ctx context.Context, l *MaintenanceLoop, partitions []keyspace.Partition, only engine.TaskID,
) (results []StepResult) {
	tasks := l.tasks
	if only != "" {
		tasks = []engine.TaskID{only}
	}
	begun := time.Now()
	end := k.Members.Begin(begun)
	defer func() {
		if fault := recover(); fault != nil {
			k.Session.Logger.LogAttrs(ctx, slog.LevelError,
				"flowfabric: the keeper recovered from a panic and continues",
				observe.EventKeeperPanicked.Attr(), slog.Any("tasks", tasks), slog.Any("panic", fault),
				slog.String("stack", string(debug.Stack())))
			results = failedEverywhere(len(partitions), fmt.Errorf("%w: %v", engine.ErrStepPanicked, fault))
		}
		k.stats.stepped(tasks, results, begun)
		end(results)
	}()
	return k.hinted(ctx, l, partitions, only)
}

// filledVisits is the number of visits of a partition that follow without a check, after one of a loop that polls has
// found a hint key: which partitions have one seldom changes.
const filledVisits = 15

// hinted takes a step in those partitions in which a hint key exists; most have no work most of the time.
func (k *Keeper) hinted(
	ctx context.Context, l *MaintenanceLoop, partitions []keyspace.Partition, only engine.TaskID,
) []StepResult {
	if l.hintKeys == nil || only != "" {
		return l.Step(ctx, partitions, only)
	}
	var some []keyspace.Partition
	var indexes, asked []int
	var hints [][]string
	for i, p := range partitions {
		if l.filled[p] > 0 {
			l.filled[p]--
			some, indexes = append(some, p), append(indexes, i)
			continue
		}
		asked, hints = append(asked, i), append(hints, l.hintKeys(ctx, p))
	}
	for at, filled := range k.Session.Filled(ctx, hints) {
		// If the read failed, the step runs and finds out itself.
		if i := asked[at]; filled {
			some, indexes = append(some, partitions[i]), append(indexes, i)
			if l.filled != nil {
				l.filled[partitions[i]] = filledVisits
			}
		}
	}
	results := make([]StepResult, len(partitions))
	if len(some) == 0 {
		return results
	}
	for i, r := range l.Step(ctx, some, only) {
		results[indexes[i]] = r
	}
	return results
}
