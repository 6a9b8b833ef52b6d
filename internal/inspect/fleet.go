package inspect

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/findingcode"
	"github.com/flowfabric/flowfabric-go/internal/keeper"
	"github.com/flowfabric/flowfabric-go/internal/keeperlag"
)

const (
	// keeperLate is the time after which due work counts as late: keepers check each partition every keeper.SweepEvery.
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
		i.add(
			findingcode.LookFailed, fabrictype.SeverityError, subject, err.Error(),
			"see that the server runs and can be reached",
		)
	case n == 0 && err != nil:
		i.add(findingcode.NotAllowed, fabrictype.SeverityInfo, subject,
			"the user may not count the subscribers of a channel", "ACL SETUSER <user> +pubsub|numsub")
	case n == 0 && x.IsWhole():
		i.add(findingcode.KeeperNone, fabrictype.SeverityWarning, subject,
			"no keeper runs: retries, timeouts and lost work wait",
			"run flowfabric keeper, or leave WorkerConfig.NoKeeper of a worker unset")
	default:
		i.add(findingcode.Keepers, fabrictype.SeverityInfo, subject, programs(n)+" with keepers", "")
	}
}

// inspectLag finds work that has been due for a while, in all partitions.
func (x inspector) inspectLag(ctx context.Context, i *findings) {
	lags, err := keeperlag.Read(ctx, x.Core, keeperLate)
	if err != nil {
		return // the other checks report the reason
	}
	for _, lag := range lags {
		if lag.Late > 0 {
			i.add(findingcode.KeeperLag, fabrictype.SeverityWarning, "keepers",
				fmt.Sprintf("%s: due for %s, late in %d of %d partitions", lag.Entries, lag.Overdue.Round(time.Second),
					lag.Late, lag.Partitions),
				"see that keepers run and what they log; flowfabric doctor --repair does what is due once")
		}
	}
}

// inspectWorkers counts the programs whose workers subscribe to the lanes that have executions.
func (x inspector) inspectWorkers(ctx context.Context, i *findings) {
	if !x.IsWhole() {
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
		return // inspectKeepers reports that
	}
	workers := x.laneWorkers(ctx)
	for at, lane := range lanes {
		subject, n := "lane "+string(lane.LaneID), counts[channels[at]]
		of := workers[string(lane.LaneID)]
		missing := ""
		switch {
		case n == 0:
			missing = "no worker serves the lane"
		case of.taking == 0 && n <= of.draining: // others have not reported yet
			missing = "all workers of the lane drain: " + engine.Decimal(of.draining)
		}
		if missing != "" && lane.Eligible > 0 {
			i.add(findingcode.WorkerNone, fabrictype.SeverityWarning, subject,
				engine.Decimal(lane.Eligible)+" executions wait, and "+missing,
				"run a worker with "+strconv.Quote(string(lane.LaneID))+" among WorkerConfig.Lanes")
			continue
		}
		i.add(findingcode.Workers, fabrictype.SeverityInfo, subject, programs(n)+" with workers", "")
	}
}

// laneCount counts the live workers of a lane that take work, and those that drain.
type laneCount struct{ taking, draining int64 }

// laneWorkers counts the live workers of each lane by their reports; those that it cannot read are missing.
func (x inspector) laneWorkers(ctx context.Context) map[string]laneCount {
	counts := make(map[string]laneCount)
	store, err := x.Library("records of workers")
	if err != nil {
		return counts
	}
	call := enginerpc.ListWorkersCall{Partition: engine.Directory()}
	for {
		reply, err := store.ListWorkers(ctx, call)
		if err != nil {
			return counts
		}
		for _, w := range reply.Workers {
			drains := fabrictype.Worker{
				State: string(w.State), DrainRequestedAt: w.DrainRequestedAt,
			}.Drains()
			for lane := range strings.SplitSeq(w.Lanes, "\n") {
				count := counts[lane]
				if drains {
					count.draining++
				} else {
					count.taking++
				}
				counts[lane] = count
			}
		}
		if call.Cursor = reply.NextCursor; call.Cursor == "" {
			return counts
		}
	}
}

func programs(n int64) string {
	if n == 1 {
		return "1 program"
	}
	return engine.Decimal(n) + " programs"
}
