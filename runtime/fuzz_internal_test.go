package runtime

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/feeds"
)

// FuzzQueries reads any parameters of a URL as a query of runs and as a query of waits. The parameters of the parsed
// query parse as the same query.
func FuzzQueries(f *testing.F) {
	for _, seed := range []string{
		"flow=good&state=failed&state=running&tag.a.b=c&text=x&key=k&queued=true&created_from=2026-11-20T08:00:00Z&sort=oldest_first&children=true",
		"audience=x&from=2026-11-20T08:00:00.5%2B01:00&before=2026-11-21T00:00:00Z", "tag.=", "tag.X=1", "cursor=x", "state=", "created_from=0001-01-01T00:00:00Z", "text=%00", "a=%zz", "flow=a;b",
		"created_from=9999-12-31T23:59:59.999999999Z&created_before=0000-01-01T00:00:00Z",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		values, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		if q, err := ParseRunQuery(values); err == nil {
			again, err := ParseRunQuery(q.Values())
			require.NoError(t, err)
			require.Equal(t, q.Values(), again.Values())
		} else {
			require.ErrorIs(t, err, ErrInvalid)
		}
		if q, err := ParseWaitQuery(values); err == nil {
			again, err := ParseWaitQuery(q.Values())
			require.NoError(t, err)
			require.Equal(t, q.Values(), again.Values())
		} else {
			require.ErrorIs(t, err, ErrInvalid)
		}
	})
}

// FuzzCursors reads any text as the cursors of feeds, logs, pages of nodes and the audit log. An invalid cursor returns
// ErrCursor or ErrInvalid.
func FuzzCursors(f *testing.F) {
	e, err := Open(f.Context(), "", OpenConfig{Partitions: 4})
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, e.Close()) })
	client, err := NewClient(e)
	require.NoError(f, err)
	partitions := client.session.Partitions()
	list, err := json.Marshal(make([]feedPosition, len(partitions)))
	require.NoError(f, err)
	for _, seed := range []string{
		"", base64.RawURLEncoding.EncodeToString(list), "1795188498438-0", "1795188498438-0/3", "1-1/-1", "x/99999999999999999999", "s12", "-1-0", "18446744073709551616-0",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if at, err := client.parseFeedCursor(text); err != nil {
			require.ErrorIs(t, err, ErrCursor)
		} else if text != "" {
			require.Len(t, at, len(partitions))
			for _, p := range at {
				require.True(t, feeds.IsEntry(p.After), "%q", p.After)
			}
		}
		if frame, skip, err := splitLogCursor(text); err != nil {
			require.ErrorIs(t, err, ErrCursor)
		} else {
			require.GreaterOrEqual(t, skip, 0)
			require.LessOrEqual(t, len(frame), len(text))
		}
		if at, ok := auditTime(text); ok {
			require.False(t, at.IsZero())
		}
		if n := engine.ParseFrameSource(text); n != (engine.FrameNumber{}) {
			require.Equal(t, n, engine.ParseFrameSource(n.Source()))
		}
	})
}
