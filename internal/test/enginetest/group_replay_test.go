package enginetest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
)

// TestReplayResetsAGroup: the group of a skipped child begins anew with it. (H-83)
func TestReplayResetsAGroup(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		t.Run("call by call", func(t *testing.T) {
			g := newGraph(t, b)
			g.plain([]string{"a", "b", "c", "j"}, map[string]joinPolicy{"j": {"quorum", 2, cancelRemaining}}, threeUp...)
			g.resolve("a", "j", "success")
			g.resolve("b", "j", "failed")
			state, effect := g.resolve("c", "j", "skipped")
			require.Equal(t, "impossible child_skipped", state+" "+effect)
			assert.Equal(t, int64(2), g.replay("j"))
			group := g.group("j")
			assert.Equal(t, "pending 1 0 0", strings.Join([]string{group["group_state"], group["succeeded"], group["failed"], group["skipped"]}, " "))
			assert.Empty(t, g.listed("j"), "no sibling is left to cancel")
			assert.NotContains(t, g.owed(), g.tuple("j"))
			state, _ = g.resolve("b", "j", "success")
			assert.Equal(t, "satisfied", state)
			assert.Equal(t, "waiting", g.state("j"))
			state, _ = g.resolve("c", "j", "success")
			assert.Equal(t, "already_fired", state)
		})
		t.Run("all_of", func(t *testing.T) {
			g := newGraph(t, b)
			g.plain([]string{"a", "b", "j"}, nil, [2]string{"a", "j"}, [2]string{"b", "j"})
			g.resolve("a", "j", "failed")
			g.replay("j")
			g.resolve("a", "j", "success")
			g.resolve("b", "j", "success")
			assert.Equal(t, "satisfied 2", g.group("j")["group_state"]+" "+g.group("j")["succeeded"])
			assert.Equal(t, "waiting", g.state("j"))
		})
		t.Run("managed, upstream first", func(t *testing.T) {
			g := newGraph(t, b)
			g.managed("j", map[string]joinPolicy{"j": {"any_of", 0, letRun}}, [2]string{"a", "j"}, [2]string{"b", "j"})
			g.end("a", "failed")
			g.end("b", "failed")
			require.Equal(t, "failed", g.result().Outcome)
			g.replay("a")
			g.end("a", "success")
			assert.Zero(t, g.replay("j"), "a has succeeded by now")
			g.end("j", "success")
			assert.Equal(t, "success", g.result().Outcome, "the join has tolerated b's failure")
		})
		t.Run("managed, join first", func(t *testing.T) {
			g := newGraph(t, b)
			g.managed("j", map[string]joinPolicy{"j": {"any_of", 0, letRun}}, [2]string{"a", "j"}, [2]string{"b", "j"})
			g.end("a", "failed")
			g.end("b", "failed")
			assert.Equal(t, int64(2), g.replay("j"))
			g.replay("a")
			g.end("a", "failed")
			assert.Equal(t, "skipped", g.state("j"), "b was not replayed, and a has failed again")
			assert.Equal(t, "failed", g.result().Outcome)
		})
		t.Run("managed, with an upstream that was the last to end", func(t *testing.T) {
			g := newGraph(t, b)
			g.managed("j", map[string]joinPolicy{"j": {"quorum", 2, letRun}}, threeUp...)
			g.end("a", "failed")
			g.end("b", "failed")
			g.end("c", "success")
			require.Equal(t, "failed", g.result().Outcome)
			assert.Equal(t, int64(2), g.replay("j"), "c has succeeded")
			g.replay("a")
			g.end("a", "success")
			g.end("j", "success")
			assert.Equal(t, "success", g.result().Outcome)
		})
		t.Run("managed, cancelled before its join was decided", func(t *testing.T) {
			g := newGraph(t, b)
			g.managed("j", map[string]joinPolicy{"j": {"any_of", 0, letRun}}, [2]string{"a", "j"}, [2]string{"b", "j"})
			g.cancel("j")
			g.end("a", "failed")
			g.end("b", "failed")
			assert.Equal(t, int64(2), g.replay("j"), "it may not run without a success")
			g.replay("b")
			g.end("b", "success")
			g.end("j", "success")
			assert.Equal(t, "success", g.result().Outcome)
		})
		t.Run("managed, upstream of a join that still waits", func(t *testing.T) {
			g := newGraph(t, b)
			g.managed("j", map[string]joinPolicy{"j": {"quorum", 2, letRun}}, threeUp...)
			g.end("a", "failed")
			g.replay("a")
			g.end("a", "success")
			assert.Equal(t, "1 0", g.group("j")["succeeded"]+" "+g.group("j")["failed"])
			g.end("b", "success")
			assert.Equal(t, "waiting", g.state("j"))
			g.end("c", "failed")
			g.end("j", "success")
			assert.Equal(t, "success", g.result().Outcome)
		})
		b.Settle(t)
	})
}

// TestGroup_KeepsChildCounts: the dependency counts of a group's child are correct. (H-84)
func TestGroup_KeepsChildCounts(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		g.plain([]string{"a", "b", "c", "j"}, map[string]joinPolicy{"j": {"any_of", 0, letRun}}, threeUp...)
		meta := func() string {
			m := g.hash(g.e.Keys().ExecDepsMeta(g.node("j")))
			return m["unsatisfied_required_count"] + " " + m["impossible_required_count"]
		}
		g.resolve("a", "j", "failed")
		assert.Equal(t, "2 ", meta())
		assert.Equal(t, "blocked_by_dependencies", g.evaluate("j"), "one failure does not make any_of impossible")
		g.resolve("b", "j", "success")
		assert.Equal(t, "0 0", meta())
		assert.Empty(t, g.set(g.e.Keys().ExecDepsUnresolved(g.node("j"))))
		assert.Equal(t, "eligible", g.evaluate("j"))

		g = newGraph(t, b)
		g.plain([]string{"a", "b", "c", "j"}, map[string]joinPolicy{"j": {"quorum", 3, letRun}}, threeUp...)
		g.resolve("a", "j", "failed")
		assert.Equal(t, "0 1", meta())
		b.Check(t, invariant.AnyTime)
	})
}

// TestImpossibleAllOfStaysSo. (H-85)
func TestImpossibleAllOfStaysSo(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		g.plain([]string{"a", "b", "j"}, nil, [2]string{"a", "j"}, [2]string{"b", "j"})
		g.resolve("a", "j", "failed")
		g.resolve("b", "j", "success")
		assert.Equal(t, "impossible 1 1", g.group("j")["group_state"]+" "+g.group("j")["succeeded"]+" "+g.group("j")["failed"])
	})
}

// TestGroup_CountsEarlierResults. (H-90)
func TestGroup_CountsEarlierResults(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		t.Run("named inputs", func(t *testing.T) {
			g := newGraph(t, b)
			g.managed("j", map[string]joinPolicy{"j": {"quorum", 2, letRun}},
				[][2]string{{"a", "j"}, {"b", "j"}, {"c", "j"}, {"d", "j"}}...)
			g.end("a", "success")
			g.end("b", "failed")
			g.end("c", "success")
			g.end("d", "success")
			g.claim()
			inputs := make(map[string]string)
			for _, in := range g.leases["j"].Inputs {
				inputs[in.Name] = string(in.Result)
			}
			want := map[string]string{"a": "result of a", "c": "result of c"}
			assert.Equal(t, want, inputs, "those that satisfied the join, and no later one")
			paged, err := g.e.ReadInputs(g.ctx, enginerpc.ReadInputsCall{Partition: g.p, ExecutionID: g.node("j")})
			require.NoError(t, err)
			assert.Len(t, paged.Inputs, 2)
			g.end("j", "success")
			b.Settle(t)
		})
		t.Run("payload", func(t *testing.T) {
			g := newGraph(t, b)
			g.plain([]string{"a", "b", "j"}, map[string]joinPolicy{"j": {"quorum", 2, letRun}})
			client := g.e.Client()
			require.NoError(t, client.Do(g.ctx, client.B().Set().Key(g.e.Keys().ExecResult(g.node("a"))).Value("from a").Build()).Error())
			g.stage("a", "j")
			g.stage("b", "j")
			g.apply("a", "j", "in")
			g.apply("b", "j", "")
			_, effect := g.resolve("a", "j", "success")
			assert.Equal(t, "data_injected", effect)
			g.resolve("b", "j", "success")
			payload, err := client.Do(g.ctx, client.B().Get().Key(g.e.Keys().ExecPayload(g.node("j"))).Build()).ToString()
			require.NoError(t, err)
			assert.Equal(t, "from a", payload)
		})
	})
}
