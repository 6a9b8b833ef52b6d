package command

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/connect"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

// A new project passes its tests, and its worker and client run on the engine of the development server, without a
// network.
func TestNewProjectRuns(t *testing.T) {
	enginetest.Only(t, testserver.Embedded)
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "")
	t.Setenv("GOPROXY", "off")
	dir := filepath.Join(t.TempDir(), "shop")
	checkout, err := filepath.Abs("../../../..")
	require.NoError(t, err)
	out := nowhere(t).ok("new", dir, "--replace", checkout)
	require.Contains(t, out, "Wrote module shop")
	require.Contains(t, out, "go run ./cmd/client Ada")
	command := func(args ...string) string {
		c := exec.CommandContext(t.Context(), args[0], args[1:]...)
		c.Dir = dir
		text, err := c.CombinedOutput()
		require.NoError(t, err, "%v: %s", args, text)
		return string(text)
	}
	require.Empty(t, command("gofmt", "-l", "."))
	command("go", "vet", "./...")
	command("go", "test", "./...")
	sums, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)
	command("go", "mod", "tidy")
	again, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)
	require.Equal(t, string(sums), string(again))

	ctx, stop := context.WithCancel(enginetest.Context(t))
	read, write := io.Pipe()
	ended := make(chan int, 1)
	t.Chdir(dir)
	a := shell.App{Stdin: strings.NewReader(""), Stdout: write, Stderr: write, Env: func(string) string { return "" }}
	args := []string{"dev", "--listen", "127.0.0.1:0", "--engine-listen", "127.0.0.1:0", "--watch", "./cmd/worker"}
	go func() { ended <- Run(ctx, a, args); write.Close() }()
	scanner := bufio.NewScanner(read)
	url := ""
	for scanner.Scan() {
		if m := regexp.MustCompile(`FLOWFABRIC_URL=(\S+)`).FindStringSubmatch(scanner.Text()); m != nil {
			url = m[1]
		}
		if strings.Contains(scanner.Text(), "the worker runs") {
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, read) }()
	require.NotEmpty(t, url)
	t.Setenv("FLOWFABRIC_URL", url)
	require.Contains(t, command("go", "run", "./cmd/client", "Grace"), "Welcome, Grace!\n")
	x := terminal{t: t, open: connect.Open}
	x.where.URL = url
	require.Contains(t, x.ok("flow", "list", "-o", "name"), "signup")
	require.Contains(t, x.ok("run", "list", "--flow", "signup"), "succeeded")
	stop()
	require.Zero(t, <-ended)
}

// A directory with files, and an invalid name of a module, are refused before anything is written.
func TestNewRefuses(t *testing.T) {
	t.Parallel()
	x := nowhere(t)
	full, empty := t.TempDir(), filepath.Join(t.TempDir(), "x")
	require.NoError(t, os.WriteFile(filepath.Join(full, "notes.txt"), nil, 0o644))
	for _, c := range []struct {
		want string
		args []string
	}{
		{"is not empty: it has notes.txt", []string{full, "--module", "shop"}},
		{`--module "a b": must be the path of a module`, []string{empty, "--module", "a b"}},
		{`--module "-x": must be`, []string{empty, "--module=-x"}},
		{`--module "github.com/flowfabric/flowfabric-go/x"`, []string{empty, "--module", "github.com/flowfabric/flowfabric-go/x"}},
		{"has no go.mod of github.com/flowfabric", []string{empty, "--replace", full}},
		{"takes DIRECTORY", nil},
	} {
		require.Contains(t, x.fails(shell.ExitUsage, append([]string{"new"}, c.args...)...), c.want)
	}
	require.NoDirExists(t, empty)
}
