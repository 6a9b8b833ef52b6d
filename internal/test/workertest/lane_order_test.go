package workertest

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// onOneServer is enginetest.Each for tests of a server that has all partitions. The number of partitions is the
// default.
func onOneServer(t *testing.T, test func(t *testing.T, b *enginetest.Bench)) {
	t.Helper()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		if engine.ConnOf(b.Engine.Internal()).Client().Mode() == rueidis.ClientModeCluster {
			t.Skip("each partition of a cluster has an order of its own")
		}
		test(t, b)
	}, runtime.OpenConfig{Partitions: 64})
}

// On one server, a run of top priority is next, however many others wait in whatever partitions.
func TestTopPriorityIsNext(t *testing.T) {
	t.Parallel()
	onOneServer(t, func(t *testing.T, b *enginetest.Bench) {
		u := fixture.NewLineUp(t, b)
		one, top := u.L.Flow(t, "one", 1, false), u.L.Flow(t, "top", 1, false, flow.Priority(9))
		for range 100 {
			u.Start(t, one, "", "other")
		}
		u.Start(t, top, "", "top")
		b.Check(t, invariant.AnyTime)
		require.Equal(t, "top", u.Continue(t, 101)[0])
	})
}

// On one server, a lane goes by priority and then by age across all partitions.
func TestOneOrderPerLane(t *testing.T) {
	t.Parallel()
	onOneServer(t, func(t *testing.T, b *enginetest.Bench) {
		u := fixture.NewLineUp(t, b)
		var want []string
		for i := range 30 {
			priority := i % 3
			u.Start(t, u.L.Flow(t, "p"+strconv.Itoa(i), 1, false, flow.Priority(priority)), "", fmt.Sprint(priority, " ", i))
			enginetest.Pass(t, engine.ConnOf(b.Engine.Internal()), 0) // each is younger than the one before
		}
		for priority := 2; priority >= 0; priority-- {
			for i := priority; i < 30; i += 3 {
				want = append(want, fmt.Sprint(priority, " ", i))
			}
		}
		// Every eighth claim takes the oldest of all while more urgent ones wait.
		require.Equal(t, aged(want, func(label string) (priority, age int) {
			_, err := fmt.Sscan(label, &priority, &age)
			require.NoError(t, err)
			return priority, age
		}), u.Continue(t, 30))
	})
}

// aged is the order in which a lane is claimed one by one, from the order without ageing.
func aged(list []string, of func(string) (priority, age int)) (order []string) {
	claims := 0
	for len(list) > 0 {
		next := 0
		if priority, _ := of(list[0]); priority > 0 && len(list) > 1 {
			if claims++; claims%8 == 0 {
				for i := range list {
					_, age := of(list[i])
					if _, least := of(list[next]); age < least {
						next = i
					}
				}
			}
		}
		order = append(order, list[next])
		list = append(list[:next:next], list[next+1:]...)
	}
	return order
}

// On one server, a tenant with few runs takes turns with one that has many, in whatever partitions they are.
func TestSmallTenantTakesTurns(t *testing.T) {
	t.Parallel()
	onOneServer(t, func(t *testing.T, b *enginetest.Bench) {
		const many, few = 500, 5
		u := fixture.NewLineUp(t, b)
		one := u.L.Flow(t, "one", 1, false, flow.FairBy("Tenant"))
		for range many {
			u.Start(t, one, "big", "big")
		}
		for i := range few {
			u.Start(t, one, "small", fmt.Sprint("small ", i))
		}
		b.Check(t, invariant.AnyTime)
		ran := u.Continue(t, many+few)
		last := 0
		for i := range few {
			last = max(last, fixture.IndexOf(ran, fmt.Sprint("small ", i)))
		}
		require.LessOrEqual(t, last, 2*few+2, "%v", ran[:40])
	})
}

// A completion hands on to the next node of its run only as long as nothing in the lane comes before it, in whatever
// partition that waits.
func TestHandoff_YieldsToThePrecedingNode(t *testing.T) {
	t.Parallel()
	onOneServer(t, func(t *testing.T, b *enginetest.Bench) {
		u := fixture.NewLineUp(t, b)
		row, top := u.L.Flow(t, "row", 3, true, flow.Priority(1)), u.L.Flow(t, "top", 1, false, flow.Priority(2))
		u.Start(t, row, "", "row")
		urgent := make(chan struct{})
		u.L.Work = activity.New("work", func(_ context.Context, j fixture.Job) (string, error) {
			if j.Label == "row" && len(u.L.Ran()) == 0 {
				for i := range 20 {
					_, err := runtime.Start(u.Ctx, u.Client, top, fixture.Job{Label: fmt.Sprint("top ", i)})
					if err != nil {
						return "", err
					}
				}
				close(urgent)
			}
			return u.L.Note(j.Label), nil
		})
		ran := u.Continue(t, 23)
		require.Equal(t, "row", ran[0])
		<-urgent
		// Ageing lets one of eight claims take the oldest, which is the run in a row.
		require.GreaterOrEqual(t, fixture.IndexOf(ran[1:], "row"), 5, "%v", ran)
	})
}

// A claim leases executions of several partitions, each once, and its repeat gives the same ones back.
func TestClaimAcrossPartitions(t *testing.T) {
	t.Parallel()
	onOneServer(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, core, l := enginetest.Context(t), engine.ConnOf(b.Engine.Internal()), fixture.NewLedger()
		def := l.Flow(t, "one", 1, false)
		const runs, each = 60, 8
		for p := range runs {
			fixture.StartAt(ctx, t, b, def, "one", p, "")
		}
		taken, partitions := make(map[enginecore.ExecutionID]bool), make(map[string]bool)
		for claim := 0; len(taken) < runs; claim++ {
			call := enginerpc.ClaimCall{
				Partition: keyspace.Partition{Family: keyspace.FlowFamily, Index: uint16(claim)},
				ClaimRequest: enginerpc.ClaimRequest{
					LaneID: activity.DefaultLane, WorkerID: "w", WorkerInstanceID: "w", ClaimID: uuid.NewString(), Count: each,
					LeaseTTL: time.Minute, Kinds: "\nwork\n",
				},
			}
			reply, err := core.Claim(ctx, call)
			require.NoError(t, err)
			require.Len(t, reply.Executions, min(each, runs-len(taken)))
			call.Repeated = true
			again, err := core.Claim(ctx, call)
			require.NoError(t, err)
			require.Len(t, again.Executions, len(reply.Executions), "a repeated claim returns the executions that it has leased")
			repeated := make(map[enginecore.ExecutionID]bool)
			for _, x := range again.Executions {
				repeated[x.ExecutionID] = true
			}
			for _, x := range reply.Executions {
				require.False(t, taken[x.ExecutionID])
				require.True(t, repeated[x.ExecutionID])
				taken[x.ExecutionID] = true
				partitions[x.ExecutionID.Tag()] = true
			}
		}
		require.Len(t, partitions, runs)
		b.Check(t, invariant.AnyTime)
	})
}

// The order of all partitions of a server is rebuilt from records: after a loss, and from the sets of single
// partitions, which exist in a deployment that comes from a cluster.
func TestLaneIsRebuilt(t *testing.T) {
	t.Parallel()
	onOneServer(t, func(t *testing.T, b *enginetest.Bench) {
		const runs = 30
		u := fixture.NewLineUp(t, b)
		core := engine.ConnOf(b.Engine.Internal())
		client, keys := core.Client(), core.Keys()
		fair, one := u.L.Flow(t, "fair", 1, false, flow.FairBy("Tenant")), u.L.Flow(t, "one", 1, false)
		for i := range runs {
			u.Start(t, fair, strconv.Itoa(i%3), "fair")
			u.Start(t, one, "", "plain")
		}
		home := keyspace.Partition{Family: keyspace.FlowFamily}
		set := keys.LaneEligible(home, activity.DefaultLane)
		waiting, err := client.Do(u.Ctx, client.B().Zrangebyscore().Key(set).Min("(-inf").Max("+inf").Withscores().Build()).AsZScores()
		require.NoError(t, err)
		require.Len(t, waiting, 2*runs)
		for _, key := range []string{
			set, keys.FfxTurns(home, activity.DefaultLane), keys.FfxQueue(home, activity.DefaultLane, "1"),
			keys.FfxQueue(home, activity.DefaultLane, ""), keys.FfxOrder(home, activity.DefaultLane),
		} {
			require.NoError(t, client.Do(u.Ctx, client.B().Del().Key(key).Build()).Error())
		}
		for _, x := range waiting[:runs] {
			p, err := keyspace.PartitionOf(enginecore.ExecutionID(x.Member))
			require.NoError(t, err)
			own := client.B().Zadd().Key(keys.LaneEligible(p, activity.DefaultLane)).ScoreMember().ScoreMember(x.Score, x.Member)
			require.NoError(t, client.Do(u.Ctx, own.Build()).Error())
		}
		_, err = b.RunKeeperTask(u.Ctx, "index_reconciliation")
		require.NoError(t, err)
		report, err := b.RunKeeperTask(u.Ctx, "index_reconciliation")
		require.NoError(t, err)
		require.Empty(t, report.Repaired)
		b.Check(t, invariant.AnyTime)
		u.Continue(t, 2*runs)
	})
}

// An execution in the set of a single partition is claimed there, also without a repair.
func TestPartitionSetIsClaimed(t *testing.T) {
	t.Parallel()
	onOneServer(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, core, l := enginetest.Context(t), engine.ConnOf(b.Engine.Internal()), fixture.NewLedger()
		client, keys := core.Client(), core.Keys()
		fixture.StartAt(ctx, t, b, l.Flow(t, "one", 1, false), "one", 7, "")
		home := keyspace.Partition{Family: keyspace.FlowFamily}
		at := keyspace.Partition{Family: keyspace.FlowFamily, Index: 7}
		set, own := keys.LaneEligible(home, activity.DefaultLane), keys.LaneEligible(at, activity.DefaultLane)
		require.NoError(t, client.Do(ctx, client.B().Rename().Key(set).Newkey(own).Build()).Error())
		b.SweepingWorker(t, 100*time.Millisecond, []activity.Handler{l.Work})
		b.Settle(t)
		require.Len(t, l.Ran(), 1)
	})
}
