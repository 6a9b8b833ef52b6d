package viewtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/randseed"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// listedRuns are runs in the order of their starts, with those that are over in the order of their ends, while the
// clock of the engine jumps, and pages of them that are read meanwhile.
type listedRuns struct {
	*enginetest.Bench
	ctx      context.Context
	clock    *enginetest.Clock
	jumped   time.Duration
	r        *rand.Rand
	def      *flow.Definition[fixture.None, string]
	number   int
	started  []*runtime.Run[string] // in the order of their starts
	ended    []*runtime.Run[string] // in the order of their ends
	sessions []*pageSession
}

// pageSession is a search whose pages are read one by one.
type pageSession struct {
	query  runtime.RunQuery
	cursor string
	want   map[string]bool // runs that it must find, unless they leave its list
	seen   map[string]int
}

func idsOf(runs []*runtime.Run[string]) []string {
	var ids []string
	for _, run := range runs {
		ids = append(ids, run.ID())
	}
	return ids
}

func without(runs []*runtime.Run[string], run *runtime.Run[string]) []*runtime.Run[string] {
	return slices.DeleteFunc(slices.Clone(runs), func(r *runtime.Run[string]) bool { return r == run })
}

func (x *listedRuns) start(t *testing.T) {
	t.Helper()
	id := fmt.Sprint("run-", x.number)
	if x.number++; x.r.IntN(8) == 0 && x.number > 10 {
		id = fmt.Sprint("run-", x.r.IntN(x.number)) // of one that may be purged
	}
	if slices.Contains(idsOf(x.started), id) {
		return
	}
	run, err := runtime.Start(x.ctx, x.Client, x.def, fixture.None{}, runtime.WithID(id))
	require.NoError(t, err)
	x.started = append(x.started, run)
}

// leave removes a run from those that the open sessions must find: all sessions, or the ones that find runs that are
// over.
func (x *listedRuns) leave(run *runtime.Run[string], onlyOfEnded bool) {
	for _, s := range x.sessions {
		if !onlyOfEnded || byEnd(s.query) || s.query.States != nil {
			delete(s.want, run.ID())
		}
	}
}

func (x *listedRuns) step(t *testing.T) {
	t.Helper()
	switch k := x.r.IntN(16); {
	case k < 5:
		x.start(t)
	case k < 8 && len(x.started) > 0: // ends one, or opens it again
		run := x.started[x.r.IntN(len(x.started))]
		if !slices.Contains(x.ended, run) {
			require.NoError(t, run.Cancel(x.ctx, "enough"))
			x.ended = append(x.ended, run)
		} else if x.r.IntN(2) == 0 {
			require.NoError(t, run.Rerun(x.ctx, fabrictype.RerunFailed))
			x.ended = without(x.ended, run)
			x.leave(run, true)
		}
	case k < 10 && len(x.ended) > 0:
		run := x.ended[x.r.IntN(len(x.ended))/(1+x.r.IntN(3))]
		require.NoError(t, run.Purge(x.ctx))
		x.started, x.ended = without(x.started, run), without(x.ended, run)
		x.leave(run, false)
	case k == 10:
		to := time.Duration(x.r.Int64N(int64(50*time.Minute))) - 10*time.Minute // within one hour
		x.clock.Jump(to - x.jumped)
		x.jumped = to
	case k == 11:
		x.clock.Jump(time.Duration(x.r.Int64N(int64(8*time.Millisecond))) - 4*time.Millisecond)
	case k == 12:
		_, err := x.RunKeeperTask(x.ctx, []string{"index_reconciliation", "retention", "key_reconciliation"}[x.r.IntN(3)])
		require.NoError(t, err)
	case k == 13 && len(x.sessions) < 4:
		x.open(t)
	default:
		x.read(t)
	}
}

func (x *listedRuns) open(t *testing.T) {
	t.Helper()
	s := &pageSession{
		query: runtime.RunQuery{Sort: []string{"created", "-created", "finished", "-finished"}[x.r.IntN(4)]},
		want:  map[string]bool{}, seen: map[string]int{},
	}
	runs := x.started
	if x.r.IntN(3) == 0 {
		s.query.States = []fabrictype.RunState{fabrictype.RunCancelled}
	}
	if byEnd(s.query) || s.query.States != nil {
		runs = x.ended
	}
	for _, id := range idsOf(runs) {
		s.want[id] = true
	}
	x.sessions = append(x.sessions, s)
	x.readOf(t, s)
}

// read reads the next page of a session. At its end, it has found each run that was there all the time, once.
func (x *listedRuns) read(t *testing.T) {
	t.Helper()
	if len(x.sessions) > 0 {
		x.readOf(t, x.sessions[x.r.IntN(len(x.sessions))])
	}
}

func (x *listedRuns) readOf(t *testing.T, s *pageSession) {
	t.Helper()
	page, err := x.Client.ListRuns(x.ctx, s.query, s.cursor, 1+x.r.IntN(5))
	require.NoError(t, err)
	for _, run := range page.Items {
		s.seen[run.Run]++
	}
	if s.cursor = page.Next; s.cursor != "" {
		return
	}
	for id := range s.want {
		require.Equal(t, 1, s.seen[id], "%s by %s", id, s.query.Sort)
	}
	x.sessions = slices.DeleteFunc(x.sessions, func(other *pageSession) bool { return other == s })
}

// check compares listings with the runs, and searches by time with the times of the records.
func (x *listedRuns) check(t *testing.T) {
	t.Helper()
	x.Check(t, invariant.AnyTime)
	found := func(q runtime.RunQuery) (ids []string) {
		for _, run := range fixture.Pages(t, x.Client, q, 1+x.r.IntN(20)) {
			ids = append(ids, run.Run)
		}
		return ids
	}
	started, ended := idsOf(x.started), idsOf(x.ended)
	require.Equal(t, started, found(runtime.RunQuery{Sort: "created"}))
	require.Equal(t, ended, found(runtime.RunQuery{Sort: "finished"}))
	cancelled, open := []fabrictype.RunState{fabrictype.RunCancelled}, []fabrictype.RunState{fabrictype.RunRunning}
	failed := []fabrictype.RunState{fabrictype.RunFailed, fabrictype.RunExpired}
	var inOrder []string
	for _, id := range started {
		if slices.Contains(ended, id) {
			inOrder = append(inOrder, id)
		}
	}
	require.Equal(t, inOrder, found(runtime.RunQuery{States: cancelled, Sort: "created"}))
	require.Equal(t, ended, found(runtime.RunQuery{States: cancelled, Sort: "finished"}))
	require.Len(t, found(runtime.RunQuery{States: open}), len(started)-len(ended))
	require.Empty(t, found(runtime.RunQuery{States: failed}))
	all := fixture.Pages(t, x.Client, runtime.RunQuery{Flow: "listed"}, 7)
	slices.Reverse(started)
	slices.Reverse(ended)
	require.Equal(t, started, found(runtime.RunQuery{}))
	require.Equal(t, ended, found(runtime.RunQuery{Sort: "-finished"}))
	require.Equal(t, ended, found(runtime.RunQuery{States: cancelled, Sort: "-finished"}))
	slices.Reverse(inOrder)
	require.Equal(t, inOrder, found(runtime.RunQuery{States: cancelled}))
	requireCounted(t, x.Client, runtime.RunQuery{})
	if len(all) == 0 {
		return
	}
	one := all[x.r.IntN(len(all))]
	for _, q := range []runtime.RunQuery{
		{CreatedBefore: one.CreatedAt}, {CreatedFrom: one.CreatedAt}, {CreatedBefore: one.CreatedAt, Sort: "created"},
		{CreatedFrom: one.CreatedAt, CreatedBefore: one.CreatedAt.Add(time.Hour), Sort: "created"},
		{CreatedBefore: one.CreatedAt, States: cancelled}, {FinishedFrom: one.CreatedAt, States: cancelled},
		{CreatedFrom: one.CreatedAt, States: cancelled, Sort: "created"},
		{FinishedBefore: one.CreatedAt}, {FinishedFrom: one.CreatedAt, Sort: "finished"}, {FinishedBefore: one.CreatedAt, Sort: "finished"},
	} {
		var want []string
		for _, run := range all {
			if matches(run, q) {
				want = append(want, run.Run)
			}
		}
		require.ElementsMatch(t, want, found(q), "%+v", q)
	}
}

// Lists of runs are exact, and their pages have no gaps, whatever starts, ends, runs again and is purged, and however
// the clock jumps.
func TestListsOfRuns(t *testing.T) {
	t.Parallel()
	for seed := range randseed.Trials(t, 6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			b, clock := enginetest.WithClock(t, runtime.OpenConfig{Partitions: 1})
			x := &listedRuns{
				Bench: b, ctx: enginetest.Context(t), clock: clock, r: rand.New(rand.NewPCG(seed, 1)),
				def: oneWay(t, fixture.NewCourse(), "listed", "ok"),
			}
			for i := range 250 {
				if x.step(t); i%25 == 0 {
					x.check(t)
				}
			}
			x.check(t)
			for _, run := range x.started {
				if !slices.Contains(x.ended, run) {
					require.NoError(t, run.Cancel(x.ctx, "enough"))
				}
				require.NoError(t, run.Purge(x.ctx))
			}
			fixture.NothingLeft(t, b)
		})
	}
}

// A list whose holes outnumber its entries is copied without them, though a run stays at its head, and though other
// runs start, end and are purged meanwhile.
func TestHolesOfRunsAreRemoved(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		def := oneWay(t, fixture.NewCourse(), "listed", "ok")
		core := engine.ConnOf(b.Engine.Internal())
		p := keyspace.Partition{Family: keyspace.FlowFamily}
		length := func(key string) int64 {
			n, err := core.Client().Do(ctx, core.Client().B().Llen().Key(key).Build()).AsInt64()
			require.NoError(t, err)
			return n
		}
		lists := []string{core.Keys().FfxAllRuns(p), core.Keys().FfxRuns(p, "listed"), core.Keys().FfxClosedFlows(p)}
		_, err := b.RunKeeperTask(ctx, "index_reconciliation") // lists are left alone before
		require.NoError(t, err)
		var runs []*runtime.Run[string]
		for i := range 700 {
			run, err := runtime.Start(ctx, b.Client, def, fixture.None{}, runtime.WithID(fmt.Sprint("run-", i)))
			require.NoError(t, err)
			require.NoError(t, run.Cancel(ctx, "enough"))
			runs = append(runs, run)
		}
		for i, run := range runs[1:600] {
			require.NoError(t, run.Purge(ctx))
			if i%100 == 99 {
				_, err := b.RunKeeperTask(ctx, "retention")
				require.NoError(t, err)
			}
		}
		_, err = b.RunKeeperTask(ctx, "retention")
		require.NoError(t, err)
		for _, key := range lists {
			require.Less(t, length(key), int64(101+256), key)
		}
		require.Len(t, fixture.Pages(t, b.Client, runtime.RunQuery{}, 50), 101)
		require.Len(t, fixture.Pages(t, b.Client, runtime.RunQuery{Sort: "finished"}, 50), 101)
		b.Check(t, invariant.AnyTime)
		for _, run := range append(runs[:1], runs[600:]...) {
			require.NoError(t, run.Purge(ctx))
		}
		fixture.NothingLeft(t, b)
	}, runtime.OpenConfig{Partitions: 1})
}
