package runtime

import (
	"context"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// awaitResult returns when the run is over.
func (c *Client) awaitResult(ctx context.Context, flowName, runID string, id enginecore.FlowID, p enginecore.Partition) (enginerpc.FlowResultReply, error) {
	if err := c.ready(); err != nil {
		return enginerpc.FlowResultReply{}, err
	}
	return c.submitter.AwaitResult(ctx, flowName, runID, id, p)
}
