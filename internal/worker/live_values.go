package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

var _ activitycontext.LiveValues = (*execution)(nil)

// Publish implements activity.Publish.
func (e *execution) Publish(ctx context.Context, key string, data []byte) error {
	a := &e.task.attempt
	store, err := engine.Capability[engine.LiveValues](a.run.session.Backend)
	if err != nil {
		return activity.NonRetryable(fmt.Errorf("%w: live values (activity.Publish)", err))
	}
	call := enginerpc.PutLiveValueCall{
		Partition: a.shard.Partition, ExecutionID: a.claimed.ExecutionID, LeaseID: a.claimed.LeaseID,
		LeaseEpoch: a.claimed.LeaseEpoch, AttemptID: a.claimed.AttemptID, ValueKey: key, Value: data,
	}
	err = a.retryUntilKnown(ctx, func() error {
		_, err := store.PutLiveValue(ctx, call)
		return err
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, enginecore.ErrInvalidInput):
		return activity.NonRetryable(fmt.Errorf("%w %q: %w", activity.ErrLiveValue, key, err))
	case isFence(err):
		return fmt.Errorf("publish %q: %w: %w", key, engine.ErrLeaseLost, err)
	}
	return fmt.Errorf("publish %q: %w", key, err)
}
