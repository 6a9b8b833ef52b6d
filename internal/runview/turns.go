package runview

import (
	"context"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// Turns returns the turns of a loop so far, the first one first; the last one may be running.
func (r *Reader) Turns(ctx context.Context, node string) ([]fabrictype.ChildRun, error) {
	if _, err := r.Session.Library("loops (flow.Loop)"); err != nil {
		return nil, err
	}
	d, err := r.Describe(ctx, Request{})
	if err != nil {
		return nil, err
	}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if n.Name != node {
			continue
		}
		if spec := d.Node(node); spec == nil || spec.Loop == nil {
			return nil, engine.ErrNoTurns
		}
		return r.describeTurns(ctx, n, d.kept[node])
	}
	return nil, engine.ErrUnknownNode
}

// describeTurns describes the runs that a loop has kept, and the current one.
func (r *Reader) describeTurns(
	ctx context.Context, n *fabrictype.Node, kept []enginecore.FlowID,
) ([]fabrictype.ChildRun, error) {
	turns := make([]fabrictype.ChildRun, len(kept))
	var asking errgroup.Group
	asking.SetLimit(listConcurrency)
	for i, id := range kept {
		turns[i] = fabrictype.ChildRun{Turn: i + 1, FlowID: string(id)}
		asking.Go(func() error { return r.describeChild(ctx, &turns[i]) })
	}
	if err := asking.Wait(); err != nil {
		return nil, err
	}
	if n.Child != nil {
		last := *n.Child
		last.Turn = len(turns) + 1
		turns = append(turns, last)
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
