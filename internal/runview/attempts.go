package runview

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/describe"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/eventkind"
)

const (
	// eventsPage is the number of events read at once for the attempts of nodes.
	eventsPage = 500
	// eventsOfNode is the number of events of a node that its last describe.MaxAttempts attempts are made of, or more.
	eventsOfNode = 10 * describe.MaxAttempts
	// readAlone is the most nodes whose events are searched for one by one, rather than by reading the events of the
	// run.
	readAlone = 4
)

// addAttempts adds the attempts of the nodes that d describes.
func (r *Reader) addAttempts(ctx context.Context, d *Description) error {
	store, err := r.Session.Library("events of nodes")
	if err != nil || len(d.Nodes) > readAlone {
		err = r.addAllAttempts(ctx, d)
	} else {
		for i := range d.Nodes {
			if err == nil {
				err = r.addNodeAttempts(ctx, store, &d.Nodes[i])
			}
		}
	}
	if err != nil {
		return err
	}
	return r.addBuilds(ctx, d)
}

// addNodeAttempts adds the attempts of one node, from its last events, without reading the events of other nodes.
func (r *Reader) addNodeAttempts(ctx context.Context, store engine.Library, n *fabrictype.Node) error {
	var events []enginerpc.FlowEvent
	call := enginerpc.ReadNodeEventsCall{
		Partition: r.Run.Partition, FlowID: r.Run.FlowID, Node: n.Name, Limit: eventsPage,
	}
	for {
		reply, err := store.ReadNodeEvents(ctx, call)
		if err != nil {
			return err
		}
		events = append(events, reply.Events...)
		call.Cursor = reply.NextCursor
		if call.Cursor == "" || len(events) >= eventsOfNode {
			break
		}
	}
	history, replays := describe.History{}, 0
	for i := len(events) - 1; i >= 0; i-- {
		e := engine.ReadEvent(events[i])
		if e.Kind == eventkind.Replayed {
			replays++
		}
		history.Add(e)
	}
	n.History = history.Attempts(n.Name)
	for i := range n.History { // those before the first event that was read
		n.History[i].Replay += max(0, n.Replays-replays)
	}
	return nil
}

// addAllAttempts adds the attempts of the nodes from all events of the run.
func (r *Reader) addAllAttempts(ctx context.Context, d *Description) error {
	var history describe.History
	call := enginerpc.ReadEventsCall{Partition: r.Run.Partition, FlowID: r.Run.FlowID, Limit: eventsPage}
	for {
		reply, err := r.Session.Backend.ReadEvents(ctx, call)
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
	return nil
}

// buildsPerCall is the number of builds that one call reads.
const buildsPerCall = 1000

// addBuilds adds to attempts the builds that their workers name.
func (r *Reader) addBuilds(ctx context.Context, d *Description) error {
	store, err := r.Session.Library("records of workers")
	if err != nil {
		return nil // contract mode has no records of workers
	}
	builds := make(map[string]*fabrictype.Build)
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
			build := new(fabrictype.Build)
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
