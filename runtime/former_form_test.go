package runtime_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/lualib"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
)

// arrivingData is a client of a server whose data arrive after the first read of the protocol.
type arrivingData struct {
	rueidis.Client
	protocol string // its key
	arrive   func()
}

func (c *arrivingData) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	isRead := slices.Equal(command.Commands(), []string{"GET", c.protocol})
	reply := c.Client.Do(ctx, command)
	if isRead && c.arrive != nil {
		c.arrive()
		c.arrive = nil
	}
	return reply
}

// A server that has become a replica, and is empty until the data of its primary arrive, is not taken for one with data
// of a former protocol.
func TestEmptyReplica_IsNotTakenForFormerData(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, core := enginetest.Context(t), engine.ConnOf(b.Engine.Internal())
		client, keys := core.Client(), core.Keys()
		protocol := keys.FfxProtocol()
		stored, err := client.Do(ctx, client.B().Get().Key(protocol).Build()).ToString()
		require.NoError(t, err)
		require.NoError(t, client.Do(ctx, client.B().Del().Key(protocol).Build()).Error())
		server := &arrivingData{Client: client, protocol: protocol, arrive: func() {
			p := keyspace.Partition{Family: keyspace.FlowFamily, Index: 1}
			run := client.B().Zadd().Key(keys.FfxAllRuns(p)).ScoreMember().ScoreMember(1, "run").Build()
			require.NoError(t, client.Do(ctx, run).Error())
			require.NoError(t, client.Do(ctx, client.B().Set().Key(protocol).Value(stored).Build()).Error())
		}}
		_, err = enginerpc.Connect(ctx, server, enginerpc.Options{Prefix: b.Prefix})
		require.NoError(t, err)
	})
}

// Runs of a former protocol are refused before anything is written. The error has both versions and the remedy.
func TestFormerStoredFormIsRefused(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, core := enginetest.Context(t), engine.ConnOf(b.Engine.Internal())
		client, keys := core.Client(), core.Keys()
		do := func(args ...string) {
			require.NoError(t, client.Do(ctx, client.B().Arbitrary(args...).Build()).Error())
		}
		p := keyspace.Partition{Family: keyspace.FlowFamily, Index: 1}
		for former := 1; former < lualib.MinStored; former++ {
			protocol := strconv.Itoa(former)
			if former == 1 { // its programs stored no number
				do("DEL", keys.FfxProtocol())
			} else {
				do("SET", keys.FfxProtocol(), protocol)
			}
			do("ZADD", keys.FfxAllRuns(p), "1", "run")
			_, err := enginerpc.Connect(ctx, client, enginerpc.Options{Prefix: b.Prefix})
			require.ErrorIs(t, err, enginecore.ErrIncompatibleLibrary)
			for _, want := range []string{
				b.Prefix, "stored by a program of protocol " + protocol, fmt.Sprintf("of protocol %d", lualib.Protocol),
				"let that program finish and purge them, or use another prefix or database",
			} {
				require.ErrorContains(t, err, want)
			}
			stored, err := client.Do(ctx, client.B().Get().Key(keys.FfxProtocol()).Build()).ToString()
			require.True(t, rueidis.IsRedisNil(err) || stored == protocol, "nothing is written")

			// Once its runs are purged, the rest is of this program's form.
			do("DEL", keys.FfxAllRuns(p))
			_, err = enginerpc.Connect(ctx, client, enginerpc.Options{Prefix: b.Prefix})
			require.NoError(t, err)
			stored, err = client.Do(ctx, client.B().Get().Key(keys.FfxProtocol()).Build()).ToString()
			require.NoError(t, err)
			require.Equal(t, strconv.Itoa(lualib.MinProtocol), stored)
		}
	})
}
