package backup_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/admin/backup"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keycopy"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Without an engine, under an unused prefix, nothing is backed up, and the last backup stays. An engine that was opened
// and not used is backed up.
func TestNoEngineIsNoBackup(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, testserver.Kinds(t), func(t *testing.T, kind testserver.Kind) {
		ctx, url, prefix := enginetest.Context(t), engineOf(t, kind), enginetest.NewPrefix()
		file := filepath.Join(t.TempDir(), "backup")
		require.NoError(t, os.WriteFile(file, []byte("the last one"), 0o600))
		closed(t, enginetest.Open(t, kind, url, prefix))
		other := enginetest.NewPrefix()
		_, err := backup.Write(ctx, url, file, backup.Config{Prefix: other})
		require.ErrorIs(t, err, os.ErrNotExist)
		require.ErrorContains(t, err, "there is no engine with the prefix "+other)
		require.ErrorContains(t, err, url)
		left, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, "the last one", string(left))

		report, err := backup.Write(ctx, url, file, backup.Config{Prefix: prefix})
		require.NoError(t, err)
		require.NotEmpty(t, report.Protocol)
	})
}

// A directory in which an embedded engine could not begin, since the disk was full, has no engine.
func TestLockAloneIsNoBackup(t *testing.T) {
	t.Parallel()
	enginetest.Only(t, testserver.Embedded)
	ctx, dir := enginetest.Context(t), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "LOCK"), nil, 0o600))
	_, err := backup.Write(ctx, "embedded:"+dir, filepath.Join(t.TempDir(), "backup"), backup.Config{})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = runtime.Open(ctx, "embedded:"+dir, runtime.OpenConfig{MustExist: true})
	require.ErrorIs(t, err, os.ErrNotExist)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
}

// The data of a moved engine are old; the data of an engine that is being moved belong to the move.
func TestMovedEngineIsNotBackedUp(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, testserver.Kinds(t), func(t *testing.T, kind testserver.Kind) {
		ctx, url, prefix := enginetest.Context(t), engineOf(t, kind), enginetest.NewPrefix()
		file := filepath.Join(t.TempDir(), "backup")
		for state, text := range map[enginerpc.MarkState]string{
			enginerpc.Moved:   "were moved to valkey://new:6379 at 2026-11-26T12:00:00Z: use that one",
			enginerpc.Leaving: "are being moved to valkey://new:6379",
		} {
			b := enginetest.Open(t, kind, url, prefix)
			d, err := keycopy.NewDeployment(engine.ConnOf(b.Engine.Internal()).Client(), prefix)
			require.NoError(t, err)
			protocol, _, err := d.Protocol(ctx)
			require.NoError(t, err)
			require.NoError(t, d.SetMark(ctx, enginerpc.Mark{
				State: state, ID: "move", Other: "valkey://new:6379", Protocol: protocol,
				Since: time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC),
			}))
			_, err = backup.Write(ctx, url, file, backup.Config{Prefix: prefix})
			require.ErrorIs(t, err, enginecore.ErrMoved)
			require.ErrorContains(t, err, text)
			require.NoFileExists(t, file)
			require.NoError(t, d.EndMark(ctx, protocol))
			closed(t, b)
		}
	})
}
