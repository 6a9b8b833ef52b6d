package inspect

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/runtime/inspection"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/keeper"
)

const (
	// keeperLate is after how long something counts as late: keepers look at each partition every keeper.SweepEvery.
	keeperLate = keeper.SweepEvery + 6*time.Second
	// lanesLooked bounds the lanes whose workers are counted.
	lanesLooked = 64
)

// inspectKeepers counts the programs with keepers.
func (x inspector) inspectKeepers(ctx context.Context, i *findings) {
	const subject = "keepers"
	channel := x.Core.ChannelKeepers()
	counts, err := x.Listeners(ctx, channel)
	n := counts[channel]
	switch {
	case n == 0 && err != nil && !forbidden(err):
		i.add(inspection.LookFailed, inspection.Error, subject, err.Error(), "see that the server runs and can be reached")
	case n == 0 && err != nil:
		i.add(inspection.NotAllowed, inspection.Info, subject,
			"the user may not count who hears a channel", "ACL SETUSER <user> +pubsub|numsub")
	case n == 0 && engine.Has[engine.Maintenance](x.Backend):
		i.add(inspection.KeeperNone, inspection.Warning, subject,
			"no keeper runs: retries, timeouts and lost work wait",
			"leave WorkerConfig.NoKeeper unset, or run runtime.NewKeeper in at least one process")
	default:
		i.add(inspection.Keepers, inspection.Info, subject, fmt.Sprintf("%d programs with keepers", n), "")
	}
}

// dueClock is an index of a partition that is ordered by when something is due.
type dueClock struct {
	name string
	key  func(enginecore.Partition) string
}

func (x inspector) dueClocks() []dueClock {
	keys := x.Core.Keys()
	return []dueClock{
		{"leases", keys.IndexLeaseExpiry},
		{"attempt timeouts", keys.IndexAttemptTimeout},
		{"deadlines of executions", keys.IndexExecutionDeadline},
		{"waits", keys.IndexSuspensionTimeout},
		{"start deadlines", keys.FfxStartDeadlines},
		{"deadlines of runs", keys.FfxFlowDeadlines},
		{"schedules", keys.FfxSchedulesDue},
		{"runs to be removed", keys.FfxPurgeDue},
	}
}

// inspectLag finds what has been due for a while, in all partitions.
func (x inspector) inspectLag(ctx context.Context, i *findings) {
	now, err := x.Core.Now(ctx)
	if err != nil {
		return
	}
	partitions := x.Partitions()
	for _, c := range x.dueClocks() {
		var worst time.Duration
		late := 0
		for some := range slices.Chunk(partitions, keeper.BatchSize) {
			questions := make(rueidis.Commands, len(some))
			for at, p := range some {
				questions[at] = x.Client.B().Zrange().Key(c.key(p)).Min("0").Max("0").Withscores().Build()
			}
			for _, answer := range x.Client.DoMulti(ctx, questions...) {
				head, err := answer.AsZScores()
				if err != nil || len(head) == 0 {
					continue
				}
				if lag := now.Sub(time.UnixMilli(int64(head[0].Score))); lag > keeperLate {
					late++
					worst = max(worst, lag)
				}
			}
		}
		if late > 0 {
			i.add(inspection.KeeperLag, inspection.Warning, "keepers",
				fmt.Sprintf("%s: due for %s, late in %d of %d partitions", c.name, worst.Round(time.Second), late,
					len(partitions)),
				"see that keepers run and what they log; flowfabric doctor --repair does what is due once")
		}
	}
}

// inspectWorkers counts the programs whose workers hear the lanes that hold something.
func (x inspector) inspectWorkers(ctx context.Context, i *findings) {
	if !engine.Has[engine.Maintenance](x.Backend) {
		return
	}
	lanes, err := x.LaneTotals(ctx)
	if err != nil || len(lanes) == 0 {
		return
	}
	lanes = lanes[:min(len(lanes), lanesLooked)]
	channels := make([]string, len(lanes))
	for at, lane := range lanes {
		channels[at] = x.Core.Keys().ChannelWake(lane.LaneID)
	}
	counts, err := x.Listeners(ctx, channels...)
	if err != nil {
		return // inspectKeepers says so
	}
	for at, lane := range lanes {
		subject, n := "lane "+string(lane.LaneID), counts[channels[at]]
		if n == 0 && lane.Eligible > 0 {
			i.add(inspection.WorkerNone, inspection.Warning, subject,
				engine.Decimal(lane.Eligible)+" executions wait, and no worker serves the lane",
				"run a worker with "+strconv.Quote(string(lane.LaneID))+" among WorkerConfig.Lanes")
			continue
		}
		i.add(inspection.Workers, inspection.Info, subject, fmt.Sprintf("%d programs with workers", n), "")
	}
}
