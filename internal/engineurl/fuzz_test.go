package engineurl

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/engine"
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
		got, err := Parse(raw)
		if err != nil {
			require.ErrorIs(t, err, engine.ErrInvalid)
			require.NotContains(t, err.Error(), password, "%q", raw)
			return
		}
		require.NotContains(t, got.String(), password, "%q", raw)
		require.NotEmpty(t, got.Option.InitAddress)
		for _, host := range got.Option.InitAddress {
			require.NotEmpty(t, host)
		}
	})
}

// FuzzAnyURL parses any text. The directory is the text that follows "embedded:".
func FuzzAnyURL(f *testing.F) {
	for _, seed := range []string{"", "embedded", "embedded:./data?fsync=never&contract=15", "embedded:///x", "embedded:~/x", "embedded:?%", "localhost:6379", "./data", "x y", "valkey://\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := Parse(raw)
		if err != nil {
			require.ErrorIs(t, err, engine.ErrInvalid)
			require.Equal(t, Target{}, got)
			return
		}
		if got.Embedded && got.Dir != "" {
			require.Contains(t, raw, got.Dir)
		}
		again, err := Parse(raw)
		require.NoError(t, err)
		require.Equal(t, got.Text, again.Text)
	})
}
