package starttest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A run has the priority, the deadline and the memo of its start, and its child run has the priority, too.
func TestStartOptions(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := activity.New("double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
		inner := flow.New[int, int]("inner")
		flow.Return(inner, flow.Node(inner, "double", a, inner.Input(), activity.Priority(3)))
		innerDef, err := inner.Build()
		require.NoError(t, err)
		f := flow.New[int, int]("outer", flow.Deadline(time.Hour))
		first := flow.Node(f, "first", a, f.Input(), activity.Priority(7))
		flow.Return(f, flow.Sub(f, "sub", innerDef, first))
		def, err := f.Build()
		require.NoError(t, err)
		run, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithPriority(5), runtime.WithDeadline(24*time.Hour),
			runtime.WithMemo(map[string]any{"ticket": "A-1"}))
		require.NoError(t, err)
		plain, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.JSONEq(t, `{"ticket":"A-1"}`, string(d.Memo))
		require.Equal(t, 24*time.Hour, d.DeadlineAt.Sub(d.CreatedAt))
		operator, err := admin.New(b.Engine)
		require.NoError(t, err)
		priority := func(flow, run, node string) int {
			x, err := operator.Execution(ctx, b.Node(t, b.Locate(t, flow, run), node))
			require.NoError(t, err)
			return x.Priority
		}
		require.Equal(t, 5, priority("outer", run.ID(), "first"))
		require.Equal(t, 5, priority("outer", run.ID(), "sub"))
		require.Equal(t, 7, priority("outer", plain.ID(), "first"))
		d, err = plain.Describe(ctx)
		require.NoError(t, err)
		require.Nil(t, d.Memo)
		require.Equal(t, time.Hour, d.DeadlineAt.Sub(d.CreatedAt))
		b.Worker(t, []activity.Handler{a})
		b.Keeper(t)
		for _, r := range []*runtime.Run[int]{run, plain} {
			out, err := r.Result(ctx)
			require.NoError(t, err)
			require.Equal(t, 4, out)
		}
		for r, want := range map[*runtime.Run[int]]int{run: 5, plain: 3} {
			n, err := r.DescribeNode(ctx, "sub")
			require.NoError(t, err)
			require.Equal(t, want, priority(n.Child.Flow, n.Child.Run, "double"))
		}

		for text, opt := range map[string]runtime.StartOption{
			"priority 9001: must be 0 to 9000":                runtime.WithPriority(9001),
			"deadline -1s: must be 0 to 10 years":             runtime.WithDeadline(-time.Second),
			"memo of type chan int does not encode":           runtime.WithMemo(make(chan int)),
			"memo has 16387 bytes, at most 16384 are allowed": runtime.WithMemo(strings.Repeat("x", 16385)),
		} {
			_, err := runtime.Start(ctx, b.Client, def, 1, opt)
			require.ErrorContains(t, err, text)
		}
		many, err := runtime.StartMany(ctx, b.Client, def, []runtime.NewRun[int]{
			{Input: 1, Options: []runtime.StartOption{runtime.WithMemo("one")}},
			{Input: 2, Options: []runtime.StartOption{runtime.WithMemo("two"), runtime.WithPriority(9)}},
			{Input: 3},
		})
		require.NoError(t, err)
		for i, want := range []string{`"one"`, `"two"`, ""} {
			require.NoError(t, many[i].Err)
			d, err := many[i].Run.Describe(ctx)
			require.NoError(t, err)
			require.Equal(t, want, string(d.Memo))
			_, err = many[i].Run.Result(ctx)
			require.NoError(t, err)
		}
		b.Settle(t)
	})
}
