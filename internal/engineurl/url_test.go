package engineurl

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded"
	"github.com/flowfabric/flowfabric-go/internal/engine"
)

// Each form of URL leads to the engine that Open documents.
func TestURLForms(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]struct {
		hosts          []string
		user, password string
		single, tls    bool
		primary        string
		database       int
	}{
		"redis://h":                          {hosts: []string{"h:6379"}, single: true},
		"redis://h/":                         {hosts: []string{"h:6379"}, single: true},
		"valkey://:secret@h:7000/3":          {hosts: []string{"h:7000"}, password: "secret", single: true, database: 3},
		"rediss://u:secret@h:7000":           {hosts: []string{"h:7000"}, user: "u", password: "secret", single: true, tls: true},
		"valkeys://h":                        {hosts: []string{"h:6379"}, single: true, tls: true},
		"valkey+cluster://a,b:7001,c":        {hosts: []string{"a:6379", "b:7001", "c:6379"}},
		"rediss+cluster://u:secret@a,b":      {hosts: []string{"a:6379", "b:6379"}, user: "u", password: "secret", tls: true},
		"redis+sentinel://a:26379,b/primary": {hosts: []string{"a:26379", "b:6379"}, primary: "primary"},
		"redis://[::1]:7000":                 {hosts: []string{"[::1]:7000"}, single: true},
		"valkey+unix:///run/v.sock?db=4":     {hosts: []string{"/run/v.sock"}, single: true, database: 4},
		"redis+unix://u:secret@/run/v.sock":  {hosts: []string{"/run/v.sock"}, user: "u", password: "secret", single: true},
		"unix:///run/v.sock":                 {hosts: []string{"/run/v.sock"}, single: true},
		"unix:/run/v.sock":                   {hosts: []string{"/run/v.sock"}, single: true},
		"valkeys+sentinel://:secret@a/p?db=3&sentinel_password=secret&sentinel_tls=false": {
			hosts: []string{"a:6379"}, password: "secret", tls: true, primary: "p", database: 3,
		},
	} {
		got, err := Parse(url)
		require.NoError(t, err, url)
		require.Equal(t, want.hosts, got.Option.InitAddress, url)
		require.Equal(t, want.user, got.Option.Username, url)
		require.Equal(t, want.password, got.Option.Password, url)
		require.Equal(t, want.single, got.Option.ForceSingleClient, url)
		require.Equal(t, want.tls, got.Option.TLSConfig != nil, url)
		require.Equal(t, want.primary, got.Option.Sentinel.MasterSet, url)
		require.Equal(t, want.database, got.Option.SelectDB, url)
		require.NotContains(t, got.String(), "secret", url)
	}
	for url, want := range map[string]Target{
		"":                                 {},
		"embedded:":                        {},
		"embedded:./data":                  {Dir: "./data"},
		"embedded:///var/data?fsync=never": {Dir: "/var/data", Fsync: embedded.FsyncNever},
	} {
		got, err := Parse(url)
		require.NoError(t, err, url)
		require.True(t, got.Embedded, url)
		require.Equal(t, want.Dir, got.Dir, url)
		require.Equal(t, want.Fsync, got.Fsync, url)
	}
	for _, url := range []string{"./data", "valkey:127.0.0.1:7000", "embedded://host/data"} {
		_, err := Parse(url)
		require.ErrorIs(t, err, engine.ErrInvalid, url)
	}
}

// The error for an address instead of a URL suggests the URL, without the password.
func TestAddressInsteadOfURL(t *testing.T) {
	t.Parallel()
	for raw, meant := range map[string]string{
		"localhost:6379":                 "valkey://localhost:6379",
		"127.0.0.1:6379":                 "valkey://127.0.0.1:6379",
		"[::1]:6379":                     "valkey://[::1]:6379",
		"redis:6379":                     "valkey://redis:6379",
		"valkey:6379/2":                  "valkey://valkey:6379/2",
		"cache.example.com:7000/3":       "valkey://cache.example.com:7000/3",
		"//localhost:6379":               "valkey://localhost:6379",
		"redis:localhost:6379":           "redis://localhost:6379",
		"rediss:ann:secret@h:6380":       "rediss://user:password@h:6380",
		":secret@localhost:6379":         "valkey://user:password@localhost:6379",
		"ann:secret@localhost:6379/1":    "valkey://user:password@localhost:6379/1",
		"a:7000,b:7001":                  "valkey+cluster://a:7000,b:7001",
		"localhost:6379?dial_timeout=1s": "valkey://localhost:6379?dial_timeout=1s",
	} {
		_, err := Parse(raw)
		require.ErrorIs(t, err, engine.ErrInvalid, raw)
		require.ErrorContains(t, err, "did you mean "+meant+"?", raw)
		require.NotContains(t, err.Error(), "secret", raw)
		if !strings.Contains(meant, "user:") {
			_, err = Parse(meant)
			require.NoError(t, err, meant)
		}
	}
	for _, raw := range []string{"./data", "data", "localhost", "localhost:port", "localhost:0", "localhost:99999", ":6379", "C:\\data", "http://h:80"} {
		_, err := Parse(raw)
		require.ErrorIs(t, err, engine.ErrInvalid, raw)
		require.NotContains(t, err.Error(), "did you mean", raw)
		require.Equal(t, strings.HasPrefix(raw, "http:"), strings.Contains(err.Error(), "this is the URL of a server"), raw)
	}
}
