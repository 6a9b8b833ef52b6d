package activity

import (
	"context"
	"fmt"

	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// maxLiveValue is the largest encoded live value: 16 KiB. The 16 values that a node may have are together at most 64
// KiB.
const maxLiveValue = 16 << 10

// Publish stores a value of the running node under a key, where RunRef.Value reads it while the function runs and
// afterwards: the current phase of the node, the place of a preview, the address of a session. The last value of a key
// wins; it stays with the node, through retries and reruns, until the run is purged. Describe lists the keys.
//
// The value is encoded as JSON; a json.RawMessage is stored without white space. The value is stored when Publish
// returns nil, by one call to the engine, which is repeated while the engine is unavailable and the lease lasts. So
// publish values that others read, a few times a second at most; Emit is for a stream of output, Progress for a
// percentage.
//
// The error matches ErrInvalid for a key that is not a name (see the package), a value without JSON form or larger
// than 16 KiB, and when the node has too many values; it is not retried then, if the function returns it. In
// contract mode it matches runtime.ErrNotInContract. When ctx has ended, it is the cause. Outside a worker Publish only
// checks.
func Publish(ctx context.Context, key string, value any) error {
	if err := activityspec.CheckName(key); err != nil {
		return NonRetryable(fmt.Errorf("%w: key: %w", activityspec.ErrLiveValue, err))
	}
	data, err := JSON{}.Encode(value)
	if err == nil {
		err = activityspec.CheckJSON(data)
	}
	switch {
	case err != nil:
		return NonRetryable(fmt.Errorf("%w %q of type %T: %w", activityspec.ErrLiveValue, key, value, err))
	case len(data) > maxLiveValue:
		return NonRetryable(fmt.Errorf("%w %q: it has %d bytes, at most %d are allowed", activityspec.ErrLiveValue, key,
			len(data), maxLiveValue))
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	values := activitycontext.LiveValuesFrom(ctx)
	if values == nil {
		return batchFault(ctx)
	}
	return values.Publish(ctx, key, data)
}
