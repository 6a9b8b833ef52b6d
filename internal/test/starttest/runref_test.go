package starttest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A reference may name a run that does not exist, or has an invalid name: its calls return the error.
func TestReferenceToARun(t *testing.T) {
	enginetest.Only(t, testserver.Embedded)
	b := enginetest.New(t, testserver.Embedded)
	ctx := enginetest.Context(t)
	def := fixture.ChainOf(t, fixture.AddOne(), 1)
	run, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID("r"))
	require.NoError(t, err)
	require.False(t, run.Existed())

	ref := b.Client.Run(def.Name(), "r")
	require.Equal(t, def.Name(), ref.FlowName())
	require.Equal(t, "r", ref.ID())
	require.Equal(t, run.FlowID(), ref.FlowID())
	d, err := ref.Describe(ctx)
	require.NoError(t, err)
	same, err := run.Describe(ctx)
	require.NoError(t, err)
	require.Equal(t, same, d)

	b.Worker(t, []activity.Handler{fixture.AddOne()})
	attached, err := runtime.Attach(ref, def)
	require.NoError(t, err)
	require.True(t, attached.Existed())
	require.Same(t, ref, attached.RunRef)
	out, err := attached.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, 2, out)

	_, err = runtime.Attach(b.Client.Run("another", "r"), def)
	require.EqualError(t, err, "attach to run r of flow another: the definition is of flow "+def.Name())
	require.ErrorIs(t, b.Client.Run(def.Name(), "nobody").Purge(ctx), engine.ErrRunNotFound)
	bad := b.Client.Run(def.Name(), "two\nlines")
	require.Empty(t, bad.FlowID())
	require.ErrorIs(t, bad.Purge(ctx), runtime.ErrInvalid)
	require.ErrorIs(t, bad.SetPriority(ctx, 1), runtime.ErrInvalid)
	for _, err := range bad.Watch(ctx, "") {
		require.ErrorIs(t, err, runtime.ErrInvalid)
	}
}
