package lanes

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/fleet"
	"github.com/flowfabric/flowfabric-go/internal/keeper"
	"github.com/flowfabric/flowfabric-go/internal/keeperlag"
)

// Late is the time after which due work counts as late: keepers check each partition every keeper.SweepEvery.
const Late = keeper.SweepEvery + 6*time.Second

// States of the health of a lane.
const (
	Paused   = "paused"
	Unserved = "unserved"
	Blocked  = "blocked"
	Overdue  = "late"
	OK       = "ok"
)

// service is who serves a lane.
type service struct {
	// programs counts the programs that listen to the lane; -1 when the user may not count them.
	programs int64
	// taking counts the live workers that take work, draining those that do not, by their reports.
	taking, draining int64
}

// served reports whether some worker takes work. Workers that have just begun may listen before they have reported.
func (s service) served() bool {
	return s.taking > 0 || s.programs > s.draining || s.programs < 0 && s.draining == 0
}

// judge sets the health of lanes.
func judge(ctx context.Context, s *engine.Session, lanes []fabrictype.Lane) error {
	if len(lanes) == 0 {
		return nil
	}
	services, err := servicesOf(ctx, s, lanes)
	if err != nil {
		return err
	}
	due, err := dueSince(ctx, s, lanes)
	if err != nil {
		return err
	}
	for i := range lanes {
		lanes[i].Health = healthOf(lanes[i], services[i], due[lanes[i].Name])
	}
	return nil
}

// servicesOf counts who serves the lanes, in their order.
func servicesOf(ctx context.Context, s *engine.Session, lanes []fabrictype.Lane) ([]service, error) {
	channels := make([]string, len(lanes))
	places := make(map[string]int, len(lanes))
	for i, lane := range lanes {
		channels[i] = s.Core.Keys().ChannelWake(enginecore.LaneID(lane.Name))
		places[lane.Name] = i
	}
	counts, refused := s.Listeners(ctx, channels...)
	workers, err := fleet.Workers(ctx, s)
	if err != nil {
		return nil, err
	}
	list := make([]service, len(lanes))
	for i, channel := range channels {
		list[i].programs = counts[channel]
		if refused != nil && counts[channel] == 0 {
			list[i].programs = -1
		}
	}
	for _, w := range workers {
		for _, name := range w.Lanes {
			if i, known := places[name]; known && w.Drains() {
				list[i].draining++
			} else if known {
				list[i].taking++
			}
		}
	}
	return list, nil
}

// dueSince returns since when delayed nodes of lanes have been due, for those lanes that are late.
func dueSince(ctx context.Context, s *engine.Session, lanes []fabrictype.Lane) (map[string]time.Time, error) {
	var names []string
	for _, lane := range lanes {
		if lane.Delayed > 0 {
			names = append(names, lane.Name)
		}
	}
	return keeperlag.DelayedSince(ctx, s.Core, names, Late)
}

// healthOf decides whether the work of a lane proceeds. due is since when its delayed nodes are late, zero if they are
// not.
func healthOf(l fabrictype.Lane, by service, due time.Time) fabrictype.LaneHealth {
	h := fabrictype.LaneHealth{State: OK, Programs: int(max(by.programs, 0))}
	route, remedy := l.Blocked.Route, "run a worker with "+strconv.Quote(l.Name)+" among WorkerConfig.Lanes"
	switch {
	case l.Paused():
		h.State, h.Nodes, h.Since = Paused, l.Eligible, l.PausedAt
		h.Reason, h.Remedy = pausedReason(l), "flowfabric lane resume "+l.Name+", or LaneRef.Resume"
	case l.Eligible > 0 && !by.served():
		h.State, h.Nodes, h.Since, h.Remedy = Unserved, l.Eligible+route, l.Oldest, remedy
		h.Reason = wait(h.Nodes) + ", and no worker serves the lane"
		if by.draining > 0 {
			h.Reason = wait(h.Nodes) + ", and all workers of the lane drain: " + engine.Decimal(by.draining)
		}
	case route > 0:
		h.State, h.Nodes = Unserved, route
		h.Reason = wait(route) + " for an activity or a capability that no worker of the lane has"
		h.Remedy = "run a worker of the lane that has it; flowfabric run why names it"
	case l.Blocked.Budget > 0:
		h.State, h.Nodes = Blocked, l.Blocked.Budget
		h.Reason = wait(h.Nodes) + " for a budget that is used up"
		h.Remedy = "raise or reset the budget: flowfabric budget list names it"
	case l.Blocked.Operator > 0:
		h.State, h.Nodes = Blocked, l.Blocked.Operator
		h.Reason = wait(h.Nodes) + " for the end of a pause of a run or an activity"
		h.Remedy = "resume the run or the activity: flowfabric lane pauses names activities"
	case !due.IsZero():
		h.State, h.Nodes, h.Since = Overdue, l.Delayed, due
		h.Reason = "delayed nodes are due, and no keeper has released them"
		h.Remedy = "see that keepers run and what they log"
	}
	return h
}

// wait is the beginning of a reason: "1 node waits".
func wait(nodes int) string {
	if nodes == 1 {
		return "1 node waits"
	}
	return fmt.Sprintf("%d nodes wait", nodes)
}

func pausedReason(l fabrictype.Lane) string {
	text := "the lane is paused"
	if l.PausedBy != "" {
		text += " by " + l.PausedBy
	}
	if l.PauseReason != "" {
		text += ": " + l.PauseReason
	}
	if l.Eligible > 0 {
		text += "; " + wait(l.Eligible)
	}
	return text
}
