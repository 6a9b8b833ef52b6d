package runtime_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// closeWaits are calls that wait for a run. Each tells when it is about to wait.
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
			for _, err := range c.Run("waits", run.ID()).Stream(ctx, "n") {
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
				e, err := runtime.Open(ctx, b.URL, runtime.Prefix(b.Prefix))
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, e.Close()) })
				c := runtime.NewClient(e)
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
				time.Sleep(rand.N(50 * time.Millisecond)) // a random moment: calls that do not wait yet must end as well
				closing := time.Now()
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
				require.Less(t, time.Since(closing), 5*time.Second)
				for what, wait := range waits {
					require.ErrorIs(t, wait(), enginecore.ErrClosed, what)
				}
				if whole == "engine" {
					_, err = runtime.Start(ctx, c, def, 2)
					require.ErrorIs(t, err, enginecore.ErrClosed)
				}
			})
		}
	})
}
