package childtest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Child runs are in the namespace of their parent's run, also if a worker of another namespace starts them. Lists
// contain them by flow name or on request.
func TestChildRunsAreFoundInTheirNamespace(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, testserver.Servers(t), func(t *testing.T, kind testserver.Kind) {
		ctx := enginetest.Context(t)
		url, prefix := testserver.Shared(t, kind).URL(), enginetest.NewPrefix()
		b := enginetest.Open(t, kind, url, prefix, runtime.OpenConfig{Namespace: "ours"})
		elsewhere := enginetest.Open(t, kind, url, prefix, runtime.OpenConfig{Namespace: "theirs"})
		add := activity.New("add", func(_ context.Context, n int) (int, error) { return n + 1, nil })
		def := around(t, "outer", plusOne(t, "core", add))
		elsewhere.Keeper(t)
		elsewhere.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, 4, runtime.WithID("r"))
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.NoError(t, err)
		_, err = b.Client.Run("core", "outer/r/inner").Describe(ctx)
		require.NoError(t, err)

		names := func(q runtime.RunQuery) (list []string) {
			for r, err := range b.Client.Runs(ctx, q) {
				require.NoError(t, err)
				list = append(list, r.Flow)
			}
			return list
		}
		require.Equal(t, []string{"outer"}, names(runtime.RunQuery{}))
		require.Equal(t, []string{"core"}, names(runtime.RunQuery{Flow: "core"}))
		require.ElementsMatch(t, []string{"core", "outer"}, names(runtime.RunQuery{Children: true}))
		b.Settle(t)
	})
}
