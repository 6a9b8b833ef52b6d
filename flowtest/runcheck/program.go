package runcheck

import (
	"cmp"
	"slices"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Program is the version of a program that is to carry runs on.
type Program struct {
	// Workers are the kinds of workers that it has. Nodes that have not ended need one of them.
	Workers []Worker
	// Flows are its definitions. Inputs and results of runs of these names must decode into their types, since the
	// program reads them. A run of another flow is not checked for that: it continues with the graph that it has.
	Flows []runtime.Definition
}

// Worker is a kind of worker.
type Worker struct {
	// Activities are the activities that it registers. Activities without a function (activity.Declare) are not served.
	Activities []activity.Handler
	// Lanes and Capabilities are the lanes and capabilities of its runtime.WorkerConfig. Lanes defaults to the lane
	// "default".
	Lanes        []string
	Capabilities []string
}

// handler returns the activity of the worker that a stored name means; nil if it does not serve the name.
func (w Worker) handler(name string) activity.Handler {
	for _, a := range w.Activities {
		if f, ok := a.(interface{ HasFunction() bool }); ok && !f.HasFunction() {
			continue
		}
		if a.Name() == name || slices.Contains(a.Aliases(), name) {
			return a
		}
	}
	return nil
}

func (w Worker) servesLane(lane string) bool {
	if len(w.Lanes) == 0 {
		return lane == activity.DefaultLane
	}
	return slices.Contains(w.Lanes, lane)
}

// lacks returns the first capability that the worker does not offer.
func (w Worker) lacks(capabilities []string) string {
	for _, c := range capabilities {
		if !slices.Contains(w.Capabilities, c) {
			return c
		}
	}
	return ""
}

// serves returns the activity that would run a node, or the code and the detail of its absence.
func (p Program) serves(name, lane string, capabilities []string) (a activity.Handler, missing Code, what string) {
	missing = ActivityMissing
	for _, w := range p.Workers {
		handler := w.handler(name)
		if handler == nil {
			continue
		}
		a = cmp.Or(a, handler)
		if !w.servesLane(lane) {
			if missing == ActivityMissing {
				missing = LaneUnserved
			}
			continue
		}
		lacked := w.lacks(capabilities)
		if lacked == "" {
			return handler, "", ""
		}
		missing, what = CapabilityUnserved, lacked
	}
	return a, missing, what
}

// flow returns the definition of a name; nil if the program has none.
func (p Program) flow(name string) runtime.Definition {
	for _, f := range p.Flows {
		if f.Name() == name {
			return f
		}
	}
	return nil
}
