package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
)

// Pauses between two tries of a call while the engine is unavailable.
const (
	// reportPause is the pause of calls for a leased execution.
	reportPause = 100 * time.Millisecond
	// claimPause is the pause of claims, and that of a shard after a failed claim of it.
	claimPause = 200 * time.Millisecond
)

// isFence reports whether an error says that the caller does not hold the lease of the execution.
func isFence(err error) bool {
	for _, code := range []enginecore.Code{
		enginecore.ErrExecutionNotActive, enginecore.ErrLeaseRevoked, enginecore.ErrLeaseExpired,
		enginecore.ErrStaleLease,
		enginecore.ErrExecutionNotFound,
	} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

// stepError returns the error that a function gets if the engine did not record its step.
func stepError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, enginecore.ErrJournalFull):
		err = fmt.Errorf("%w: activity.ContinueAsNew goes on with an empty journal", err)
		return activity.NonRetryable(activity.Category(err, engine.CategoryJournalFull))
	case engine.IsUnavailable(err):
		return err
	case isFence(err):
		return fmt.Errorf("%w: %w", engine.ErrLeaseLost, err)
	}
	return activity.NonRetryable(err)
}
