package flowtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/flowtest"
	"github.com/flowfabric/flowfabric-go/interceptor"
	"github.com/flowfabric/flowfabric-go/runtime"
)

type tenantKey struct{}

// Values of the context of a start reach the functions of a flow under test.
func TestPropagatorsOfATest(t *testing.T) {
	tenant := activity.New("tenant", func(ctx context.Context, _ struct{}) (string, error) {
		name, _ := ctx.Value(tenantKey{}).(string)
		return name, nil
	})
	f := flow.New[struct{}, string]("tenants")
	flow.Return(f, flow.Node(f, "tenant", tenant, f.Input()))
	def, err := f.Build()
	require.NoError(t, err)
	flowtest.Run(t, func(t *flowtest.T) {
		t.Serve(def)
		ctx := context.WithValue(context.Background(), tenantKey{}, "acme")
		run, err := runtime.Start(ctx, t.Client(), def, struct{}{})
		require.NoError(t, err)
		name, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, "acme", name)
	}, flowtest.Propagators(interceptor.PropagateValue[string]("tenant", tenantKey{})))
}

// The outcome of a run that was cancelled, or has exceeded its deadline, is available, too.
func TestMustEnd(t *testing.T) {
	f := flow.New[struct{}, struct{}]("nap", flow.Deadline(time.Hour))
	flow.Sleep(f, "nap", 24*time.Hour)
	def, err := f.Build()
	require.NoError(t, err)
	flowtest.Run(t, func(t *flowtest.T) {
		run := flowtest.Start(t, def, struct{}{})
		require.ErrorIs(t, run.MustEnd(fabrictype.OutcomeExpired), runtime.ErrRunExpired)
		run = flowtest.Start(t, def, struct{}{})
		require.NoError(t, run.Cancel(context.Background(), "enough"))
		require.Equal(t, "enough", run.MustEnd(fabrictype.OutcomeCancelled).Reason)
	})
}
