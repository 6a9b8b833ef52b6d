package inspect

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/findingcode"
	"github.com/flowfabric/flowfabric-go/internal/fleet"
	"github.com/flowfabric/flowfabric-go/internal/keeperlag"
	"github.com/flowfabric/flowfabric-go/internal/lanes"
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
	lags, err := keeperlag.Read(ctx, x.Core, lanes.Late)
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

// inspectLanes reports the health of the lanes.
func (x inspector) inspectLanes(ctx context.Context, i *findings) {
	if !x.IsWhole() {
		return
	}
	list, err := lanes.List(ctx, x.Session)
	if err != nil {
		return // the other checks report the reason
	}
	for _, lane := range list {
		h, subject := lane.Health, "lane "+lane.Name
		switch h.State {
		case lanes.Unserved:
			i.add(findingcode.WorkerNone, fabrictype.SeverityError, subject, h.Reason, h.Remedy)
		case lanes.Paused:
			severity := fabrictype.SeverityInfo
			if h.Stuck() {
				severity = fabrictype.SeverityWarning
			}
			i.add(findingcode.LanePaused, severity, subject, h.Reason, h.Remedy)
		case lanes.Blocked:
			i.add(findingcode.LaneBlocked, fabrictype.SeverityWarning, subject, h.Reason, h.Remedy)
		default: // inspectLag reports late keepers
			i.add(findingcode.Workers, fabrictype.SeverityInfo, subject,
				programs(int64(h.Programs))+" with workers", "")
		}
	}
}

// maxConflicts and maxNamed bound the activities whose types are reported, and the workers that are named of each type.
const maxConflicts, maxNamed = 20, 3

// inspectTypes reports activities whose types differ between live workers.
func (x inspector) inspectTypes(ctx context.Context, i *findings) {
	if !x.IsWhole() {
		return
	}
	conflicts, err := fleet.Conflicts(ctx, x.Session)
	if err != nil {
		return // the other checks report the reason
	}
	const remedy = "deploy one build of the activity, or give the one with the new types a name of its own"
	for _, c := range conflicts[:min(len(conflicts), maxConflicts)] {
		types := "input and result"
		if !c.Input {
			types = "result"
		} else if !c.Result {
			types = "input"
		}
		groups := make([]string, len(c.Groups))
		for k, names := range c.Groups {
			groups[k] = strings.Join(names[:min(len(names), maxNamed)], ", ")
			if more := len(names) - maxNamed; more > 0 {
				groups[k] += fmt.Sprintf(" and %d more", more)
			}
		}
		i.add(findingcode.WorkerTypes, fabrictype.SeverityWarning, "activity "+c.Activity,
			fmt.Sprintf("live workers have different types for its %s: %s", types, strings.Join(groups, "; others: ")), remedy)
	}
	if more := len(conflicts) - maxConflicts; more > 0 {
		i.add(findingcode.WorkerTypes, fabrictype.SeverityWarning, "activities",
			fmt.Sprintf("live workers have different types for %d more activities", more), remedy)
	}
}

func programs(n int64) string {
	if n == 1 {
		return "1 program"
	}
	return engine.Decimal(n) + " programs"
}
