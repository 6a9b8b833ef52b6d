package activity_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
)

// Outside a worker, the function gets one item at a time.
func TestBatchOutsideWorker(t *testing.T) {
	t.Parallel()
	odd := errors.New("odd")
	a := activity.NewBatch("halve", func(_ context.Context, items []int) ([]activity.ItemResult[int], error) {
		require.Len(t, items, 1)
		if items[0]%2 == 1 {
			return []activity.ItemResult[int]{{Err: odd}}, nil
		}
		if items[0] == 0 {
			return nil, nil
		}
		return []activity.ItemResult[int]{{Value: items[0] / 2}}, nil
	})
	require.NoError(t, a.Err())
	half, err := a.Call(t.Context(), 4)
	require.NoError(t, err)
	require.Equal(t, 2, half)
	_, err = a.Call(t.Context(), 3)
	require.ErrorIs(t, err, odd)
	_, err = a.Call(t.Context(), 0)
	require.EqualError(t, err, `the function of batch activity "halve" returned 0 results for 1 items`)
}

// Options are checked, and belong to NewBatch alone.
func TestBatchOptions(t *testing.T) {
	t.Parallel()
	fn := func(context.Context, []int) ([]activity.ItemResult[int], error) { return nil, nil }
	for text, a := range map[string]activity.Handler{
		"batch size 0: must be 1 to 10000":    activity.NewBatch("a", fn, activity.BatchSize(0)),
		"batch wait 1h0m0s: must be 0 to 1m0": activity.NewBatch("a", fn, activity.BatchWait(time.Hour)),
		"BatchSize is an option of NewBatch": activity.New("a", func(context.Context, int) (int, error) { return 0, nil },
			activity.BatchSize(1)),
		"function is nil": activity.NewBatch[int, int]("a", nil),
	} {
		require.ErrorIs(t, a.Err(), activity.ErrInvalid)
		require.ErrorContains(t, a.Err(), text)
	}
}
