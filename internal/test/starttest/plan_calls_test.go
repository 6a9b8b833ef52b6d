package starttest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// wideFlow is a flow of a root, width nodes after it, and one that joins them after a waitpoint.
func wideFlow(t *testing.T, width int) *flow.Definition[int, int] {
	t.Helper()
	step := activity.New("plan.step", func(_ context.Context, n int) (int, error) { return n, nil })
	sum := activity.New("plan.sum", func(_ context.Context, list []int) (int, error) { return len(list), nil })
	f := flow.New[int, int](fmt.Sprintf("wide-%d", width))
	root := flow.Node(f, "root", step, f.Input())
	wide := make([]flow.Ref[int], width)
	for i := range wide {
		wide[i] = flow.Node(f, fmt.Sprintf("wide-%d", i), step, root)
	}
	approval := flow.Waitpoint[int](f, "approval", flow.After(root))
	flow.Return(f, flow.Node(f, "join", sum, flow.List(wide...), flow.After(approval)))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

// A plan has the calls that a server gets, in their order: the contract's calls in contract mode, else the composite
// ones.
func TestPlan_HasTheSentCalls(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		if b.Kind == testserver.Embedded || b.Kind == testserver.OnCluster {
			return // the commands of one server are recorded
		}
		ctx := enginetest.Context(t)
		for _, width := range []int{1, 30, 31, 62, 150} {
			def := wideFlow(t, width)
			plan, err := runtime.Plan(def, 1, runtime.WithID("r"))
			require.NoError(t, err)
			require.Empty(t, plan.Refused())
			sent := recordCalls(t, b, func() {
				_, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID("r"))
				require.NoError(t, err)
			})
			if b.Contract() {
				require.Equal(t, names(plan.Calls), sent)
				continue
			}
			require.Subset(t, names(plan.Composite), sent, "nothing else is sent")
			require.Equal(t, count(names(plan.Composite), "put_graph"), count(sent, "put_graph"))
			require.Equal(t, sent[len(sent)-1], plan.Composite[len(plan.Composite)-1].Function)
		}
	})
}

func names(calls []fabrictype.PlannedCall) []string {
	list := make([]string, len(calls))
	for i, call := range calls {
		list[i] = call.Function
	}
	return list
}

func count(list []string, part string) (n int) {
	for _, text := range list {
		if strings.Contains(text, part) {
			n++
		}
	}
	return n
}

var recordedCall = regexp.MustCompile(`\d+:\d+\] "FCALL(?:_RO)?" "(ffx?\d*_[a-z_]+)"`)

// recordCalls returns the functions that are called on the server of a bench for its keys while do runs, in order. It
// leaves out those that set up waitpoint secrets.
func recordCalls(t *testing.T, b *enginetest.Bench, do func()) []string {
	t.Helper()
	u, err := url.Parse(b.URL)
	require.NoError(t, err)
	conn, err := net.Dial("tcp", u.Host)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(enginetest.Patience)))
	_, err = conn.Write([]byte("MONITOR\r\n"))
	require.NoError(t, err)
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 64<<20)
	require.True(t, lines.Scan(), "the server accepts MONITOR")
	do()
	end := uuid.NewString()
	client := engine.ConnOf(b.Engine.Internal()).Client()
	require.NoError(t, client.Do(t.Context(), client.B().Echo().Message(end).Build()).Error())
	var calls []string
	for lines.Scan() && !strings.Contains(lines.Text(), end) {
		line := lines.Text()
		if found := recordedCall.FindStringSubmatch(line); found != nil && strings.Contains(line, b.Prefix+":") &&
			!strings.Contains(found[1], "hmac") {
			calls = append(calls, found[1])
		}
	}
	require.NoError(t, lines.Err())
	return calls
}

// A plan that contract mode refuses has the calls all the same, and the refusal.
func TestPlan_HasRefusalsOfContractMode(t *testing.T) {
	t.Parallel()
	double := activity.New("double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
	split := activity.New("split", func(_ context.Context, n int) ([]int, error) { return []int{n}, nil })
	f := flow.New[int, []int]("doubles", flow.Budget("tokens", flow.BudgetConfig{Hard: map[string]int64{"calls": 5}}))
	flow.Return(f, flow.Map(f, "each", double, flow.Node(f, "split", split, f.Input())))
	def, err := f.Build()
	require.NoError(t, err)
	plan, err := runtime.Plan(def, 1)
	require.NoError(t, err)
	require.Equal(t, []string{"budgets of flows (flow.Budget)", "maps"}, plan.Refused())
	require.Equal(t, `Flow doubles, run planned, flow id `+string(plan.FlowID)+`

The flow becomes these calls of the contract, which contract mode refuses for: budgets of flows (flow.Budget); maps
  ff_create_budget              budget tokens: calls  (contract mode refuses: budgets of flows (flow.Budget))
  ff_create_flow                doubles
  ff_create_execution           split = split on lane default
  ff_set_flow_tags              definition, input and tags of the run
  ff_create_execution           split = split on lane default
  ff_create_execution           each = double for each item on lane default  (contract mode refuses: maps)
  ff_add_execution_to_flow      split
  ff_add_execution_to_flow      each
  ff_stage_dependency_edge      split → each, with its result, success_only
  ff_apply_dependency_to_child  split → each, with its result
  ff_set_flow_tags              the run is complete
  ff_promote_delayed            split
  ff_promote_delayed            each

When the run comes to them:
  ff_report_usage_and_check  for what nodes use of budget tokens  (contract mode refuses: budgets of flows (flow.Budget))

With this project's library, these calls do all of it at once:
  ffx3_put_graph  2 nodes, unless the partition has the graph
  ffx3_submit     run planned
`, plan.String())
	_, err = runtime.Plan[int, int](nil, 1)
	require.ErrorIs(t, err, runtime.ErrInvalid)
}
