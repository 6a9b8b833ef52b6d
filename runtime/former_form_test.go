package runtime_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/lua"
)

// formerRun is a run as protocol 1 stored it: each node under an id of its own.
type formerRun struct {
	FlowID     enginecore.FlowID                 `json:"flow_id"`
	Executions map[string]enginecore.ExecutionID `json:"executions"`
}

// Data of protocol 1 are refused before anything is written, with what to do about it.
func TestFormerStoredFormIsRefused(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("testdata", "stored-form", "v1.json"))
	require.NoError(t, err)
	var run formerRun
	require.NoError(t, json.Unmarshal(data, &run))
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, core := enginetest.Context(t), enginerpc.ConnOf(b.Engine)
		client, keys := core.Client(), core.Keys()
		do := func(args ...string) {
			require.NoError(t, client.Do(ctx, client.B().Arbitrary(args...).Build()).Error())
		}
		p := enginecore.Partition{Family: enginecore.FlowFamily, Index: 1}
		do("DEL", keys.FfxProtocol())
		do("HSET", keys.FlowCore(p, run.FlowID), "flow_id", string(run.FlowID), "managed", "1", "public_flow_state", "open")
		do("ZADD", keys.FfxAllRuns(p), "1", string(run.FlowID))
		for name, id := range run.Executions {
			do("HSET", keys.ExecCore(id), "managed", "1", "node", name)
		}
		_, err := enginerpc.Connect(ctx, client, enginerpc.Options{Prefix: b.Prefix})
		require.ErrorIs(t, err, enginecore.ErrIncompatibleLibrary)
		for _, want := range []string{
			b.Prefix, "stored by a program of protocol 1", fmt.Sprintf("of protocol %d", lua.Protocol),
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
