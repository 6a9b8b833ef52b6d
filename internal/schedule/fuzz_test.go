package schedule

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// FuzzReadRecord reads any bytes as a stored schedule, and as an entry of its history. A record that was read finds its
// next time, and its spec and state are read again as the same.
func FuzzReadRecord(f *testing.F) {
	f.Add(`{"version":1,"name":"daily","flow":"f","cron":"0 8 * * *","zone":"Europe/Berlin","overlap":"skip"}`, `{"plan":1,"plans":[1],"due":1795188498438,"waiting":[{"at":1,"serial":2}]}`, `{"at":1,"done":2,"outcome":"started"}`)
	f.Add(`{"version":1,"name":"x","every_ms":-5,"jitter_ms":-1}`, `{"due":-9223372036854775808}`, `{`)
	f.Add(`{"version":99}`, `{}`, `null`)
	f.Add(`{"version":1,"every_ms":1,"start":9223372036854775807,"end":-1}`, `null`, ``)
	now := time.UnixMilli(1795188498438)
	f.Fuzz(func(t *testing.T, spec, state, fire string) {
		if entry, err := ReadFire(fire); err == nil {
			text, err := json.Marshal(entry)
			require.NoError(t, err)
			again, err := ReadFire(string(text))
			require.NoError(t, err)
			require.Equal(t, entry, again)
		}
		read := func(spec, state []byte) (*Record, error) {
			return ReadRecord(keyspace.Partition{Family: keyspace.FlowFamily}, now, enginerpc.ScheduleRecord{Spec: spec, State: state, Version: 3})
		}
		r, err := read([]byte(spec), []byte(state))
		if err != nil {
			require.Nil(t, r)
			return
		}
		_ = r.times.Next(now)
		first, err := json.Marshal(r.Spec)
		require.NoError(t, err)
		second, err := json.Marshal(r.State)
		require.NoError(t, err)
		again, err := read(first, second)
		require.NoError(t, err)
		third, err := json.Marshal(again.State)
		require.NoError(t, err)
		require.JSONEq(t, string(second), string(third))
	})
}
