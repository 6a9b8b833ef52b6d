package runtime

import (
	"context"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// Turns returns the turns of a node of flow.Loop so far, the first one first; the last one may be running. The error
// wraps ErrNotFound, also for a node that is not a loop, or in contract mode ErrNotInContract.
func (r *RunRef) Turns(ctx context.Context, node string) ([]fabrictype.Turn, error) {
	if err := r.ready(ctx); err != nil {
		return nil, err
	}
	turns, err := r.turns(ctx, node)
	if err != nil {
		return nil, r.errorf("turns of node "+node+" of", err)
	}
	return turns, nil
}

func (r *RunRef) turns(ctx context.Context, node string) ([]fabrictype.Turn, error) {
	if _, err := r.client.session.Library("loops (flow.Loop)"); err != nil {
		return nil, err
	}
	d, err := r.Describe(ctx)
	if err != nil {
		return nil, err
	}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if n.Name != node {
			continue
		}
		if spec := d.specs[node]; spec == nil || spec.Loop == nil {
			return nil, engine.ErrNoTurns
		}
		return r.client.describeTurns(ctx, n, d.kept[node])
	}
	return nil, engine.ErrUnknownNode
}

// describeTurns describes the runs that a loop has kept, and the current one.
func (c *Client) describeTurns(
	ctx context.Context, n *fabrictype.Node, kept []enginecore.FlowID,
) ([]fabrictype.Turn, error) {
	turns := make([]fabrictype.Turn, len(kept))
	var asking errgroup.Group
	asking.SetLimit(listConcurrency)
	for i, id := range kept {
		turns[i] = fabrictype.Turn{Number: i + 1, ChildRun: fabrictype.ChildRun{FlowID: string(id)}}
		asking.Go(func() error { return c.describeChild(ctx, &turns[i].ChildRun) })
	}
	if err := asking.Wait(); err != nil {
		return nil, err
	}
	if n.Child != nil {
		turns = append(turns, fabrictype.Turn{Number: len(turns) + 1, ChildRun: *n.Child})
	}
	return turns, nil
}

// keptChildren returns the child runs that a node had before and has kept.
func keptChildren(n enginerpc.DescribedNode) (ids []enginecore.FlowID) {
	for id := range strings.SplitSeq(n.ChildKept, ",") {
		ids = append(ids, enginecore.FlowID(id))
	}
	return ids
}
