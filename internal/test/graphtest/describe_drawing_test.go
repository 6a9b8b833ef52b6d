package graphtest

import (
	"context"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

var drawnTitle = regexp.MustCompile("<title>([^<]*)")

// titles returns the titles in a drawing, which screen readers read out.
func titles(svg string) []string {
	var list []string
	for _, match := range drawnTitle.FindAllStringSubmatch(svg, -1) {
		list = append(list, match[1])
	}
	return list
}

// The drawing of a run has the states of its nodes in words, and the places of the drawing of its flow.
func TestDrawingOfRun(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		def := branching(t)
		run, err := runtime.Start(ctx, b.Client, def, listing{Size: 1})
		require.NoError(t, err)
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.Contains(t, titles(d.SVG(flow.Drawing{})), "scan, activity, cond.scan, no worker")
		require.Contains(t, titles(d.SVG(flow.Drawing{})), "large, condition, not started, after scan")

		b.KeepingWorker(t, def.Handlers())
		_, err = run.Result(ctx)
		require.NoError(t, err)
		d, err = run.Describe(ctx)
		require.NoError(t, err)
		for _, title := range []string{
			"scan, activity, cond.scan, succeeded",
			"deep, activity, cond.say, skipped, after scan, large (true)",
			"quick, activity, cond.say, succeeded, after scan, large (false)",
			"report, activity, cond.pass, succeeded, after any of deeper, quick",
		} {
			require.Contains(t, titles(d.SVG(flow.Drawing{})), title)
		}
	})
}

// A node is drawn by the reason that it waits for.
func TestDrawingOfWaits(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		item := activity.New("draw.item", func(_ context.Context, n int) (int, error) { return n, nil })
		f := flow.New[[]int, []int]("waits")
		asked := flow.Waitpoint[string](f, "asked")
		items := flow.Map(f, "items", item, f.Input(), flow.After(asked))
		flow.Return(f, items)
		def, err := f.Build()
		require.NoError(t, err)
		run, err := runtime.Start(ctx, b.Client, def, []int{1, 2, 3})
		require.NoError(t, err)
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.Contains(t, titles(d.SVG(flow.Drawing{})), "asked, waitpoint, waits for any signal, waiting for an answer")

		waits, err := run.Waitpoints(ctx)
		require.NoError(t, err)
		_, err = b.Client.Signal(ctx, waits[0].Token, runtime.Signal{Name: "yes", Payload: "ok"})
		require.NoError(t, err)
		b.KeepingWorker(t, []activity.Handler{item})
		_, err = run.Result(ctx)
		require.NoError(t, err)
		d, err = run.Describe(ctx)
		require.NoError(t, err)
		require.Contains(t, titles(d.SVG(flow.Drawing{})),
			"items, map, draw.item for each item, succeeded, 3 of 3 items, after asked")
	})
}
