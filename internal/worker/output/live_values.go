package output

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/worker/attempt"
	"github.com/flowfabric/flowfabric-go/internal/worker/lease"
)

// Publish stores a live value of an attempt, for activity.Publish.
func Publish(ctx context.Context, a *attempt.Attempt, key string, data []byte) error {
	store, err := a.Run.Session.Library("live values (activity.Publish)")
	if err != nil {
		return activity.NonRetryable(err)
	}
	call := enginerpc.PutLiveValueCall{
		Partition: a.Shard.Partition, ExecutionID: a.Claimed.ExecutionID, LeaseID: a.Claimed.LeaseID,
		LeaseEpoch: a.Claimed.LeaseEpoch, AttemptID: a.Claimed.AttemptID, ValueKey: key, Value: data,
	}
	err = a.RetryUntilKnown(ctx, func() error {
		_, err := store.PutLiveValue(ctx, call)
		return err
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errorcode.InvalidInput):
		return activity.NonRetryable(fmt.Errorf("%w %q: %w", activityspec.ErrLiveValue, key, err))
	case lease.IsFence(err):
		return fmt.Errorf("publish %q: %w: %w", key, engine.ErrLeaseLost, err)
	}
	return fmt.Errorf("publish %q: %w", key, err)
}
