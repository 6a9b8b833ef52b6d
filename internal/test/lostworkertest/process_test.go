package lostworkertest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Environment variables of a process that is a worker.
const (
	urlVariable    = "FLOWFABRIC_LOST_WORKER_URL"
	prefixVariable = "FLOWFABRIC_LOST_WORKER_PREFIX"
	livesVariable  = "FLOWFABRIC_LOST_WORKER_LIVES"
)

// lease is the lease of the processes' workers.
const lease = 500 * time.Millisecond

func TestMain(m *testing.M) {
	if os.Getenv(urlVariable) != "" {
		ctx, end := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		err := work(ctx)
		end()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	enginetest.Main(m)
}

// poison kills the process that runs it, kind takes a while. A process with a limited lifetime never ends the functions
// that it runs.
func poison(fatal bool) *activity.Activity[int, int] {
	return activity.New("poison", func(_ context.Context, n int) (int, error) {
		if fatal {
			os.Exit(3)
		}
		return n, nil
	}, activity.LostWorkers(4))
}

func kind(takes time.Duration) *activity.Activity[int, int] {
	return activity.New("kind", func(_ context.Context, n int) (int, error) {
		time.Sleep(takes) //nolint:forbidigo // other workers claim in this time
		return n, nil
	})
}

// noted is an activity that notes the begin of its function. The other process notes it on its standard output.
func noted(begins func(n int)) *activity.Activity[int, int] {
	return activity.New("noted", func(_ context.Context, n int) (int, error) {
		begins(n)
		return n, nil
	})
}

func begunLine(n int) string { return fmt.Sprintf("begun %d\n", n) }

// work is the other process. It ends with ctx, after its functions have returned.
func work(ctx context.Context) error {
	lives, err := time.ParseDuration(os.Getenv(livesVariable))
	if err != nil {
		return err
	}
	takes := lease / 2
	if lives > 0 {
		takes = time.Hour
		time.AfterFunc(lives, func() { os.Exit(4) })
	}
	engine, err := runtime.Open(ctx, os.Getenv(urlVariable), runtime.OpenConfig{
		Prefix: os.Getenv(prefixVariable), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	w, err := runtime.NewWorker(engine, runtime.WorkerConfig{Lease: lease, Concurrency: 16, NoKeeper: true})
	if err == nil {
		err = w.Register(poison(true), kind(takes), noted(func(n int) { _, _ = os.Stdout.WriteString(begunLine(n)) }))
	}
	if err == nil {
		err = w.Run(ctx)
	}
	return errors.Join(err, engine.Close())
}

// process starts the other process.
func process(t *testing.T, b *enginetest.Bench, lives time.Duration) *exec.Cmd {
	t.Helper()
	c := command(t, b, b.URL, lives)
	require.NoError(t, c.Start())
	return c
}

// command is the other process before its start. It reaches the engine of b at a URL.
func command(t *testing.T, b *enginetest.Bench, url string, lives time.Duration) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	c := exec.Command(program)
	c.Env = append(os.Environ(), urlVariable+"="+url, prefixVariable+"="+b.Prefix, livesVariable+"="+lives.String())
	return c
}

// supervise starts the process anew each time it ends, until the test ends.
func supervise(t *testing.T, b *enginetest.Bench) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			c := process(t, b, 0)
			end := context.AfterFunc(ctx, func() { _ = c.Process.Kill() })
			_ = c.Wait()
			end()
		}
	}()
	t.Cleanup(func() { stop(); <-done })
}
