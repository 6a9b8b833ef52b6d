package server_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/server"
)

// The example file of the documentation is read with the documented result.
func TestLoginFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	secret, key := write("secret", "of the client\n"), write("key", "0123456789abcdef0123456789abcdef\n")
	var config server.Config
	require.NoError(t, config.ReadLogins(write("logins.json", `{
		"oidc": {"issuer": "https://id.example.com", "client_id": "flowfabric", "client_secret_file": "`+secret+`",
			"redirect_url": "https://flows.example.com/auth/callback", "session_key_file": "`+key+`", "session_life": "12h",
			"grants": [{"match_group": "ops", "role": "operator"}, {"match_name": "*", "role": "viewer", "flows": "billing-*"}]},
		"certificates": [{"match_group": "deployers", "rights": ["view", "operate"]}],
		"proxy": {"user_header": "X-User", "from": ["10.0.0.0/8"], "grants": [{"match_name": "ann", "role": "admin"}]}
	}`)))
	require.Equal(t, "of the client", config.OIDC.ClientSecret)
	require.Len(t, config.OIDC.SessionKey, 32)
	require.Equal(t, 12*time.Hour, config.OIDC.SessionLife)
	require.Equal(t, server.Grant{MatchName: "*", Role: api.Viewer, Flows: "billing-*"}, config.OIDC.Grants[1])
	require.Equal(t, []api.Right{api.View, api.Operate}, config.Certificates[0].Rights)
	require.Equal(t, "10.0.0.0/8", config.Proxy.From[0].String())

	for name, text := range map[string]string{
		"unknown": `{"odic": {}}`, "more": `{} {}`, "no JSON": `oidc:`, "network": `{"proxy": {"from": ["ten"]}}`,
	} {
		require.ErrorIs(t, config.ReadLogins(write("bad.json", text)), server.ErrInvalid, name)
	}
	require.ErrorIs(t, config.ReadLogins(filepath.Join(dir, "none")), os.ErrNotExist)
	require.ErrorIs(t, config.ReadLogins(write("bad.json", `{"oidc": {"client_secret_file": "/none"}}`)), os.ErrNotExist)
}

// New names all faults of a config at once.
func TestFaultsOfAConfig(t *testing.T) {
	t.Parallel()
	_, err := server.New(server.Config{
		OIDC:     &server.OIDCLogin{Issuer: "id", RedirectURL: "https://x/elsewhere", SessionKey: []byte("short"), SessionLife: time.Second},
		Proxy:    &server.ProxyLogin{},
		BasePath: "flow/", ReportLanes: true, Streams: -1, Timeouts: server.Timeouts{Idle: -1},
		Certificates: []server.Grant{{MatchName: "x", Role: "king", Flows: "["}},
	})
	require.ErrorIs(t, err, server.ErrInvalid)
	for _, fault := range []string{
		"Engine", "OIDC.Issuer", "OIDC.RedirectURL", "OIDC.ClientID", "OIDC.SessionKey", "OIDC.SessionLife", "OIDC.Grants",
		"Proxy.UserHeader", "Proxy.From", "Proxy.Grants", "BasePath", "ReportLanes", "Streams", "Timeouts", "TLSConfig",
		"Certificates[0].Role", "Certificates[0].Flows",
	} {
		require.ErrorContains(t, err, fault)
	}
}
