package runtime

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"golang.org/x/sync/errgroup"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// listConcurrency bounds how many partitions are queried at a time.
const listConcurrency = 16

// nameChildren adds the states of child runs, and the activities of the items of maps.
func (c *Client) nameChildren(ctx context.Context, d *RunDescription) error {
	var asking errgroup.Group
	asking.SetLimit(listConcurrency)
	for i := range d.Nodes {
		n := &d.Nodes[i]
		switch n.Activity {
		case submit.MapKind, submit.SubKind:
			n.Activity = ""
			if d.graph == nil {
				break
			}
			if spec := d.graph.Node(n.Name); spec != nil {
				n.Activity = spec.Activity
			}
		}
		if n.Child != nil {
			asking.Go(func() error { return c.describeChild(ctx, n.Child) })
		}
	}
	return asking.Wait()
}

// firstCursor reads a page of a run from the first node on, without its definition.
const firstCursor = "0"

func (c *Client) describeChild(ctx context.Context, child *fabrictype.ChildRun) error {
	p, err := c.session.Core.FlowPartition(enginecore.FlowID(child.FlowID))
	if err != nil {
		return err
	}
	r, err := c.session.Backend.DescribeFlow(ctx,
		enginerpc.DescribeFlowCall{
			Partition: p, FlowID: enginecore.FlowID(child.FlowID), Cursor: firstCursor, Limit: 1,
		})
	if errors.Is(err, enginecore.ErrFlowNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	child.Flow, child.Run, child.State = r.FlowName, r.RunID, runState(r.State, r.Outcome)
	child.Total, child.Open = int(r.NodeCount), int(r.OpenNodes)
	child.Failed, child.Expired = int(r.NodesFailed), int(r.NodesExpired)
	child.Cancelled, child.Skipped = int(r.NodesCancelled), int(r.NodesSkipped)
	child.Succeeded = child.Total - child.Open - child.Failed - child.Expired - child.Cancelled - child.Skipped
	return nil
}

// Items yields the items of a map node in the order of the list, beginning at the index from. It reads them in pages,
// so changes during the iteration may be included in part. The items of an empty list are none, without an error. An
// error is yielded last. It wraps ErrNotFound, also for a node that is not a map and for a map that has not started, or
// in contract mode ErrNotInContract.
func (r *RunRef) Items(ctx context.Context, node string, from int) iter.Seq2[fabrictype.MapItem, error] {
	return func(yield func(fabrictype.MapItem, error) bool) {
		if err := r.ready(ctx); err != nil {
			yield(fabrictype.MapItem{}, err)
			return
		}
		fail := func(err error) { yield(fabrictype.MapItem{}, r.errorf("items of node "+node+" of", err)) }
		child, err := r.childOf(ctx, node)
		if err != nil {
			fail(err)
			return
		}
		for next := max(0, from); child != nil && next < child.Total; {
			page, err := r.client.readItems(ctx, child, next)
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
func (r *RunRef) childOf(ctx context.Context, node string) (*fabrictype.ChildRun, error) {
	d, err := r.Describe(ctx)
	if err != nil {
		return nil, err
	}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if n.Name != node {
			continue
		}
		spec := d.graph.Node(node)
		switch {
		case spec == nil || spec.Map == nil:
			return nil, fmt.Errorf("%w: the node is not a map", engine.ErrNoItems)
		case n.Child != nil:
			return n.Child, nil
		case n.State == fabrictype.NodeSucceeded:
			return nil, nil
		}
		return nil, fmt.Errorf("%w: the node is %s", engine.ErrNoItems, n.State)
	}
	return nil, engine.ErrUnknownNode
}

func (c *Client) readItems(ctx context.Context, child *fabrictype.ChildRun, next int) ([]fabrictype.MapItem, error) {
	p, err := c.session.Core.FlowPartition(enginecore.FlowID(child.FlowID))
	if err != nil {
		return nil, err
	}
	core, err := library(ctx, c, "maps")
	if err != nil {
		return nil, err
	}
	reply, err := core.ReadResults(ctx, enginerpc.ReadResultsCall{
		Partition: p,
		Executions: submit.ItemIDs(
			p, enginecore.FlowID(child.FlowID), next, min(child.Total, next+submit.ResultsPerCall),
		),
	})
	if err != nil {
		return nil, err
	}
	items := make([]fabrictype.MapItem, len(reply.Executions))
	for i, e := range reply.Executions {
		items[i] = fabrictype.MapItem{
			Index: next + i, Name: flowgraph.ItemName(next + i), State: fabrictype.NodeState(e.State),
			Attempts: int(e.Attempts),
		}
		items[i].Reason, items[i].Category = engine.PlainFailure(e.Reason, e.Category)
		if e.Outcome == "success" {
			items[i].Result = newValue(jsonCodec, len(e.Result), e.Result)
		}
	}
	if len(items) == 0 {
		return nil, fmt.Errorf("the engine returned none of the items %d to %d", next, child.Total-1)
	}
	return items, nil
}
