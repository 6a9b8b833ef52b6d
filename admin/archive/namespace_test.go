package archive_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin/archive"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// An archive does not mix the runs of several namespaces or prefixes. An archive of a former version, which does not
// name its namespace, takes the namespace of the next Write.
func TestArchiveIsOfOneNamespace(t *testing.T) {
	t.Parallel()
	enginetest.Only(t, testserver.Embedded)
	ctx, dir := enginetest.Context(t), t.TempDir()
	b := enginetest.New(t, testserver.Embedded)
	b.KeepingWorker(t, []activity.Handler{load})
	start(t, b, loading(t), "one", 1)
	c := archive.Config{Dir: dir}
	_, err := archive.Write(ctx, b.Client, c)
	require.NoError(t, err)
	path := filepath.Join(dir, "manifest.json")
	manifest, err := os.ReadFile(path)
	require.NoError(t, err)

	prefix := enginetest.NewPrefix()
	for _, other := range []runtime.OpenConfig{
		{Prefix: prefix},
		{Prefix: prefix, Namespace: "tenant"},
	} {
		engine, err := runtime.Open(ctx, "embedded:", other)
		require.NoError(t, err)
		client, err := runtime.NewClient(engine)
		require.NoError(t, err)
		before := files(t, dir)
		_, err = archive.Write(ctx, client, c)
		require.ErrorIs(t, err, runtime.ErrInvalid)
		require.ErrorContains(t, err, prefix)
		require.ErrorContains(t, err, "name another directory")
		require.ErrorContains(t, err, other.Namespace)
		require.Equal(t, before, files(t, dir))
		client.Close()
		_, err = archive.Write(ctx, client, archive.Config{Dir: filepath.Join(dir, "none")})
		require.Error(t, err, "the client is closed")
		require.NoDirExists(t, filepath.Join(dir, "none"))
		require.NoError(t, engine.Close())
	}

	var former map[string]any
	require.NoError(t, json.Unmarshal(manifest, &former))
	delete(former, "prefix")
	delete(former, "namespace")
	data, err := json.Marshal(former)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	_, err = archive.Write(ctx, b.Client, c)
	require.NoError(t, err)
	require.Equal(t, string(manifest), files(t, dir)["manifest.json"])
}
