package runtime_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Calls report all faults of their arguments at once, and name the arguments.
func TestAllFaultsOfArguments(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	def, err := weather()
	require.NoError(t, err)
	local, err := runtime.OpenLocal(ctx, runtime.LocalConfig{
		Activities: def.Handlers(), Open: runtime.OpenConfig{Logger: slog.New(slog.DiscardHandler)},
	})
	require.NoError(t, err)
	defer local.Close()
	client := local.Client()

	_, err = runtime.Start(ctx, client, def, "Lima", runtime.WithID("a\nb"), runtime.WithTag("Bad", "x"), runtime.WithActor("c\nd"), nil)
	require.ErrorIs(t, err, runtime.ErrInvalid)
	for _, text := range []string{"option 4 is nil", "actor", "run id", `key "Bad"`} {
		require.ErrorContains(t, err, text)
	}

	_, err = client.ListRuns(ctx, runtime.RunQuery{States: []fabrictype.RunState{"bogus"}}, "", -4)
	require.ErrorIs(t, err, runtime.ErrInvalid)
	for _, text := range []string{"limit -4", "bogus"} {
		require.ErrorContains(t, err, text)
	}

	err = client.Run("weather", "x").ResumeWait(ctx, runtime.Waitpoint{}, nil)
	require.ErrorIs(t, err, runtime.ErrInvalid)
	require.ErrorContains(t, err, "the waitpoint has no id")

	_, err = flow.New[string, string]("f", flow.Retention(time.Hour, "bogus")).Build()
	require.ErrorContains(t, err, `"bogus" is not an outcome`)
}
