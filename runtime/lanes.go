package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// Lanes returns the lanes that were ever used or paused, sorted by name. It reads the partitions one after another, so
// the counts are not of one moment.
func (c *Client) Lanes(ctx context.Context) ([]fabrictype.Lane, error) {
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	totals, err := c.session.LaneTotals(ctx)
	if err != nil {
		return nil, err
	}
	lanes := make([]fabrictype.Lane, len(totals))
	for i, lane := range totals {
		lanes[i] = readLane(lane)
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

// LaneRef refers to one lane by its name. Client.Lane returns one. It is safe for concurrent use, as long as its client
// is open. The error of every call wraps ErrInvalid for a name that no lane can have.
type LaneRef struct {
	client *Client
	name   string
}

// Lane returns a reference to a lane. It sends nothing, and the lane need not be in use.
func (c *Client) Lane(name string) *LaneRef { return &LaneRef{client: c, name: name} }

// Pause pauses the lane: workers claim nothing from it until Resume. Functions that run continue. Paused nodes do not
// time out, except by the deadline of their run. The engine stores the pause, so it also applies to workers that start
// later and survives restarts. Pausing a paused lane changes nothing, except that it completes a call that failed
// half-way; after an error, repeat the call.
func (l *LaneRef) Pause(ctx context.Context, reason string, opts ...ActionOption) error {
	if _, err := keyspace.ParseLaneID(l.name); err != nil {
		return invalid("pause lane: %w", err)
	}
	return l.client.pause(ctx, engine.PausedLane, l.name, reason, opts)
}

// Resume ends the pause of the lane. Resuming a lane that is not paused is not an error.
func (l *LaneRef) Resume(ctx context.Context) error {
	if _, err := keyspace.ParseLaneID(l.name); err != nil {
		return invalid("resume lane: %w", err)
	}
	return l.client.resume(ctx, engine.PausedLane, l.name)
}

// ActivityRef refers to one activity by its name. Client.Activity returns one. It is safe for concurrent use, as long
// as its client is open. The error of every call wraps ErrInvalid for a name that no activity can have.
type ActivityRef struct {
	client *Client
	name   string
}

// Activity returns a reference to an activity. It sends nothing, and no worker need have the activity.
func (c *Client) Activity(name string) *ActivityRef { return &ActivityRef{client: c, name: name} }

// Pause pauses the activity as LaneRef.Pause pauses a lane: no node of the activity starts, on any lane. An old name of
// an activity (activity.Alias) is a separate name here.
func (a *ActivityRef) Pause(ctx context.Context, reason string, opts ...ActionOption) error {
	if err := activityspec.CheckName(a.name); err != nil {
		return invalid("pause activity: %w", err)
	}
	return a.client.pause(ctx, engine.PausedActivity, a.name, reason, opts)
}

// Resume ends the pause of the activity. Resuming an activity that is not paused is not an error.
func (a *ActivityRef) Resume(ctx context.Context) error {
	if err := activityspec.CheckName(a.name); err != nil {
		return invalid("resume activity: %w", err)
	}
	return a.client.resume(ctx, engine.PausedActivity, a.name)
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
	if _, err := c.session.Library("pauses and totals of lanes"); err != nil {
		return fmt.Errorf("resume %s %s: %w", subjectName(subject), name, err)
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

// Pauses returns the paused lanes and activities, lanes first, sorted by name. Paused runs are not included; Describe
// reports the pause of a run.
func (c *Client) Pauses(ctx context.Context) ([]fabrictype.Pause, error) {
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	replies, err := engine.InAllPartitions(ctx, c.session, func(p keyspace.Partition) enginerpc.PausesCall { return enginerpc.PausesCall{Partition: p} })
	if err != nil {
		return nil, fmt.Errorf("list pauses: %w", err)
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
