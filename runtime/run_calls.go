package runtime

import (
	"context"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// executionID returns the id under which the engine runs a node.
func (r *RunRef) executionID(ctx context.Context, node string) (enginecore.ExecutionID, error) {
	return r.client.session.ExecutionID(ctx, r.at(), node)
}

// drain performs the rest of the work of a call that was too large for one step.
func (c *Client) drain(ctx context.Context, p keyspace.Partition) { c.session.Drain(ctx, p) }
