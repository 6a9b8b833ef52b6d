package waittest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func TestBadSecrets(t *testing.T) {
	t.Parallel()
	good := strings.Repeat("ab", 16)
	for _, bad := range [][2]string{
		{"", good}, {"k:1", good}, {"K1", good}, {strings.Repeat("k", 33), good}, {"k1", ""}, {"k1", good + "a"}, {"k1", "5ecret" + good},
		{"k1", strings.Repeat("ab", 15)}, {"k1", strings.Repeat("ab", 65)},
	} {
		_, err := runtime.Open(t.Context(), "", runtime.OpenConfig{
			WaitpointSecret: enginecore.WaitpointSecret{KID: bad[0], Hex: bad[1]},
		})
		require.ErrorIs(t, err, runtime.ErrInvalid)
		if bad[1] != "" {
			require.NotContains(t, err.Error(), bad[1])
			require.NotContains(t, err.Error(), "5ecret")
		}
	}
}

// currentKIDs are the ids of the secrets that the partitions sign with.
func currentKIDs(t *testing.T, ctx context.Context, b *enginetest.Bench) []string {
	t.Helper()
	var kids []string
	for i := range engine.ConnOf(b.Engine.Internal()).Partitioning().Flow {
		reply, err := engine.ConnOf(b.Engine.Internal()).ListWaitpointHMACKIDs(ctx, enginerpc.ListWaitpointHMACKIDsCall{
			Partition: keyspace.Partition{Family: keyspace.FlowFamily, Index: uint16(i)},
		})
		require.NoError(t, err)
		kids = append(kids, reply.CurrentKID)
	}
	return kids
}

func TestRotateSecrets(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		for range 2 {
			r, err := b.Engine.RotateSecrets(ctx, time.Hour)
			require.NoError(t, err)
			require.Equal(t, 4, r.Rotated)
			require.Zero(t, r.Unchanged)
			for _, kid := range currentKIDs(t, ctx, b) {
				require.Equal(t, r.KID, kid)
			}
		}
		_, err := b.Engine.RotateSecrets(ctx, -1)
		require.ErrorContains(t, err, "must not be negative")
	})
}

// A rotation that reached only some partitions returns the failed ones, and continues when it is called again.
func TestRotateSecrets_ContinuesAfterAFailure(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		client := engine.ConnOf(b.Engine.Internal()).Client()
		broken := keyspace.Partition{Family: keyspace.FlowFamily, Index: 2}
		key := engine.ConnOf(b.Engine.Internal()).Keys().WaitpointSecrets(broken)
		require.NoError(t, client.Do(ctx, client.B().Set().Key(key).Value("no hash").Build()).Error())
		first, err := b.Engine.RotateSecrets(ctx, time.Hour)
		require.ErrorContains(t, err, "1 of 4 partitions failed, the first is {fp:2}")
		require.Contains(t, first.Failed, broken.Tag())
		require.Equal(t, 3, first.Rotated)
		require.NoError(t, client.Do(ctx, client.B().Del().Key(key).Build()).Error())
		second, err := b.Engine.RotateSecrets(ctx, time.Hour)
		require.NoError(t, err)
		require.Equal(t, first.KID, second.KID)
		require.Equal(t, [2]int{1, 3}, [2]int{second.Rotated, second.Unchanged})
		third, err := b.Engine.RotateSecrets(ctx, time.Hour)
		require.NoError(t, err)
		require.NotEqual(t, first.KID, third.KID)
	})
}

func TestRotateToTheConfiguredSecret(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		for want := range 2 {
			r, err := b.Engine.RotateSecrets(ctx, 0)
			require.NoError(t, err)
			require.Equal(t, "mine", r.KID)
			require.Equal(t, 4*want, r.Unchanged)
		}
	}, runtime.OpenConfig{WaitpointSecret: enginecore.WaitpointSecret{KID: "mine", Hex: strings.Repeat("ab", 32)}})
}
