package runtime

import (
	"context"
)

// Purge removes the run, which must be over, with everything that belongs to it: nodes, results, events, budgets of its
// own. It may be called again when it was interrupted, and the run's id may be used again afterwards. The error wraps
// ErrRunOpen while a node of the run is open, ErrRunNotFound, or in contract mode ErrNotInContract.
func (r *RunRef) Purge(ctx context.Context) error {
	if err := r.ready(); err != nil {
		return err
	}
	return r.client.submitter.Purge(ctx, r.flow, r.id, r.flowID, r.partition)
}
