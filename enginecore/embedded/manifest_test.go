package embedded

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/record"
)

// written makes a directory with n records and returns two copies: after a kill, and after Close. The former is copied
// while the engine is open: it is of use only if the log stays below the limit, since a snapshot during the copy would
// replace files.
func written(t *testing.T, o Options, n int) (killed, closed string) {
	t.Helper()
	o.Dir = t.TempDir()
	e := open(t, o)
	c := connect(t, e)
	for i := range n {
		c.must(t, "SET", "k"+strconv.Itoa(i), strings.Repeat("v", 100))
	}
	killed = copyDir(t, o.Dir)
	require.NoError(t, e.Close())
	return killed, o.Dir
}

func opens(t *testing.T, dir string) error {
	t.Helper()
	e, err := Open(context.Background(), Options{Dir: dir, Logger: quiet()})
	if err == nil {
		require.NoError(t, e.Close())
	}
	return err
}

// TestOpen_RefusesLostLog empties, cuts and removes files: a directory with lost data does not open as an empty engine.
func TestOpen_RefusesLostLog(t *testing.T) {
	const first = "log-000000000001"
	cut := func(name string, size int64) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) { require.NoError(t, os.Truncate(filepath.Join(dir, name), size)) }
	}
	remove := func(name string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) { require.NoError(t, os.Remove(filepath.Join(dir, name))) }
	}
	killed, closed := written(t, Options{}, 5)
	reopened := copyDir(t, killed)
	e := open(t, Options{Dir: reopened})
	reopened = copyDir(t, reopened)
	require.NoError(t, e.Close())
	for name, c := range map[string]struct {
		from   string
		damage func(t *testing.T, dir string)
		path   string
		reason string
	}{
		"log emptied":                     {killed, cut(first, 0), first, "header is incomplete"},
		"log cut into its header":         {killed, cut(first, record.FileHeaderSize-1), first, "header is incomplete"},
		"log removed":                     {killed, remove(first), first, "missing"},
		"closed, log cut to header":       {closed, cut(first, record.FileHeaderSize), first, "ends with record 0, but record 5 was kept"},
		"killed twice, log cut to header": {reopened, cut(first, record.FileHeaderSize), first, "ends with record 0, but record 5 was kept"},
		"closed, log cut in a record":     {closed, cut(first, 400), first, "was kept"},
		"manifest emptied":                {killed, cut("MANIFEST", 0), "MANIFEST", "not a whole manifest"},
		"manifest cut":                    {killed, cut("MANIFEST", 60), "MANIFEST", "not a whole manifest"},
		"log emptied without manifest":    {killed, func(t *testing.T, dir string) { remove("MANIFEST")(t, dir); cut(first, 0)(t, dir) }, first, "header is incomplete"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyDir(t, c.from)
			c.damage(t, dir)
			err := opens(t, dir)
			var ce *CorruptError
			require.ErrorIs(t, err, ErrCorrupt)
			require.ErrorAs(t, err, &ce)
			require.Equal(t, filepath.Join(dir, c.path), ce.Path)
			require.Contains(t, ce.Reason, c.reason)
			require.Equal(t, err.Error(), opens(t, dir).Error(), "looking changes nothing")
		})
	}
	// Without the manifest, the remaining data opens, and so does a directory of a version without manifests.
	dir := copyDir(t, closed)
	remove("MANIFEST")(t, dir)
	cut(first, 400)(t, dir)
	e = open(t, Options{Dir: dir})
	require.Equal(t, ":2", connect(t, e).must(t, "DBSIZE").String())
	require.FileExists(t, filepath.Join(dir, "MANIFEST"))
}

// TestOpen_RefusesLostSnapshotFiles removes single files of a directory that has a snapshot.
func TestOpen_RefusesLostSnapshotFiles(t *testing.T) {
	closed := t.TempDir()
	e := open(t, Options{Dir: closed, LogLimit: 1 << 10})
	c := connect(t, e)
	for i := range 40 {
		c.must(t, "SET", "k"+strconv.Itoa(i), strings.Repeat("v", 100))
	}
	require.NoError(t, e.Close())
	names, err := os.ReadDir(closed)
	require.NoError(t, err)
	seen := 0
	for _, ent := range names {
		if !strings.HasPrefix(ent.Name(), "log-") && !strings.HasPrefix(ent.Name(), "snapshot-") {
			continue
		}
		seen++
		dir := copyDir(t, closed)
		require.NoError(t, os.Remove(filepath.Join(dir, ent.Name())))
		require.ErrorIs(t, opens(t, dir), ErrCorrupt, ent.Name())
	}
	require.Equal(t, 2, seen)
}

// TestOpen_TornEndOfLog distinguishes the bytes that a crash can leave after the last record from other bytes.
func TestOpen_TornEndOfLog(t *testing.T) {
	big := record.Start(nil)
	big = record.AppendCommand(big, []string{"SET", "big", strings.Repeat("x", 3<<20)})
	record.Seal(big, 4)
	random := bytes.Repeat([]byte("\xf7FR no record "), 200_000)
	for name, c := range map[string]struct {
		policy Fsync
		tail   []byte
		ok     bool
	}{
		"a page of zeros":                        {FsyncAlways, make([]byte, 4096), true},
		"half of a large record":                 {FsyncAlways, big[:2<<20], true},
		"many zeros":                             {FsyncAlways, make([]byte, 1<<20+1), false},
		"many bytes that are not a record":       {FsyncAlways, random, false},
		"many zeros, of a log synced at times":   {FsyncEverySecond, make([]byte, 2<<20), true},
		"many zeros, of a log that is not":       {FsyncNever, make([]byte, 2<<20), true},
		"zeros and then a record, not synced":    {FsyncNever, append(make([]byte, 100), big...), false},
		"zeros and then a record, always synced": {FsyncAlways, append(make([]byte, 100), big...), false},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := written(t, Options{Fsync: c.policy}, 3)
			path := lastLog(t, dir)
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, append(data, c.tail...), 0o600))
			var logged bytes.Buffer
			e, err := Open(context.Background(), Options{Dir: dir, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
			if !c.ok {
				var ce *CorruptError
				require.ErrorAs(t, err, &ce)
				require.Equal(t, int64(len(data)), ce.Offset)
				// The remedy in the error suffices.
				require.NoError(t, os.Truncate(path, ce.Offset))
				require.NoError(t, opens(t, dir))
				return
			}
			require.NoError(t, err)
			require.Contains(t, logged.String(), "bytes="+strconv.Itoa(len(c.tail)))
			require.Equal(t, ":3", connect(t, e).must(t, "DBSIZE").String())
			require.NoError(t, e.Close())
		})
	}
}

// TestLockRemoved removes the lock file of an open engine: a second one is still refused.
func TestLockRemoved(t *testing.T) {
	dir := t.TempDir()
	e := open(t, Options{Dir: dir})
	if err := os.Remove(filepath.Join(dir, "LOCK")); err != nil {
		return // the system does not let it happen
	}
	_, err := Open(context.Background(), Options{Dir: dir})
	require.ErrorIs(t, err, ErrLocked)
	connect(t, e).must(t, "SET", "k", "v")
	require.NoError(t, e.Close())
	require.Equal(t, "v", connect(t, open(t, Options{Dir: dir})).must(t, "GET", "k").text)
}

// TestOpen_RemovesUnfinishedFiles opens a directory in which files were being made when the process before was killed.
func TestOpen_RemovesUnfinishedFiles(t *testing.T) {
	killed, _ := written(t, Options{}, 2)
	for _, name := range []string{"log-000000000002.tmp", "snapshot-000000000002.tmp", "MANIFEST.tmp", "room.tmp"} {
		require.NoError(t, os.WriteFile(filepath.Join(killed, name), []byte("half"), 0o600))
	}
	// A log that was made, and was not taken into use.
	require.NoError(t, os.WriteFile(filepath.Join(killed, "log-000000000002"), record.FileHeader(2, 2), 0o600))
	e := open(t, Options{Dir: killed, LogLimit: 1})
	left, err := filepath.Glob(filepath.Join(killed, "*.tmp"))
	require.NoError(t, err)
	require.Empty(t, left)
	c := connect(t, e)
	require.Equal(t, ":2", c.must(t, "DBSIZE").String())
	c.must(t, "SET", "more", "v")
	require.NoError(t, e.Close())
	require.Equal(t, ":3", connect(t, open(t, Options{Dir: killed})).must(t, "DBSIZE").String())
}
