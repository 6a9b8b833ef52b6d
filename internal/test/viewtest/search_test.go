package viewtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/rowread"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// foundBy are the ids of the runs that a search finds.
func foundBy(t *testing.T, b *enginetest.Bench, search string) []string {
	t.Helper()
	var ids []string
	for run, err := range b.Client.Runs(enginetest.Context(t), runtime.RunQuery{Search: search}) {
		require.NoError(t, err, search)
		ids = append(ids, run.Run)
	}
	slices.Sort(ids)
	return ids
}

func TestSearchFindsTagsErrorsAndIDs(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		var fixed atomic.Bool
		pay := activity.New("pay", func(_ context.Context, text string) (string, error) {
			if text == "" || fixed.Load() {
				return "paid", nil
			}
			return "", activity.NonRetryable(errors.New(text))
		})
		start := func(name, id, text string, opts ...runtime.StartOption) *runtime.Run[string] {
			f := flow.New[string, string](name, flow.Tag("team.name", "shop"))
			flow.Return(f, flow.Node(f, "pay", pay, f.Input()))
			def, err := f.Build()
			require.NoError(t, err)
			run, err := runtime.Start(ctx, b.Client, def, text, append(opts, runtime.WithID(id))...)
			require.NoError(t, err)
			return run
		}
		runs := []*runtime.Run[string]{
			start("order", "o-1", "psp: 502: Card declined by issuer 8271904", runtime.WithTag("customer.id", "broke")),
			start("order", "o-2", "declined: the card has expired", runtime.WithTag("customer.id", "ann")),
			start("order", "o-3", "", runtime.WithTag("customer.id", "broke")),
			start("refund", "r-1", "no such charge", runtime.WithTag("customer.name", "Acme Corp")),
		}
		b.Worker(t, []activity.Handler{pay}, runtime.WorkerConfig{})
		b.Keeper(t)
		for _, run := range runs {
			_, _ = run.Result(ctx)
		}
		b.Check(t, invariant.AnyTime)
		for search, want := range map[string][]string{
			"broke": {"o-1", "o-3"}, "failed broke": {"o-1"}, "broke today": {"o-1", "o-3"}, "broke yesterday": nil,
			"customer.id:broke succeeded": {"o-3"}, `"Acme Corp"`: {"r-1"}, "shop": {"o-1", "o-2", "o-3", "r-1"},
			"card declined": {"o-1", "o-2"}, `"card declined"`: {"o-1"}, "error:declined ann": {"o-2"},
			"DECLINED flow:order 2h": {"o-1", "o-2"}, "charge": {"r-1"}, "502": {"o-1"}, "8271904": nil,
			"category:error": {"o-1", "o-2", "r-1"}, "o-": {"o-1", "o-2", "o-3"}, "run:o": {"o-1", "o-2", "o-3"}, "run:-1": nil,
			"refund": {"r-1"}, "finished:today failed card": {"o-1", "o-2"}, "nobody": nil, "error:broke": nil,
		} {
			if got := foundBy(t, b, search); !slices.Equal(want, got) {
				t.Errorf("%s: found %v, not %v", search, got, want)
			}
		}
		page, err := b.Client.ListRuns(ctx, runtime.RunQuery{Search: "charge"}, "", 10)
		require.NoError(t, err)
		require.Contains(t, page.Items[0].Reason, "no such charge")
		require.False(t, page.Incomplete)
		first, err := b.Client.ListRuns(ctx, runtime.RunQuery{Search: "shop"}, "", 3)
		require.NoError(t, err)
		rest, err := b.Client.ListRuns(ctx, runtime.RunQuery{Search: "shop"}, first.Next, 3)
		require.NoError(t, err)
		require.Len(t, append(first.Items, rest.Items...), 4, "each run is on one page")
		page, err = b.Client.ListRuns(ctx, runtime.RunQuery{Runs: []string{"order/o-2", "refund/r-1", "refund/none"}}, "", 10)
		require.NoError(t, err)
		require.Len(t, page.Items, 2)

		words, err := b.Client.CompleteSearch(ctx, "cus")
		require.NoError(t, err)
		require.Equal(t, []string{"customer.id:", "customer.name:"}, words)
		words, err = b.Client.CompleteSearch(ctx, "customer.id:b")
		require.NoError(t, err)
		require.Equal(t, []string{"customer.id:broke"}, words)
		words, err = b.Client.CompleteSearch(ctx, "bro")
		require.NoError(t, err)
		require.Equal(t, []string{"customer.id:broke"}, words)

		// An error that a rerun has mended is no longer found.
		fixed.Store(true)
		require.NoError(t, runs[0].Rerun(ctx, "failed"))
		_, err = runs[0].Result(ctx)
		require.NoError(t, err)
		require.Equal(t, []string{"o-2"}, foundBy(t, b, "card declined"))
		b.Check(t, invariant.AnyTime)
		b.Settle(t)
		for _, run := range runs {
			require.NoError(t, run.Purge(ctx))
		}
		fixture.NothingLeft(t, b)
	})
}

// Runs are found by the beginning of their id in the entries of the list of all runs, which have its first 40 bytes, or
// all of a UUID in 17, with a bounded number of entries for each call; and by any part of it.
func TestSearchByTheBeginningOfAnID(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		def := oneWay(t, fixture.NewCourse(), "import", "ok")
		start := func(opts ...runtime.StartOption) string {
			run, err := runtime.Start(ctx, b.Client, def, fixture.None{}, opts...)
			require.NoError(t, err)
			return run.ID()
		}
		long := strings.Repeat("long", 11)
		for _, id := range []string{"order-1", "order-10", "Order-2", "größe", long + "-one", long + "-two"} {
			start(runtime.WithID(id))
		}
		lower, upper := "0f1e2d3c-4b5a-4978-8695-a4b3c2d1e0ff", "0F1E2D3C-4B5A-4978-8695-A4B3C2D1E0FA"
		like := "0f1e2d3c-4b5a-4978-8695=a4b3c2d1e0ff"
		for _, id := range []string{lower, upper, like, "sixteen-letters."} {
			start(runtime.WithID(id))
		}
		random, later := start(), start(runtime.StartAt(time.Now().Add(time.Hour)))
		b.Check(t, invariant.AnyTime)
		found := func() {
			t.Helper()
			for search, want := range map[string][]string{
				"run:order-1": {"order-1", "order-10"}, "run:rder-1": nil, "run:ORDER": nil, "order-1": {"order-1", "order-10"},
				"RDER-": {"Order-2", "order-1", "order-10"}, "run:grö": {"größe"}, "run:" + long: {long + "-one", long + "-two"},
				"run:" + long + "-t": {long + "-two"}, "-TWO": {long + "-two"}, "run:" + random[:9]: {random}, later[4:]: {later},
				"flow:import run:Ord": {"Order-2"}, "flow:other run:Ord": nil, "run:order-1 today": {"order-1", "order-10"},
				"run:order-1 yesterday": nil, "running run:order-10": {"order-10"}, "failed run:order-1": nil,
				"finished:today run:order-1": nil,
				"run:0f1e2":                  {lower, like}, "run:0f1e2d3c-4b5a-4978-8695-a": {lower},
				"run:0f1e2d3c4":    nil,
				"run:0F1E2D3C-4B5": {upper}, "run:" + lower: {lower}, "run:" + lower + "0": nil, "run:f1e2": nil,
				lower: {lower}, "5-A4B3c2d1e": {upper, lower}, "-A4B3c2d1e0": {upper, lower}, "e0ff": {lower, like},
				"run:sixteen-letters": {"sixteen-letters."}, "letters.": {"sixteen-letters."},
			} {
				if got := foundBy(t, b, search); !slices.Equal(want, got) {
					t.Errorf("%s: found %v, not %v", search, got, want)
				}
			}
		}
		found()

		core := engine.ConnOf(b.Engine.Internal())
		entries, at := make([]string, 1000), time.Now().Add(time.Minute).UnixMicro()
		for first := range 40 {
			for i := range entries {
				at++
				id := enginecore.FlowID(fmt.Sprintf("00000000-0000-8000-%04x-%08x0000", first, i))
				entries[i] = rowread.ListEntry(at, id) + fmt.Sprint("order-", at)
			}
			all := core.Client().B().Rpush().Key(core.Keys().FfxAllRuns(keyspace.Partition{Family: keyspace.FlowFamily}))
			require.NoError(t, core.Client().Do(ctx, all.Element(entries...).Build()).Error())
		}
		// The first page does not reach the runs that come after so many entries.
		page, err := b.Client.ListRuns(ctx, runtime.RunQuery{Search: "run:order-1 today", Sort: "created"}, "", 1)
		require.NoError(t, err)
		require.Equal(t, "order-1", page.Items[0].Run)
		require.NotEmpty(t, page.Next)
		require.Equal(t, []string{"größe"}, foundBy(t, b, "run:grö"))
		require.Equal(t, []string{random}, foundBy(t, b, random))
		require.Equal(t, []string{"Order-2"}, foundBy(t, b, "flow:import run:Ord"))
		b.Wipe(t)
	}, runtime.OpenConfig{Partitions: 1})
}

func TestSearchNamesWhatItDoesNotUnderstand(t *testing.T) {
	t.Parallel()
	for search, want := range map[string]string{
		"state:lost": "state:lost", "foo:bar": "foo", `error:"card`: "not closed", "is:late": "is:late",
		"2026-13-40": "2026-13-40", "today yesterday": "yesterday", "flow:a flow:b": "flow", "flow:": "flow",
		"7d..9d": "7d..9d", "error:a": "error:a", "customer.id:a customer.id:b": "customer.id",
	} {
		err := runtime.RunQuery{Search: search}.Check()
		require.ErrorIs(t, err, runtime.ErrInvalid, search)
		require.ErrorContains(t, err, want, search)
	}
	require.ErrorContains(t, runtime.RunQuery{Flow: "a", Search: "flow:b"}.Check(), "flow")
	require.ErrorContains(t, runtime.RunQuery{Search: strings.Repeat("word ", 9)}.Check(), "at most 8")
	require.ErrorContains(t, runtime.RunQuery{Runs: []string{"x"}}.Check(), `run "x"`)

	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	q := runtime.RunQuery{Search: "failed yesterday", SearchAt: time.Date(2026, 10, 26, 1, 0, 0, 0, berlin)}
	var read runtime.RunQuery
	require.NoError(t, read.ReadValues(q.Values()))
	require.True(t, q.SearchAt.Equal(read.SearchAt))
	require.Equal(t, "Europe/Berlin", read.SearchAt.Location().String(), "yesterday had 25 hours there")
}
