package explain

import (
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/waitreason"
)

// lateGrace is how late something may be that a keeper does before it is called overdue.
const lateGrace = time.Second

// LateBy is how long something is overdue by the engine's clock; 0 if it is not, or is late by less than a keeper may
// be.
func LateBy(due, now time.Time) time.Duration {
	if due.IsZero() || now.IsZero() || now.Sub(due) <= lateGrace {
		return 0
	}
	return now.Sub(due)
}

// KeeperDue is when a keeper has to do something for a node that runs or waits for a time; zero if it has not.
func KeeperDue(n enginerpc.DescribedNode) time.Time {
	switch {
	case n.LifecyclePhase == "terminal":
	case n.BlockingReason == "waiting_for_worker":
		// A keeper has offered it; now it is the workers' turn.
	case n.LifecyclePhase == "active":
		return n.LeaseExpiresAt
	case n.BlockingReason == "waiting_for_retry_backoff", n.BlockingReason == "waiting_for_delay",
		n.BlockingReason == "waiting_for_decoder":
		return n.DelayUntil
	}
	return time.Time{}
}

// Late adds to an explanation that a keeper is late with the event that the node waits for.
func Late(e fabrictype.Explanation, late time.Duration, noKeeper bool) fabrictype.Explanation {
	text := "overdue by " + lateText(late)
	remedy := "look at the keepers with Engine.Inspect"
	if noKeeper {
		text += ": no keeper seen"
		remedy = "start a keeper: flowfabric keeper, NewKeeper, or a worker, which has one"
	}
	if e.Sentence != "" {
		text += " (" + e.Sentence + ")"
	}
	e.Subject, e.Reason, e.Sentence, e.Remedy = e.Reason, waitreason.KeeperOverdue, text, remedy
	return e
}

// lateText is a time for people, in whole seconds.
func lateText(late time.Duration) string {
	if late < 2*time.Minute {
		return fmt.Sprintf("%d s", int(late.Round(time.Second).Seconds()))
	}
	return late.Round(time.Second).String()
}
