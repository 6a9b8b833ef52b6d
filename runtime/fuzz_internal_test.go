package runtime

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// FuzzEngineURL reads URLs whose password is known. A URL is refused or leads to hosts, and neither the error nor the
// text of the target has the password.
func FuzzEngineURL(f *testing.F) {
	const password = "qZ7secretpassword9"
	for _, seed := range [][3]string{
		{"valkey", "u", "h:6379/2"}, {"rediss+cluster", "", "a,b:7001,[::1]:7002"}, {"redis+sentinel", "u", "a:26379,b/primary"},
		{"valkeys", "u", "h?skip_verify=true&write_timeout=2s&db=3"}, {"valkey", "u%zz", "h"}, {"valkey", "u/", "h"}, {"valkey", "u?", "h#x"}, {"valkey", "u", "h:0"},
		{"", "u", "h"}, {"http", "u", "h"}, {"valkey+x", "u", "h"}, {"valkey", "u", "?contract=15&addr=x"}, {"valkey", "u", "h?dial_timeout=0"}, {"embedded", "x", "y"},
		{"valkey", "u:v@w", "h"}, {"valkey", "", ":6379"}, {"valkey", "u", "[::1"}, {"valkey", "u", "h/99999999999"},
	} {
		f.Add(seed[0], seed[1], seed[2], "://")
	}
	f.Add("valkey", "u", "h:6379", ":")
	f.Add("", "u", "h:6379", "//")
	f.Fuzz(func(t *testing.T, scheme, user, rest, between string) {
		raw := scheme + between + user + ":" + password + "@" + rest
		if strings.HasPrefix(raw, "embedded") {
			return // a directory of that name
		}
		got, err := parseURL(raw)
		if err != nil {
			require.ErrorIs(t, err, ErrInvalid)
			require.NotContains(t, err.Error(), password, "%q", raw)
			return
		}
		require.NotContains(t, got.String(), password, "%q", raw)
		require.NotEmpty(t, got.option.InitAddress)
		for _, host := range got.option.InitAddress {
			require.NotEmpty(t, host)
		}
	})
}

// FuzzAnyURL reads any text. A directory is what follows "embedded:".
func FuzzAnyURL(f *testing.F) {
	for _, seed := range []string{"", "embedded", "embedded:./data?fsync=never&contract=15", "embedded:///x", "embedded:~/x", "embedded:?%", "localhost:6379", "./data", "x y", "valkey://\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := parseURL(raw)
		if err != nil {
			require.ErrorIs(t, err, ErrInvalid)
			require.Equal(t, target{}, got)
			return
		}
		if got.embedded && got.dir != "" {
			require.Contains(t, raw, got.dir)
		}
		again, err := parseURL(raw)
		require.NoError(t, err)
		require.Equal(t, got.text, again.text)
	})
}

// FuzzQueries reads any parameters of a URL as a query of runs and as one of waits. The parameters of what was read are
// read as the same query.
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
			again, err := ParseWaitQuery(WaitQueryValues(q))
			require.NoError(t, err)
			require.Equal(t, WaitQueryValues(q), WaitQueryValues(again))
		} else {
			require.ErrorIs(t, err, ErrInvalid)
		}
	})
}

// FuzzCursors reads any text as the cursors of feeds, logs, pages of nodes and the audit log. A cursor that is none
// says so.
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
				require.True(t, engine.IsEntry(p.After), "%q", p.After)
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
