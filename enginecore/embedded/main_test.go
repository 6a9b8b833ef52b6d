package embedded

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/command"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/resp"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("EMBEDDED_TEST_CHILD"); dir != "" {
		os.Exit(childMain(dir))
	}
	goleak.VerifyTestMain(m)
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func open(t testing.TB, o Options) *Engine {
	t.Helper()
	if o.Logger == nil {
		o.Logger = quiet()
	}
	e, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return e
}

func connect(t testing.TB, e *Engine) *rawClient {
	t.Helper()
	conn, err := e.dial(context.Background(), "", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return newRawClient(conn)
}

// server starts a Redis server for the length of the test and returns its address.
func server(t testing.TB, settings ...string) string {
	t.Helper()
	if !slices.Contains(testserver.Kinds(t), testserver.Redis) {
		t.Skip("redis is not to be tested")
	}
	return serverOf(t, testserver.Redis, settings...)
}

// serverOf starts a real server of a kind for the length of the test and returns its address.
func serverOf(t testing.TB, kind testserver.Kind, settings ...string) string {
	t.Helper()
	path, found := testserver.Available(kind)
	if !found {
		t.Fatal(testserver.Hint(kind))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	_, port, _ := net.SplitHostPort(addr)
	args := append([]string{"--bind", "127.0.0.1", "--port", port, "--databases", "1", "--save", "", "--appendonly", "no", "--dir", t.TempDir()}, settings...)
	cmd := exec.Command(path, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	up := make(chan error, 1)
	go func() {
		sc := bufio.NewScanner(out)
		for sc.Scan() {
			if strings.Contains(sc.Text(), "Ready to accept connections") {
				up <- nil
				break
			}
		}
		_, _ = io.Copy(io.Discard, out)
		select {
		case up <- errors.New("server ended"):
		default:
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if err := <-up; err != nil {
		t.Fatalf("%s %v: %v", path, args, err)
	}
	return addr
}

func connectTCP(t testing.TB, addr string) *rawClient {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return newRawClient(conn)
}

func lib(functions ...string) string {
	var b strings.Builder
	b.WriteString("#!lua name=test\n")
	for i := 0; i+1 < len(functions); i += 2 {
		fmt.Fprintf(&b, "redis.register_function('%s', function(KEYS, ARGV) %s end)\n", functions[i], functions[i+1])
	}
	return b.String()
}

// fcall runs a function without a connection, and waits until its effects are on disk.
func (e *Engine) fcall(ctx context.Context, name string, keys, args []string) (resp.Reply, error) {
	if err := ctx.Err(); err != nil {
		return resp.Reply{}, err
	}
	words := append([]string{"FCALL", name, strconv.Itoa(len(keys))}, append(slices.Clone(keys), args...)...)
	reply, pos, err := e.do(words)
	if err != nil {
		return resp.Reply{}, err
	}
	if e.log != nil {
		if err := e.log.Wait(ctx, pos); err != nil {
			return resp.Reply{}, err
		}
	}
	return reply, reply.Err()
}

// do runs one command outside of any connection and returns the log position that its reply depends on.
func (e *Engine) do(words []string) (reply resp.Reply, pos int64, err error) {
	cmd := e.command(words[0])
	e.gate.Lock()
	defer e.gate.Unlock()
	if e.shut {
		return resp.Reply{}, 0, ErrClosed
	}
	reply = e.unit(&call{Call: command.Call{Store: &e.store, Args: words}, e: e}, cmd)
	return reply, e.position(), nil
}
