package runtime_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

// formerRun is a run as protocol 1 stored it: each node under a separate id.
type formerRun struct {
	FlowID     enginecore.FlowID                 `json:"flow_id"`
	Executions map[string]enginecore.ExecutionID `json:"executions"`
}

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
// of protocol 1.
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

// Data of protocol 1 are refused before anything is written. The error contains the remedy.
func TestFormerStoredFormIsRefused(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("testdata", "stored-form", "v1.json"))
	require.NoError(t, err)
	var run formerRun
	require.NoError(t, json.Unmarshal(data, &run))
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, core := enginetest.Context(t), engine.ConnOf(b.Engine.Internal())
		client, keys := core.Client(), core.Keys()
		do := func(args ...string) {
			require.NoError(t, client.Do(ctx, client.B().Arbitrary(args...).Build()).Error())
		}
		p := keyspace.Partition{Family: keyspace.FlowFamily, Index: 1}
		do("DEL", keys.FfxProtocol())
		do("HSET", keys.FlowCore(p, run.FlowID), "flow_id", string(run.FlowID), "managed", "1", "public_flow_state", "open")
		do("ZADD", keys.FfxAllRuns(p), "1", string(run.FlowID))
		for name, id := range run.Executions {
			do("HSET", keys.ExecCore(id), "managed", "1", "node", name)
		}
		_, err := enginerpc.Connect(ctx, client, enginerpc.Options{Prefix: b.Prefix})
		require.ErrorIs(t, err, enginecore.ErrIncompatibleLibrary)
		for _, want := range []string{
			b.Prefix, "stored by a program of protocol 1", fmt.Sprintf("of protocol %d", lualib.Protocol),
			"let that program finish and purge them, or use another prefix or database",
		} {
			require.ErrorContains(t, err, want)
		}
		stored, err := client.Do(ctx, client.B().Exists().Key(keys.FfxProtocol()).Build()).AsBool()
		require.NoError(t, err)
		require.False(t, stored, "nothing is written")

		// Once its runs are purged, the rest is of this program's form.
		do("DEL", keys.FfxAllRuns(p), keys.FlowCore(p, run.FlowID))
		_, err = enginerpc.Connect(ctx, client, enginerpc.Options{Prefix: b.Prefix})
		require.NoError(t, err)
	})
}
