package storm

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded"
	"github.com/flowfabric/flowfabric-go/internal/lualib"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

// embeddedServer is the role of a process with an embedded engine that others reach by TCP.
const embeddedServer role = "embedded"

// Environment variables of such a process.
const (
	dirVariable  = "FLOWFABRIC_STORM_DIR"
	addrVariable = "FLOWFABRIC_STORM_ADDR"
)

// serveEmbedded serves an embedded engine. Each line of its input is a number of milliseconds by which its clock is set
// from then on.
func serveEmbedded(ctx context.Context) error {
	var ahead atomic.Int64
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			if n, err := strconv.ParseInt(lines.Text(), 10, 64); err == nil {
				ahead.Store(n)
			}
		}
	}()
	engine, err := embedded.Open(ctx, embedded.Options{
		Library: lualib.Source(), Dir: os.Getenv(dirVariable), LogLimit: 4 << 20, Logger: slog.New(slog.DiscardHandler),
		Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load()) * time.Millisecond) },
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", os.Getenv(addrVariable))
	if err != nil {
		return err
	}
	return engine.Serve(ctx, listener)
}

// embeddedProcess is an embedded engine in a process that is killed and started again.
type embeddedProcess struct {
	dir, addr string
	cmd       *exec.Cmd
	clock     io.WriteCloser
	ahead     time.Duration
}

func startEmbedded(t *testing.T) *embeddedProcess {
	t.Helper()
	e := &embeddedProcess{dir: t.TempDir(), addr: fmt.Sprintf("127.0.0.1:%d", testserver.Port(t))}
	e.start(t)
	t.Cleanup(e.kill)
	return e
}

func (e *embeddedProcess) start(t testing.TB) {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	e.cmd = exec.Command(binary)
	e.cmd.Env = append(os.Environ(),
		roleVariable+"="+string(embeddedServer), dirVariable+"="+e.dir, addrVariable+"="+e.addr)
	e.cmd.Stderr = os.Stderr
	e.clock, err = e.cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, e.cmd.Start())
	e.setClock(t, e.ahead)
}

func (e *embeddedProcess) kill() {
	_ = e.cmd.Process.Kill()
	_ = e.cmd.Wait()
}

// setClock sets the engine's clock ahead of the machine's clock by a duration.
func (e *embeddedProcess) setClock(t testing.TB, ahead time.Duration) {
	t.Helper()
	e.ahead = ahead
	_, err := fmt.Fprintln(e.clock, ahead.Milliseconds())
	require.NoError(t, err)
}

// tear appends to the engine's log the incomplete record that a power cut may leave of an unacknowledged write: some
// bytes, or sectors of zeros. All acknowledged records are synced before.
func (e *embeddedProcess) tear(t testing.TB, r *rand.Rand) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(e.dir, "log-*"))
	require.NoError(t, err)
	require.NotEmpty(t, logs, "the log of the engine")
	newest := slices.Max(logs)
	tail := make([]byte, 1+r.IntN(2000))
	if r.IntN(2) == 0 {
		for i := range tail {
			tail[i] = byte(r.Uint32())
		}
	}
	file, err := os.OpenFile(newest, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.Write(tail)
	require.NoError(t, err)
	require.NoError(t, file.Close())
}
