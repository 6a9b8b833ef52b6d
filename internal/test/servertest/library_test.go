package servertest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/lualib"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

// A server that had lost its library got one of an older program, whose functions have the same names. A keeper of the
// newer program notices without a call that fails.
func TestKeeperReplacesAnOlderLibrary(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, testserver.Servers(t), func(t *testing.T, kind testserver.Kind) {
		ctx := enginetest.Context(t)
		b := enginetest.Open(t, kind, testserver.Start(t, testserver.Options{Kind: kind}).URL(), enginetest.NewPrefix())
		older := strings.Replace(lualib.Source(), "'"+lualib.Build()+"'", "'1-abc'", 1)
		client := engine.ConnOf(b.Engine.Internal()).Client()
		require.NoError(t, client.Do(ctx, client.B().FunctionLoad().Replace().FunctionCode(older).Build()).Error())
		build := func() string {
			version, err := engine.ConnOf(b.Engine.Internal()).Version(ctx, enginerpc.VersionCall{})
			require.NoError(t, err)
			return version.Build
		}
		require.Equal(t, "1-abc", build())
		b.GuardingKeeper(t, 20*time.Millisecond)
		enginetest.Eventually(t, func() string {
			if have := build(); have != lualib.Build() {
				return "the server has " + have
			}
			return ""
		})
	})
}
