package enginetest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
)

// joinPolicies are all shapes of a group over three edges.
func joinPolicies() []joinPolicy {
	list := []joinPolicy{{variant: "all_of"}}
	for _, then := range []string{cancelRemaining, letRun} {
		list = append(list, joinPolicy{"any_of", 0, then})
		for k := range int64(3) {
			list = append(list, joinPolicy{"quorum", k + 1, then})
		}
	}
	return list
}

// joinModel is a model of a group, which receives the outcomes one by one.
type joinModel struct {
	policy    joinPolicy
	n         int
	succeeded int
	other     int
	state     string
}

func newJoinModel(p joinPolicy, n int) *joinModel {
	return &joinModel{policy: p, n: n, state: "pending"}
}

func (m *joinModel) needed() int {
	switch m.policy.variant {
	case "any_of":
		return 1
	case "quorum":
		return int(m.policy.k)
	}
	return m.n
}

// Adds an outcome and returns whether the group fires by it.
func (m *joinModel) tell(outcome string) bool {
	if outcome == "success" {
		m.succeeded++
	} else {
		m.other++
	}
	if m.state != "pending" {
		return false
	}
	switch {
	case m.succeeded >= m.needed():
		m.state = "satisfied"
	case m.n-m.other < m.needed():
		m.state = "impossible"
	}
	return m.state != "pending"
}

// sequences are all lists of n of the given texts.
func sequences(n int, of ...string) [][]string {
	lists := [][]string{nil}
	for range n {
		var longer [][]string
		for _, list := range lists {
			for _, text := range of {
				longer = append(longer, append(slices.Clone(list), text))
			}
		}
		lists = longer
	}
	return lists
}

var threeUp = [][2]string{{"a", "j"}, {"b", "j"}, {"c", "j"}}

// TestJoinTruth resolves every sequence of outcomes for every kind of group, call by call.
func TestJoinTruth(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		for _, p := range joinPolicies() {
			for _, outcomes := range sequences(3, "success", "failed", "skipped") {
				g := newGraph(t, b)
				g.plain([]string{"a", "b", "c", "j"}, map[string]joinPolicy{"j": p}, threeUp...)
				name := p.String() + " " + strings.Join(outcomes, " ")
				joinTruth(t, g, p, outcomes, name)
			}
		}
	})
}

func joinTruth(t *testing.T, g *graph, p joinPolicy, outcomes []string, name string) {
	t.Helper()
	m := newJoinModel(p, 3)
	for i, outcome := range outcomes {
		fired, before := m.state != "pending", g.dump()
		fires := m.tell(outcome)
		state, effect := g.resolve(string(rune('a'+i)), "j", outcome)
		if p.variant != "all_of" {
			want := m.state
			if fired {
				want = "already_fired"
			}
			assert.Equal(t, want, state, name)
			assert.Equal(t, fires && m.state == "impossible", effect == "child_skipped", name)
		}
		assert.NotEqual(t, before, g.dump(), name)
		again := g.dump()
		state, _ = g.resolve(string(rune('a'+i)), "j", outcome)
		assert.Equal(t, "already_resolved", state, name)
		assert.Equal(t, again, g.dump(), "%s: a repeat changes something", name)
	}
	want := map[string]string{"satisfied": "waiting", "impossible": "skipped", "pending": "waiting_children"}[m.state]
	assert.Equal(t, want, g.state("j"), name)
	group := g.group("j")
	assert.Equal(t, m.state, group["group_state"], name)
	assert.Equal(t, "3", group["n"], name)
	assert.Equal(t, strconv.Itoa(m.succeeded), group["succeeded"], name)
	failed, _ := strconv.Atoi(group["failed"])
	skipped, _ := strconv.Atoi(group["skipped"])
	assert.Equal(t, m.other, failed+skipped, name)
	if p.then == cancelRemaining {
		assert.Equal(t, g.ids("a", "b", "c"), g.listed("j"), "%s: all siblings still live", name)
		assert.Equal(t, "sibling_quorum_"+m.state, group["cancel_siblings_reason"], name)
		assert.Contains(t, g.owed(), g.tuple("j"), name)
	} else {
		assert.NotContains(t, g.owed(), g.tuple("j"), name)
		assert.Empty(t, group["cancel_siblings_pending_flag"], name)
	}
}

// TestManagedJoinTruth ends the upstreams of every kind of join in every way, and checks the join, the siblings and the
// flow.
func TestManagedJoinTruth(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		for _, p := range []joinPolicy{
			{variant: "all_of"}, {"any_of", 0, cancelRemaining}, {"any_of", 0, letRun}, {"quorum", 2, cancelRemaining},
			{"quorum", 2, letRun},
		} {
			for _, outcomes := range sequences(3, "success", "failed", "cancelled", "expired") {
				managedTruth(t, b, p, outcomes)
			}
		}
		b.Settle(t)
	})
}

func managedTruth(t *testing.T, b *enginetest.Bench, p joinPolicy, outcomes []string) {
	t.Helper()
	name := p.String() + " " + strings.Join(outcomes, " ")
	g := newGraph(t, b)
	g.managed("j", map[string]joinPolicy{"j": p}, threeUp...)
	g.claim()
	m := newJoinModel(p, 3)
	failed, stopped := false, false
	for i, outcome := range outcomes {
		up := string(rune('a' + i))
		if stopped {
			assert.Equal(t, "cancelled", g.state(up), "%s: %s is no longer needed", name, up)
			assert.Equal(t, "sibling_quorum_"+m.state, g.core(up)["cancellation_reason"], name)
			continue
		}
		g.end(up, outcome)
		failed = failed || outcome == "failed" || outcome == "expired"
		stopped = m.tell(outcome) && p.then == cancelRemaining
		want := map[string]string{"satisfied": "waiting", "impossible": "skipped", "pending": "waiting_children"}[m.state]
		assert.Equal(t, want, g.state("j"), name)
	}
	if m.state == "satisfied" {
		g.end("j", "success")
	}
	result := g.result()
	switch {
	case m.state == "satisfied":
		assert.Equal(t, "success", result.Outcome, name)
		assert.Empty(t, result.FailedNode, name)
	case failed:
		assert.Equal(t, "failed", result.Outcome, name)
		assert.NotEmpty(t, result.FailedNode, name)
	default:
		assert.Equal(t, "cancelled", result.Outcome, name)
	}
	assert.NotContains(t, g.owed(), g.tuple("j"), name)
	if t.Failed() {
		t.FailNow()
	}
}

// TestRandomJoins ends the nodes of random graphs with joins in random order and in random ways. Whatever happens,
// every flow ends and the keyspace is in order.
func TestRandomJoins(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		for seed := range uint64(12) {
			t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
				randomJoins(t, b, rand.New(rand.NewPCG(seed, 2)))
			})
		}
	})
}

func randomJoins(t *testing.T, b *enginetest.Bench, r *rand.Rand) {
	const nodes = 14
	g := newGraph(t, b)
	name := func(i int) string { return fmt.Sprintf("n%02d", i) }
	var edges [][2]string
	joins := make(map[string]joinPolicy)
	for down := 1; down < nodes; down++ {
		ups := r.Perm(down)[:r.IntN(min(down, 4)+1)]
		for _, up := range ups {
			edges = append(edges, [2]string{name(up), name(down)})
		}
		policies := joinPolicies()
		if p := policies[r.IntN(len(policies))]; len(ups) > 1 && p.variant != "all_of" {
			p.k = min(p.k, int64(len(ups)))
			joins[name(down)] = p
		}
	}
	if len(edges) == 0 {
		return
	}
	g.managed("", joins, edges...)
	for range 200 {
		g.claim()
		var ready []string
		for node := range g.leases {
			if g.state(node) == "active" {
				ready = append(ready, node)
			} else {
				delete(g.leases, node)
			}
		}
		if len(ready) == 0 {
			break
		}
		slices.Sort(ready)
		outcomes := []string{"success", "success", "success", "failed", "cancelled", "expired"}
		g.end(ready[r.IntN(len(ready))], outcomes[r.IntN(len(outcomes))])
		b.Check(t, invariant.AnyTime)
		require.False(t, t.Failed())
	}
	assert.NotEmpty(t, g.result().Outcome, "the flow has not ended")
	b.Check(t, invariant.Quiescent)
}
