package route

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/server/internal/bounds"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// Heavy operations are in the table, and a request for values waits for another one of its principal to end.
func TestHeavyRequestsWait(t *testing.T) {
	t.Parallel()
	for name := range heavyOperations {
		_, found := httpapi.Find(name)
		require.True(t, found, name)
	}
	pool := bounds.New("too_many_reads", "requests for values", 2, 1)
	ctx := login.With(t.Context(), login.Principal{Name: "ann", Kind: login.ByToken})
	first, err := enterPatiently(ctx, pool)
	require.NoError(t, err)
	gone, cancel := context.WithCancel(ctx)
	cancel()
	var full *bounds.Full
	_, err = enterPatiently(gone, pool)
	require.ErrorAs(t, err, &full, "who has gone waits for nothing")
	entered := make(chan error)
	go func() {
		leave, err := enterPatiently(ctx, pool)
		if err == nil {
			leave()
		}
		entered <- err
	}()
	other, err := enterPatiently(login.With(ctx, login.Principal{Name: "bob", Kind: login.ByToken}), pool)
	require.NoError(t, err)
	other()
	first()
	require.NoError(t, <-entered)
}
