package servertest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/contract"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// closeWaits returns calls that wait for a run. Each calls begun when it is about to wait.
func closeWaits(ctx context.Context, c *runtime.Client, run, attached *runtime.Run[int], begun func()) map[string]func() error {
	return map[string]func() error{
		"result of a started run": func() error {
			begun()
			_, err := run.Result(ctx)
			return err
		},
		"result of an attached run": func() error {
			begun()
			_, err := attached.Result(ctx)
			return err
		},
		"watch": func() (last error) {
			for _, err := range run.Watch(ctx, "") {
				if last = err; err == nil {
					begun()
				}
			}
			return last
		},
		"stream": func() (last error) {
			begun()
			for _, err := range c.Run("waits", run.ID()).Stream(ctx, "n", "") {
				last = err
			}
			return last
		},
	}
}

// Calls that wait for a run end when the client or the engine is closed, and those that come later say so.
func TestCloseEndsWaits(t *testing.T) {
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		f := flow.New[int, int]("waits")
		flow.Return(f, flow.Node(f, "n", activity.New("n", func(context.Context, int) (int, error) { return 0, nil }), f.Input()))
		def, err := f.Build()
		require.NoError(t, err)
		for _, whole := range []string{"client", "engine"} {
			t.Run(whole, func(t *testing.T) {
				ctx := enginetest.Context(t)
				e, err := runtime.Open(ctx, b.URL, runtime.OpenConfig{Prefix: b.Prefix, Backend: contract.Backend(contract.Config{})})
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, e.Close()) })
				c := enginetest.NewClient(t, e)
				t.Cleanup(c.Close)
				run, err := runtime.Start(ctx, c, def, 1)
				require.NoError(t, err)
				attached, err := runtime.Attach(c.Run(def.Name(), run.ID()), def)
				require.NoError(t, err)
				type end struct {
					what string
					err  error
				}
				begun, ends := make(chan struct{}, 10), make(chan end, 10)
				waits := closeWaits(ctx, c, run, attached, func() { begun <- struct{}{} })
				for what, wait := range waits {
					go func() { ends <- end{what, wait()} }()
				}
				for range waits {
					<-begun
				}
				time.Sleep(50 * time.Millisecond) //nolint:forbidigo // a moment at which most of them wait: those that do not must end as well
				if whole == "client" {
					c.Close()
				} else {
					require.NoError(t, e.Close())
				}
				for range waits {
					select {
					case got := <-ends:
						require.ErrorIs(t, got.err, enginecore.ErrClosed, got.what)
					case <-time.After(enginetest.Patience):
						t.Fatal("a call waits although the " + whole + " is closed")
					}
				}
				for what, wait := range waits {
					require.ErrorIs(t, wait(), enginecore.ErrClosed, what)
				}
				_, err = runtime.Start(ctx, c, def, 2)
				require.ErrorIs(t, err, enginecore.ErrClosed)
				_, err = run.Describe(ctx)
				require.ErrorIs(t, err, enginecore.ErrClosed)
				_, err = c.Run(def.Name(), run.ID()).Describe(ctx)
				require.ErrorIs(t, err, enginecore.ErrClosed)
				_, err = c.Lanes(ctx)
				require.ErrorIs(t, err, enginecore.ErrClosed)
			})
		}
	})
}

// Objects of an engine return ErrClosed when the engine is closed, and so do objects made of it later.
func TestClosedEngine(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		e, err := runtime.Open(ctx, b.URL, runtime.OpenConfig{Prefix: b.Prefix, Backend: contract.Backend(contract.Config{})})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, e.Close()) })
		newWorker := func() *runtime.Worker {
			w := enginetest.NewWorker(t, e, runtime.WorkerConfig{})
			require.NoError(t, w.Register(fixture.AddOne()))
			return w
		}
		working, idle := newWorker(), newWorker()
		keeping, waiting := enginetest.NewKeeper(t, e, runtime.KeeperConfig{}), enginetest.NewKeeper(t, e, runtime.KeeperConfig{})
		ends := make(chan error, 2)
		go func() { ends <- working.Run(ctx) }()
		go func() { ends <- keeping.Run(ctx) }()
		eventuallyReady(t, working.Check)
		eventuallyReady(t, keeping.Check)
		require.NoError(t, e.Close())
		for range 2 {
			require.ErrorIs(t, <-ends, enginecore.ErrClosed)
		}
		require.ErrorIs(t, idle.Run(ctx), enginecore.ErrClosed)
		require.ErrorIs(t, waiting.Run(ctx), enginecore.ErrClosed)
		for what, made := range map[string]func() (any, error){
			"client":       func() (any, error) { return runtime.NewClient(e) },
			"worker":       func() (any, error) { return runtime.NewWorker(e, runtime.WorkerConfig{}) },
			"keeper":       func() (any, error) { return runtime.NewKeeper(e, runtime.KeeperConfig{}) },
			"grant issuer": func() (any, error) { return e.ClaimForWorker(ctx, enginecore.GrantRequest{}) },
			"operator":     func() (any, error) { return admin.New(e) },
			"inspection":   func() (any, error) { return e.Inspect(ctx) },
			"check":        func() (any, error) { return nil, e.Check(ctx) },
			"rotation":     func() (any, error) { return e.RotateSecrets(ctx, 0) },
		} {
			_, err := made()
			require.ErrorIs(t, err, enginecore.ErrClosed, what)
		}
	})
}

// An engine that cannot be reached has no findings about rights. Calls in all partitions return one error, not one for
// each partition.
func TestInspectWithoutServer(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		ctx := enginetest.Context(t)
		server := testserver.Start(t, testserver.Options{Kind: kind})
		b := enginetest.Open(t, kind, server.URL(), enginetest.NewPrefix())
		server.Kill()
		_, err := b.Engine.Inspect(ctx)
		require.ErrorIs(t, err, enginecore.ErrNotReachable)
		soon, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		_, err = b.Client.Pauses(soon)
		// One partition may have been queried for the last time before the others: there are two errors at most.
		require.ErrorContains(t, err, " partitions: ")
		require.LessOrEqual(t, strings.Count(err.Error(), "ffx_pauses"), 2)
	})
}
