package tasktest

import (
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Fairness keys without a queue in the order of a lane do not keep workers from claiming: executions without a queue
// run as well.
func TestLaneOrder_WithMissingQueues(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		u := fixture.NewLineUp(t, b)
		fair := flow.FairBy("Tenant")
		u.Start(t, u.L.Flow(t, "many", 30, false, fair), "a", "a")
		u.Start(t, u.L.Flow(t, "few", 5, false, fair), "b", "b")
		require.EqualValues(t, 1, u.Command(t, "DEL", "$ffx:queue:a"))
		for i := range 40 {
			u.Command(t, "ZADD", "$ffx:turns", strconv.Itoa(-i), "ghost"+strconv.Itoa(i))
		}
		ran := u.Continue(t, 35)
		require.Less(t, lastIndexOf(ran, "b"), 20, "those whose queue is there run first: %v", ran)
		require.EqualValues(t, 0, u.Command(t, "EXISTS", "$ffx:turns"))
	}, runtime.OpenConfig{Partitions: 1})
}

func lastIndexOf(list []string, label string) int {
	at := -1
	for i, l := range list {
		if l == label {
			at = i
		}
	}
	return at
}

// Executions without a fairness key share a queue, too, and the keeper enters them into it again.
func TestQueueWithoutKeyIsRepaired(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		u := fixture.NewLineUp(t, b)
		u.Start(t, u.L.Flow(t, "fair", 30, false, flow.FairBy("Tenant")), "a", "a")
		u.Start(t, u.L.Flow(t, "free", 10, false), "", "none")
		require.EqualValues(t, 10, u.Command(t, "ZCARD", "$ffx:queue:"))
		u.Command(t, "DEL", "$ffx:queue:")
		u.Command(t, "HDEL", "$ffx:order", "adopted_to") // as when claims have read all executions that came before
		u.Command(t, "ZREM", "$ffx:turns", "")
		report, err := b.RunKeeperTask(u.Ctx, "index_reconciliation")
		require.NoError(t, err)
		require.EqualValues(t, 11, report.Repaired["queue"]+report.Repaired["turns"], report.Repaired)
		require.EqualValues(t, 10, u.Command(t, "ZCARD", "$ffx:queue:"))
		report, err = b.RunKeeperTask(u.Ctx, "index_reconciliation")
		require.NoError(t, err)
		require.Empty(t, report.Repaired)
		ran := u.Continue(t, 40)
		require.Less(t, slices.Index(ran, "none"), 3, "%v", ran)
		require.Less(t, lastIndexOf(ran, "none"), 25, "%v", ran)
	}, runtime.OpenConfig{Partitions: 1})
}
