package lostworkertest

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver/proxy"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A process is stopped, as by a debugger or a suspended machine, while the engine grants it an execution or a permit of
// a limit. Another worker takes the execution over. When the process continues, it reads the grant, which is no longer
// valid: it does not begin the function, uses no permit, and continues to work.
func TestStoppedBetweenGrantAndBegin(t *testing.T) {
	t.Parallel()
	counted := []flow.NodeOption{activity.Limit("some", activity.LimitConfig{AtMost: 100, Per: time.Hour, AtOnce: 1})}
	for name, c := range map[string]struct {
		at      string // the call with which the process is stopped
		options []flow.NodeOption
	}{
		"lease":           {"ffx3_claim", nil},
		"candidate":       {"ffx3_claim", counted},
		"place":           {"ffx3_exchange", counted},
		"admission":       {"ffx3_admit", counted},
		"block of places": {"ffx3_hold_places", []flow.NodeOption{activity.Limit("some", activity.LimitConfig{AtOnce: 100})}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onServers(t, func(t *testing.T, b *enginetest.Bench) {
				ctx := enginetest.Context(t)
				b.Keeper(t)
				var begun atomic.Int64
				here := noted(func(int) { begun.Add(1) })
				def := single(t, here, c.options...)
				run := start(t, b, def, 1)[0]
				other := stopAt(t, b, c.at)
				n := 0
				var want string
				for !other.stoppedBeforeEndOf(ctx, t, run) { // it has not called the function yet
					want += begunLine(n)
					n++
					var err error
					run, err = runtime.Start(ctx, b.Client, def, n)
					require.NoError(t, err)
				}

				worker := b.Worker(t, []activity.Handler{here}, runtime.WorkerConfig{Lease: lease})
				_, err := run.Result(ctx)
				require.NoError(t, err)
				require.EqualValues(t, 1, begun.Load())
				require.NoError(t, worker.Stop())

				require.NoError(t, other.command.Process.Signal(syscall.SIGCONT))
				last, err := runtime.Start(ctx, b.Client, def, n+1)
				require.NoError(t, err)
				_, err = last.Result(ctx)
				require.NoError(t, err)
				require.NoError(t, other.command.Process.Signal(syscall.SIGTERM))
				require.NoError(t, other.command.Wait())
				require.Equal(t, want+begunLine(n+1), other.output.String())

				b.Settle(t)
				limits, err := b.Client.Limits(ctx)
				require.NoError(t, err)
				for _, l := range limits {
					require.Zero(t, l.Running+l.Waiting, "%+v", l)
					if l.AtMost > 0 {
						// An execution that may have begun before its worker was lost counts as a start, too.
						require.Contains(t, []int{n + 2, n + 3}, l.Started, "%+v", l)
					}
				}
			})
		})
	}
}

// stoppable is a process that SIGSTOP stops. Its output may be read once it has ended.
type stoppable struct {
	command *exec.Cmd
	output  bytes.Buffer
	stopped chan error
}

// stopAt starts the other process, which is stopped when it has sent its first call of a function and has not read the
// reply.
func stopAt(t *testing.T, b *enginetest.Bench, function string) *stoppable {
	t.Helper()
	at, err := url.Parse(b.URL)
	require.NoError(t, err)
	network := proxy.Start(t, at.Host)
	at.Host = network.Addr()
	s := &stoppable{command: command(t, b, at.String(), 0), stopped: make(chan error, 1)}
	s.command.Stdout = &s.output
	started := make(chan struct{})
	var done atomic.Bool
	network.Intercept(func(chunk []byte) proxy.Fate {
		if bytes.Contains(chunk, []byte(function+"\r\n")) && !done.Swap(true) {
			<-started
			s.stopped <- stop(s.command)
		}
		return proxy.Pass
	})
	require.NoError(t, s.command.Start())
	close(started)
	t.Cleanup(func() {
		_ = s.command.Process.Kill()
		_ = s.command.Wait()
	})
	return s
}

// stoppedBeforeEndOf waits until the process has been stopped, and reports false when a run has ended before.
func (s *stoppable) stoppedBeforeEndOf(ctx context.Context, t *testing.T, run *runtime.Run[int]) bool {
	t.Helper()
	waits, leave := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		_, err := run.Result(waits)
		ended <- err
	}()
	defer leave()
	select {
	case err := <-s.stopped:
		require.NoError(t, err)
		leave()
		<-ended
		return true
	case err := <-ended:
		require.NoError(t, err)
		return false
	}
}

// stop stops a process, and returns when all of its threads are stopped.
func stop(c *exec.Cmd) error {
	if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		var status syscall.WaitStatus
		switch _, err := syscall.Wait4(c.Process.Pid, &status, syscall.WUNTRACED, nil); {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return err
		case !status.Stopped():
			return errors.New("the process has ended")
		default:
			return nil
		}
	}
}
