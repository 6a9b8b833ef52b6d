package lease

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
)

// StepError returns the error that a function gets if the engine did not record its step.
func StepError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, errorcode.JournalFull):
		err = fmt.Errorf("%w: activity.ContinueAsNew goes on with an empty journal", err)
		return activity.NonRetryable(activity.Category(err, engine.CategoryJournalFull))
	case retry.IsUnavailable(err):
		return err
	case IsFence(err):
		return fmt.Errorf("%w: %w", engine.ErrLeaseLost, err)
	}
	return activity.NonRetryable(err)
}
