package lanes

import (
	"cmp"
	"context"
	"slices"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// List returns the lanes that were ever used or paused with their health, sorted by name.
func List(ctx context.Context, s *engine.Session) ([]fabrictype.Lane, error) {
	totals, err := s.LaneTotals(ctx)
	if err != nil {
		return nil, err
	}
	lanes := make([]fabrictype.Lane, len(totals))
	for i, lane := range totals {
		lanes[i] = readLane(lane)
	}
	if err := judge(ctx, s, lanes); err != nil {
		return nil, err
	}
	return lanes, nil
}

func readLane(l enginerpc.LaneState) fabrictype.Lane {
	lane := fabrictype.Lane{
		Name: string(l.LaneID), Eligible: int(l.Eligible), Delayed: int(l.Delayed),
		Active:    int(l.Active),
		Suspended: int(l.Suspended), Oldest: l.OldestEligibleAt,
		Blocked: fabrictype.LaneBlocked{
			Dependencies: int(l.BlockedDependencies), Budget: int(l.BlockedBudget), Quota: int(l.BlockedQuota),
			Route: int(l.BlockedRoute), Operator: int(l.BlockedOperator),
		},
	}
	if l.Paused != "" {
		pause, _ := enginerpc.ParsePauseText(l.Paused)
		lane.PausedAt, lane.PausedBy, lane.PauseReason = pause.Since, pause.Actor, pause.Reason
	}
	return lane
}

// Subject is a lane or an activity that can be paused.
type Subject struct {
	kind string
	// Name is the name of the lane or of the activity.
	Name string
}

// Lane is the lane of a name.
func Lane(name string) Subject { return Subject{engine.PausedLane, name} }

// Activity is the activity of a name.
func Activity(name string) Subject { return Subject{engine.PausedActivity, name} }

// String returns the kind and the name: "lane default".
func (s Subject) String() string { return s.kindName() + " " + s.Name }

func (s Subject) kindName() string {
	if s.kind == engine.PausedActivity {
		return "activity"
	}
	return s.kind
}

// Entry is the entry of the audit log for a pause, or the end of one: do is "pause" or "resume".
func (s Subject) Entry(actor, do, reason string) fabrictype.AuditEntry {
	return fabrictype.AuditEntry{
		Actor: actor, Action: string(do + "_" + s.kindName()), Name: s.Name, Detail: reason,
	}
}

// Pause pauses a lane or an activity in all partitions.
func Pause(ctx context.Context, s *engine.Session, subject Subject, reason, actor string) error {
	_, err := engine.InAllPartitions(ctx, s, func(p keyspace.Partition) enginerpc.PauseCall {
		return enginerpc.PauseCall{
			Partition: p, Subject: subject.kind, Name: subject.Name, Reason: reason, Actor: actor,
		}
	})
	return err
}

// Resume ends the pause of a lane or an activity in all partitions, call by call.
func Resume(ctx context.Context, s *engine.Session, subject Subject) error {
	calls := make([]enginerpc.ResumeCall, 0, s.Core.Partitioning().Flow)
	for _, p := range s.Partitions() {
		calls = append(calls, enginerpc.ResumeCall{Partition: p, Subject: subject.kind, Name: subject.Name})
	}
	for len(calls) > 0 {
		answers, _ := batching.SendAll(ctx, s.Core, calls) // the answers have the errors
		var faults []error
		var rest []enginerpc.ResumeCall
		for i, a := range answers {
			if a.Err != nil {
				faults = append(faults, a.Err)
			} else if a.Reply.NextCursor != "" {
				calls[i].Cursor = a.Reply.NextCursor
				rest = append(rest, calls[i])
			}
		}
		if err := enginerpc.JoinSame("partitions", faults); err != nil {
			return err
		}
		calls = rest
	}
	return nil
}

// Pauses returns the paused lanes and activities, lanes first, sorted by name.
func Pauses(ctx context.Context, s *engine.Session) ([]fabrictype.Pause, error) {
	replies, err := engine.InAllPartitions(ctx, s, func(p keyspace.Partition) enginerpc.PausesCall {
		return enginerpc.PausesCall{Partition: p}
	})
	if err != nil {
		return nil, err
	}
	var list []fabrictype.Pause
	for _, reply := range replies {
		for _, p := range reply.Pauses {
			list = append(list, readPause(p))
		}
	}
	slices.SortFunc(list, func(a, b fabrictype.Pause) int {
		return cmp.Or(cmp.Compare(a.Activity, b.Activity), cmp.Compare(a.Lane, b.Lane), a.Since.Compare(b.Since))
	})
	// Every partition has its own record of the pause; the first one counts.
	return slices.CompactFunc(list, func(a, b fabrictype.Pause) bool {
		return a.Activity == b.Activity && a.Lane == b.Lane
	}), nil
}

func readPause(p enginerpc.Pause) fabrictype.Pause {
	pause := fabrictype.Pause{Lane: p.Name}
	if p.Subject == engine.PausedActivity {
		pause = fabrictype.Pause{Activity: p.Name}
	}
	text, _ := enginerpc.ParsePauseText(p.Text)
	pause.Since, pause.By, pause.Reason = text.Since, text.Actor, text.Reason
	return pause
}
