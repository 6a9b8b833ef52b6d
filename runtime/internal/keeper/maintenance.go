package keeper

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/schedule"
)

const (
	// keeperBatch bounds the partitions that are looked at in one round trip.
	KeeperBatch = 64
	// minKeeperPause and maxKeeperPause bound how long a partition is left alone in which a step has failed. The pause
	// doubles from failure to failure. While the engine cannot be reached, it stays at the least.
	MinKeeperPause = time.Second
	MaxKeeperPause = 30 * time.Second
)

// maintenanceLoop visits the partitions of one family, for one task or several that are done together.
type MaintenanceLoop struct {
	tasks  []engine.TaskID
	family enginecore.Family
	// every is how often each partition is looked at at least.
	Every time.Duration
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
	Step func(ctx context.Context, partitions []enginecore.Partition, only engine.TaskID) []StepResult

	// hintKeys returns keys of a partition of which one exists when there is something to do. Without it, every step asks.
	hintKeys func(enginecore.Partition) []string

	Timer *partitionTimer
	// restarts is what the loop goes through after a start of the server; nil for others.
	restarts *restarts
}

// stepResult is what a step has done in one partition.
type StepResult struct {
	Err error
	Now time.Time // by the engine's clock; zero when it was not told
	// heard is when the engine's answer came, from which next counts; zero is the end of the step.
	Heard time.Time
	done  []taskDone
	// more means that something is left to do at once. Otherwise next is in how long something is due; 0 is with the next
	// turn of the loop.
	more bool
	Next time.Duration
	// mended counts by index the entries that were not in order.
	mended map[string]int64
	// unchecked is checkDone, checkBegun or checkNeeded: whether the records have been gone through since the server started.
	unchecked int64
}

type taskDone struct {
	task  engine.TaskID
	count int64
	lag   time.Duration
}

// newLoops returns the loops of a keeper: every task that the engine's backend has is in one of them. A family of partitions
// with its own clock, or a reconciliation that takes its time, is a loop of its own.
func (k *Keeper) newLoops() []*MaintenanceLoop {
	backend := k.Session.Backend
	loops := []*MaintenanceLoop{
		{family: enginecore.FlowFamily, Every: KeeperSweep, hearsDue: true, tasks: backend.TickTasks(), Step: k.tick},
		k.unblockLoop(),
	}
	if k.maintenance != nil {
		loops = append(loops, k.maintenanceLoops()...)
	}
	if o, err := engine.Capability[engine.OverdueIndexes](backend); err == nil {
		for _, index := range o.Overdue() {
			loops = append(loops, k.overdueLoop(index))
		}
	}
	for _, l := range loops {
		l.Timer = NewPartitionTimer(k.partitionsOf(l), l.Every)
		if l.repairs {
			l.Timer.spread(time.Now())
		}
	}
	return loops
}

// partitionsOf lists the partitions that a loop visits.
func (k *Keeper) partitionsOf(l *MaintenanceLoop) []enginecore.Partition {
	partitions := k.Session.PartitionsOf(l.family)
	if l.engineWide {
		return partitions[:1]
	}
	return partitions
}

// tick does what is due in some partitions of flows.
func (k *Keeper) tick(ctx context.Context, partitions []enginecore.Partition, only engine.TaskID) []StepResult {
	calls := make([]enginerpc.KeepCall, len(partitions))
	for i, p := range partitions {
		calls[i] = enginerpc.KeepCall{Partition: p, Limit: engine.TickLimit, Duty: string(only), Lanes: k.Lanes}
	}
	answers, _ := k.Session.Backend.KeepAll(ctx, calls) // each answer has its error
	heard := time.Now()
	schedules := k.schedules.Load()
	if schedules == nil {
		schedules = schedule.NewScheduleRunner(k.Session, false)
		defer schedules.Close()
	}
	results := make([]StepResult, len(partitions))
	for i, a := range answers {
		if len(a.Reply.Candidates) > 0 {
			k.quotas.Promote(ctx, a.Reply.Candidates, 0)
		}
		schedules.Begin(ctx, partitions[i], a.Reply.Schedules)
		k.relay.deliverAll(ctx, partitions[i], a.Reply.Errands)
		results[i] = StepResult{Err: a.Err, Now: a.Reply.Now, Heard: heard, more: a.Reply.More, Next: untilDue(a.Reply.Now, a.Reply.NextDueAt), unchecked: a.Reply.Unchecked}
		for _, d := range a.Reply.Done {
			results[i].done = append(results[i].done, taskDone{engine.TaskID(d.Duty), d.Done, d.Lag})
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
func (k *Keeper) runLoop(ctx context.Context, l *MaintenanceLoop) {
	for {
		due, wait := l.Timer.Due(time.Now())
		if len(due) > 0 && ctx.Err() == nil {
			k.Step(ctx, l, due)
			continue
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

// step takes one step of a loop in some partitions and sets when the next one is due.
func (k *Keeper) Step(ctx context.Context, l *MaintenanceLoop, partitions []enginecore.Partition) {
	var failed error
	asked := time.Now()
	for i, r := range k.guarded(ctx, l, partitions, "") {
		p := partitions[i]
		if r.Heard.IsZero() {
			r.Heard = time.Now()
		}
		if !r.Now.IsZero() {
			if back := l.Timer.NoteClock(p, r.Now, asked, r.Heard); back > clockTolerance && l.hearsDue {
				k.clockSetBack(ctx, p, back)
			}
		}
		if r.unchecked != checkDone && k.restarts != nil {
			k.restarts.noticed(ctx, p, r.unchecked == checkNeeded)
		}
		switch {
		case r.Err != nil:
			l.Timer.Failed(p, time.Now(), r.Err)
			failed = r.Err
		case r.more:
			l.Timer.Stepped(p, time.Now())
		case r.Next > 0:
			l.Timer.Stepped(p, r.Heard.Add(r.Next))
		default:
			l.Timer.Stepped(p, time.Time{})
		}
	}
	if failed == nil && l == k.Loops[0] {
		k.liveness.Touch() // other loops may find nothing to do by reads, which also work where nothing else does
	}
	if failed != nil && ctx.Err() == nil {
		k.Session.Logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: keeper could not do what is due, it tries again",
			engine.EventTickFailed.Attr(), slog.Any("duties", l.tasks), slog.Any("error", failed))
	}
}

// guarded takes one step and counts it. A panic is an error of all its partitions.
func (k *Keeper) guarded(ctx context.Context, l *MaintenanceLoop, partitions []enginecore.Partition, only engine.TaskID) (results []StepResult) {
	tasks := l.tasks
	if only != "" {
		tasks = []engine.TaskID{only}
	}
	begun := time.Now()
	end := k.Members.Begin(begun)
	defer func() {
		if fault := recover(); fault != nil {
			k.Session.Logger.LogAttrs(ctx, slog.LevelError, "flowfabric: keeper panicked, it goes on",
				engine.EventKeeperPanicked.Attr(), slog.Any("duties", tasks), slog.Any("panic", fault), slog.String("stack", string(debug.Stack())))
			results = failedEverywhere(len(partitions), fmt.Errorf("%w: %v", engine.ErrStepPanicked, fault))
		}
		k.stats.stepped(tasks, results, begun)
		end(results)
	}()
	return k.hinted(ctx, l, partitions, only)
}

// hinted takes a step in those of some partitions in which a hint key exists. Most have none most of the time, which takes one
// command each to find out.
func (k *Keeper) hinted(ctx context.Context, l *MaintenanceLoop, partitions []enginecore.Partition, only engine.TaskID) []StepResult {
	if l.hintKeys == nil || only != "" {
		return l.Step(ctx, partitions, only)
	}
	client := k.Session.Client
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
	results := make([]StepResult, len(partitions))
	if len(some) == 0 {
		return results
	}
	for i, r := range l.Step(ctx, some, only) {
		results[indexes[i]] = r
	}
	return results
}

// failedEverywhere returns the results of a step that failed in each of some partitions.
func failedEverywhere(count int, err error) []StepResult {
	results := make([]StepResult, count)
	for i := range results {
		results[i].Err = err
	}
	return results
}
