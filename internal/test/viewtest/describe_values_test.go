package viewtest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/describe"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// raw is a value as it was written: a number beyond 2^53, and keys that are not sorted.
const raw = `{"z":12345678901234567890,"a":[1,2]}`

// valuesFlow has inputs of each kind, a large result and a node that fails.
func valuesFlow(t *testing.T) *flow.Definition[json.RawMessage, json.RawMessage] {
	t.Helper()
	echo := activity.New("echo", func(_ context.Context, in json.RawMessage) (json.RawMessage, error) { return in, nil })
	large := activity.New("large", func(context.Context, json.RawMessage) (string, error) { return strings.Repeat("x", 100_000), nil })
	count := activity.New("count", func(_ context.Context, in string) (int, error) { return len(in), nil })
	both := activity.New("both", func(_ context.Context, in []json.RawMessage) (int, error) { return len(in), nil })
	fails := activity.New("fails", func(context.Context, json.RawMessage) (json.RawMessage, error) { return nil, errors.New("no") },
		activity.Retry(activity.RetryPolicy{Attempts: 1}))
	f := flow.New[json.RawMessage, json.RawMessage]("values")
	first := flow.Node(f, "first", echo, f.Input())
	constant := flow.Node(f, "constant", echo, flow.Const(json.RawMessage(`7`)))
	flow.Node(f, "both", both, flow.List(first, constant))
	flow.Node(f, "count", count, flow.Node(f, "large", large, first))
	broken := flow.Node(f, "fails", fails, f.Input())
	flow.Node(f, "either", echo, flow.AnyOf(broken, first))
	flow.Node(f, "after", echo, broken)
	flow.Return(f, first)
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

func checkValues(t *testing.T, b *enginetest.Bench, def *flow.Definition[json.RawMessage, json.RawMessage]) {
	ctx := enginetest.Context(t)
	started, err := runtime.Start(ctx, b.Client, def, json.RawMessage(raw))
	require.NoError(t, err)
	run := b.Client.Run("values", started.ID())
	d, err := run.Describe(ctx, runtime.DescribeOptions{Values: true})
	require.NoError(t, err)
	require.Equal(t, raw, string(d.Input.Bytes()), "before anything has run")
	require.Equal(t, raw, string(fixture.NodesByName(d)["first"].Input.Bytes()), "the input that it will get")
	require.Nil(t, fixture.NodesByName(d)["both"].Input, "a part of it is missing")
	require.Nil(t, d.Result)

	b.Worker(t, def.Handlers())
	_, err = started.Result(ctx)
	require.ErrorIs(t, err, runtime.ErrRunFailed)
	d, err = run.Describe(ctx, runtime.DescribeOptions{Values: true, ValueBytes: 1000})
	require.NoError(t, err)
	nodes := fixture.NodesByName(d)
	require.Equal(t, &fabrictype.Value{Codec: "json", Size: len(raw), JSON: []byte(raw)}, d.Input)
	require.Equal(t, raw, string(nodes["first"].Input.JSON))
	require.Equal(t, raw, string(nodes["first"].Result.JSON))
	require.Equal(t, "7", string(nodes["constant"].Input.Bytes()))
	require.Equal(t, "["+raw+",7]", string(nodes["both"].Input.Bytes()))
	require.Equal(t, raw, string(nodes["fails"].Input.Bytes()))
	require.Nil(t, nodes["fails"].Result)
	require.Nil(t, nodes["after"].Input, "it was skipped: its upstream has no result")
	require.Equal(t, raw, string(nodes["either"].Input.Bytes()), "the result that its join has chosen")
	for _, v := range []*fabrictype.Value{nodes["large"].Result, nodes["count"].Input} {
		require.True(t, v.Truncated)
		require.Equal(t, 100_002, v.Size)
		require.Len(t, v.Bytes(), 1000)
		require.Nil(t, v.JSON)
	}
	n, err := run.DescribeNode(ctx, "count", runtime.DescribeOptions{Values: true, ValueBytes: describe.MaxSumBytes})
	require.NoError(t, err)
	require.Equal(t, 100_002, len(n.Input.JSON), "the whole value")
	require.Equal(t, "100000", string(n.Result.Bytes()))
	n, err = run.DescribeNode(ctx, "first", runtime.DescribeOptions{Values: true})
	require.NoError(t, err)
	require.Equal(t, raw, string(n.Input.Bytes()))
	require.Len(t, n.History, 1)
	_, err = run.DescribeNode(ctx, "nobody")
	require.ErrorIs(t, err, engine.ErrUnknownNode)
	_, err = b.Client.Run("values", "none").DescribeNode(ctx, "first")
	require.ErrorIs(t, err, engine.ErrRunNotFound)
	plain, err := run.Describe(ctx)
	require.NoError(t, err)
	require.Nil(t, plain.Input)
	require.Nil(t, fixture.NodesByName(plain)["first"].Result)
}

// Values are returned without their Go types, as they were encoded, whole or truncated.
func TestDescribeValues(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) { checkValues(t, b, valuesFlow(t)) })
}

// A run that succeeded has a result, and one of one node keeps it elsewhere.
func TestDescribeResult(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		for _, nodes := range []int{1, 3} {
			a := fixture.AddOne()
			b.Worker(t, []activity.Handler{a})
			run, err := runtime.Start(ctx, b.Client, fixture.ChainOf(t, a, nodes), 40)
			require.NoError(t, err)
			_, err = run.Result(ctx)
			require.NoError(t, err)
			d, err := run.Describe(ctx, runtime.DescribeOptions{Values: true})
			require.NoError(t, err)
			require.Equal(t, "40", string(d.Input.Bytes()))
			require.Equal(t, string(json.RawMessage(itoa(40+nodes))), string(d.Result.JSON))
		}
	})
}

func itoa(n int) string {
	data, _ := json.Marshal(n)
	return string(data)
}

// A node's description has its attempts with worker, times, outcome and error, also the attempts before a rerun.
func TestDescribeAttempts(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var tries atomic.Int64
		a := activity.New("flaky", func(ctx context.Context, n int) (int, error) {
			if tries.Add(1) < 3 {
				return 0, errors.New("no route")
			}
			return n, activity.Progress(ctx, 75, "nearly")
		}, activity.Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: 2}))
		def := fixture.Single(t, a)
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		b.KeepingWorker(t, []activity.Handler{a})
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunFailed)
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunFailed))
		_, err = run.Result(ctx)
		require.NoError(t, err)

		d, err := run.Describe(ctx, runtime.DescribeOptions{Attempts: true})
		require.NoError(t, err)
		history := d.Nodes[0].History
		require.Len(t, history, 3)
		for i, want := range []fabrictype.Outcome{fabrictype.OutcomeFailed, fabrictype.OutcomeFailed, fabrictype.OutcomeSucceeded} {
			require.Equal(t, want, history[i].Outcome)
			require.Equal(t, i+1, history[i].Number)
			require.NotEmpty(t, history[i].Worker)
			require.False(t, history[i].Begun.IsZero())
			require.False(t, history[i].Ended.Before(history[i].Begun))
		}
		require.Equal(t, "no route", history[0].Error)
		require.Equal(t, "no route", history[1].Error)
		require.Equal(t, [3]int{0, 0, 1}, [3]int{history[0].Replay, history[1].Replay, history[2].Replay})
		require.Equal(t, "nearly", history[2].Message)
		require.InDelta(t, 75, history[2].Percent, 0)
		n, err := run.DescribeNode(ctx, d.Nodes[0].Name)
		require.NoError(t, err)
		require.Equal(t, history, n.History)
	})
}

// The items of a map come in pages with their values, and a node names its unfinished upstreams although they are on
// another page.
func TestDescribePages(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		const items = 1201
		twice := activity.New("twice", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
		never := activity.New("never", func(_ context.Context, n []int) (int, error) { return len(n), nil }, activity.Lane("nobody"))
		list := make([]int, items)
		for i := range list {
			list[i] = i
		}
		f := flow.New[[]int, int]("paged")
		flow.Return(f, flow.Node(f, "never", never, flow.Map(f, "each", twice, f.Input())))
		def, err := f.Build()
		require.NoError(t, err)
		run, err := runtime.Start(ctx, b.Client, def, list)
		require.NoError(t, err)
		last, err := run.Describe(ctx, runtime.DescribeOptions{Cursor: "1", Nodes: 1})
		require.NoError(t, err)
		require.Equal(t, "waits for each", last.Nodes[0].Waiting.Sentence, "which is on the first page")

		b.KeepingWorker(t, []activity.Handler{twice})
		var child *fabrictype.ChildRun
		enginetest.Eventually(t, func() string {
			d, err := run.Describe(ctx)
			require.NoError(t, err)
			if child = d.Nodes[0].Child; d.Nodes[0].State != fabrictype.NodeSucceeded {
				return string(d.Nodes[0].State)
			}
			return ""
		})
		seen, pages, cursor := 0, 0, ""
		for {
			d, err := b.Client.Run(child.Flow, child.Run).Describe(ctx, runtime.DescribeOptions{Cursor: cursor, Nodes: 500, Values: true, Attempts: true})
			require.NoError(t, err)
			for _, n := range d.Nodes {
				require.Equal(t, "item-"+itoa(seen), n.Name)
				require.Equal(t, itoa(seen), string(n.Input.Bytes()))
				require.Equal(t, itoa(2*seen), string(n.Result.Bytes()))
				require.Len(t, n.History, 1)
				seen++
			}
			pages++
			if cursor = d.Next; cursor == "" {
				break
			}
		}
		require.Equal(t, items, seen)
		require.Equal(t, 3, pages)
		_, err = b.Client.Run(child.Flow, child.Run).Describe(ctx, runtime.DescribeOptions{Values: true})
		require.ErrorIs(t, err, runtime.ErrInvalid, "without a page that is too much")
		require.NoError(t, run.Cancel(ctx, "enough"))
	})
}

// Options out of bounds are refused before anything is read.
func TestDescribeBounds(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		run := b.Client.Run("none", "none")
		for _, opt := range []runtime.DescribeOptions{
			{Values: true, ValueBytes: -1}, {Values: true, ValueBytes: describe.MaxValueBytes + 1}, {Nodes: -1},
			{Nodes: describe.MaxPage + 1}, {Cursor: "next", Nodes: 10}, {Cursor: "-1", Nodes: 10}, {Cursor: "1"},
		} {
			_, err := run.Describe(enginetest.Context(t), opt)
			require.ErrorIs(t, err, runtime.ErrInvalid)
		}
	})
}

// Contract mode reads values and attempts, too.
func TestContractDescribeValues(t *testing.T) {
	t.Parallel()
	a := fixture.AddOne()
	enginetest.EachContract(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		run, err := runtime.Start(ctx, b.Client, fixture.ChainOf(t, a, 3), 1)
		require.NoError(t, err)
		fixture.StartWorkerPool(t, b, a)
		_, err = run.Result(ctx)
		require.NoError(t, err)
		d, err := run.Describe(ctx, runtime.DescribeOptions{Values: true, Attempts: true, Cursor: "1", Nodes: 1})
		require.NoError(t, err)
		require.Len(t, d.Nodes, 1)
		require.Equal(t, "2", d.Next)
		require.Equal(t, []string{"1", "4", "2", "3"}, []string{
			string(d.Input.Bytes()), string(d.Result.Bytes()), string(d.Nodes[0].Input.Bytes()), string(d.Nodes[0].Result.Bytes()),
		})
		require.Len(t, d.Nodes[0].History, 1)
		require.Equal(t, fabrictype.OutcomeSucceeded, d.Nodes[0].History[0].Outcome)
		n, err := run.DescribeNode(ctx, "n2", runtime.DescribeOptions{Values: true})
		require.NoError(t, err)
		require.Equal(t, "3", string(n.Input.Bytes()))
	})
}
