package archive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// purge purges the archived runs whose end is longer ago than PurgeAfter, each only while its end is the archived one.
// Child runs go with their parents.
func (w *writer) purge(ctx context.Context) error {
	query := runtime.RunQuery{Sort: "finished", FinishedBefore: time.Now().Add(-w.PurgeAfter)}
	for s, err := range w.client.Runs(ctx, query) {
		if err != nil {
			return err
		}
		has, err := w.has(enginecore.FlowID(s.FlowID), s.ClosedAt)
		if err != nil {
			return err
		}
		if !has {
			continue // it has ended since the runs were archived, or it was left out
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
		case errors.Is(err, runtime.ErrRunOpen), errors.Is(err, engine.ErrRunNotFound),
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

// has reports whether the archive has an end of a run. It reads all that the archive has of it: after the purge, this
// is the only copy.
func (w *writer) has(id enginecore.FlowID, at time.Time) (bool, error) {
	e, has, err := w.known.find(w.manifest, id, at)
	if err != nil {
		return false, err
	}
	if !has {
		w.leftOut = w.leftOut || at.Before(w.since)
		return false, nil
	}
	if err := w.known.verify(e); err != nil {
		return false, fmt.Errorf("run %s of flow %s is not purged: %s: %w: restore it from a copy", e.Run, e.Flow,
			e.segment+segmentEnd, err)
	}
	return true, nil
}

// wholly reports whether the archive has a run as it is now, and its child runs.
func (w *writer) wholly(ctx context.Context, s fabrictype.Run) (bool, error) {
	for page, err := range pagesOf(ctx, w.client.Run(s.Flow, s.Run), s, runtime.DescribeOptions{}) {
		if errors.Is(err, errChanged) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		for i := range page.Nodes {
			child := page.Nodes[i].Child
			if child == nil || child.State == "" { // it was not created, or was purged
				continue
			}
			if has, err := w.hasChild(ctx, child.Flow, child.Run, enginecore.FlowID(child.FlowID)); err != nil || !has {
				return false, err
			}
		}
	}
	return true, nil
}

// hasChild reports whether the archive has a child run as it is now, and its own child runs.
func (w *writer) hasChild(ctx context.Context, flow, run string, id enginecore.FlowID) (bool, error) {
	d, err := w.client.Run(flow, run).Describe(ctx)
	if errors.Is(err, engine.ErrRunNotFound) {
		return true, nil // it was purged
	}
	if err != nil {
		return false, err
	}
	if d.ClosedAt.IsZero() {
		return false, nil
	}
	if has, err := w.has(id, d.ClosedAt); err != nil || !has {
		return false, err
	}
	return w.wholly(ctx, fabrictype.Run{Flow: flow, Run: run, FlowID: string(id), ClosedAt: d.ClosedAt})
}
