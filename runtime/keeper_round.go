package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

const (
	// keeperBatch bounds the partitions that are looked at in one round trip.
	keeperBatch = 64
	// minKeeperPause and maxKeeperPause bound how long a partition is left alone in which a step has failed. The pause
	// doubles from failure to failure. While the engine cannot be reached, it stays at the least.
	minKeeperPause = time.Second
	maxKeeperPause = 30 * time.Second
)

// round is the way of a keeper through the partitions of one family, for one duty or several that are seen to together.
type round struct {
	duties []Duty
	family enginecore.Family
	// every is how often each partition is looked at at least.
	every time.Duration
	// mends tells that the round finds what should not be there. Its first looks are spread over its time, so that a keeper
	// that starts does not go through all records at once.
	mends bool
	// whole tells that the round is of the engine as a whole: the first partition stands for it.
	whole bool
	// ofClock tells that a server's clock that is set back brings the next look forward.
	ofClock bool
	// hears tells that messages bring the next look at a partition forward.
	hears bool
	// step does a bounded part of what is to do in some partitions. `only` names the duty to see to, or is empty for all of
	// the round. The outcomes stand in the order of the partitions.
	step func(ctx context.Context, partitions []enginecore.Partition, only Duty) []outcome

	// signs are keys of a partition of which one exists when there is something to do. Without them, every step asks.
	signs func(enginecore.Partition) []string

	agenda *agenda
	// restarts is what the round goes through after a start of the server; nil for others.
	restarts *restarts
}

// outcome is what a step has done in one partition.
type outcome struct {
	err error
	now time.Time // by the engine's clock; zero when it was not told
	// heard is when the engine's answer came, from which next counts; zero is the end of the step.
	heard time.Time
	done  []dutyDone
	// more tells that something is left to do at once. Otherwise next is in how long something is due; 0 is with the next
	// round.
	more bool
	next time.Duration
	// mended counts by index the entries that were not in order.
	mended map[string]int64
	// unchecked is checkDone, checkBegun or checkNeeded: whether the records have been gone through since the server started.
	unchecked int64
}

type dutyDone struct {
	duty  Duty
	count int64
	lag   time.Duration
}

// newRounds lists the work of a keeper: every duty is in one round. A family of partitions with its own clock, or a
// reconciliation that takes its time, is a round of its own.
func (k *Keeper) newRounds() []*round {
	_, whole := k.session.calls.(composites)
	rounds := []*round{k.tickRound(whole), k.unblockRound()}
	if whole {
		rounds = append(rounds, k.quotaRound(), k.budgetRound(), k.edgesRound(), k.indexRound(), k.membersRound(), k.straysRound(), k.trimRound(), k.projectRound(), k.siblingsRound(),
			k.budgetsRound(), k.admissionsRound(), k.schedulesRound())
		rounds = append(rounds, k.restartRound())
		if k.compactAfter >= 0 {
			rounds = append(rounds, k.compactRound())
		}
	}
	if c, ok := k.session.calls.(*contract); ok {
		rounds = append(rounds, k.overdueRounds(c)...)
	}
	for _, r := range rounds {
		r.agenda = newAgenda(k.partitionsOf(r), r.every)
		if r.mends {
			r.agenda.spread(time.Now())
		}
	}
	return rounds
}

// partitionsOf lists the partitions that a round goes through.
func (k *Keeper) partitionsOf(r *round) []enginecore.Partition {
	partitions := k.session.partitionsOf(r.family)
	if r.whole {
		return partitions[:1]
	}
	return partitions
}

// tickRound sees to everything that is due by the clock of a partition of flows.
func (k *Keeper) tickRound(whole bool) *round {
	r := &round{family: enginecore.FlowFamily, every: keeperSweep, hears: true, step: k.tick}
	for _, info := range DutyTable() {
		if info.tick == tickAlways && (whole || info.InContractMode) || info.tick == tickInContractMode && !whole || info.tick == tickWithComposites && whole {
			r.duties = append(r.duties, info.Duty)
		}
	}
	return r
}

// tick does what is due in some partitions of flows.
func (k *Keeper) tick(ctx context.Context, partitions []enginecore.Partition, only Duty) []outcome {
	calls := make([]enginecore.KeepCall, len(partitions))
	for i, p := range partitions {
		calls[i] = enginecore.KeepCall{Partition: p, Limit: tickLimit, Duty: string(only), Lanes: k.lanes}
	}
	answers, _ := k.session.calls.keepAll(ctx, calls) // each answer has its error
	heard := time.Now()
	schedules := k.schedules.Load()
	if schedules == nil {
		schedules = newScheduleRunner(k.session, false)
		defer schedules.close()
	}
	outcomes := make([]outcome, len(partitions))
	for i, a := range answers {
		if len(a.reply.Candidates) > 0 {
			k.quotas.promote(ctx, a.reply.Candidates, 0)
		}
		schedules.begin(ctx, partitions[i], a.reply.Schedules)
		k.courier.carry(ctx, partitions[i], a.reply.Errands)
		outcomes[i] = outcome{err: a.err, now: a.reply.Now, heard: heard, more: a.reply.More, next: untilDue(a.reply.Now, a.reply.NextDueAt), unchecked: a.reply.Unchecked}
		for _, d := range a.reply.Done {
			outcomes[i].done = append(outcomes[i].done, dutyDone{Duty(d.Duty), d.Done, d.Lag})
		}
	}
	return outcomes
}

// untilDue is how long it is until something is due, by the engine's clock; 0 when it is not known.
func untilDue(now, at time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return max(at.Sub(now), time.Nanosecond)
}

// walk goes the round until ctx ends.
func (k *Keeper) walk(ctx context.Context, r *round) {
	for {
		due, wait := r.agenda.due(time.Now())
		if len(due) > 0 && ctx.Err() == nil {
			k.visit(ctx, r, due)
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-r.agenda.changed:
			timer.Stop()
		}
	}
}

// visit takes one step in some partitions and notes when to come again.
func (k *Keeper) visit(ctx context.Context, r *round, partitions []enginecore.Partition) {
	var failed error
	asked := time.Now()
	for i, o := range k.guarded(ctx, r, partitions, "") {
		p := partitions[i]
		if o.heard.IsZero() {
			o.heard = time.Now()
		}
		if !o.now.IsZero() {
			if back := r.agenda.learn(p, o.now, asked, o.heard); back > clockTolerance && r.hears {
				k.clockSetBack(ctx, p, back)
			}
		}
		if o.unchecked != checkDone && k.restarts != nil {
			k.restarts.noticed(ctx, p, o.unchecked == checkNeeded)
		}
		switch {
		case o.err != nil:
			r.agenda.failed(p, time.Now(), o.err)
			failed = o.err
		case o.more:
			r.agenda.stepped(p, time.Now())
		case o.next > 0:
			r.agenda.stepped(p, o.heard.Add(o.next))
		default:
			r.agenda.stepped(p, time.Time{})
		}
	}
	if failed == nil && r == k.rounds[0] {
		k.vitals.touch() // other rounds may find nothing to do by reads, which also work where nothing else does
	}
	if failed != nil && ctx.Err() == nil {
		k.session.logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: keeper could not do what is due, it tries again",
			eventTickFailed.attr(), slog.Any("duties", r.duties), slog.Any("error", failed))
	}
}

// errKeeperPanic marks the outcome of a step that panicked.
var errKeeperPanic = errors.New("keeper panicked")

// guarded takes one step and keeps account of it. A panic is an error of all its partitions.
func (k *Keeper) guarded(ctx context.Context, r *round, partitions []enginecore.Partition, only Duty) (outcomes []outcome) {
	duties := r.duties
	if only != "" {
		duties = []Duty{only}
	}
	begun := time.Now()
	end := k.fleet.begin(begun)
	defer func() {
		if fault := recover(); fault != nil {
			k.session.logger.LogAttrs(ctx, slog.LevelError, "flowfabric: keeper panicked, it goes on",
				eventKeeperPanicked.attr(), slog.Any("duties", duties), slog.Any("panic", fault), slog.String("stack", string(debug.Stack())))
			outcomes = make([]outcome, len(partitions))
			for i := range outcomes {
				outcomes[i].err = fmt.Errorf("%w: %v", errKeeperPanic, fault)
			}
		}
		k.stats.stepped(duties, outcomes, begun)
		end(outcomes)
	}()
	return k.signed(ctx, r, partitions, only)
}

// signed takes a step in those of some partitions that show a sign of something to do. Most have none most of the time,
// which takes one command each to find out.
func (k *Keeper) signed(ctx context.Context, r *round, partitions []enginecore.Partition, only Duty) []outcome {
	if r.signs == nil || only != "" {
		return r.step(ctx, partitions, only)
	}
	client := k.session.client
	questions := make(rueidis.Commands, len(partitions))
	for i, p := range partitions {
		questions[i] = client.B().Exists().Key(r.signs(p)...).Build()
	}
	var some []enginecore.Partition
	var places []int
	for i, answer := range client.DoMulti(ctx, questions...) {
		// Where it cannot be known, the step finds out, or why not.
		if n, err := answer.AsInt64(); err != nil || n > 0 {
			some, places = append(some, partitions[i]), append(places, i)
		}
	}
	outcomes := make([]outcome, len(partitions))
	if len(some) == 0 {
		return outcomes
	}
	for i, o := range r.step(ctx, some, only) {
		outcomes[places[i]] = o
	}
	return outcomes
}
