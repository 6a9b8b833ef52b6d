package profile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func environment(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

func TestPath(t *testing.T) {
	t.Parallel()
	require.Equal(t, "/x", Path(environment(map[string]string{"FLOWFABRIC_CONFIG": "/x", "HOME": "/h"})))
	require.Equal(t, "/c/flowfabric/config.yaml", Path(environment(map[string]string{"XDG_CONFIG_HOME": "/c", "HOME": "/h"})))
	require.Equal(t, "/h/.config/flowfabric/config.yaml", Path(environment(map[string]string{"XDG_CONFIG_HOME": "relative", "HOME": "/h"})))
	require.Empty(t, Path(environment(nil)))
}

func TestFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sub", "config.yaml")
	f, err := Read(path)
	require.NoError(t, err)
	p, err := f.Named("")
	require.NoError(t, err)
	require.Zero(t, p)
	_, err = f.Named("production")
	require.ErrorIs(t, err, ErrInvalid)

	token := filepath.Join(filepath.Dir(path), "token")
	f.Profiles = map[string]Profile{"production": {URL: "https://flows.example.com", TokenFile: "~/sub/token"}, "a": {}}
	f.Profile = "production"
	require.NoError(t, f.Write(path))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	again, err := Read(path)
	require.NoError(t, err)
	require.Equal(t, f, again)
	require.Equal(t, []string{"a", "production"}, again.Names())
	p, err = again.Named("")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(token, []byte("ffk_1\n"), 0o600))
	text, err := p.Token(environment(map[string]string{"HOME": filepath.Dir(filepath.Dir(path))}))
	require.NoError(t, err)
	require.Equal(t, "ffk_1", text)

	require.NoError(t, os.WriteFile(path, []byte("profiles: {a: {urk: x}}"), 0o600))
	_, err = Read(path)
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorContains(t, err, "urk")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err = Read(path)
	require.NoError(t, err)
	require.Error(t, f.Write(""))
}
