package runtime

import (
	"context"
	"fmt"
)

// Purge removes a run that is over with everything that belongs to it: nodes, results, events, budgets of its own. It may be called again
// when it was interrupted, and the run's id may be used again afterwards. It wraps ErrRunOpen while a node of the run is
// open, and ErrRunNotFound when there is no such run.
func (c *Client) Purge(ctx context.Context, flowName, runID string) error {
	id, partition, err := c.locate(flowName, runID)
	if err != nil {
		return err
	}
	return c.submitter.Purge(ctx, flowName, runID, id, partition)
}

// Purge is Client.Purge for this run.
func (r *Run[Out]) Purge(ctx context.Context) error {
	r = r.there()
	if err := r.client.ready(); err != nil {
		return fmt.Errorf("purge run %s of flow %s: %w", r.id, r.flow, err)
	}
	return r.client.submitter.Purge(ctx, r.flow, r.id, r.flowID, r.part)
}
