package enginetest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

// TestGroupPolicy checks which policies can be set, and when.
func TestGroupPolicy(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		_, err := g.policy("j", joinPolicy{"any_of", 0, letRun}, 0)
		require.ErrorIs(t, err, enginecore.ErrFlowNotFound)
		g.plain([]string{"a", "b", "c", "d", "j"}, nil)
		refused := func(p joinPolicy, expected int64, message string) {
			t.Helper()
			_, err := g.policy("j", p, expected)
			var refusal *enginecore.Error
			require.ErrorAs(t, err, &refusal)
			assert.Equal(t, message, refusal.Detail("message"))
		}
		set := func(p joinPolicy, expected int64, want string) {
			t.Helper()
			outcome, err := g.policy("j", p, expected)
			require.NoError(t, err)
			assert.Equal(t, want, outcome)
		}
		refused(joinPolicy{"most", 0, letRun}, 0, "unsupported_policy_variant: most")
		refused(joinPolicy{"quorum", 0, letRun}, 0, "quorum k must be >= 1")
		refused(joinPolicy{"any_of", 0, "stop"}, 0, "on_satisfied required for any_of/quorum: cancel_remaining | let_run")
		refused(joinPolicy{"quorum", 3, letRun}, 2, "quorum k is 3, but only 2 edges are expected") // H-81
		assert.Empty(t, g.group("j"), "a refusal writes nothing")

		set(joinPolicy{"quorum", 2, letRun}, 0, "set")
		set(joinPolicy{"quorum", 2, letRun}, 0, "already_set")
		set(joinPolicy{"quorum", 3, letRun}, 0, "set") // H-91: the same variant, but not the same policy
		assert.Equal(t, "3", g.group("j")["k"])
		set(joinPolicy{"quorum", 3, cancelRemaining}, 0, "set")
		assert.Equal(t, cancelRemaining, g.group("j")["on_satisfied"])
		set(joinPolicy{"any_of", 0, letRun}, 0, "set")
		g.stage("a", "j")
		g.apply("a", "j", "")
		set(joinPolicy{"any_of", 0, letRun}, 0, "already_set")
		refused(joinPolicy{"any_of", 0, cancelRemaining}, 0, "edge_group_policy_already_fixed: dependencies already staged")
	})
}

// TestGroupWaitsForItsEdges: a group is not impossible before its edges exist. (H-80, H-81)
func TestGroupWaitsForItsEdges(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		t.Run("staged edges", func(t *testing.T) {
			g := newGraph(t, b)
			g.plain([]string{"a", "b", "j"}, map[string]joinPolicy{"j": {"any_of", 0, letRun}})
			g.stage("a", "j")
			g.stage("b", "j")
			g.apply("a", "j", "")
			state, _ := g.resolve("a", "j", "failed")
			assert.Equal(t, "pending", state)
			assert.Equal(t, "waiting_children", g.state("j"))
			assert.Equal(t, "blocked_by_dependencies", g.evaluate("j"), "no edge is open, but the group is")
			_, err := g.e.PromoteBlockedToEligible(g.ctx, enginerpc.PromoteBlockedToEligibleCall{ExecutionID: g.node("j"), LaneID: g.lane})
			require.ErrorIs(t, err, errorcode.DepsNotSatisfied)
			g.apply("b", "j", "")
			state, _ = g.resolve("b", "j", "success")
			assert.Equal(t, "satisfied", state)
			assert.Equal(t, "waiting", g.state("j"))
		})
		t.Run("announced edges", func(t *testing.T) {
			g := newGraph(t, b)
			g.plain([]string{"a", "b", "j"}, nil)
			_, err := g.policy("j", joinPolicy{"any_of", 0, letRun}, 2)
			require.NoError(t, err)
			g.cancel("a")
			g.stage("a", "j")
			g.apply("a", "j", "")
			assert.Equal(t, "waiting_children", g.state("j"))
			g.cancel("b")
			g.stage("b", "j")
			g.apply("b", "j", "")
			assert.Equal(t, "skipped", g.state("j"))
		})
		t.Run("quorum above the edges so far", func(t *testing.T) {
			g := newGraph(t, b)
			g.plain([]string{"a", "b", "j"}, map[string]joinPolicy{"j": {"quorum", 2, letRun}})
			g.stage("a", "j")
			g.apply("a", "j", "")
			state, _ := g.resolve("a", "j", "success")
			assert.Equal(t, "pending", state)
			g.stage("b", "j")
			g.apply("b", "j", "")
			state, _ = g.resolve("b", "j", "success")
			assert.Equal(t, "satisfied", state)
		})
		b.Check(t, invariant.AnyTime)
	})
}

// TestLateEdges: an edge that comes after the decision holds nothing back. (H-82)
func TestLateEdges(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		for _, outcome := range []string{"success", "failed"} {
			g := newGraph(t, b)
			g.plain([]string{"a", "late", "over", "j"}, map[string]joinPolicy{"j": {"any_of", 0, letRun}}, [2]string{"a", "j"})
			g.resolve("a", "j", "success")
			g.stage("late", "j")
			assert.Equal(t, "0", g.apply("late", "j", ""))
			assert.Equal(t, "waiting", g.state("j"))
			assert.Equal(t, "eligible", g.evaluate("j"))
			assert.Equal(t, "already_applied", g.apply("late", "j", ""))
			state, _ := g.resolve("late", "j", outcome)
			assert.Equal(t, "already_fired", state)
			g.cancel("over")
			g.stage("over", "j")
			assert.Equal(t, "0", g.apply("over", "j", ""))
			assert.Equal(t, "waiting", g.state("j"))
			assert.Equal(t, "3", g.group("j")["n"])
			assert.Equal(t, "satisfied", g.group("j")["group_state"])
		}
		b.Check(t, invariant.AnyTime)
	})
}

// TestGroup_RefusesUnknownOutcome: an outcome that the group has no edge for is refused before anything is written.
// (H-92)
func TestGroup_RefusesUnknownOutcome(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		g.plain([]string{"a", "b", "j"}, map[string]joinPolicy{"j": {"any_of", 0, letRun}}, [2]string{"a", "j"}, [2]string{"b", "j"})
		client := g.e.Client()
		key := g.e.Keys().FlowEdgegroup(g.id, g.node("j"))
		require.NoError(t, client.Do(g.ctx, client.B().Hset().Key(key).FieldValue().FieldValue("n", "0").Build()).Error())
		before := g.dump()
		_, err := g.e.ResolveDependency(g.ctx, g.resolution("a", "j", "success"))
		require.ErrorIs(t, err, errorcode.InvariantViolation)
		var refusal *enginecore.Error
		require.ErrorAs(t, err, &refusal)
		assert.Equal(t, "edgegroup counters exceed n: 1/0", refusal.Detail("message"))
		assert.Equal(t, before, g.dump())
		assert.Equal(t, "unsatisfied", g.hash(g.e.Keys().ExecDep(g.node("j"), g.edge("a", "j")))["state"])
	})
}

// TestCallsWithoutGroupKeys: calls without the group's keys have the same effect as before groups existed.
func TestCallsWithoutGroupKeys(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		g.plain([]string{"a", "b", "j"}, map[string]joinPolicy{"j": {"any_of", 0, cancelRemaining}})
		before := g.group("j")
		for _, up := range []string{"a", "b"} {
			g.stage(up, "j")
			reply, err := g.e.ApplyDependencyToChild(g.ctx, enginerpc.ApplyDependencyToChildCall{
				FlowID: g.id, EdgeID: g.edge(up, "j"), UpstreamExecutionID: g.node(up), DownstreamExecutionID: g.node("j"), LaneID: g.lane,
			})
			require.NoError(t, err)
			assert.NotEqual(t, "0", reply.Unresolved)
		}
		call := g.resolution("a", "j", "failed")
		call.GroupExecutionID = ""
		function, keys, args, err := enginerpc.Wire(g.e.Keys(), call)
		require.NoError(t, err)
		reply, err := g.raw(function, keys[:11], args[:3])
		require.NoError(t, err)
		assert.Equal(t, []string{"1", "OK", "impossible", "child_skipped"}, reply)
		assert.Equal(t, "skipped", g.state("j"))
		assert.Equal(t, before, g.group("j"))
		assert.Empty(t, g.owed())
	})
}

// TestCheckReportsBrokenGroups: the check of the keyspace reports a group that does not fit its edges or its siblings.
func TestCheckReportsBrokenGroups(t *testing.T) {
	t.Parallel()
	b := enginetest.New(t, testserver.Embedded)
	for _, damage := range []struct {
		field, value, report string
	}{
		{"succeeded", "2", "counts 2 successes"},
		{"n", "7", "n is 7 of 3 edges"},
		{"group_state", "satisfied", "is satisfied by 0 of 1 successes"},
		{"cancel_siblings_pending_flag", "true", "whose group owes cancels"},
	} {
		g := newGraph(t, b)
		g.managed("j", map[string]joinPolicy{"j": {"any_of", 0, cancelRemaining}}, threeUp...)
		g.end("a", "failed")
		client := g.e.Client()
		key := g.e.Keys().FlowEdgegroup(g.id, g.node("j"))
		before := g.group("j")[damage.field]
		set := func(value string) {
			require.NoError(t, client.Do(g.ctx, client.B().Hset().Key(key).FieldValue().FieldValue(damage.field, value).Build()).Error())
		}
		set(damage.value)
		report, err := invariant.Check(g.ctx, client, b.Prefix, invariant.AnyTime)
		require.NoError(t, err)
		assert.ErrorContains(t, report.Err(), damage.report)
		set(before)
	}
	b.Check(t, invariant.AnyTime)
}
