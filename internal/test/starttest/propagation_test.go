package starttest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/baggage"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/interceptor"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// carrying returns a context with a tenant and with baggage.
func carrying(t *testing.T, ctx context.Context, name string) context.Context {
	t.Helper()
	member, err := baggage.NewMember("user", name+"-user")
	require.NoError(t, err)
	bag, err := baggage.New(member)
	require.NoError(t, err)
	return baggage.ContextWithBaggage(context.WithValue(ctx, fixture.TenantKey{}, fixture.Tenant{Name: name}), bag)
}

func carried(ctx context.Context) string {
	value, _ := ctx.Value(fixture.TenantKey{}).(fixture.Tenant)
	return value.Name + "/" + baggage.FromContext(ctx).Member("user").Value()
}

// badPropagator breaks the rules, or panics.
type badPropagator struct{ name string }

func (p badPropagator) Inject(ctx context.Context) map[string]string {
	if size, _ := ctx.Value(badPropagator{}).(int); size > 0 {
		return map[string]string{p.name: strings.Repeat("x", size)}
	}
	return nil
}

func (p badPropagator) Extract(context.Context, map[string]string) context.Context { panic("bad") }

// Values of the context of a start reach all attempts of all activities, also of child runs and after a rerun; runs
// without have none.
func TestContextPropagation(t *testing.T) {
	t.Parallel()
	config := runtime.OpenConfig{Propagators: []interceptor.Propagator{
		interceptor.PropagateBaggage(), interceptor.PropagateValue[fixture.Tenant]("tenant", fixture.TenantKey{}), badPropagator{"big"},
	}}
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var mu sync.Mutex
		failed := make(map[string]bool)
		see := activity.New("see", func(ctx context.Context, id string) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			if !failed[id] {
				failed[id] = true
				return "", errors.New("again")
			}
			return carried(ctx), nil
		}, activity.Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: 2, Factor: 1}))
		def := fixture.OneNode(t, "plain", see)
		b.Worker(t, []activity.Handler{see})
		b.Keeper(t)
		run, err := runtime.Start(carrying(t, ctx, "shop"), b.Client, def, "one")
		require.NoError(t, err)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, "shop/shop-user", out)
		many, err := runtime.StartMany(carrying(t, ctx, "bank"), b.Client, def, []runtime.NewRun[string]{{Input: "two"}})
		require.NoError(t, err)
		require.NoError(t, many[0].Err)
		out, err = many[0].Run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, "bank/bank-user", out)
		none, err := runtime.Start(ctx, b.Client, def, "three")
		require.NoError(t, err)
		out, err = none.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, "/", out)

		_, err = runtime.Start(context.WithValue(ctx, badPropagator{}, 5000), b.Client, def, "four")
		require.ErrorIs(t, err, runtime.ErrTooLarge)
		require.ErrorContains(t, err, "at most 4096 are allowed")
		if b.Contract() {
			return
		}
		outer := flow.New[string, []string]("outer")
		sub := flow.Sub(outer, "sub", def, outer.Input())
		flow.Return(outer, flow.Map(outer, "map", see, flow.List(sub)))
		outerDef, err := outer.Build()
		require.NoError(t, err)
		deep, err := runtime.Start(carrying(t, ctx, "deep"), b.Client, outerDef, "six")
		require.NoError(t, err)
		list, err := deep.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, []string{"deep/deep-user"}, list)
		require.NoError(t, deep.Rerun(ctx, fabrictype.RerunAll))
		list, err = deep.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, []string{"deep/deep-user"}, list)

		_, err = runtime.Schedule(carrying(t, ctx, "nightly"), b.Client, "nightly", def, "seven",
			runtime.ScheduleConfig{Cron: "0 3 1 1 *"})
		require.NoError(t, err)
		id, err := b.Client.Schedule("nightly").Trigger(ctx)
		require.NoError(t, err)
		fired, err := runtime.Attach(b.Client.Run("plain", id), def)
		require.NoError(t, err)
		out, err = fired.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, "nightly/nightly-user", out)
		b.Settle(t)
	}, config)
}

// Two propagators with one name are refused at the start, one that is nil when the engine is opened.
func TestPropagatorsAreChecked(t *testing.T) {
	t.Parallel()
	ctx := enginetest.Context(t)
	key := interceptor.PropagateValue[string]("twice", fixture.TenantKey{})
	e, err := runtime.Open(ctx, "", runtime.OpenConfig{Propagators: []interceptor.Propagator{key, key}})
	require.NoError(t, err)
	defer e.Close()
	client, err := runtime.NewClient(e)
	require.NoError(t, err)
	defer client.Close()
	def := fixture.OneNode(t, "plain", activity.Declare[int, int]("a"))
	_, err = runtime.Start(context.WithValue(ctx, fixture.TenantKey{}, "x"), client, def, 1)
	require.ErrorIs(t, err, runtime.ErrInvalid)
	require.ErrorContains(t, err, fmt.Sprintf("name %q: must be given once", "twice"))
	_, err = runtime.Open(ctx, "", runtime.OpenConfig{Propagators: []interceptor.Propagator{nil}})
	require.ErrorContains(t, err, "Propagators: element 1 is nil")
}
