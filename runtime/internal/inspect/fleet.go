package inspect

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/keeperlag"
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
			"run flowfabric keeper, or leave WorkerConfig.NoKeeper of a worker unset")
	default:
		i.add(inspection.Keepers, inspection.Info, subject, programs(n)+" with keepers", "")
	}
}

// inspectLag finds what has been due for a while, in all partitions.
func (x inspector) inspectLag(ctx context.Context, i *findings) {
	lags, err := keeperlag.Read(ctx, x.Core, keeperLate)
	if err != nil {
		return // the other looks say why
	}
	for _, lag := range lags {
		if lag.Late > 0 {
			i.add(inspection.KeeperLag, inspection.Warning, "keepers",
				fmt.Sprintf("%s: due for %s, late in %d of %d partitions", lag.What, lag.Behind.Round(time.Second),
					lag.Late, lag.Partitions),
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
		i.add(inspection.Workers, inspection.Info, subject, programs(n)+" with workers", "")
	}
}

func programs(n int64) string {
	if n == 1 {
		return "1 program"
	}
	return engine.Decimal(n) + " programs"
}
