package runtime

import (
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/flow"
)

// Retention says how long runs are kept after they ended in one of the outcomes, all of them when none is named, where
// their flow does not say so itself. It is stored with a run when it starts, so a later change counts for later runs.
// Keepers purge what is due. Defaults to DefaultRetention; flow.KeepForever keeps runs until they are purged by hand.
func Retention(keep time.Duration, outcomes ...flow.Outcome) OpenOption {
	return func(c *openConfig) { c.keep = c.keep.With(keep, outcomes...) }
}

// Purge removes the run, which must be over, with everything that belongs to it: nodes, results, events, budgets of its
// own. It may be called again when it was interrupted, and the run's id may be used again afterwards. The error wraps
// ErrRunOpen while a node of the run is open, ErrRunNotFound, or in contract mode ErrNotInContract.
func (r *RunRef) Purge(ctx context.Context) error {
	if err := r.ready(); err != nil {
		return err
	}
	return r.client.submitter.Purge(ctx, r.flow, r.id, r.flowID, r.partition)
}
