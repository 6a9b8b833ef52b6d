package runtime

import (
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/interceptor"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
)

// Purge deletes a run that is over, with everything that belongs to it: nodes, results, events, its own budgets and its
// child runs. Of more than 1,000 child runs, and of those that are still ending, keepers delete the rest shortly after.
// If the call is interrupted, repeat it. The run id can be used again afterwards; while former child runs are left,
// maps and sub-flows of the new run can fail or take the results of those. The error wraps ErrRunOpen while a node of
// the run is open, ErrNotFound, or in contract mode ErrNotInContract.
func (r *RunRef) Purge(ctx context.Context) error { return r.purge(ctx, time.Time{}) }

// PurgeIfClosedAt is Purge for a program that decides by a description or a summary that it has read: it purges the run
// only while its end is the one at closedAt, the ClosedAt of that description or summary. The engine compares, in
// milliseconds, and begins to purge in one atomic call. The error also wraps ErrRunOpen if the run was run again and is
// open, and enginecore.ErrChangedMeanwhile if it has ended again; nothing was changed then. A zero time is ErrInvalid.
func (r *RunRef) PurgeIfClosedAt(ctx context.Context, closedAt time.Time) error {
	if err := r.ready(ctx); err != nil {
		return err
	}
	if closedAt.IsZero() {
		return r.errorf("purge", invalid("closedAt is zero: name the ClosedAt of a run that is over"))
	}
	return r.purge(ctx, closedAt)
}

// purge deletes a run that is over; unless closedAt is zero, only one with that end.
func (r *RunRef) purge(ctx context.Context, closedAt time.Time) error {
	if r.isIntercepted() {
		return r.intercept(ctx, interceptor.Purge, "", func(ctx context.Context, r *RunRef) error {
			return r.purge(ctx, closedAt)
		})
	}
	if err := r.ready(ctx); err != nil {
		return err
	}
	return r.client.audited(ctx, r.auditEntry(auditlink.PurgeRun, ""), func(ctx context.Context) error {
		return r.client.submitter.Purge(ctx, r.flow, r.id, r.flowID, r.partition, closedAt)
	})
}
