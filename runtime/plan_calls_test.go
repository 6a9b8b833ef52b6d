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

var submitCall = regexp.MustCompile(`call \d+: ffx_submit_flow with (\d+) nodes and (\d+) edges(, releases the roots)?`)

// A large flow comes in chunks: all nodes before the first edge, which may come with the last of them; each call within
// the bounds of one, and the last one alone lets the flow go.
func TestPlanCalls(t *testing.T) {
	t.Parallel()
	step := activity.New("plan.step", func(_ context.Context, n int) (int, error) { return n, nil })
	sum := activity.New("plan.sum", func(_ context.Context, list []int) (int, error) { return len(list), nil })
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		for _, width := range []int{46, 47, 94, 95, 100, 300} {
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

			calls := submitCall.FindAllStringSubmatch(plan.String(), -1)
			nodes, edges := 0, 0
			for i, call := range calls {
				n, err := strconv.Atoi(call[1])
				require.NoError(t, err)
				e, err := strconv.Atoi(call[2])
				require.NoError(t, err)
				nodes, edges = nodes+n, edges+e
				require.True(t, e == 0 || nodes == width+2, "edges before nodes: %v", call)
				require.True(t, n <= 48 && e <= 128, "too much in one call: %v", call)
				require.Equal(t, i == len(calls)-1, call[3] != "", "only the last call releases: %v", call)
			}
			require.Equal(t, []int{width + 2, 2 * width}, []int{nodes, edges})
			if width == 100 {
				require.Len(t, calls, 5)
			}
		}
	})
}
