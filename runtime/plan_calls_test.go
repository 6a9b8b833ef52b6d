package runtime_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

var putCall = regexp.MustCompile(`call \d+: ffx_put_graph with (\d+) nodes`)

// A large graph is stored in chunks, each within the bounds of one call; one more call creates the run.
func TestPlanCalls(t *testing.T) {
	t.Parallel()
	step := activity.New("plan.step", func(_ context.Context, n int) (int, error) { return n, nil })
	sum := activity.New("plan.sum", func(_ context.Context, list []int) (int, error) { return len(list), nil })
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		for _, width := range []int{1, 30, 31, 62, 63, 300} {
			f := flow.New[int, int](fmt.Sprintf("wide-%d", width))
			root := flow.Node(f, "root", step, f.Input())
			wide := make([]flow.Ref[int], width)
			for i := range wide {
				wide[i] = flow.Node(f, fmt.Sprintf("wide-%d", i), step, root)
			}
			flow.Return(f, flow.Node(f, "join", sum, flow.List(wide...)))
			def, err := f.Build()
			require.NoError(t, err)
			plan, err := runtime.NewPlan(b.Client, def, 1)
			require.NoError(t, err)

			calls := putCall.FindAllStringSubmatch(plan.String(), -1)
			nodes := 0
			for i, call := range calls {
				n, err := strconv.Atoi(call[1])
				require.NoError(t, err)
				nodes += n
				require.True(t, n == 32 || n < 32 && i == len(calls)-1, "only the last call has fewer nodes: %v", call)
			}
			require.Equal(t, width+2, nodes)
			require.Contains(t, plan.String(), "then: ffx_submit")
		}
	})
}
