package aof

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/record"
)

// fastDir returns an empty directory in memory, where there is one.
func fastDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "aof-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// FuzzOpen opens directories of any content. A directory is refused with a reason, and then nothing of it has changed;
// or it opens, and opens again with the same data.
func FuzzOpen(f *testing.F) {
	log := record.FileHeader(1, 1)
	for i, word := range []string{"A", "B"} {
		unit := record.AppendCommand(record.Start(nil), []string{word})
		record.Seal(unit, uint64(i+1))
		log = append(log, unit...)
	}
	snapshot := record.AppendCommand(record.AppendCommand(record.Start(nil), []string{"S"}), []string{snapshotEnd, "1"})
	record.Seal(snapshot, 1)
	snapshot = append(record.FileHeader(1, 1), snapshot...)
	kept := manifest{1, 3, Always}.text()
	f.Add(kept, log, []byte(nil), []byte(nil))
	f.Add([]byte(nil), log, snapshot, []byte(nil))
	f.Add(manifest{2, 3, Always}.text(), log, []byte(nil), record.FileHeader(2, 3))
	f.Add(kept, log[:len(log)-3], []byte(nil), record.FileHeader(2, 3))
	f.Add(manifest{1, 1 << 63, EverySecond}.text(), log, snapshot, log)
	f.Add([]byte("flowfabric-data 1\ngeneration 18446744073709551615\n"), []byte(nil), []byte(nil), []byte(nil))
	f.Fuzz(func(t *testing.T, kept, first, snapshot, second []byte) {
		dir := fastDir(t)
		content := map[string][]byte{
			"MANIFEST": kept, "log-000000000001": first, "snapshot-000000000001": snapshot, "log-000000000002": second,
		}
		for name, data := range content {
			if len(data) > 0 {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
			}
		}
		open := func() (*wordList, *Log, error) {
			d := &wordList{}
			o := Options{Dir: dir, Policy: Never, Limit: 1 << 20, Logger: slog.New(slog.DiscardHandler)}
			log, err := Open(context.Background(), o, d)
			return d, log, err
		}
		d, log, err := open()
		if err != nil {
			for name, data := range content {
				if len(data) > 0 {
					now, err := os.ReadFile(filepath.Join(dir, name))
					require.NoError(t, err)
					require.Equal(t, data, now, "a refused directory has changed")
				}
			}
			return
		}
		require.NoError(t, log.Append(record.AppendCommand(record.Start(nil), []string{"more"})))
		require.NoError(t, log.Close())
		again, log, err := open()
		require.NoError(t, err)
		require.Equal(t, append(d.words, "more"), again.words)
		require.NoError(t, log.Close())
	})
}

// FuzzManifest reads any bytes as a manifest. An accepted manifest is written as the same bytes.
func FuzzManifest(f *testing.F) {
	f.Add(manifest{1, 3, Always}.text())
	f.Add(manifest{1<<64 - 1, 1<<64 - 1, Never}.text())
	f.Add(manifest{7, 0, EverySecond}.text()[:60])
	f.Fuzz(func(t *testing.T, data []byte) {
		d := disk{dir: fastDir(t)}
		require.NoError(t, os.WriteFile(d.manifestPath(), data, 0o600))
		m, err := d.readManifest()
		if err != nil {
			var damage *CorruptError
			require.ErrorAs(t, err, &damage)
			return
		}
		require.Equal(t, data, m.text())
	})
}
