package runtime_test

import (
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// command sends a command with keys of the default lane in the only partition, of which $idx and $ffx are the prefixes.
func (u *lineUp) command(t *testing.T, words ...string) int64 {
	t.Helper()
	for i, word := range words {
		switch {
		case len(word) > 4 && word[:4] == "$idx":
			words[i] = u.Prefix + ":idx:{fp:0}:lane:default" + word[4:]
		case len(word) > 4 && word[:4] == "$ffx":
			words[i] = u.Prefix + ":ffx:{fp:0}:lane:default" + word[4:]
		}
	}
	client := engine.ConnOf(u.Engine.Internal()).Client()
	n, err := client.Do(u.ctx, client.B().Arbitrary(words...).Build()).ToInt64()
	require.NoError(t, err)
	return n
}

// Fairness keys without a queue in the order of a lane do not keep workers from claiming: executions without a queue
// run as well.
func TestLaneOrder_WithMissingQueues(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		u := newLineUp(t, b)
		fair := flow.FairBy("Tenant")
		u.start(t, u.l.flow(t, "many", 30, false, fair), "a", "a")
		u.start(t, u.l.flow(t, "few", 5, false, fair), "b", "b")
		require.EqualValues(t, 1, u.command(t, "DEL", "$ffx:queue:a"))
		for i := range 40 {
			u.command(t, "ZADD", "$ffx:turns", strconv.Itoa(-i), "ghost"+strconv.Itoa(i))
		}
		ran := u.goOn(t, 35)
		require.Less(t, lastIndexOf(ran, "b"), 20, "those whose queue is there run first: %v", ran)
		require.EqualValues(t, 0, u.command(t, "EXISTS", "$ffx:turns"))
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
		u := newLineUp(t, b)
		u.start(t, u.l.flow(t, "fair", 30, false, flow.FairBy("Tenant")), "a", "a")
		u.start(t, u.l.flow(t, "free", 10, false), "", "none")
		require.EqualValues(t, 10, u.command(t, "ZCARD", "$ffx:queue:"))
		u.command(t, "DEL", "$ffx:queue:")
		u.command(t, "HDEL", "$ffx:order", "adopted_to") // as when claims have read all executions that came before
		u.command(t, "ZREM", "$ffx:turns", "")
		report, err := b.RunKeeperTask(u.ctx, "index_reconciliation")
		require.NoError(t, err)
		require.EqualValues(t, 11, report.Repaired["queue"]+report.Repaired["turns"], report.Repaired)
		require.EqualValues(t, 10, u.command(t, "ZCARD", "$ffx:queue:"))
		report, err = b.RunKeeperTask(u.ctx, "index_reconciliation")
		require.NoError(t, err)
		require.Empty(t, report.Repaired)
		ran := u.goOn(t, 40)
		require.Less(t, slices.Index(ran, "none"), 3, "%v", ran)
		require.Less(t, lastIndexOf(ran, "none"), 25, "%v", ran)
	}, runtime.OpenConfig{Partitions: 1})
}
