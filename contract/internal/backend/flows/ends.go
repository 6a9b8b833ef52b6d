package flows

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/flowfabric/flowfabric-go/contract/internal/backend/link"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// endWatch detects when flows are over. It remembers the members of a flow that no check has found ended, so that
// all checks of one flow together read each member about once. The zero value is empty; it is safe for concurrent
// use.
type endWatch struct {
	mu    sync.Mutex
	flows map[enginecore.FlowID]*endProbe
}

// endProbe is the state of endWatch for one flow.
type endProbe struct {
	mu      sync.Mutex
	members []enginecore.ExecutionID // those that no check has found ended
	loaded  bool
}

// outcomeOver is the outcome in the message that a flow is over. Clients read how it ended from the engine.
const outcomeOver = "over"

// maxEndProbes bounds the remembered flows.
const maxEndProbes = 1024

// CheckEnd checks whether all members of a flow have ended, and if so notifies the clients that wait for it.
func (c *Flows) CheckEnd(ctx context.Context, p keyspace.Partition, id enginecore.FlowID) error {
	over, err := c.IsOver(ctx, p, id)
	if over {
		message := enginerpc.DoneMessage{FlowID: id, Outcome: outcomeOver}
		c.Publish(ctx, c.Keys.ChannelDone(engine.SharedOrigin), message.Text())
	}
	return err
}

// IsOver reports whether all members of a flow have ended.
func (c *Flows) IsOver(ctx context.Context, p keyspace.Partition, id enginecore.FlowID) (bool, error) {
	w := &c.ends
	w.mu.Lock()
	if w.flows == nil || len(w.flows) >= maxEndProbes {
		w.flows = make(map[enginecore.FlowID]*endProbe)
	}
	probe := w.flows[id]
	if probe == nil {
		probe = &endProbe{}
		w.flows[id] = probe
	}
	w.mu.Unlock()
	over, err := probe.check(ctx, c.Link, p, id)
	if over {
		w.mu.Lock()
		delete(w.flows, id)
		w.mu.Unlock()
	}
	return over, err
}

// check reports whether all members have ended.
func (e *endProbe) check(ctx context.Context, c *link.Link, p keyspace.Partition, id enginecore.FlowID) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.loaded {
		members, err := c.Members(ctx, p, id)
		if err != nil {
			return false, err
		}
		rand.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		e.members, e.loaded = members, true
	}
	for page := 1; len(e.members) > 0; page = min(2*page, link.Page) {
		look := e.members[:min(page, len(e.members))]
		cores, err := c.ReadCores(ctx, look, []string{"lifecycle_phase"})
		if err != nil {
			return false, err
		}
		for _, core := range cores {
			if core.Exists() && !core.IsTerminal() {
				return false, nil
			}
			e.members = e.members[1:]
		}
	}
	return true, nil
}
