package flowtest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/flowtest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// An assertion waits for longer than anything of a flow does.
func TestAssertionsWaitForYears(t *testing.T) {
	t.Parallel()
	f := flow.New[int, int]("years")
	slept := flow.Sleep(f, "sleep", month)
	again := flow.Sleep(f, "again", 10*365*24*time.Hour, flow.After(slept))
	flow.Return(f, flow.Node(f, "n", same, f.Input(), flow.After(again)))
	def, err := f.Build()
	require.NoError(t, err)
	for name, wait := range idleAssertions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flowtest.Run(t, func(t *flowtest.T) { wait(flowtest.Start(t, def, 7)) })
		})
	}
}

// Answers of different people are one line each.
func TestAnswersOfPeople(t *testing.T) {
	t.Parallel()
	f := flow.New[int, int]("people")
	flow.Return(f, flow.Node(f, "n", same, f.Input(), flow.After(flow.Approval(f, "approve", activity.Approvers(2)))))
	def, err := f.Build()
	require.NoError(t, err)
	flowtest.Run(t, func(t *flowtest.T) {
		run := flowtest.Start(t, def, 7)
		run.Node("approve").Waiting().Approve("ann", "bob")
		run.MustResult()
		run = flowtest.Start(t, def, 8)
		run.Node("approve").Waiting().Approve("ann").Is(fabrictype.NodeSuspended)
		run.Node("approve").Waiting().Reject("bob", "too late").Is(fabrictype.NodeFailed)
	})
}

// Workers are listed as soon as a run was started, and stay live however much virtual time passes.
func TestWorkersOfALongTest(t *testing.T) {
	t.Parallel()
	hold := activity.New("years.hold", func(ctx context.Context, n int) (int, error) {
		return n, activity.Sleep(ctx, "nap", 12*month)
	}, activity.Limit("years", activity.LimitConfig{AtOnce: 1}))
	f := flow.New[int, int]("workers")
	flow.Return(f, flow.Node(f, "n", hold, f.Input()))
	def, err := f.Build()
	require.NoError(t, err)
	other := flow.New[int, int]("others")
	flow.Return(other, flow.Node(other, "n", same, other.Input()))
	second, err := other.Build()
	require.NoError(t, err)
	flowtest.Run(t, func(t *flowtest.T) {
		run := flowtest.Start(t, def, 1)
		workers := func() int {
			list, err := t.Client().Workers(context.Background())
			require.NoError(t, err)
			return len(list)
		}
		require.Equal(t, 1, workers())
		for range 3 {
			t.Advance(month)
			require.Equal(t, 1, workers())
		}
		waits := flowtest.Start(t, def, 2)
		t.Advance(48 * time.Hour)
		require.Equal(t, fabrictype.NodeSuspended, run.Node("n").Description().State)
		table := waits.Table()
		require.Contains(t, table, "years")
		require.False(t, strings.Contains(table, "no live worker"), table)
		flowtest.Start(t, second, 3).MustResult()
		require.Equal(t, 2, workers())
	}, flowtest.Worker(runtime.WorkerConfig{Concurrency: 1}))
}

// An assertion that can never hold reports how long it has waited, also while runs of a schedule continue.
func TestImpatience(t *testing.T) {
	t.Parallel()
	f := flow.New[int, int]("forever")
	flow.Return(f, flow.Waitpoint[int](f, "w"))
	def, err := f.Build()
	require.NoError(t, err)
	flowtest.Run(t, func(t *flowtest.T) {
		run := flowtest.Start(t, def, 7)
		for _, wait := range []func(){
			func() { run.MustSucceed() }, func() { run.MustResult() }, func() { run.Node("w").Succeeded() },
		} {
			text := failureOf(t, wait)
			require.Contains(t, text, "not within 12 years of virtual time")
			require.Contains(t, text, "run "+run.ID()+" of flow forever: running")
		}
	})
	flowtest.Run(t, func(t *flowtest.T) {
		run := flowtest.Start(t, def, 7)
		require.Contains(t, failureOf(t, func() { run.MustSucceed() }), "not within 1h0m0s")
	}, flowtest.Patience(time.Hour))
}
