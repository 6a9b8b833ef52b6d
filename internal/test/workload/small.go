package workload

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
)

// PlusOne is the activity of Counting.
var PlusOne = activity.New("plus-one", func(_ context.Context, n int) (int, error) { return n + 1, nil })

// Counting is a flow with one activity, PlusOne.
func Counting(tb testing.TB) *flow.Definition[int, int] {
	tb.Helper()
	f := flow.New[int, int]("counting")
	flow.Return(f, flow.Node(f, "only", PlusOne, f.Input()))
	def, err := f.Build()
	require.NoError(tb, err)
	return def
}

// Gated is a flow that waits at the node go for the signal go, and returns its payload.
func Gated(tb testing.TB) *flow.Definition[int, string] {
	tb.Helper()
	f := flow.New[int, string]("gated")
	flow.Return(f, flow.Waitpoint[string](f, "go"))
	def, err := f.Build()
	require.NoError(tb, err)
	return def
}
