package archive

import (
	"context"
	"errors"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// purge purges the archived runs whose end is longer ago than PurgeAfter, each only while its end is the archived one.
// Child runs go with their parents.
func (w *writer) purge(ctx context.Context) error {
	query := runtime.RunQuery{Sort: runtime.FirstEndedFirst, FinishedBefore: time.Now().Add(-w.PurgeAfter)}
	for s, err := range w.client.Runs(ctx, query) {
		if err != nil {
			return err
		}
		if !w.known[end{s.FlowID, s.ClosedAt.UnixMilli()}] {
			continue // it has ended since the runs were archived
		}
		whole, err := w.wholly(ctx, s)
		if err != nil {
			return err
		}
		if !whole {
			w.report.Changed++
			continue
		}
		w.at("purge")
		err = w.client.Run(s.Flow, s.Run).PurgeIfClosedAt(ctx, s.ClosedAt)
		switch {
		case errors.Is(err, runtime.ErrRunOpen), errors.Is(err, runtime.ErrRunNotFound),
			errors.Is(err, enginecore.ErrChangedMeanwhile):
			w.report.Changed++
		case err != nil:
			return err
		default:
			w.report.Purged++
		}
	}
	return nil
}

// wholly reports whether the archive has a run as it is now, and its child runs.
func (w *writer) wholly(ctx context.Context, s runtime.RunSummary) (bool, error) {
	pages, err := pagesOf(ctx, w.client.Run(s.Flow, s.Run), s)
	if errors.Is(err, errChanged) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, page := range pages {
		for i := range page.Nodes {
			child := page.Nodes[i].Child
			if child == nil || child.State == "" { // it was not created, or was purged
				continue
			}
			if has, err := w.hasChild(ctx, child.Flow, child.Run, child.FlowID); err != nil || !has {
				return false, err
			}
		}
	}
	return true, nil
}

// hasChild reports whether the archive has a child run as it is now, and its own child runs.
func (w *writer) hasChild(ctx context.Context, flow, run string, id enginecore.FlowID) (bool, error) {
	d, err := w.client.Run(flow, run).Describe(ctx)
	if errors.Is(err, runtime.ErrRunNotFound) {
		return true, nil // it was purged
	}
	if err != nil {
		return false, err
	}
	if d.ClosedAt.IsZero() || !w.known[end{id, d.ClosedAt.UnixMilli()}] {
		return false, nil
	}
	return w.wholly(ctx, runtime.RunSummary{Flow: flow, Run: run, FlowID: id, ClosedAt: d.ClosedAt})
}
