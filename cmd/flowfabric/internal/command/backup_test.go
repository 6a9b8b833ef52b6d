package command

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/internal/test/workload"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// An operator backs up a directory, checks the file, restores it into a server, and moves that to another directory.
func TestBackupAndMove(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, testserver.Servers(t), func(t *testing.T, kind testserver.Kind) {
		dir, prefix := t.TempDir(), enginetest.NewPrefix()
		from, to := "embedded:"+filepath.Join(dir, "from"), "embedded:"+filepath.Join(dir, "to")
		b := enginetest.Open(t, testserver.Embedded, from, prefix)
		w := workload.New(t, 2)
		w.Start(t, b)
		file := filepath.Join(dir, "backup")
		server := testserver.Start(t, testserver.Options{Kind: kind}).URL()
		x := nowhere(t)
		require.Contains(t, x.ok("backup", "write", file, "--url", from, "--prefix", prefix), "runs with child runs: ")
		written := x.lines("backup", "write", file, "--url", from, "--prefix", prefix)[0]
		require.Contains(t, x.ok("backup", "check", file), written["sha256"])
		b.Client.Close()
		require.NoError(t, b.Engine.Close())

		code, _, stderr := x.run("backup", "restore", file, "--url", server)
		require.Equal(t, shell.ExitUsage, code)
		require.Contains(t, stderr, "restore "+file+" into "+server+": give --yes to do so\n")
		require.Equal(t, written["digest"], x.lines("backup", "restore", file, "--url", server, "--yes")[0]["digest"])
		code, _, stderr = x.run("backup", "restore", file, "--url", server, "--yes")
		require.Equal(t, shell.ExitFailed, code)
		require.Contains(t, stderr, "the engine has data")

		require.Contains(t, x.ok("move", server, to, "--prefix", prefix, "--dry-run"), "would move: keys: ")
		code, _, stderr = x.run("move", server, to, "--prefix", prefix)
		require.Equal(t, shell.ExitUsage, code)
		require.Contains(t, stderr, "from "+server+" to "+to+": give --yes to do so, or --dry-run to look\n")
		require.Contains(t, x.fails(shell.ExitFailed, "move", server, to, "--prefix", prefix, "--cancel", "--yes"), "contains no engine")
		require.Equal(t, written["digest"], x.lines("move", server, to, "--prefix", prefix, "--yes")[0]["digest"])
		require.Contains(t, x.ok("move", server, to, "--prefix", prefix, "--yes"), "had been moved before")
		require.Contains(t, x.fails(shell.ExitFailed, "move", server, to, "--prefix", prefix, "--yes", "--cancel"),
			"to "+to+": the state of the engines does not allow this: the move is complete, and ")
		_, err := runtime.Open(t.Context(), server, runtime.OpenConfig{Prefix: prefix, AllowVolatile: true})
		require.ErrorContains(t, err, "were moved to "+to)
		w.Finish(t, enginetest.Open(t, testserver.Embedded, to, prefix))
	})
}

// Senseless arguments are refused before anything is opened.
func TestBackupAndMoveUsage(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"needs an engine":                  {"backup", "write", "f", "--url", "http://localhost:1"},
		"needs engines":                    {"move", "embedded:x", "http://localhost:1", "--yes"},
		`profile "nowhere" does not exist`: {"move", "embedded:x", "nowhere", "--yes"},
		"exclude each other":               {"move", "embedded:x", "embedded:y", "--cancel", "--dry-run"},
		"takes FROM TO":                    {"move", "embedded:x"},
	} {
		x := nowhere(t)
		code, _, stderr := x.run(args...)
		require.Equal(t, shell.ExitUsage, code, "%v: %s", args, stderr)
		require.Contains(t, stderr, want)
	}
}
