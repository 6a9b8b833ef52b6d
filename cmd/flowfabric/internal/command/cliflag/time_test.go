package cliflag

import (
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// Times as people write them, on a machine in Berlin.
func TestTimes(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	now := time.Date(2026, 11, 20, 9, 30, 0, 0, berlin)
	declare := map[string]func(*pflag.FlagSet, string, string) *Time{"point": DeclareTime, "since": DeclareSince, "until": DeclareUntil}
	for _, c := range []struct{ kind, text, want string }{
		{"point", "90m", "2026-11-20T11:00:00+01:00"}, {"point", "-1d", "2026-11-19T09:30:00+01:00"},
		{"point", "tomorrow", "2026-11-21T00:00:00+01:00"}, {"point", "tomorrow 07:15", "2026-11-21T07:15:00+01:00"},
		{"since", "90m", "2026-11-20T08:00:00+01:00"}, {"since", "1d12h", "2026-11-18T21:30:00+01:00"},
		{"since", "2w", "2026-11-06T09:30:00+01:00"}, {"since", "0.5d", "2026-11-19T21:30:00+01:00"},
		{"since", "yesterday", "2026-11-19T00:00:00+01:00"}, {"until", "yesterday", "2026-11-20T00:00:00+01:00"},
		{"since", "today", "2026-11-20T00:00:00+01:00"}, {"until", "now", "2026-11-20T09:30:00+01:00"},
		{"since", "2026-10-24", "2026-10-24T00:00:00+02:00"}, {"until", "2026-10-25", "2026-10-26T00:00:00+01:00"},
		{"until", "2026-10-24 14:00", "2026-10-24T14:00:00+02:00"}, {"since", "2026-11-01T14:00:05", "2026-11-01T14:00:05+01:00"},
		{"since", "2026-11-01T14:00:05Z", "2026-11-01T14:00:05Z"}, {"since", "2026-11-01 14:00+05:30", "2026-11-01T14:00:00+05:30"},
		{"since", "2026-11-01 14:00 America/New_York", "2026-11-01T14:00:00-05:00"}, {"since", "yesterday UTC", "2026-11-19T00:00:00Z"},
		{"since", "2026-11-01 14:00 UTC", "2026-11-01T14:00:00Z"}, {"since", "2026-11-01 14:00:05 +02:00", "2026-11-01T14:00:05+02:00"},
	} {
		f := declare[c.kind](pflag.NewFlagSet("", pflag.ContinueOnError), "x", "x")
		f.Text = c.text
		require.NoError(t, f.Parse("x", now), c.text)
		require.Equal(t, c.want, f.Time.Format(time.RFC3339), "%s %s", c.kind, c.text)
	}
	f := &Time{Text: "2026-11-07", kind: until}
	require.NoError(t, f.Parse("until", now))
	require.Equal(t, "2026-11-07T23:59:59.999+01:00", f.Last().Format(time.RFC3339Nano))
	for _, text := range []string{"noon", "1x", "2026-13-01", "2026-11-01 25:00", "2026-11-01 14:00 Berlin", "1", "d"} {
		f := &Time{Text: text}
		require.ErrorContains(t, f.Parse("from", now), "--from \""+text+"\": must be a time such as", text)
	}
	f = &Time{Text: "-1h", kind: since}
	require.ErrorContains(t, f.Parse("since", now), "must not be negative")
}
