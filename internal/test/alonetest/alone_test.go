package alonetest

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/admin/backup"
	"github.com/flowfabric/flowfabric-go/admin/move"
)

// A program that imports nothing but package backup, or move, of this module can use it.
func TestPackagesWorkAlone(t *testing.T) {
	t.Parallel()
	missing := "embedded:" + filepath.Join(t.TempDir(), "missing")
	_, err := backup.Write(t.Context(), missing, filepath.Join(t.TempDir(), "file"), backup.Config{})
	require.ErrorContains(t, err, "missing")
	_, err = move.Run(t.Context(), missing, missing+"-new", move.Config{})
	require.ErrorContains(t, err, "missing")
}
