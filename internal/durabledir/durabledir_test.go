package durabledir_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/durabledir"
)

func TestMake(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	deep := filepath.Join(dir, "a", "b", "c")
	above, err := durabledir.Make(deep)
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(dir, "a", "b"), filepath.Join(dir, "a"), dir}, above)
	require.DirExists(t, deep)
	above, err = durabledir.Make(deep)
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(dir, "a", "b")}, above)
	above, err = durabledir.Make("/")
	require.NoError(t, err)
	require.Empty(t, above)
}
