package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/submit"
)

// Waiting says in words what keeps a node from running; empty for one that runs or has ended. now is the engine's time.
func Waiting(n enginerpc.DescribedNode, now time.Time) string {
	switch {
	case n.LifecyclePhase == "terminal":
		return ""
	case n.LifecyclePhase == "active":
		if n.LeaseExpiresAt.IsZero() || n.LeaseExpiresAt.After(now) {
			return ""
		}
		return fmt.Sprintf("its worker was lost: the lease ran out at %s, waiting to be taken over",
			Time(n.LeaseExpiresAt))
	case n.BlockingReason == "waiting_for_retry_backoff":
		return fmt.Sprintf("retries at %s, after attempt %d failed: %s", Time(n.DelayUntil), n.Attempts,
			n.FailureReason)
	case n.BlockingReason == "waiting_for_delay":
		return "delayed until " + Time(n.DelayUntil)
	case n.BlockingReason == "waiting_for_worker":
		return "waiting for a worker on lane " + string(n.LaneID)
	case childWait(n) != "":
		return childWait(n)
	case n.BlockingReason == "waiting_for_children":
		return "waiting for its upstreams"
	case n.BlockingDetail != "":
		return n.BlockingDetail
	}
	return n.BlockingReason
}

// Time is a time for people.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000 MST") }

// childWait says what a node waits for that stands for a run of its own; empty for others.
func childWait(n enginerpc.DescribedNode) string {
	if n.ChildFlowID != "" && strings.HasPrefix(n.BlockingDetail, submit.ChildWaitPrefix) {
		return n.BlockingDetail
	}
	return ""
}
