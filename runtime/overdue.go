package runtime

import (
	"context"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// lateGrace is how late something may be that a keeper does before it is called overdue.
const lateGrace = time.Second

// lateBy is how long something is overdue by the engine's clock; 0 when it is not.
func lateBy(due, now time.Time) time.Duration {
	if due.IsZero() || now.IsZero() || now.Sub(due) <= lateGrace {
		return 0
	}
	return now.Sub(due)
}

// keeperDue is when a keeper has to do something for a node that runs or waits for a time; zero when it has not.
func keeperDue(n enginerpc.DescribedNode) time.Time {
	switch {
	case n.LifecyclePhase == "terminal":
	case n.BlockingReason == "waiting_for_worker":
		// A keeper has offered it; now it is the workers' turn.
	case n.LifecyclePhase == "active":
		return n.LeaseExpiresAt
	case n.BlockingReason == "waiting_for_retry_backoff", n.BlockingReason == "waiting_for_delay":
		return n.DelayUntil
	}
	return time.Time{}
}

// nameOverdue says what keepers are late with at a time of the engine's clock, and whether there are any.
func (c *Client) nameOverdue(ctx context.Context, d *RunDescription, now time.Time) {
	if d.State == RunRunning {
		d.Overdue = lateBy(d.DeadlineAt, now)
	}
	late := d.Overdue > 0
	for i := range d.Nodes {
		n := &d.Nodes[i]
		for _, w := range n.Waits {
			if w.State != WaitClosed && !w.Escalated {
				n.Overdue = max(n.Overdue, lateBy(w.TimeoutAt, now))
			}
		}
		late = late || n.Overdue > 0
	}
	if !late {
		return
	}
	seen, known := c.session.KeepersSeen(ctx)
	d.NoKeeper = known && seen == 0
	for i := range d.Nodes {
		if n := &d.Nodes[i]; n.Overdue > 0 {
			n.Why = whyLate(n.Why, n.Overdue, d.NoKeeper)
		}
	}
}

// whyLate says why a node waits that a keeper is late with.
func whyLate(why string, late time.Duration, noKeeper bool) string {
	text := "overdue by " + lateText(late)
	if noKeeper {
		text += ": no keeper seen"
	}
	if why == "" {
		return text
	}
	return text + " (" + why + ")"
}

// lateText is a time for people, in whole seconds.
func lateText(late time.Duration) string {
	if late < 2*time.Minute {
		return fmt.Sprintf("%d s", int(late.Round(time.Second).Seconds()))
	}
	return late.Round(time.Second).String()
}
