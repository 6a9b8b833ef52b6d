package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"golang.org/x/sync/errgroup"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/submit"
	"github.com/flowfabric/flowfabric-go/runtime/internal/worker"
)

// ChildRun is the run that a node stands for: that of the items of a map, or of a sub-flow. Client.Describe and Client.Watch
// take its names as those of any run.
type ChildRun struct {
	Flow, Run string
	FlowID    enginecore.FlowID
	// State and Outcome are those of Description; empty while the run is not there yet, or when it has been purged.
	State, Outcome string
	// Total counts its nodes, which are the items of a map; Open those that have not ended, the others how those ended that
	// have.
	Total, Open, Succeeded, Failed, Expired, Cancelled, Skipped int
}

// childPartition is where the run lives that a node stands for.
func (c *Client) childPartition(id enginecore.FlowID) (enginecore.Partition, error) {
	return c.session.Core.FlowPartition(id)
}

// listConcurrency bounds how many partitions are asked at a time.
const listConcurrency = 16

// nameChildren says how the runs stand that nodes stand for, and what runs for the items of maps.
func (c *Client) nameChildren(ctx context.Context, d *RunDescription) error {
	var asking errgroup.Group
	asking.SetLimit(listConcurrency)
	for i := range d.Nodes {
		n := &d.Nodes[i]
		switch n.Activity {
		case submit.MapKind, submit.SubKind:
			n.Activity = ""
			if d.Graph == nil {
				break
			}
			if spec := d.Graph.Node(n.Name); spec != nil {
				n.Activity = spec.Activity
			}
		}
		if n.Child != nil {
			asking.Go(func() error { return c.describeChild(ctx, n.Child) })
		}
	}
	if err := asking.Wait(); err != nil {
		return fmt.Errorf("describe run %s of flow %s: %w", d.Run, d.Flow, err)
	}
	return nil
}

// firstCursor reads a page of a run from the first node on, without its definition.
const firstCursor = "0"

func (c *Client) describeChild(ctx context.Context, child *ChildRun) error {
	p, err := c.childPartition(child.FlowID)
	if err != nil {
		return err
	}
	r, err := c.session.Backend.DescribeFlow(ctx, enginerpc.DescribeFlowCall{Partition: p, FlowID: child.FlowID, Cursor: firstCursor, Limit: 1})
	if errors.Is(err, enginecore.ErrFlowNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	child.Flow, child.Run, child.State, child.Outcome = r.FlowName, r.RunID, r.State, r.Outcome
	child.Total, child.Open = int(r.NodeCount), int(r.OpenNodes)
	child.Failed, child.Expired, child.Cancelled, child.Skipped = int(r.NodesFailed), int(r.NodesExpired), int(r.NodesCancelled), int(r.NodesSkipped)
	child.Succeeded = child.Total - child.Open - child.Failed - child.Expired - child.Cancelled - child.Skipped
	return nil
}

// MapItem is the state of one item of a map.
type MapItem struct {
	// Index is its place in the list, from 0 on; Name that of its node in the run of the items.
	Index int
	Name  string
	// State and Attempts are those of NodeDescription.
	State    enginecore.PublicState
	Attempts int
	// Result is what it has brought, nil unless it has succeeded.
	Result json.RawMessage
	// Reason and Category describe the last failure, or why it was cancelled.
	Reason, Category string
}

// ErrNoItems is returned for a node that has no items: it is no map, or has not begun.
var ErrNoItems = errors.New("node has no items")

// Items yields the items of a map, in the order of the list, from the given index on. It reads them in pages, so a long list
// is neither read nor held at once; what happens meanwhile may show. An error is yielded last: it wraps ErrRunNotFound,
// ErrUnknownNode or ErrNoItems. The items of an empty list are none, and that is no error.
func (c *Client) Items(ctx context.Context, flowName, runID, node string, from int) iter.Seq2[MapItem, error] {
	return func(yield func(MapItem, error) bool) {
		fail := func(err error) {
			yield(MapItem{}, fmt.Errorf("items of node %s of run %s of flow %s: %w", node, runID, flowName, err))
		}
		child, err := c.childOf(ctx, flowName, runID, node)
		if err != nil {
			fail(err)
			return
		}
		for next := max(0, from); child != nil && next < child.Total; {
			page, err := c.readItems(ctx, child, next)
			if err != nil {
				fail(err)
				return
			}
			for _, item := range page {
				if !yield(item, nil) {
					return
				}
			}
			next += len(page)
		}
	}
}

// childOf finds the run of a map; nil when its list was empty.
func (c *Client) childOf(ctx context.Context, flowName, runID, node string) (*ChildRun, error) {
	d, err := c.Describe(ctx, flowName, runID)
	if err != nil {
		return nil, err
	}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if n.Name != node {
			continue
		}
		spec := d.Graph.Node(node)
		switch {
		case spec == nil || spec.Map == nil:
			return nil, fmt.Errorf("%w: it is no map", ErrNoItems)
		case n.Child != nil:
			return n.Child, nil
		case n.State == enginecore.PublicCompleted:
			return nil, nil
		}
		return nil, fmt.Errorf("%w: it is %s", ErrNoItems, n.State)
	}
	return nil, engine.ErrUnknownNode
}

func (c *Client) readItems(ctx context.Context, child *ChildRun, next int) ([]MapItem, error) {
	p, err := c.childPartition(child.FlowID)
	if err != nil {
		return nil, err
	}
	core, err := offered[engine.ChildRuns](c)
	if err != nil {
		return nil, err
	}
	reply, err := core.ReadResults(ctx, enginerpc.ReadResultsCall{
		Partition: p, Executions: submit.ItemIDs(p, child.FlowID, next, min(child.Total, next+worker.ResultsPerCall)),
	})
	if err != nil {
		return nil, err
	}
	items := make([]MapItem, len(reply.Executions))
	for i, e := range reply.Executions {
		items[i] = MapItem{
			Index: next + i, Name: flowgraph.ItemName(next + i), State: enginecore.PublicState(e.State), Attempts: int(e.Attempts),
		}
		items[i].Reason, items[i].Category = engine.PlainFailure(e.Reason, e.Category)
		if e.Outcome == "success" {
			items[i].Result = e.Result
		}
	}
	if len(items) == 0 {
		return nil, fmt.Errorf("the engine gave none of %d items", child.Total-next)
	}
	return items, nil
}
