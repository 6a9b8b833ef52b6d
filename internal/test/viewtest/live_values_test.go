package viewtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A client reads the value that a function has published last, while it runs and afterwards, through retries and a
// rerun.
func TestLiveValues(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		reached, proceed := make(chan int), make(chan struct{})
		work := activity.New("work", func(ctx context.Context, n int) (int, error) {
			info, _ := activity.Info(ctx)
			for i := range 3 {
				if err := activity.Publish(ctx, "at", map[string]int{"step": i}); err != nil {
					return 0, err
				}
			}
			if err := activity.Publish(ctx, "raw", json.RawMessage(fmt.Sprintf(`{"attempt": %d}`, info.Attempt))); err != nil {
				return 0, err
			}
			reached <- info.Attempt
			<-proceed
			if info.Attempt == 1 {
				return 0, activity.RetryAfter(errors.New("again"), 1)
			}
			return n, nil
		})
		def := fixture.OneNode(t, "plain", work)
		run, err := runtime.Start(ctx, b.Client, def, 7)
		require.NoError(t, err)
		_, err = run.Value(ctx, "node", "at")
		require.ErrorIs(t, err, engine.ErrNoValue)
		_, err = run.Value(ctx, "none", "at")
		require.ErrorIs(t, err, engine.ErrUnknownNode)
		_, err = run.Value(ctx, "node", "a b")
		require.ErrorIs(t, err, runtime.ErrInvalid)
		b.Worker(t, []activity.Handler{work})
		b.Keeper(t)
		check := func(attempt int) {
			value, err := run.Value(ctx, "node", "at")
			require.NoError(t, err)
			var at map[string]int
			require.NoError(t, value.Decode(&at))
			require.Equal(t, 2, at["step"])
			require.Equal(t, attempt, value.Attempt)
			require.NotZero(t, value.At)
			raw, err := run.Value(ctx, "node", "raw")
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf(`{"attempt":%d}`, attempt), string(raw.JSON))
			d, err := run.Describe(ctx)
			require.NoError(t, err)
			live := d.Nodes[0].LiveValues
			require.Len(t, live, 2)
			require.Equal(t, value.At, live[0].At)
			require.Equal(t, []any{"at", len(value.JSON), attempt}, []any{live[0].Key, live[0].Size, live[0].Attempt})
		}
		for attempt := 1; attempt <= 2; attempt++ {
			require.Equal(t, attempt, <-reached)
			check(attempt)
			proceed <- struct{}{}
		}
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 7, out)
		check(2)
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunAll))
		require.Equal(t, 3, <-reached)
		check(3)
		proceed <- struct{}{}
		_, err = run.Result(ctx)
		require.NoError(t, err)
		b.Settle(t)
		require.NoError(t, run.Purge(ctx))
		_, err = run.Value(ctx, "node", "at")
		require.ErrorIs(t, err, engine.ErrRunNotFound)
		b.Settle(t)
	})
}

// An invalid value is refused by name, without a retry, and the bounds of a node hold.
func TestLiveValueBounds(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		work := activity.New("work", func(ctx context.Context, what string) (int, error) {
			switch what {
			case "keys":
				for i := range 17 {
					if err := activity.Publish(ctx, fmt.Sprint("key-", i), i); err != nil {
						return i, fmt.Errorf("after %d: %w", i, err)
					}
				}
			case "bytes":
				for i := range 5 {
					if err := activity.Publish(ctx, fmt.Sprint("key-", i), strings.Repeat("x", 15<<10)); err != nil {
						return i, fmt.Errorf("after %d: %w", i, err)
					}
				}
			case "replace":
				for range 40 {
					if err := activity.Publish(ctx, "key", strings.Repeat("x", 15<<10)); err != nil {
						return 0, err
					}
				}
			case "size":
				return 0, activity.Publish(ctx, "key", strings.Repeat("x", 16<<10))
			case "name":
				return 0, activity.Publish(ctx, "a key", 1)
			case "type":
				return 0, activity.Publish(ctx, "key", make(chan int))
			}
			return 1, nil
		})
		def := fixture.OneNode(t, "plain", work)
		b.Worker(t, []activity.Handler{work})
		b.Keeper(t)
		for what, text := range map[string]string{
			"keys": "after 16: ", "bytes": "after 4: ", "replace": "", "size": "at most 16384 are allowed", "name": `"a key"`,
			"type": "chan int",
		} {
			run, err := runtime.Start(ctx, b.Client, def, what)
			require.NoError(t, err)
			_, err = run.Result(ctx)
			if text == "" {
				require.NoError(t, err)
				continue
			}
			var failure *runtime.RunError
			require.ErrorAs(t, err, &failure, what)
			require.Contains(t, failure.Reason, text)
			require.Equal(t, 1, failure.Failures[0].Attempts)
			require.ErrorIs(t, failure, activityspec.ErrLiveValue)
		}
		b.Settle(t)
	})
}

// In contract mode live values are refused by name.
func TestContractLiveValues(t *testing.T) {
	t.Parallel()
	enginetest.EachContract(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		work := activity.New("work", func(ctx context.Context, n int) (int, error) {
			return n, activity.Publish(ctx, "at", n)
		})
		b.Worker(t, []activity.Handler{work})
		b.Keeper(t)
		run, err := runtime.Start(ctx, b.Client, fixture.OneNode(t, "plain", work), 1)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrNotInContract)
		require.ErrorContains(t, err, "live values (activity.Publish)")
		_, err = run.Value(ctx, "node", "at")
		require.ErrorIs(t, err, runtime.ErrNotInContract)
	})
}
