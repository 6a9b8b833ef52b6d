package runtime

import (
	"context"

	"github.com/flowfabric/flowfabric-go/runtime/auditlog"
	"github.com/flowfabric/flowfabric-go/runtime/intercept"
)

// Purge deletes a run that is over, with everything that belongs to it: nodes, results, events and its own budgets.
// Keepers delete its child runs shortly after. If the call is interrupted, repeat it. The run id can be used again
// afterwards. The error wraps ErrRunOpen while a node of the run is open, ErrRunNotFound, or in contract mode
// ErrNotInContract.
func (r *RunRef) Purge(ctx context.Context) error {
	if r.isIntercepted() {
		return r.intercept(ctx, intercept.Purge, "", func(ctx context.Context, r *RunRef) error { return r.Purge(ctx) })
	}
	if err := r.ready(ctx); err != nil {
		return err
	}
	return r.client.audited(ctx, r.auditEntry(auditlog.PurgeRun, ""), func() error {
		return r.client.submitter.Purge(ctx, r.flow, r.id, r.flowID, r.partition)
	})
}
