package accesstest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// blocks returns the fenced blocks of a kind of a page.
func blocks(t *testing.T, page, kind string) (found []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "how-to", page))
	require.NoError(t, err)
	parts := strings.Split(string(text), "\n```")
	for i := 1; i < len(parts); i += 2 {
		if block, ok := strings.CutPrefix(parts[i], kind+"\n"); ok {
			found = append(found, block)
		}
	}
	require.NotEmpty(t, found)
	return found
}

// The commands and settings of docs/how-to/connect-over-tls.md make a server that runs flows over TLS for programs with a
// certificate of its authority, and for no others.
func TestTLSPage(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, testserver.Servers(t), func(t *testing.T, kind testserver.Kind) {
		ctx, dir := enginetest.Context(t), t.TempDir()
		for _, block := range blocks(t, "connect-over-tls.md", "sh") {
			c := exec.CommandContext(ctx, "sh", "-e", "-c", block)
			c.Dir = dir
			out, err := c.CombinedOutput()
			require.NoError(t, err, "%s", out)
		}
		var lines []string
		for _, block := range blocks(t, "connect-over-tls.md", "conf") {
			for line := range strings.Lines(strings.ReplaceAll(block, "/etc/valkey/tls", dir)) {
				if line = strings.TrimSpace(line); line != "port 0" && !strings.HasPrefix(line, "tls-port ") {
					lines = append(lines, line)
				}
			}
		}
		server := testserver.StartTLSWith(t, kind, lines)
		url := map[testserver.Kind]string{testserver.Valkey: "valkeys://", testserver.Redis: "rediss://"}[kind] + server.TLSAddr

		authority, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
		require.NoError(t, err)
		roots := x509.NewCertPool()
		require.True(t, roots.AppendCertsFromPEM(authority))
		own, err := tls.LoadX509KeyPair(filepath.Join(dir, "worker.pem"), filepath.Join(dir, "worker.key"))
		require.NoError(t, err)
		for what, config := range map[string]*tls.Config{
			"no client certificate": {RootCAs: roots}, "another authority": {Certificates: []tls.Certificate{own}},
		} {
			_, err := runtime.Open(ctx, url, runtime.OpenConfig{TLSConfig: config})
			require.Error(t, err, what)
		}
		b := enginetest.Open(t, kind, url, enginetest.NewPrefix(), runtime.OpenConfig{
			TLSConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}},
		})
		add := activity.New("add", func(_ context.Context, n int) (int, error) { return n + 1, nil })
		f := flow.New[int, int]("adding")
		flow.Return(f, flow.Node(f, "add", add, f.Input()))
		def, err := f.Build()
		require.NoError(t, err)
		b.KeepingWorker(t, []activity.Handler{add})
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 2, out)
	})
}
