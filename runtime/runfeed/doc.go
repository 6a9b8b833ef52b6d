// Package runfeed says what is followed in the feed of all runs, and holds its events: see Client.Feed of package
// runtime.
package runfeed

import (
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/eventkind"
)

// Filter selects events. The zero value selects all of runs that are no child runs.
type Filter struct {
	// Flow is the name of a flow; empty for all.
	Flow string
	// Kinds are the kinds of events; empty for all that the feed has.
	Kinds []fabrictype.EventKind
	// Children includes the events of child runs of maps and sub-flows. A filter with Flow includes them in any case.
	Children bool
}

// Kinds lists the kinds of events that the feed has: runs start, end, are run again, paused and resumed, or are to be
// cancelled; nodes wait, and are answered, escalated, timed out or resumed; limits of budgets are passed.
func Kinds() []fabrictype.EventKind {
	return []fabrictype.EventKind{
		fabrictype.EventRunSubmitted, fabrictype.EventRunSucceeded, fabrictype.EventRunFailed, fabrictype.EventRunCancelled,
		fabrictype.EventRunExpired, fabrictype.EventRunRerun, fabrictype.EventRunPaused, fabrictype.EventRunResumed,
		eventkind.RunCancelRequested, fabrictype.EventSuspended, fabrictype.EventSignalled, fabrictype.EventEscalated,
		fabrictype.EventWaitTimedOut, eventkind.ResumedByOperator, fabrictype.EventBudgetSoft, fabrictype.EventBudgetHard,
	}
}

// Event is something that has happened to a run.
type Event struct {
	Kind      fabrictype.EventKind
	Flow, Run string
	FlowID    enginecore.FlowID
	// Child reports whether the run is a child run of a map or sub-flow.
	Child bool
	// Node is the node that the event is about: that which waits or was answered, or which failed first of a run that
	// has failed. Empty for other events of the run.
	Node string
	// Detail is as in the events of the run: see package runevent.
	Detail string
	// At is the engine's time of the event.
	At time.Time
}
