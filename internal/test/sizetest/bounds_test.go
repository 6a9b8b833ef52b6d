package sizetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

var echo = activity.New("echo", func(_ context.Context, text string) (string, error) { return text, nil })

// echoing is a flow of one node.
func echoing(t testing.TB, opts ...flow.Option) *flow.Definition[string, string] {
	t.Helper()
	f := flow.New[string, string]("echo", opts...)
	flow.Return(f, flow.Node(f, "echo", echo, f.Input()))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

// build declares a flow and returns the error of its definition.
func build(declare func(f *flow.Builder[string, string]), opts ...flow.Option) error {
	f := flow.New[string, string]("large", opts...)
	declare(f)
	_, err := f.Build()
	return err
}

// chain declares a chain of nodes.
func chain(f *flow.Builder[string, string], nodes int) {
	last := f.Input()
	for i := range nodes {
		last = flow.Node(f, fmt.Sprint("n", i), echo, last)
	}
	flow.Return(f, last)
}

// Definitions beyond a bound are refused where they are built, with the bound.
func TestDefinitionsBeyondTheBounds(t *testing.T) {
	t.Parallel()
	many := make([]flow.Option, 65)
	for i := range many {
		many[i] = flow.Tag(fmt.Sprintf("team.t%d", i), "x")
	}
	one := func(f *flow.Builder[string, string]) { chain(f, 1) }
	for name, c := range map[string]struct {
		err   error
		bound string
	}{
		"nodes":          {build(func(f *flow.Builder[string, string]) { chain(f, 10_001) }), "10000"},
		"tags":           {build(one, many...), "65 tags, the limit is 64"},
		"value of a tag": {build(one, flow.Tag("team.name", strings.Repeat("x", 1025))), "1024"},
		"constant": {build(func(f *flow.Builder[string, string]) {
			flow.Return(f, flow.Node(f, "n", echo, flow.Const(strings.Repeat("x", 1<<20))))
		}), "1048576"},
		"name of a node": {build(func(f *flow.Builder[string, string]) {
			flow.Return(f, flow.Node(f, strings.Repeat("n", 129), echo, f.Input()))
		}), "128"},
		"items of a map":  {build(func(f *flow.Builder[string, string]) { mapOf(f, 10_001) }), "must be 1 to 10000"},
		"definition":      {definitionOf(t, 9), "8388608"},
		"no more than so": {build(func(f *flow.Builder[string, string]) { chain(f, 10_000) }), ""},
	} {
		if c.bound == "" {
			require.NoError(t, c.err, name)
			continue
		}
		require.ErrorContains(t, c.err, c.bound, name)
	}
}

// mapOf declares a map with a bound of its own.
func mapOf(f *flow.Builder[string, string], most int) {
	list := flow.Node(f, "list", activity.New("list", func(context.Context, string) ([]string, error) { return nil, nil }), f.Input())
	flow.Map(f, "map", echo, list, flow.MaxMapItems(most))
	flow.Return(f, flow.Node(f, "echo", echo, f.Input()))
}

// definitionOf starts a flow with constants of size MiB, and returns the error.
func definitionOf(t *testing.T, size int) error {
	t.Helper()
	f := flow.New[string, string]("large")
	last := f.Input()
	for i := range size {
		flow.Node(f, fmt.Sprint("n", i), echo, flow.Const(strings.Repeat("x", 1<<20-100)))
	}
	flow.Return(f, flow.Node(f, "last", echo, last))
	def, err := f.Build()
	if err != nil {
		return err
	}
	b := enginetest.New(t, "embedded")
	_, err = runtime.Start(enginetest.Context(t), b.Client, def, "")
	return err
}

// Calls above a bound are refused with the name of the value, its size and the bound, and write no key.
func TestCallsBeyondTheBounds(t *testing.T) {
	t.Parallel()
	def := echoing(t)
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		waiting, err := runtime.Start(ctx, b.Client, asking(t), "", runtime.WithID("waits"))
		require.NoError(t, err)
		waits, err := waiting.Waitpoints(ctx)
		require.NoError(t, err)
		start := func(in string, opts ...runtime.StartOption) error {
			_, err := runtime.Start(ctx, b.Client, def, in, opts...)
			return err
		}
		signal := func(s runtime.Signal) error {
			_, err := b.Client.Signal(ctx, waits[0].Token, s)
			return err
		}
		before := keys(t, b)
		for name, c := range map[string]struct {
			err  error
			is   error
			says []string
		}{
			"input":            {start(strings.Repeat("x", 1<<20)), runtime.ErrTooLarge, []string{"input has 1048578 bytes", "1048576"}},
			"run id":           {start("", runtime.WithID(strings.Repeat("r", 257))), runtime.ErrInvalid, []string{"run id", "257", "256"}},
			"memo":             {start("", runtime.WithMemo(strings.Repeat("m", 16<<10))), runtime.ErrTooLarge, []string{"memo", "16386", "16384"}},
			"starts":           {starts(ctx, b, def, 10_001), runtime.ErrInvalid, []string{"10001", "10000"}},
			"payload":          {signal(runtime.Signal{Name: "yes", Payload: strings.Repeat("p", 64<<10)}), runtime.ErrTooLarge, []string{"payload has 65538 bytes", "65536"}},
			"source":           {signal(runtime.Signal{Name: "yes", Source: strings.Repeat("s", 257)}), runtime.ErrTooLarge, []string{"source has 257 bytes", "256"}},
			"idempotency key":  {signal(runtime.Signal{Name: "yes", IdempotencyKey: strings.Repeat("s", 257)}), runtime.ErrTooLarge, []string{"idempotency key has 257 bytes", "256"}},
			"reason":           {waiting.Cancel(ctx, strings.Repeat("r", 2049)), runtime.ErrInvalid, []string{"2049", "2048"}},
			"text of a search": {search(ctx, b, strings.Repeat("t", 257)), runtime.ErrInvalid, []string{"257", "256"}},
		} {
			require.ErrorIs(t, c.err, c.is, name)
			for _, text := range c.says {
				require.ErrorContains(t, c.err, text, name)
			}
		}
		require.Equal(t, before, keys(t, b), "something was written")
		waits, err = waiting.Waitpoints(ctx)
		require.NoError(t, err)
		require.Zero(t, waits[0].Received)
	})
}

// asking is a flow that waits for a signal.
func asking(t testing.TB) *flow.Definition[string, string] {
	t.Helper()
	f := flow.New[string, string]("ask")
	flow.Return(f, flow.Waitpoint[string](f, "ask"))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

func starts(ctx context.Context, b *enginetest.Bench, def *flow.Definition[string, string], n int) error {
	_, err := runtime.StartMany(ctx, b.Client, def, make([]runtime.NewRun[string], n))
	return err
}

func search(ctx context.Context, b *enginetest.Bench, text string) error {
	for _, err := range b.Client.Runs(ctx, runtime.RunQuery{Text: text}) {
		return err
	}
	return nil
}

// keys are the keys that the engine has, in order.
func keys(t *testing.T, b *enginetest.Bench) []string {
	t.Helper()
	list, err := invariant.Keys(enginetest.Context(t), b.Operator(), b.Prefix)
	require.NoError(t, err)
	slices.Sort(list)
	return list
}
