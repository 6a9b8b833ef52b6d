package runtime

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
)

// atPath returns the run and the name of the node that a path leads to. A path is the name of a node, or the names of
// nodes with child runs and then of a node of the last one, with slashes between: "send/item-3". The error wraps
// ErrNotFound for a node that does not exist, or that has no child run, or none yet.
func (r *RunRef) atPath(ctx context.Context, path string) (at *RunRef, node string, err error) {
	at, node = r, path
	for {
		name, rest, nested := strings.Cut(node, "/")
		if !nested {
			return at, node, nil
		}
		n, err := at.describeOne(ctx, name, describeRequest{})
		if err != nil {
			return nil, "", err
		}
		if n == nil {
			return nil, "", fmt.Errorf("node %q: %w", name, engine.ErrUnknownNode)
		}
		if n.Child == nil || n.Child.State == "" {
			return nil, "", fmt.Errorf("%w: node %q has no child run at present", engine.ErrUnknownNode, name)
		}
		at, node = r.client.Run(n.Child.Flow, n.Child.Run), rest
	}
}

// describeOne returns one node with the data that q requests; nil when the run has no such node.
func (r *RunRef) describeOne(ctx context.Context, node string, q describeRequest) (*fabrictype.Node, error) {
	q.paged, q.nodes = true, 1
	d, _, err := r.readDescription(ctx, describeRequest{paged: true, nodes: 1})
	if err != nil {
		return nil, runFault(err)
	}
	place, known := d.places[node]
	if !known {
		return nil, nil
	}
	if q.cursor = strconv.Itoa(place); place == 0 {
		q.cursor = ""
	}
	if d, err = r.describe(ctx, q); err != nil || len(d.Nodes) == 0 || d.Nodes[0].Name != node {
		return nil, err
	}
	return &d.Nodes[0], nil
}
