package runview

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
)

// DescribeNode returns one node as Describe does, with the data that q adds. The error wraps [engine.ErrRunNotFound],
// or [engine.ErrUnknownNode] when the run has no such node.
func (r *Reader) DescribeNode(ctx context.Context, node string, q Request) (*fabrictype.Node, error) {
	n, err := r.describeOne(ctx, node, q)
	if err == nil && n == nil {
		err = engine.ErrUnknownNode
	}
	if err != nil {
		return nil, r.Run.Errorf("describe node "+node+" of", err)
	}
	return n, nil
}

// describeOne returns one node with the data that q requests; nil when the run has no such node.
func (r *Reader) describeOne(ctx context.Context, node string, q Request) (*fabrictype.Node, error) {
	q.Paged, q.Nodes = true, 1
	d, _, err := r.readDescription(ctx, Request{Paged: true, Nodes: 1})
	if err != nil {
		return nil, engine.RunFault(err)
	}
	place, known := d.Places[node]
	if !known {
		return nil, nil
	}
	if q.Cursor = strconv.Itoa(place); place == 0 {
		q.Cursor = ""
	}
	if d, err = r.Describe(ctx, q); err != nil || len(d.Nodes) == 0 || d.Nodes[0].Name != node {
		return nil, err
	}
	return &d.Nodes[0], nil
}

// AtPath returns the run and the name of the node that a path leads to. A path is the name of a node, or the names of
// nodes with child runs and then of a node of the last one, with slashes between: "send/item-3". The error wraps
// ErrUnknownNode for a node that does not exist, or that has no child run, or none yet.
func (r *Reader) AtPath(ctx context.Context, path string) (at engine.Run, node string, err error) {
	at, node = r.Run, path
	for {
		name, rest, nested := strings.Cut(node, "/")
		if !nested {
			return at, node, nil
		}
		n, err := (&Reader{r.Session, at}).describeOne(ctx, name, Request{})
		if err != nil {
			return at, "", err
		}
		if n == nil {
			return at, "", fmt.Errorf("node %q: %w", name, engine.ErrUnknownNode)
		}
		if n.Child == nil || n.Child.State == "" {
			return at, "", fmt.Errorf("%w: node %q has no child run at present", engine.ErrUnknownNode, name)
		}
		at = engine.Run{Flow: n.Child.Flow, ID: n.Child.Run, FlowID: enginecore.FlowID(n.Child.FlowID)}
		if at.Partition, err = r.Session.Core.FlowPartition(at.FlowID); err != nil {
			return at, "", err
		}
		node = rest
	}
}
