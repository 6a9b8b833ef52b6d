package graphtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Steps within steps, and steps that run at once, keep their results over waits and retries.
func TestNestedAndStartedSteps(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		fetch := func(ctx context.Context, what string) (string, error) {
			return activity.Step(ctx, "fetch", func(context.Context) (string, error) { return what, nil })
		}
		failed := false
		trip := activity.New("trip", func(ctx context.Context, _ int) ([]string, error) {
			prices, err := activity.Step(ctx, "prices", func(ctx context.Context) (string, error) { return fetch(ctx, "prices") })
			if err != nil {
				return nil, err
			}
			all := []string{prices}
			var pages []*activity.Future[string]
			for i := range 5 {
				pages = append(pages, activity.Go(ctx, "page", func(ctx context.Context) (string, error) {
					return fetch(ctx, fmt.Sprint("page ", i))
				}))
			}
			for _, page := range pages {
				got, err := page.Result(ctx)
				if err != nil {
					return nil, err
				}
				all = append(all, got)
			}
			if err := activity.Sleep(ctx, "nap", time.Millisecond); err != nil {
				return nil, err
			}
			customers, err := fetch(ctx, "customers")
			if err == nil && !failed {
				failed, err = true, errors.New("again")
			}
			return append(all, customers), err
		}, activity.Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: 2, Factor: 1}))
		b.Keeper(t)
		b.Worker(t, []activity.Handler{trip})
		run, err := runtime.Start(ctx, b.Client, fixture.OneNode(t, "nested", trip), 1)
		require.NoError(t, err)
		got, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, []string{"prices", "page 0", "page 1", "page 2", "page 3", "page 4", "customers"}, got)
		b.Settle(t)
	})
}

// Of the reports of a burst the last one is kept: while the function continues, and when it ends.
func TestLastProgressIsKept(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		seen := make(chan struct{})
		upload := activity.New("upload", func(ctx context.Context, n int) (int, error) {
			if err := errors.Join(activity.Progress(ctx, 0, "begins"), activity.Progress(ctx, 60, "the rest")); err != nil {
				return 0, err
			}
			<-seen
			for i := range 50 {
				if err := activity.Progress(ctx, float64(60+i*40/49), "ends"); err != nil {
					return 0, err
				}
			}
			if n == 1 {
				return 0, activity.NonRetryable(errors.New("no"))
			}
			return n, nil
		})
		b.Keeper(t)
		def := fixture.OneNode(t, "uploads", upload)
		b.Worker(t, def.Handlers())
		for n := range 2 {
			run, err := runtime.Start(ctx, b.Client, def, n)
			require.NoError(t, err)
			if n == 0 {
				enginetest.Eventually(t, func() string {
					return not(describedNode(t, run.RunRef).Message == "the rest", "the last report")
				})
				close(seen)
			}
			_, err = run.Result(ctx)
			require.Equal(t, n == 1, err != nil, "%v", err)
			d := describedNode(t, run.RunRef)
			require.Equal(t, "ends", d.Message)
			require.InDelta(t, 100, d.Percent, 0)
		}
	})
}

// nested is a JSON list in lists.
func nested(depth int) json.RawMessage {
	return json.RawMessage(strings.Repeat("[", depth) + strings.Repeat("]", depth))
}

// A signal that is nested too deep is refused before it is acknowledged; up to that depth it comes as it is. A timer finds
// its time in an input of any depth.
func TestDeepJSON(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		type order struct {
			Deep json.RawMessage `json:"deep"`
			Text string          `json:"text"`
			At   time.Time       `json:"at"`
		}
		begin := activity.New("begin", func(context.Context, order) (int, error) { return 1, nil })
		f := flow.New[order, []activity.Signal[json.RawMessage]]("deep")
		until := flow.Until(f, "until", flow.TimeIn(f.Input(), "at"))
		gate := flow.WaitpointSignals[json.RawMessage](f, "gate", flow.After(flow.Node(f, "begin", begin, f.Input(), flow.After(until))))
		flow.Return(f, gate)
		def, err := f.Build()
		require.NoError(t, err)
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		past := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
		run, err := runtime.Start(ctx, b.Client, def, order{Deep: nested(3000), Text: `}"{`, At: past})
		require.NoError(t, err)
		send := func(payload json.RawMessage) error {
			_, err := run.SignalWait(ctx, runtime.WaitName{Node: "gate"}, runtime.Signal{Name: "go", Payload: payload})
			return err
		}
		for _, depth := range []int{1001, 9000} {
			err = send(nested(depth))
			require.ErrorIs(t, err, runtime.ErrInvalid)
			require.ErrorContains(t, err, fmt.Sprintf("nested %d deep, at most 1000", depth))
		}
		require.NoError(t, send(nested(1000)))
		got, err := run.Result(ctx)
		require.NoError(t, err)
		require.Len(t, got, 1)
		require.Equal(t, string(nested(1000)), string(got[0].Payload))
	})
}

// JSON values keep their keys in the given order: items of maps, constants, and results.
func TestBytesOfJSONAreKept(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		const text = `{"z":1.0,"a":{"y":1E+2,"b":"<"},"z":2}`
		same := activity.New("same", func(_ context.Context, in json.RawMessage) (string, error) { return string(in), nil })
		join := activity.New("join", func(_ context.Context, in []string) (string, error) { return strings.Join(in, "\n"), nil })
		f := flow.New[[]json.RawMessage, string]("bytes")
		items := flow.Map(f, "items", same, f.Input())
		constant := flow.Node(f, "constant", same, flow.Const(json.RawMessage(text)))
		flow.Return(f, flow.Node(f, "join", join, flow.List(flow.Node(f, "of-items", join, items), constant)))
		def, err := f.Build()
		require.NoError(t, err)
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, []json.RawMessage{json.RawMessage(text), json.RawMessage(text)})
		require.NoError(t, err)
		got, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, text+"\n"+text+"\n"+text, got)
	})
}
