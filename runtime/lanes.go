package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/lanes"
)

// Lanes returns the lanes that were ever used or paused, sorted by name. It reads the partitions one after another, so
// the counts are not of one moment.
func (c *Client) Lanes(ctx context.Context) ([]fabrictype.Lane, error) {
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	return lanes.List(ctx, c.session)
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
	return l.client.pause(ctx, lanes.Lane(l.name), reason, opts)
}

// Resume ends the pause of the lane. Resuming a lane that is not paused is not an error.
func (l *LaneRef) Resume(ctx context.Context) error {
	if _, err := keyspace.ParseLaneID(l.name); err != nil {
		return invalid("resume lane: %w", err)
	}
	return l.client.resume(ctx, lanes.Lane(l.name))
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
	return a.client.pause(ctx, lanes.Activity(a.name), reason, opts)
}

// Resume ends the pause of the activity. Resuming an activity that is not paused is not an error.
func (a *ActivityRef) Resume(ctx context.Context) error {
	if err := activityspec.CheckName(a.name); err != nil {
		return invalid("resume activity: %w", err)
	}
	return a.client.resume(ctx, lanes.Activity(a.name))
}

func (c *Client) pause(ctx context.Context, subject lanes.Subject, reason string, opts []ActionOption) error {
	if err := c.ready(ctx); err != nil {
		return err
	}
	by, err := c.actionOf(opts)
	err = errors.Join(err, engine.CheckReason(reason))
	if err == nil {
		err = c.audited(ctx, subject.Entry(by.actor, "pause", reason), func(ctx context.Context) error {
			return lanes.Pause(ctx, c.session, subject, reason, by.actor)
		})
	}
	if err != nil {
		return fmt.Errorf("pause %s: %w", subject, err)
	}
	return nil
}

func (c *Client) resume(ctx context.Context, subject lanes.Subject) error {
	if err := c.ready(ctx); err != nil {
		return err
	}
	if _, err := c.session.Library("pauses and totals of lanes"); err != nil {
		return fmt.Errorf("resume %s: %w", subject, err)
	}
	return c.audited(ctx, subject.Entry(c.actorName(), "resume", ""), func(ctx context.Context) error {
		if err := lanes.Resume(ctx, c.session, subject); err != nil {
			return fmt.Errorf("resume %s: %w", subject, err)
		}
		return nil
	})
}

// Pauses returns the paused lanes and activities, lanes first, sorted by name. Paused runs are not included; Describe
// reports the pause of a run.
func (c *Client) Pauses(ctx context.Context) ([]fabrictype.Pause, error) {
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	list, err := lanes.Pauses(ctx, c.session)
	if err != nil {
		return nil, fmt.Errorf("list pauses: %w", err)
	}
	return list, nil
}
