package follow

import (
	"encoding/base64"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/feeds"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// FuzzCursors reads any text as the cursor of a feed and of a log. An invalid cursor returns ErrCursor.
func FuzzCursors(f *testing.F) {
	partitions := keyspace.Partitioning{Flow: 4}.Of(keyspace.FlowFamily)
	list, err := json.Marshal(make([]feedPosition, len(partitions)))
	require.NoError(f, err)
	for _, seed := range []string{
		"", base64.RawURLEncoding.EncodeToString(list), "1795188498438-0", "1795188498438-0/3", "1-1/-1", "x/99999999999999999999", "s12", "-1-0", "18446744073709551616-0",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if at, err := parseFeedCursor(partitions, text); err != nil {
			require.ErrorIs(t, err, engine.ErrCursor)
		} else if text != "" {
			require.Len(t, at, len(partitions))
			for _, p := range at {
				require.True(t, feeds.IsEntry(p.After), "%q", p.After)
			}
		}
		if frame, skip, err := splitLogCursor(text); err != nil {
			require.ErrorIs(t, err, engine.ErrCursor)
		} else {
			require.GreaterOrEqual(t, skip, 0)
			require.LessOrEqual(t, len(frame), len(text))
		}
		if n := engine.ParseFrameSource(text); n != (engine.FrameNumber{}) {
			require.Equal(t, n, engine.ParseFrameSource(n.Source()))
		}
	})
}
