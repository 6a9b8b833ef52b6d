package command

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/admin/backup"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/keyprefix"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/internal/test/workload"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// actVariable makes the test's own program act as the command.
const actVariable = "FLOWFABRIC_TEST_ACT_AS_COMMAND"

// commands returns a folder with the programs that pages call: the command, and the client of a server.
func commands(t *testing.T, kind testserver.Kind) string {
	t.Helper()
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\n%s=1 exec %q \"$@\"\n", actVariable, os.Args[0])
	require.NoError(t, os.WriteFile(filepath.Join(dir, "flowfabric"), []byte(script), 0o700))
	server, found := testserver.Available(kind)
	require.True(t, found)
	client := filepath.Join(filepath.Dir(server), strings.Replace(filepath.Base(server), "-server", "-cli", 1))
	script = fmt.Sprintf("#!/bin/sh\nexec %q \"$@\"\n", client)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "valkey-cli"), []byte(script), 0o700))
	return dir
}

// The commands of docs/how-to/set-up-users.md make users as the page describes: the deployer loads the library, the
// application works, the operator backs up, and other users have no access.
func TestUsersPage(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, testserver.Servers(t), func(t *testing.T, kind testserver.Kind) {
		ctx := enginetest.Context(t)
		text, err := os.ReadFile("../../../../docs/how-to/set-up-users.md")
		require.NoError(t, err)
		server := testserver.Start(t, testserver.Options{Kind: kind, Args: []string{"appendonly yes"}})
		env := append(os.Environ(), "PATH="+commands(t, kind)+":"+os.Getenv("PATH"), "URL=redis://"+server.Addr(), "HOST="+server.Addr(),
			"APP_PASSWORD=a-1", "DEPLOYER_PASSWORD=d-2", "OPERATOR_PASSWORD=o-3", "ADMIN_PASSWORD=m-4", "HOME="+t.TempDir())
		run := func(block string) string {
			t.Helper()
			c := exec.CommandContext(ctx, "sh", "-e", "-c", block)
			c.Env = env
			out, err := c.CombinedOutput()
			require.NotContains(t, string(out), "ERR ")
			if err != nil && !strings.Contains(string(out), "findings of severity warning or worse") {
				require.NoError(t, err, "%s", out)
			}
			return string(out)
		}
		as := func(user, password string) string {
			u := url.URL{Scheme: string(kind), Host: server.Addr(), User: url.UserPassword(user, password)}
			return u.String()
		}
		blocks := strings.Split(string(text), "\n```")
		last := ""
		for i := 1; i < len(blocks); i += 2 {
			block, isShell := strings.CutPrefix(blocks[i], "sh\n")
			require.True(t, isShell)
			if strings.Contains(block, "deployer:$") {
				_, err := runtime.Open(ctx, as("app", "a-1"), runtime.OpenConfig{})
				require.ErrorIs(t, err, enginecore.ErrUnauthorized, "it may not load the library")
			}
			last = run(block)
		}
		require.Contains(t, last, "CONFIG GET", "settings that the application may not read")
		_, err = runtime.Open(ctx, server.URL(), runtime.OpenConfig{})
		require.ErrorIs(t, err, enginecore.ErrUnauthorized)

		b := enginetest.Open(t, kind, as("app", "a-1"), keyprefix.Default, runtime.OpenConfig{Partitions: 64})
		w := workload.New(t, 1)
		w.Start(t, b)
		w.Finish(t, b)
		b.Client.Close()
		require.NoError(t, b.Engine.Close())
		report, err := backup.Write(ctx, as("operator", "o-3"), filepath.Join(t.TempDir(), "backup"), backup.Config{})
		require.NoError(t, err)
		require.Empty(t, report.NotSeen)
		_, err = backup.Write(ctx, as("app", "a-1"), filepath.Join(t.TempDir(), "not"), backup.Config{})
		require.ErrorIs(t, err, enginecore.ErrUnauthorized)
	})
}
