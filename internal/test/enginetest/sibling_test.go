package enginetest_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
)

// TestJoinToleratesBranches: a failure on a branch that ends in a satisfied join does not fail the flow, however long
// the branch is; a failure on a branch that also leads elsewhere does.
func TestJoinToleratesBranches(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		anyOf := map[string]joinPolicy{"j": {"any_of", 0, letRun}}
		g.managed("j", anyOf, [][2]string{{"a", "a2"}, {"a2", "j"}, {"b", "j"}}...)
		g.end("a", "failed")
		assert.Equal(t, "skipped", g.state("a2"))
		assert.Equal(t, "1", g.group("j")["skipped"])
		g.end("b", "success")
		g.end("j", "success")
		assert.Equal(t, "success", g.result().Outcome)

		g = newGraph(t, b)
		g.managed("j", anyOf, [][2]string{{"a", "j"}, {"a", "elsewhere"}, {"b", "j"}}...)
		g.end("a", "failed")
		g.end("b", "success")
		g.end("j", "success")
		result := g.result()
		assert.Equal(t, "failed", result.Outcome)
		assert.Equal(t, "a", result.FailedNode)
		b.Settle(t)
	})
}

// TestSiblingsNeededElsewhereSurvive: cancel_remaining ends only upstreams that no other node waits for.
func TestSiblingsNeededElsewhereSurvive(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		race := joinPolicy{"any_of", 0, cancelRemaining}
		t.Run("another consumer", func(t *testing.T) {
			g := newGraph(t, b)
			g.managed("", map[string]joinPolicy{"j": race}, [][2]string{{"a", "j"}, {"b", "j"}, {"c", "j"}, {"b", "other"}}...)
			g.end("a", "success")
			assert.Equal(t, "cancelled", g.state("c"))
			assert.Equal(t, "active", g.state("b"))
			g.end("b", "success")
			g.end("other", "success")
			g.end("j", "success")
			assert.Equal(t, "success", g.result().Outcome)
		})
		t.Run("two joins over the same upstreams", func(t *testing.T) {
			g := newGraph(t, b)
			g.managed("", map[string]joinPolicy{"j": race, "k": {"quorum", 2, cancelRemaining}}, [][2]string{
				{"a", "j"}, {"b", "j"}, {"c", "j"}, {"a", "k"}, {"b", "k"}, {"c", "k"},
			}...)
			g.end("a", "success")
			assert.Equal(t, "active", g.state("b"), "k waits for one more")
			assert.Equal(t, "active", g.state("c"))
			g.end("b", "success")
			assert.Equal(t, "cancelled", g.state("c"))
			g.end("j", "success")
			g.end("k", "success")
			assert.Equal(t, "success", g.result().Outcome)
		})
		t.Run("the result of the flow", func(t *testing.T) {
			g := newGraph(t, b)
			g.managed("b", map[string]joinPolicy{"j": race}, [][2]string{{"a", "j"}, {"b", "j"}}...)
			g.end("a", "success")
			assert.Equal(t, "active", g.state("b"))
			g.end("b", "success")
			g.end("j", "success")
			assert.True(t, g.result().HasResult)
		})
		t.Run("listed for a dispatcher", func(t *testing.T) {
			g := newGraph(t, b)
			g.plain([]string{"a", "b", "c", "j", "other"}, map[string]joinPolicy{"j": race},
				[][2]string{{"a", "j"}, {"b", "j"}, {"c", "j"}, {"b", "other"}}...)
			g.cancel("a")
			g.resolve("a", "j", "success")
			assert.Equal(t, g.ids("c"), g.listed("j"))
			g.drain(50)
			assert.Equal(t, "cancelled", g.state("c"), "a keeper does the work of a dispatcher")
			assert.Equal(t, "edge_group", g.core("c")["cancelled_by"])
			assert.Equal(t, "waiting", g.state("b"))
			assert.Empty(t, g.listed("j"))
		})
		b.Check(t, invariant.AnyTime)
	})
}

// TestManySiblings: a call processes a bounded number of siblings and keeps the rest for later calls.
func TestManySiblings(t *testing.T) {
	t.Parallel()
	const width = 600
	fan := make([][2]string, width)
	names := make([]string, width)
	for i := range fan {
		names[i] = fmt.Sprintf("u%03d", i)
		fan[i] = [2]string{names[i], "j"}
	}
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		race := map[string]joinPolicy{"j": {"any_of", 0, cancelRemaining}}
		living := func(g *graph) int {
			n := 0
			for _, name := range names {
				if g.core(name)["lifecycle_phase"] != "terminal" {
					n++
				}
			}
			return n
		}
		t.Run("managed", func(t *testing.T) {
			g := newGraph(t, b)
			g.managed("", race, fan...)
			require.True(t, g.end("u000", "success"), "the call must leave some for later")
			left := living(g)
			assert.Less(t, left, width-20, "the call must cancel as many as its bound allows")
			assert.GreaterOrEqual(t, left, width-256)
			assert.Equal(t, "waiting", g.state("j"))
			b.Check(t, invariant.AnyTime)
			g.drain(128)
			assert.Zero(t, living(g))
			assert.Empty(t, g.owed())
			g.end("j", "success")
			assert.Equal(t, "success", g.result().Outcome)
			b.Settle(t)
		})
		t.Run("listed for a dispatcher", func(t *testing.T) {
			g := newGraph(t, b)
			g.plain(append(slices.Clone(names), "j"), race, fan...)
			g.cancel("u000")
			g.resolve("u000", "j", "success")
			for rounds := 0; ; rounds++ {
				require.Less(t, rounds, 10)
				listed := g.listed("j")
				require.LessOrEqual(t, len(listed), 256)
				for _, id := range listed {
					_, err := g.e.CancelExecution(g.ctx, enginerpc.CancelExecutionCall{
						ExecutionID: enginecore.ExecutionID(id), LaneID: g.lane, Reason: "sibling", Source: "operator_override",
					})
					require.NoError(t, err)
				}
				reply, err := g.e.DrainSiblingCancelGroup(g.ctx, g.drainCall("j"))
				require.NoError(t, err)
				if reply.Left == "" {
					assert.Equal(t, "drained", reply.Outcome)
					break
				}
				assert.Contains(t, g.owed(), g.tuple("j"))
			}
			assert.Zero(t, living(g))
			assert.Empty(t, g.owed())
		})
	})
}

// TestDrainAndReconcile checks the replies of the two calls, and that repeats change nothing.
func TestDrainAndReconcile(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		race := map[string]joinPolicy{"j": {"any_of", 0, cancelRemaining}}
		fired := func() *graph {
			g := newGraph(t, b)
			g.plain([]string{"a", "b", "c", "j"}, race, threeUp...)
			g.cancel("a")
			g.resolve("a", "j", "success")
			require.Equal(t, g.ids("b", "c"), g.listed("j"))
			return g
		}
		drain := func(g *graph) string {
			reply, err := g.e.DrainSiblingCancelGroup(g.ctx, g.drainCall("j"))
			require.NoError(t, err)
			return reply.Outcome + " " + reply.Left
		}
		reconcile := func(g *graph) string {
			reply, err := g.e.ReconcileSiblingCancelGroup(g.ctx, enginerpc.ReconcileSiblingCancelGroupCall{
				FlowID: g.id, DownstreamExecutionID: g.node("j"),
			})
			require.NoError(t, err)
			return reply.Action + " " + reply.Reason
		}
		t.Run("drain", func(t *testing.T) {
			g := fired()
			g.cancel("b")
			assert.Equal(t, "drained more", drain(g), "c still runs")
			assert.Equal(t, g.ids("c"), g.listed("j"), "a cancelled sibling is not cancelled again")
			before := g.dump()
			assert.Equal(t, "drained more", drain(g))
			assert.Equal(t, before, g.dump())
			g.cancel("c")
			assert.Equal(t, "drained ", drain(g))
			assert.NotContains(t, g.owed(), g.tuple("j"))
			assert.Equal(t, "sibling_quorum_satisfied", g.group("j")["cancel_siblings_reason"])
			assert.NotContains(t, g.group("j"), "cancel_siblings_pending_flag")
			assert.Equal(t, "already_drained ", drain(g))
			assert.Equal(t, "no_op not_in_set", reconcile(g))
		})
		t.Run("reconcile", func(t *testing.T) {
			g := fired()
			g.cancel("b")
			assert.Equal(t, "no_op siblings_running", reconcile(g))
			assert.Equal(t, g.ids("c"), g.listed("j"))
			g.cancel("c")
			assert.Equal(t, "completed_drain ", reconcile(g))
			assert.Equal(t, "no_op not_in_set", reconcile(g))
			assert.NotContains(t, g.group("j"), "cancel_siblings_pending_members")
		})
		t.Run("stale entries", func(t *testing.T) {
			g := fired()
			client := g.e.Client()
			key := g.e.Keys().FlowEdgegroup(g.id, g.node("j"))
			require.NoError(t, client.Do(g.ctx, client.B().Hdel().Key(key).Field("cancel_siblings_pending_flag").Build()).Error())
			assert.Equal(t, "sremmed_stale flag_cleared", reconcile(g))
			for _, call := range []func(*graph) string{drain, reconcile} {
				g := fired()
				key := g.e.Keys().FlowEdgegroup(g.id, g.node("j"))
				require.NoError(t, client.Do(g.ctx, client.B().Del().Key(key).Build()).Error())
				assert.Contains(t, []string{"drained_sans_group ", "sremmed_stale missing_edgegroup"}, call(g))
				assert.NotContains(t, g.owed(), g.tuple("j"))
			}
			odd := g.e.Keys().IndexPendingCancelGroups(g.p)
			require.NoError(t, client.Do(g.ctx, client.B().Sadd().Key(odd).Member("odd", "a|b", "|").Build()).Error())
			g.drain(16)
			assert.Empty(t, g.owed(), "a keeper clears entries without a meaning")
		})
		t.Run("bad ids", func(t *testing.T) {
			g := fired()
			for _, function := range []string{
				enginerpc.FunctionName(g.drainCall("j")), enginerpc.FunctionName(enginerpc.ReconcileSiblingCancelGroupCall{}),
			} {
				_, keys, _, err := enginerpc.Wire(g.e.Keys(), g.drainCall("j"))
				require.NoError(t, err)
				reply, err := g.raw(function, keys, []string{"", string(g.node("j"))})
				require.NoError(t, err)
				assert.Equal(t, []string{"0", "invalid_args", "flow_id and downstream_eid required"}, reply)
			}
		})
	})
}

// TestCallsWithoutSiblingKeysRecordSiblings: a call with the keys of the group only still records the siblings to cancel.
// (H-89)
func TestCallsWithoutSiblingKeysRecordSiblings(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		g := newGraph(t, b)
		g.plain([]string{"a", "b", "j"}, map[string]joinPolicy{"j": {"any_of", 0, cancelRemaining}}, [2]string{"a", "j"}, [2]string{"b", "j"})
		function, keys, args, err := enginerpc.Wire(g.e.Keys(), g.resolution("a", "j", "success"))
		require.NoError(t, err)
		g.cancel("a")
		reply, err := g.raw(function, keys[:12], args[:3])
		require.NoError(t, err)
		assert.Equal(t, []string{"1", "OK", "satisfied", ""}, reply)
		assert.Equal(t, g.ids("b"), g.listed("j"))
		assert.Contains(t, g.owed(), g.tuple("j"))
	})
}
