package runtime

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

const (
	// keeperBatch bounds the partitions that are looked at in one round trip.
	keeperBatch = 64
	// minKeeperPause and maxKeeperPause bound how long a partition is left alone in which a step has failed. The pause
	// doubles from failure to failure. While the engine cannot be reached, it stays at the least.
	minKeeperPause = time.Second
	maxKeeperPause = 30 * time.Second
)

// maintenanceLoop visits the partitions of one family, for one task or several that are done together.
type maintenanceLoop struct {
	tasks  []taskID
	family enginecore.Family
	// every is how often each partition is looked at at least.
	every time.Duration
	// repairs marks a loop that looks for what should not be there. Its first steps are spread over its time, so that a keeper
	// that starts does not go through all records at once.
	repairs bool
	// engineWide marks a loop for the engine as a whole: the first partition stands for it.
	engineWide bool
	// onClockSetBack marks a loop of which the next step comes at once when a server's clock is set back.
	onClockSetBack bool
	// hearsDue marks a loop of which messages bring the next step in a partition forward.
	hearsDue bool
	// step does a bounded part of what is to do in some partitions. `only` names the task to do, or is empty for all of the loop.
	// The results are in the order of the partitions.
	step func(ctx context.Context, partitions []enginecore.Partition, only taskID) []stepResult

	// hintKeys returns keys of a partition of which one exists when there is something to do. Without it, every step asks.
	hintKeys func(enginecore.Partition) []string

	timer *partitionTimer
	// restarts is what the loop goes through after a start of the server; nil for others.
	restarts *restarts
}

// stepResult is what a step has done in one partition.
type stepResult struct {
	err error
	now time.Time // by the engine's clock; zero when it was not told
	// heard is when the engine's answer came, from which next counts; zero is the end of the step.
	heard time.Time
	done  []taskDone
	// more means that something is left to do at once. Otherwise next is in how long something is due; 0 is with the next
	// turn of the loop.
	more bool
	next time.Duration
	// mended counts by index the entries that were not in order.
	mended map[string]int64
	// unchecked is checkDone, checkBegun or checkNeeded: whether the records have been gone through since the server started.
	unchecked int64
}

type taskDone struct {
	task  taskID
	count int64
	lag   time.Duration
}

// newLoops returns the loops of a keeper: every task that the engine's backend has is in one of them. A family of partitions
// with its own clock, or a reconciliation that takes its time, is a loop of its own.
func (k *keeper) newLoops() []*maintenanceLoop {
	backend := k.session.backend
	loops := []*maintenanceLoop{
		{family: enginecore.FlowFamily, every: keeperSweep, hearsDue: true, tasks: backend.tickTasks(), step: k.tick},
		k.unblockLoop(),
	}
	if k.maintenance != nil {
		loops = append(loops, k.maintenanceLoops()...)
	}
	if o, err := capability[overdueIndexes](backend); err == nil {
		for _, index := range o.overdue() {
			loops = append(loops, k.overdueLoop(index))
		}
	}
	for _, l := range loops {
		l.timer = newPartitionTimer(k.partitionsOf(l), l.every)
		if l.repairs {
			l.timer.spread(time.Now())
		}
	}
	return loops
}

// partitionsOf lists the partitions that a loop visits.
func (k *keeper) partitionsOf(l *maintenanceLoop) []enginecore.Partition {
	partitions := k.session.partitionsOf(l.family)
	if l.engineWide {
		return partitions[:1]
	}
	return partitions
}

// tick does what is due in some partitions of flows.
func (k *keeper) tick(ctx context.Context, partitions []enginecore.Partition, only taskID) []stepResult {
	calls := make([]enginerpc.KeepCall, len(partitions))
	for i, p := range partitions {
		calls[i] = enginerpc.KeepCall{Partition: p, Limit: tickLimit, Duty: string(only), Lanes: k.lanes}
	}
	answers, _ := k.session.backend.keepAll(ctx, calls) // each answer has its error
	heard := time.Now()
	schedules := k.schedules.Load()
	if schedules == nil {
		schedules = newScheduleRunner(k.session, false)
		defer schedules.close()
	}
	results := make([]stepResult, len(partitions))
	for i, a := range answers {
		if len(a.reply.Candidates) > 0 {
			k.quotas.promote(ctx, a.reply.Candidates, 0)
		}
		schedules.begin(ctx, partitions[i], a.reply.Schedules)
		k.relay.deliverAll(ctx, partitions[i], a.reply.Errands)
		results[i] = stepResult{err: a.err, now: a.reply.Now, heard: heard, more: a.reply.More, next: untilDue(a.reply.Now, a.reply.NextDueAt), unchecked: a.reply.Unchecked}
		for _, d := range a.reply.Done {
			results[i].done = append(results[i].done, taskDone{taskID(d.Duty), d.Done, d.Lag})
		}
	}
	return results
}

// untilDue is how long it is until something is due, by the engine's clock; 0 when it is not known.
func untilDue(now, at time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return max(at.Sub(now), time.Nanosecond)
}

// runLoop takes the steps of a loop when they are due, until ctx ends.
func (k *keeper) runLoop(ctx context.Context, l *maintenanceLoop) {
	for {
		due, wait := l.timer.due(time.Now())
		if len(due) > 0 && ctx.Err() == nil {
			k.step(ctx, l, due)
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-l.timer.changed:
			timer.Stop()
		}
	}
}

// step takes one step of a loop in some partitions and sets when the next one is due.
func (k *keeper) step(ctx context.Context, l *maintenanceLoop, partitions []enginecore.Partition) {
	var failed error
	asked := time.Now()
	for i, r := range k.guarded(ctx, l, partitions, "") {
		p := partitions[i]
		if r.heard.IsZero() {
			r.heard = time.Now()
		}
		if !r.now.IsZero() {
			if back := l.timer.noteClock(p, r.now, asked, r.heard); back > clockTolerance && l.hearsDue {
				k.clockSetBack(ctx, p, back)
			}
		}
		if r.unchecked != checkDone && k.restarts != nil {
			k.restarts.noticed(ctx, p, r.unchecked == checkNeeded)
		}
		switch {
		case r.err != nil:
			l.timer.failed(p, time.Now(), r.err)
			failed = r.err
		case r.more:
			l.timer.stepped(p, time.Now())
		case r.next > 0:
			l.timer.stepped(p, r.heard.Add(r.next))
		default:
			l.timer.stepped(p, time.Time{})
		}
	}
	if failed == nil && l == k.loops[0] {
		k.liveness.touch() // other loops may find nothing to do by reads, which also work where nothing else does
	}
	if failed != nil && ctx.Err() == nil {
		k.session.logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: keeper could not do what is due, it tries again",
			eventTickFailed.attr(), slog.Any("duties", l.tasks), slog.Any("error", failed))
	}
}

// guarded takes one step and counts it. A panic is an error of all its partitions.
func (k *keeper) guarded(ctx context.Context, l *maintenanceLoop, partitions []enginecore.Partition, only taskID) (results []stepResult) {
	tasks := l.tasks
	if only != "" {
		tasks = []taskID{only}
	}
	begun := time.Now()
	end := k.members.begin(begun)
	defer func() {
		if fault := recover(); fault != nil {
			k.session.logger.LogAttrs(ctx, slog.LevelError, "flowfabric: keeper panicked, it goes on",
				eventKeeperPanicked.attr(), slog.Any("duties", tasks), slog.Any("panic", fault), slog.String("stack", string(debug.Stack())))
			results = failedEverywhere(len(partitions), fmt.Errorf("%w: %v", errStepPanicked, fault))
		}
		k.stats.stepped(tasks, results, begun)
		end(results)
	}()
	return k.hinted(ctx, l, partitions, only)
}

// hinted takes a step in those of some partitions in which a hint key exists. Most have none most of the time, which takes one
// command each to find out.
func (k *keeper) hinted(ctx context.Context, l *maintenanceLoop, partitions []enginecore.Partition, only taskID) []stepResult {
	if l.hintKeys == nil || only != "" {
		return l.step(ctx, partitions, only)
	}
	client := k.session.client
	questions := make(rueidis.Commands, len(partitions))
	for i, p := range partitions {
		questions[i] = client.B().Exists().Key(l.hintKeys(p)...).Build()
	}
	var some []enginecore.Partition
	var indexes []int
	for i, answer := range client.DoMulti(ctx, questions...) {
		// Where it cannot be known, the step finds out, or why not.
		if n, err := answer.AsInt64(); err != nil || n > 0 {
			some, indexes = append(some, partitions[i]), append(indexes, i)
		}
	}
	results := make([]stepResult, len(partitions))
	if len(some) == 0 {
		return results
	}
	for i, r := range l.step(ctx, some, only) {
		results[indexes[i]] = r
	}
	return results
}

// failedEverywhere returns the results of a step that failed in each of some partitions.
func failedEverywhere(count int, err error) []stepResult {
	results := make([]stepResult, count)
	for i := range results {
		results[i].err = err
	}
	return results
}
