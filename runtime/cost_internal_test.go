package runtime

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/worker"
)

// readyCalls is an engine that has every answer ready, so that a benchmark measures the Go code around a call alone.
type readyCalls struct {
	engine.Library
	completions *submit.CompletionListener
}

func (readyCalls) Complete(context.Context, enginerpc.CompleteCall) (enginerpc.CompleteReply, error) {
	return enginerpc.CompleteReply{Status: enginerpc.StatusOK}, nil
}

func (readyCalls) Commit(_ context.Context, call enginerpc.WorkCall, _ []*enginerpc.ClaimedExecution) (enginerpc.WorkReply, error) {
	outcomes := slices.Repeat([]string{string(enginerpc.StatusOK)}, len(call.Completions))
	return enginerpc.WorkReply{Status: enginerpc.StatusOK, Outcomes: strings.Join(outcomes, " ")}, nil
}

// Submit ends each run at once, with its input as the result.
func (r readyCalls) Submit(_ context.Context, call enginerpc.SubmitCall) (enginerpc.SubmitReply, error) {
	reply := enginerpc.SubmitReply{Outcomes: make([]enginerpc.SubmissionOutcome, len(call.Runs))}
	for i, run := range call.Runs {
		r.completions.Deliver(run.FlowID, submit.RunCompletion{HasResult: true, Outcome: "success", Result: run.Input})
		reply.Outcomes[i].Code = string(enginerpc.StatusOK)
	}
	return reply, nil
}

// Start does the same.
func (r readyCalls) Start(_ context.Context, call enginerpc.StartCall) (enginerpc.StartReply, error) {
	for _, run := range call.Runs {
		id := run.Root[len(run.Root)-36:len(run.Root)-4] + "0000"
		r.completions.Deliver(enginecore.FlowID(id), submit.RunCompletion{HasResult: true, Outcome: "success", Result: run.Input})
	}
	return enginerpc.StartReply{}, nil
}

func (readyCalls) PutGraph(context.Context, enginerpc.PutGraphCall) (enginerpc.PutGraphReply, error) {
	return enginerpc.PutGraphReply{}, nil
}

func (readyCalls) FindNode(context.Context, enginerpc.FindNodeCall) (enginerpc.FindNodeReply, error) {
	return enginerpc.FindNodeReply{}, nil
}

// costBench has a client and a shift of a worker on an engine that answers at once.
type costBench struct {
	client *Client
	run    *worker.Run
	flow   *flow.Definition[int, int]
}

func newCostBench(tb testing.TB) *costBench {
	ctx := tb.Context()
	e, err := Open(ctx, "", OpenConfig{Partitions: 1})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, e.Close()) })

	same := activity.New("same", func(_ context.Context, n int) (int, error) { return n, nil })
	f := flow.New[int, int]("cost")
	flow.Return(f, flow.Node(f, "only", same, f.Input()))
	def, err := f.Build()
	require.NoError(tb, err)

	client, err := NewClient(e)
	require.NoError(tb, err)
	tb.Cleanup(client.Close)
	_, err = client.submitter.Completions.Wait(ctx, "any")
	require.NoError(tb, err) // from here on the client receives messages
	library, err := e.session.Library("cost")
	require.NoError(tb, err)
	e.session.Backend = readyCalls{library, client.submitter.Completions}
	client.submitter.Starts = submit.NewStarter(e.session, client.submitter.Completions)

	w, err := NewWorker(e, WorkerConfig{})
	require.NoError(tb, err)
	require.NoError(tb, w.Register(same))
	return &costBench{client, worker.NewRun(ctx, w.worker), def}
}

// runTask runs one execution from the reply that leases it to the reply that commits it.
func (b *costBench) runTask(tb testing.TB, claimed *enginerpc.ClaimedExecution) {
	at := dispatch.LaneShard{Lane: activity.DefaultLane, Partition: keyspace.Partition{Family: keyspace.FlowFamily}}
	t := b.run.NewTask(at, claimed, time.Now())
	if next := b.run.RunTask(t, func() bool { return true }); next != nil || !t.IsReported() {
		tb.Fatal("the result was not committed")
	}
}

func (b *costBench) claimed(tb testing.TB) *enginerpc.ClaimedExecution {
	plan, _, err := planRun(b.client, b.flow, 1, nil)
	require.NoError(tb, err)
	node := plan.Compiled.Nodes[0]
	return &enginerpc.ClaimedExecution{
		ExecutionID: plan.ExecutionID(node.Name), Node: node.Name, Kind: node.Kind, FlowID: plan.FlowID, FlowName: plan.Flow, RunID: plan.Run,
		AttemptID: "550e8400-e29b-41d4-a716-446655440000", LeaseID: "550e8400-e29b-41d4-a716-446655440001", LeaseEpoch: 1,
		Policy: node.Policy, FlowInput: []byte("1"), InputsComplete: true, JournalComplete: true,
		DeadlineAt: time.Now().Add(time.Hour),
	}
}

// runFlow starts a run and waits for its result.
func (b *costBench) runFlow(tb testing.TB, n int) {
	run, err := Start(tb.Context(), b.client, b.flow, n)
	if err != nil {
		tb.Fatal(err)
	}
	if out, err := run.Result(tb.Context()); err != nil || out != n {
		tb.Fatal(fmt.Errorf("result %d of %d: %w", out, n, err))
	}
}

// BenchmarkTask measures a worker's work for one execution without its calls.
func BenchmarkTask(b *testing.B) {
	bench := newCostBench(b)
	claimed := bench.claimed(b)
	b.ReportAllocs()
	for b.Loop() {
		bench.runTask(b, claimed)
	}
}

// BenchmarkRun measures a client's work for one run without its calls.
func BenchmarkRun(b *testing.B) {
	bench := newCostBench(b)
	b.ReportAllocs()
	for b.Loop() {
		bench.runFlow(b, 1)
	}
}
