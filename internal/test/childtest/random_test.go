package childtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/randseed"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// sketch is a random flow of lists. The behaviour of its nodes depends on the lists only, so a test can predict its
// result.
type sketch struct{ nodes []sketchNode }

type sketchNode struct {
	kind  string
	data  int // the upstream whose list it takes, -1 is the flow's input
	after []int
	inner *sketch
}

func newSketch(r *rand.Rand, depth int) *sketch {
	kinds := []string{"team", "team", "refuse", "map", "map", "bad map", "outcomes", "sub"}
	s := &sketch{nodes: make([]sketchNode, 1+r.IntN(5))}
	for i := range s.nodes {
		n := &s.nodes[i]
		n.kind, n.data = kinds[r.IntN(len(kinds))], r.IntN(i+1)-1
		if n.kind == "sub" && depth == 0 {
			n.kind = "map"
		}
		if n.kind == "sub" {
			n.inner = newSketch(r, depth-1)
		}
		for up := range i {
			if up != n.data && r.IntN(4) == 0 {
				n.after = append(n.after, up)
			}
		}
	}
	return s
}

// shop holds the activities of sketches.
type shop struct {
	team, refuse *activity.Activity[[]int, []int]
	item, bad    *activity.Activity[int, int]
	flatten      *activity.Activity[[]flow.ItemOutcome[int], []int]
}

func replaced(list []int) []int {
	out := make([]int, len(list))
	for i, n := range list {
		out[i] = n + 1
	}
	return out
}

func refuses(list []int) bool { return len(list) > 0 && list[0]%4 == 0 }

func isBad(n int) bool { return n%5 == 0 }

func newShop() *shop {
	fails := activity.NonRetryable(errBad)
	item := func(n int) (int, error) {
		if isBad(n) {
			return 0, fails
		}
		return n + 1, nil
	}
	return &shop{
		team: activity.New("team", func(_ context.Context, list []int) ([]int, error) { return replaced(list), nil }),
		refuse: activity.New("refuse", func(_ context.Context, list []int) ([]int, error) {
			if refuses(list) {
				return nil, fails
			}
			return list, nil
		}),
		// Every third item succeeds with its second attempt only.
		item: activity.New("item", func(ctx context.Context, n int) (int, error) {
			if info, _ := activity.Info(ctx); n%3 == 0 && info.Attempt == 1 {
				return 0, activity.RetryAfter(errBad, time.Millisecond)
			}
			return n + 1, nil
		}),
		bad: activity.New("bad", func(_ context.Context, n int) (int, error) { return item(n) }),
		flatten: activity.New("flatten", func(_ context.Context, list []flow.ItemOutcome[int]) ([]int, error) {
			out := make([]int, 0, len(list))
			for _, o := range list {
				if o.Outcome == fabrictype.OutcomeSucceeded {
					out = append(out, o.Value)
				}
			}
			return out, nil
		}),
	}
}

func (s *sketch) define(name string, shop *shop) (*flow.Definition[[]int, []int], error) {
	f := flow.New[[]int, []int](name)
	refs := make([]flow.Ref[[]int], len(s.nodes))
	for i, n := range s.nodes {
		data, node := f.Input(), fmt.Sprintf("n%d", i)
		if n.data >= 0 {
			data = refs[n.data]
		}
		var after []flow.Ref[[]int]
		for _, up := range n.after {
			after = append(after, refs[up])
		}
		order := flow.AfterEach(after)
		switch n.kind {
		case "team":
			refs[i] = flow.Node(f, node, shop.team, data, order)
		case "refuse":
			refs[i] = flow.Node(f, node, shop.refuse, data, order)
		case "map":
			refs[i] = flow.Map(f, node, shop.item, data, order)
		case "bad map":
			refs[i] = flow.Map(f, node, shop.bad, data, order)
		case "outcomes":
			refs[i] = flow.Node(f, node, shop.flatten, flow.MapOutcomes(f, node+"-all", shop.bad, data, order))
		case "sub":
			inner, err := n.inner.define(name+"."+node, shop)
			if err != nil {
				return nil, err
			}
			refs[i] = flow.Sub(f, node, inner, data, order)
		}
	}
	flow.Return(f, refs[len(refs)-1])
	return f.Build()
}

// fate predicts the result of a run of the sketch, nil if it fails.
func (s *sketch) fate(in []int) []int {
	lists, failed := make([][]int, len(s.nodes)), false
	for i, n := range s.nodes {
		data, runs := in, true
		if n.data >= 0 {
			data = lists[n.data]
			runs = data != nil
		}
		for _, up := range n.after {
			runs = runs && lists[up] != nil
		}
		if !runs {
			continue
		}
		lists[i] = n.fate(data)
		failed = failed || lists[i] == nil
	}
	if failed {
		return nil
	}
	return lists[len(lists)-1]
}

func (n sketchNode) fate(list []int) []int {
	switch n.kind {
	case "refuse":
		if refuses(list) {
			return nil
		}
		return list
	case "bad map":
		for _, v := range list {
			if isBad(v) {
				return nil
			}
		}
	case "outcomes":
		good := make([]int, 0, len(list))
		for _, v := range list {
			if !isBad(v) {
				good = append(good, v)
			}
		}
		return replaced(good)
	case "sub":
		return n.inner.fate(list)
	}
	return replaced(list)
}

// Random flows of maps and nested sub-flows end as their sketches predict, while workers and keepers start and stop and
// some of the runs are cancelled. FLOWFABRIC_SEED repeats a round, FLOWFABRIC_SOAK makes it long.
func TestRandomMapsAndSubFlows(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		for seed := range randseed.Trials(t, 4) {
			randomRound(t, b, seed)
		}
	})
}

func randomRound(t *testing.T, b *enginetest.Bench, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 7))
	ctx := enginetest.Context(t)
	shop := newShop()
	handlers := []activity.Handler{shop.team, shop.refuse, shop.item, shop.bad, shop.flatten}
	keeper := b.Keeper(t)
	steady := b.Worker(t, handlers, runtime.WorkerConfig{Concurrency: 4})
	type trial struct {
		want      []int
		run       *runtime.Run[[]int]
		cancelled bool
	}
	var trials []*trial
	for i := range 6 {
		s := newSketch(r, 2)
		def, err := s.define(fmt.Sprintf("random%d", i), shop)
		require.NoError(t, err)
		in := make([]int, r.IntN(7))
		for j := range in {
			in[j] = 1 + r.IntN(9)
		}
		run, err := runtime.Start(ctx, b.Client, def, in, runtime.WithID(strconv.FormatUint(seed, 10)))
		require.NoError(t, err)
		trials = append(trials, &trial{want: s.fate(in), run: run, cancelled: r.IntN(6) == 0})
	}
	for range 3 {
		passing := b.Worker(t, handlers, runtime.WorkerConfig{Concurrency: 2, Grace: -1})
		time.Sleep(time.Duration(r.IntN(8)) * time.Millisecond) //nolint:forbidigo // a random moment in the work
		require.NoError(t, passing.Stop())
		require.NoError(t, keeper.Stop())
		keeper = b.Keeper(t)
	}
	for i, x := range trials {
		if x.cancelled {
			err := b.Client.Run(fmt.Sprintf("random%d", i), x.run.ID()).Cancel(ctx, "by chance")
			require.True(t, err == nil || errors.Is(err, engine.ErrRunOver), "%v", err)
		}
	}
	for _, x := range trials {
		out, err := x.run.Result(ctx)
		switch {
		case x.cancelled && errors.Is(err, runtime.ErrRunCancelled):
		case x.want == nil:
			require.ErrorIs(t, err, runtime.ErrRunFailed, "seed %d", seed)
		default:
			require.NoError(t, err, "seed %d", seed)
			require.Equal(t, x.want, out, "seed %d", seed)
		}
	}
	b.Settle(t)
	require.NoError(t, steady.Stop())
	require.NoError(t, keeper.Stop())
	b.Wipe(t)
}
