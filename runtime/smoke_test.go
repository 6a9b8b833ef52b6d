package runtime_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

var add = activity.New("add", func(_ context.Context, n int) (int, error) { return n + 1, nil })

func chain(t *testing.T, n int) *flow.Definition[int, int] {
	f := flow.New[int, int]("chain")
	ref := flow.Node(f, "n0", add, f.Input())
	for i := 1; i < n; i++ {
		ref = flow.Node(f, fmt.Sprintf("n%d", i), add, ref)
	}
	flow.Return(f, ref)
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

func TestSmoke(t *testing.T) {
	for _, k := range testserver.Kinds(t) {
		t.Run(string(k), func(t *testing.T) {
			url := "embedded:"
			if k != testserver.Embedded {
				url = testserver.Shared(t, k).URL()
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			eng, err := runtime.Open(ctx, url)
			require.NoError(t, err)
			defer eng.Close()
			w := runtime.NewWorker(eng)
			require.NoError(t, w.Register(add))
			wctx, stop := context.WithCancel(ctx)
			done := make(chan error, 1)
			go func() { done <- w.Run(wctx) }()
			c := runtime.NewClient(eng)
			defer c.Close()
			def := chain(t, 10)
			for i := range 20 {
				begun := time.Now()
				run, err := runtime.Start(ctx, c, def, i)
				require.NoError(t, err)
				out, err := run.Result(ctx)
				if err != nil {
					d, derr := run.Describe(context.Background())
					t.Logf("%+v %v", d, derr)
				}
				require.NoError(t, err)
				require.Equal(t, i+10, out)
				t.Log(time.Since(begun))
			}
			stop()
			require.NoError(t, <-done)
		})
	}
}
