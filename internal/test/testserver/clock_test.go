package testserver_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

// The clock of a server can be set forward and back, and stays so over a restart. Nothing happens to its other clock,
// by which it waits.
func TestSetClock(t *testing.T) {
	t.Parallel()
	if !testserver.CanSetClocks() {
		t.Skip("no C compiler was found")
	}
	for _, kind := range []testserver.Kind{testserver.Redis, testserver.Valkey} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := testserver.Start(t, testserver.Options{Kind: kind, Persist: true, Clock: true})
			shown := func() time.Duration {
				seconds, err := strconv.ParseInt(server.Command(t, "EVAL", "return redis.call('TIME')[1]", "0"), 10, 64)
				require.NoError(t, err)
				return time.Until(time.Unix(seconds, 0)).Round(10 * time.Second)
			}
			require.Zero(t, shown())
			server.SetClock(t, 30*time.Second)
			require.Equal(t, 30*time.Second, shown())
			server.Restart()
			require.Equal(t, 30*time.Second, shown())
			server.SetClock(t, -30*time.Second)
			require.Equal(t, -30*time.Second, shown())
			require.Equal(t, "", server.Command(t, "BLPOP", "nothing", "0.1"))
		})
	}
}
