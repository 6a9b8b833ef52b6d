package connect

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A question of a command names the engine, and never a user or a password.
func TestShownURL(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"":                                "in memory",
		"embedded:/var/lib/flows@2":       "embedded:/var/lib/flows@2",
		"valkey://localhost:6379/3":       "valkey://localhost:6379/3",
		"redis+cluster://u:p@a:1,b:2":     "redis+cluster://a:1,b:2",
		"valkeys://:sw0rd/f@ish@host/1":   "valkeys://host/1",
		"sw0rdfish@host":                  "host",
		"valkey+sentinel://u@s1,s2/name/": "valkey+sentinel://s1,s2/name/",
	} {
		require.Equal(t, want, ShownURL(address))
	}
}
