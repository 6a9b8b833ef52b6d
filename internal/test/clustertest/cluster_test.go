package clustertest

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// onCluster reports whether clusters are to be tested: they are in the list of engines, or Valkey is, of which they are
// made.
func onCluster(t *testing.T) {
	t.Helper()
	for _, kind := range testserver.Kinds(t) {
		if kind == testserver.Valkey || kind == testserver.OnCluster {
			return
		}
	}
	t.Skip("neither valkey nor cluster is to be tested")
}

var soak = os.Getenv("FLOWFABRIC_SOAK") != ""

// rounds is how often something is done, and how often in a soak.
func rounds(few, many int) int {
	if soak {
		return many
	}
	return few
}

// Slots of flows, budgets and limits go from server to server, a few keys at a time, while everything uses them; a
// primary loses the library, and another one that never had it gets slots. Nothing is lost, nothing happens twice, no
// limit is exceeded and every token is counted.
func TestSlotsMoveUnderLoad(t *testing.T) {
	onCluster(t)
	t.Parallel()
	x := newLoad(t, testserver.ClusterOptions{Kind: testserver.Valkey, Primaries: 3})
	moves := 0
	x.rush("moving", 20, func() {
		for range rounds(1, 6) {
			for _, tag := range x.tagsInUse() {
				owner := x.cluster.Owner(t, x.cluster.SlotOf(t, tag))
				x.cluster.Move(t, tag, x.next(owner), 30, nil)
				moves++
			}
		}
	})
	for i, node := range x.cluster.Nodes {
		require.NotEqual(t, "0", node.Command(t, "DBSIZE"), "server %d has nothing", i)
	}
	added := x.cluster.Add(t)
	require.Zero(t, libraries(t, added))
	x.rush("to a new primary", 10, func() {
		for _, tag := range x.tagsInUse()[:3] {
			x.cluster.Move(t, tag, added, 30, nil)
			moves++
		}
	})
	require.Equal(t, 1, libraries(t, added), "the library is loaded where it is missing")
	x.rush("without the library", 10, func() { x.cluster.Nodes[2].Command(t, "FUNCTION", "FLUSH", "SYNC") })
	enginetest.Eventually(t, func() string {
		if libraries(t, x.cluster.Nodes[2]) == 0 {
			return "the library is loaded again"
		}
		return ""
	})
	x.beatsOnce()
	x.exact()
	x.Settle(t)
	t.Logf("%d runs; slots moved %d times; at most %d of %d places taken; %s", len(x.runs), moves, x.most, places, x.tasksDone())
}

// libraries is how many function libraries a server has.
func libraries(t *testing.T, s *testserver.Server) int {
	t.Helper()
	_, rest, _ := strings.Cut(s.Command(t, "INFO", "memory"), "number_of_libraries:")
	text, _, _ := strings.Cut(rest, "\r\n")
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// tagsInUse are the tags of partitions of all families that have keys.
func (x *load) tagsInUse() []string {
	counts := engine.ConnOf(x.Engine.Internal()).Partitioning()
	var tags []string
	for _, family := range []struct {
		family keyspace.Family
		count  int
	}{{keyspace.FlowFamily, counts.Flow}, {keyspace.BudgetFamily, counts.Budget}, {keyspace.QuotaFamily, counts.Quota}} {
		for i := range family.count {
			tag := keyspace.Partition{Family: family.family, Index: uint16(i)}.Tag()
			slot := x.cluster.SlotOf(x.t, tag)
			if owner := x.cluster.Owner(x.t, slot); owner != nil && owner.KeysInSlot(x.t, slot) > 0 {
				tags = append(tags, tag)
			}
		}
	}
	return tags
}

// next is the server after another one, in the circle of primaries.
func (x *load) next(s *testserver.Server) *testserver.Server {
	nodes := x.cluster.Nodes[:x.cluster.Primaries]
	for i, n := range nodes {
		if n == s {
			return nodes[(i+1)%len(nodes)]
		}
	}
	return nodes[0]
}

// The time of writes that are not replicated before a primary is killed.
const behind = 200 * time.Millisecond

// Replicas take over from primaries under load: by a hand-over, and because a primary dies after all its replies were
// replicated. Nothing is lost then, in a slot or between slots. Afterwards, in soaks, primaries die with writes that
// are not replicated. The last acknowledged calls may be lost then, but every run that is started again under its id
// ends with its result.
func TestPrimariesFail(t *testing.T) {
	onCluster(t)
	t.Parallel()
	x := newLoad(t, testserver.ClusterOptions{Kind: testserver.Valkey, Primaries: 3, Replicas: 1, NodeTimeout: time.Second})
	x.rush("planned", 15, func() {
		for i := range rounds(1, 3) {
			x.cluster.HandOver(t, x.primary(i))
		}
	})
	x.exact()
	x.rush("in step", 15, func() {
		for i := range rounds(1, 3) {
			killed := x.primary(i + 1)
			replica := x.cluster.KillInStep(t, killed)
			require.Equal(t, 1, libraries(t, replica), "the library is replicated")
			x.cluster.Return(t, killed)
		}
	})
	x.beatsOnce()
	x.exact()
	kept := len(x.runs)
	spent := x.spent()
	kills := rounds(0, 6)
	x.cluster.AllInStep(t)
	x.rush("anyway", 15, func() {
		for i := range kills {
			killed := x.primary(i + 2)
			x.cluster.KillLagging(t, killed, behind)
			x.cluster.Return(t, killed)
		}
	})
	x.startAgain(x.runs[kept:])
	x.found()
	x.Settle(t)
	late := len(x.runs) - kept
	twice := 0
	for _, n := range x.calls {
		twice += n - 1
	}
	counted := x.spent() - spent
	t.Logf("%d runs with nothing lost; %d runs while %d primaries died with unreplicated writes: %d runs started again, "+
		"%d functions called again, %d of %d tokens counted, at most %d of %d places taken; %s",
		kept, late, kills, len(x.again), twice, counted, tokensOfRun*late, x.most, places, x.tasksDone())
	require.GreaterOrEqual(t, x.spent(), spent, "replicated usage still counts")
	x.listsWhileReplicasTakeOver()
}

// primary is one of the primaries there are now.
func (x *load) primary(i int) *testserver.Server {
	primaries := x.cluster.PrimariesNow(x.t)
	return primaries[i%len(primaries)]
}

// listsWhileReplicasTakeOver lists the executions of a partition while a failover moves the partition to another server
// between two pages.
func (x *load) listsWhileReplicasTakeOver() {
	t := x.t
	client, err := admin.New(x.Engine)
	require.NoError(t, err)
	want := make(map[enginecore.ExecutionID]bool)
	var at keyspace.Partition
	for range 300 { // more than fit in a set that is stored in one piece
		id, _, err := client.CreateExecution(x.ctx, admin.ExecutionSpec{Kind: "idle", Lane: "idle"})
		require.NoError(t, err)
		want[id] = true
		at, err = keyspace.PartitionOf(id)
		require.NoError(t, err)
	}
	x.cluster.AllInStep(t)
	listed := make(map[enginecore.ExecutionID]bool)
	q := admin.ExecutionQuery{Lane: "idle", Index: "eligible"}
	pages := 0
	for cursor := ""; ; {
		page, err := client.ListExecutions(x.ctx, q, cursor, 50)
		require.NoError(t, err)
		for _, e := range page.Items {
			listed[e.ID] = true
		}
		if cursor = page.Next; cursor == "" {
			break
		}
		if pages++; pages == 3 {
			x.cluster.HandOver(t, x.cluster.Owner(t, x.cluster.SlotOf(t, at.Tag())))
		}
	}
	require.Greater(t, pages, 3)
	require.Equal(t, want, listed)
}

func TestMain(m *testing.M) { enginetest.Main(m) }

// A primary without a replica is unavailable. Scans of the keys of all servers report it, and process the other
// servers.
func TestKeysOfOtherServers(t *testing.T) {
	onCluster(t)
	t.Parallel()
	ctx := enginetest.Context(t)
	cluster := testserver.StartCluster(t, testserver.Valkey, 3)
	for _, s := range cluster.Nodes {
		s.Command(t, "CONFIG", "SET", "cluster-require-full-coverage", "no")
	}
	b := enginetest.Open(t, testserver.OnCluster, cluster.URL(), enginetest.NewPrefix(), runtime.OpenConfig{Partitions: 32})
	core := engine.ConnOf(b.Engine.Internal())
	client := core.Client()
	keys := make(map[*testserver.Server][]string) // of lists that no longer contain a run, by server
	for _, p := range core.Partitioning().FlowPartitions() {
		key := core.Keys().FfxRuns(p, "gone")
		require.NoError(t, client.Do(ctx, client.B().Rpush().Key(key).Element("no entry").Build()).Error())
		owner := cluster.Owner(t, cluster.SlotOf(t, p.Tag()))
		keys[owner] = append(keys[owner], key)
	}
	require.Len(t, keys, 3)
	cluster.Nodes[1].Kill()
	report, err := b.RunKeeperTask(ctx, "key_reconciliation")
	require.ErrorIs(t, err, enginecore.ErrNotReachable)
	require.EqualValues(t, len(keys[cluster.Nodes[0]])+len(keys[cluster.Nodes[2]]), report.Done)
	require.Equal(t, 1, report.Remaining)
}
