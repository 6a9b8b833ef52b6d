package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// LaneState counts the executions of a lane, over all partitions.
type LaneState struct {
	Name string
	// Paused reports whether the lane is paused, so that workers claim nothing from it. PausedSince, PausedBy and
	// PauseReason describe the pause.
	Paused      bool
	PausedSince time.Time
	PausedBy    string
	PauseReason string
	// Eligible nodes wait for a worker, Delayed nodes for a time, and Suspended nodes for signals; Active nodes run.
	Eligible, Delayed, Active, Suspended int
	// Blocked counts the nodes that are not eligible, by what they wait for.
	Blocked LaneWaiting
	// Oldest is the creation time of the oldest eligible node; zero when none is eligible. Of the nodes with a
	// priority, only the first one is considered.
	Oldest time.Time
}

// LaneWaiting counts nodes by what they wait for.
type LaneWaiting struct {
	// Dependencies counts nodes that wait for upstreams; Budget and Quota, for room in a budget or under a limit;
	// Route, for a worker that has registered the activity and offers the capabilities; Operator, for the end of a
	// pause.
	Dependencies, Budget, Quota, Route, Operator int
}

// Lanes returns the lanes that were ever used or paused, sorted by name. It reads the partitions one after another, so
// the counts are not of one moment.
func (c *Client) Lanes(ctx context.Context) ([]LaneState, error) {
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	totals, err := c.session.LaneTotals(ctx)
	if err != nil {
		return nil, err
	}
	lanes := make([]LaneState, len(totals))
	for i, lane := range totals {
		lanes[i] = readLane(lane)
	}
	return lanes, nil
}

func readLane(l enginerpc.LaneState) LaneState {
	lane := LaneState{
		Name: string(l.LaneID), Paused: l.Paused != "", Eligible: int(l.Eligible), Delayed: int(l.Delayed),
		Active:    int(l.Active),
		Suspended: int(l.Suspended), Oldest: l.OldestEligibleAt,
		Blocked: LaneWaiting{
			Dependencies: int(l.BlockedDependencies), Budget: int(l.BlockedBudget), Quota: int(l.BlockedQuota),
			Route: int(l.BlockedRoute), Operator: int(l.BlockedOperator),
		},
	}
	if lane.Paused {
		pause, _ := enginerpc.ParsePauseText(l.Paused)
		lane.PausedSince, lane.PausedBy, lane.PauseReason = pause.Since, pause.Actor, pause.Reason
	}
	return lane
}

// PauseLane pauses a lane: workers claim nothing from it until ResumeLane. Functions that run continue. Paused nodes do
// not time out, except by the deadline of their run. The engine stores the pause, so it also applies to workers that
// start later and survives restarts. The lane need not be in use yet. Pausing a paused lane changes nothing, except
// that it completes a call that failed half-way; after an error, repeat the call.
func (c *Client) PauseLane(ctx context.Context, lane, reason string, opts ...ActionOption) error {
	if _, err := keyspace.ParseLaneID(lane); err != nil {
		return invalid("pause lane: %w", err)
	}
	return c.pause(ctx, engine.PausedLane, lane, reason, opts)
}

// ResumeLane ends the pause of a lane. Resuming a lane that is not paused is not an error.
func (c *Client) ResumeLane(ctx context.Context, lane string) error {
	if _, err := keyspace.ParseLaneID(lane); err != nil {
		return invalid("resume lane: %w", err)
	}
	return c.resume(ctx, engine.PausedLane, lane)
}

// PauseActivity pauses an activity as PauseLane pauses a lane: no node of the activity starts, on any lane. An old name
// of an activity (activity.Alias) is a separate name here.
func (c *Client) PauseActivity(ctx context.Context, name, reason string, opts ...ActionOption) error {
	if err := activityspec.CheckName(name); err != nil {
		return invalid("pause activity: %w", err)
	}
	return c.pause(ctx, engine.PausedActivity, name, reason, opts)
}

// ResumeActivity ends the pause of an activity. Resuming an activity that is not paused is not an error.
func (c *Client) ResumeActivity(ctx context.Context, name string) error {
	if err := activityspec.CheckName(name); err != nil {
		return invalid("resume activity: %w", err)
	}
	return c.resume(ctx, engine.PausedActivity, name)
}

func (c *Client) pause(ctx context.Context, subject, name, reason string, opts []ActionOption) error {
	if err := c.ready(ctx); err != nil {
		return err
	}
	by, err := c.actionOf(opts)
	err = errors.Join(err, engine.CheckReason(reason))
	if err == nil {
		err = c.audited(ctx, pauseEntry("pause", subject, name, by.actor, reason), func(ctx context.Context) error {
			_, err := engine.InAllPartitions(ctx, c.session, func(p keyspace.Partition) enginerpc.PauseCall {
				return enginerpc.PauseCall{Partition: p, Subject: subject, Name: name, Reason: reason, Actor: by.actor}
			})
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("pause %s %s: %w", subjectName(subject), name, err)
	}
	return nil
}

// pauseEntry is the entry of the audit log for a pause, or the end of one.
func pauseEntry(do, subject, name, actor, reason string) fabrictype.AuditEntry {
	return fabrictype.AuditEntry{
		Actor: actor, Action: fabrictype.AuditAction(do + "_" + subjectName(subject)), Name: name, Detail: reason,
	}
}

func (c *Client) resume(ctx context.Context, subject, name string) error {
	if err := c.ready(ctx); err != nil {
		return err
	}
	if !engine.Has[engine.CompositeLibrary](c.session.Backend) {
		return fmt.Errorf("resume %s %s: %w", subjectName(subject), name, engine.ErrNotInContract)
	}
	return c.audited(ctx, pauseEntry("resume", subject, name, c.actorName(), ""), func(ctx context.Context) error {
		return c.resumeEverywhere(ctx, subject, name)
	})
}

func (c *Client) resumeEverywhere(ctx context.Context, subject, name string) error {
	calls := make([]enginerpc.ResumeCall, 0, c.session.Core.Partitioning().Flow)
	for _, p := range c.session.Partitions() {
		calls = append(calls, enginerpc.ResumeCall{Partition: p, Subject: subject, Name: name})
	}
	for len(calls) > 0 {
		answers, _ := batching.SendAll(ctx, c.session.Core, calls) // the answers have the errors
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
			return fmt.Errorf("resume %s %s: %w", subjectName(subject), name, err)
		}
		calls = rest
	}
	return nil
}

func subjectName(subject string) string {
	if subject == engine.PausedActivity {
		return "activity"
	}
	return subject
}

// LanePause describes a paused lane or a paused activity.
type LanePause struct {
	// Activity or Lane is set, not both.
	Activity, Lane string
	Since          time.Time
	// By is who paused it, as WithActor said.
	By     string
	Reason string
}

// Pauses returns the paused lanes and activities, lanes first, sorted by name. Paused runs are not included; Describe
// reports the pause of a run.
func (c *Client) Pauses(ctx context.Context) ([]LanePause, error) {
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	replies, err := engine.InAllPartitions(ctx, c.session, func(p keyspace.Partition) enginerpc.PausesCall { return enginerpc.PausesCall{Partition: p} })
	if err != nil {
		return nil, fmt.Errorf("list pauses: %w", err)
	}
	var list []LanePause
	for _, reply := range replies {
		for _, p := range reply.Pauses {
			list = append(list, readPause(p))
		}
	}
	slices.SortFunc(list, func(a, b LanePause) int {
		return cmp.Or(cmp.Compare(a.Activity, b.Activity), cmp.Compare(a.Lane, b.Lane), a.Since.Compare(b.Since))
	})
	// Every partition has its own record of the pause; the first one counts.
	return slices.CompactFunc(list, func(a, b LanePause) bool { return a.Activity == b.Activity && a.Lane == b.Lane }), nil
}

func readPause(p enginerpc.Pause) LanePause {
	pause := LanePause{Lane: p.Name}
	if p.Subject == engine.PausedActivity {
		pause = LanePause{Activity: p.Name}
	}
	text, _ := enginerpc.ParsePauseText(p.Text)
	pause.Since, pause.By, pause.Reason = text.Since, text.Actor, text.Reason
	return pause
}
