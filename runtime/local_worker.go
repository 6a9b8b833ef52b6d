package runtime

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/worker"
)

// localWorker is the worker of OpenLocal, as far as it decides which runs the client starts.
type localWorker struct {
	worker *worker.Worker
	// checked are the flows whose nodes a worker of this program runs.
	checked sync.Map
}

// check returns an error that names the activities and lanes of a flow that no worker of this program has. A nil worker
// has all.
func (l *localWorker) check(s *engine.Session, flow *submit.CompiledFlow) error {
	if l == nil {
		return nil
	}
	if _, known := l.checked.Load(flow); known {
		return nil
	}
	var faults []error
	l.checkGraph(s, "", flow.Graph, &faults)
	if len(faults) == 0 {
		l.checked.Store(flow, true)
		return nil
	}
	return fmt.Errorf("flow %s: %w", flow.Graph.Name, errors.Join(faults...))
}

func (l *localWorker) checkGraph(s *engine.Session, prefix string, graph *flowgraph.Graph, faults *[]error) {
	for i := range graph.Nodes {
		n := &graph.Nodes[i]
		lane := cmp.Or(n.Lane, activityspec.DefaultLane)
		if n.Activity != "" && !s.Workers.Serve(enginecore.LaneID(lane), n.Activity) {
			switch {
			case !l.worker.Knows(n.Activity):
				*faults = append(*faults, invalid("node %s: activity %q is not among LocalConfig.Activities", prefix+n.Name,
					n.Activity))
			case !slices.Contains(l.worker.Lanes(), lane):
				*faults = append(*faults, invalid("node %s: lane %q is not among the worker's lanes %q: add it to "+
					"WorkerConfig.Lanes", prefix+n.Name, lane, l.worker.Lanes()))
			}
		}
		if n.Sub != nil && n.SubOf == "" {
			l.checkGraph(s, prefix+n.Name+"/", n.Sub, faults)
		}
	}
}
