package runtime

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/describe"
	"github.com/flowfabric/flowfabric-go/runtime/fleet"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// DescribeNode returns the state of one node as Describe does, with its whole input and result and its attempts. The
// error wraps ErrRunNotFound, or ErrUnknownNode when the run has no such node.
func (r *RunRef) DescribeNode(ctx context.Context, node string) (*NodeDescription, error) {
	if err := r.ready(ctx); err != nil {
		return nil, err
	}
	n, err := r.describeOne(ctx, node, describe.Request{Values: true, ValueBytes: wholeValue, Attempts: true})
	if err == nil && n == nil {
		err = engine.ErrUnknownNode
	}
	if err != nil {
		return nil, r.errorf("describe node "+node+" of", err)
	}
	return n, nil
}

// wholeValue is a bound that no value reaches, not even an input that is composed of many results.
const wholeValue = 1 << 40

// eventsPage is the number of events read at once for the attempts of nodes.
const eventsPage = 500

// addAttempts adds the attempts of the nodes that d describes.
func (r *RunRef) addAttempts(ctx context.Context, d *RunDescription) error {
	var history describe.History
	call := enginerpc.ReadEventsCall{Partition: r.partition, FlowID: r.flowID, Limit: eventsPage}
	for {
		reply, err := r.client.session.Backend.ReadEvents(ctx, call)
		if err != nil {
			return err
		}
		for _, e := range reply.Events {
			history.Add(engine.ReadEvent(e))
		}
		if len(reply.Events) == 0 {
			break
		}
		call.After = reply.Events[len(reply.Events)-1].ID
	}
	for i := range d.Nodes {
		d.Nodes[i].History = history.Attempts(d.Nodes[i].Name)
	}
	return r.addBuilds(ctx, d)
}

// buildsPerCall is the number of builds that one call reads.
const buildsPerCall = 1000

// addBuilds adds to attempts the builds that their workers name.
func (r *RunRef) addBuilds(ctx context.Context, d *RunDescription) error {
	store, err := engine.Capability[engine.WorkerRecords](r.client.session.Backend)
	if err != nil {
		return nil // contract mode has no records of workers
	}
	builds := make(map[string]*fleet.Build)
	for i := range d.Nodes {
		for _, a := range d.Nodes[i].History {
			if id := engine.BuildIDOf(enginecore.WorkerInstanceID(a.Worker)); id != "" {
				builds[id] = nil
			}
		}
	}
	for ids := range slices.Chunk(slices.Collect(maps.Keys(builds)), buildsPerCall) {
		reply, err := store.ReadBuilds(ctx, enginerpc.ReadBuildsCall{Partition: engine.Directory(), BuildIDs: ids})
		if err != nil {
			return err
		}
		for i, stored := range reply.Builds {
			build := new(fleet.Build)
			if json.Unmarshal(stored, build) == nil {
				builds[ids[i]] = build
			}
		}
	}
	for i := range d.Nodes {
		for k := range d.Nodes[i].History {
			a := &d.Nodes[i].History[k]
			a.Build = builds[engine.BuildIDOf(enginecore.WorkerInstanceID(a.Worker))]
		}
	}
	return nil
}
