package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/runview"
)

// Diff compares the run with another one in their present states: graphs, inputs, and of each node state, result,
// failure and duration. Of each value it reads 64 KiB. Changes during the call may be included in part. The error wraps
// ErrNotFound when one of the runs does not exist.
func (r *RunRef) Diff(ctx context.Context, other *RunRef) (*fabrictype.RunDiff, error) {
	if err := errors.Join(r.ready(ctx), other.ready(ctx)); err != nil {
		return nil, fmt.Errorf("compare runs: %w", err)
	}
	d, err := runview.Diff(ctx, r.reader(), other.reader())
	if err != nil {
		return nil, fmt.Errorf("compare runs: %w", err)
	}
	return d, nil
}
