package keepertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/rowread"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Data that no index leads to is found among all keys: records missing from the lists of all records, and list entries
// without a record.
func TestKeyReconciliation(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		d := newFixture(t, b)
		idle := activity.New("idle", func(_ context.Context, n int) (int, error) { return n, nil })
		f := flow.New[int, int]("lost", flow.Tag("team.name", "x"))
		flow.Return(f, flow.Node(f, "only", idle, f.Input()))
		def, err := f.Build()
		require.NoError(t, err)
		place := b.Locate(t, def.Name(), "lost")
		_, err = runtime.Start(d.ctx, b.Client, def, 1, runtime.WithID("lost"))
		require.NoError(t, err)
		_, err = runtime.Schedule(d.ctx, b.Client, "nightly", def, 1, runtime.ScheduleConfig{Every: 24 * time.Hour})
		require.NoError(t, err)
		p, keys := place.Partition, d.keys
		beside := keyspace.Partition{Family: keyspace.FlowFamily, Index: (p.Index + 1) % 4}
		d.create(admin.ExecutionSpec{ID: keyspace.NewExecutionID(beside)})
		require.Zero(t, d.run("key_reconciliation").Done)
		nobody := "00000000-0000-0000-0000-000000000000"
		id := string(b.Node(t, place, "only"))
		listed, err := d.do("LINDEX", keys.FfxAllRuns(p), "0").ToString()
		require.NoError(t, err)
		for _, w := range []struct {
			index    string
			commands [][]string
		}{
			{"runs", [][]string{{"RPUSH", keys.FfxRuns(p, "lost"), "no entry"}}},
			{"runs", [][]string{{"RPUSH", keys.FfxRuns(p, "another"), listed}}},
			{"runs", [][]string{{"ZADD", keys.FfxTaggedRuns(p, "team.name", "y"), "5", string(place.FlowID)}}},
			{"runs", [][]string{{"ZADD", keys.FfxTaggedRuns(p, "team.name", "gone: since"), "5", nobody}}},
			{"runs", [][]string{{"ZADD", keys.FfxTaggedRuns(p, "outcome", "failed"), "5", string(place.FlowID)}}},
			{"worker_leases", [][]string{{"SADD", keys.IndexWorkerLeases(p, "w"), id}}},
			{"all_executions", [][]string{{"DEL", keys.IndexAllExecutions(beside)}, {"DEL", keys.LaneEligible(beside, "default")}}},
			{"runs", [][]string{{"DEL", keys.FfxAllRuns(p)}, {"DEL", keys.FfxRuns(p, "lost")}}},
		} {
			for _, command := range w.commands {
				require.Positive(t, d.count(command...), "%v changes nothing", command)
			}
			report := d.run("key_reconciliation")
			require.Positive(t, report.Repaired[w.index], "%v: %v", w.commands, report.Repaired)
			b.Check(t, invariant.AnyTime)
			require.Empty(t, d.run("key_reconciliation").Repaired)
		}
		at, schedule := d.schedule()
		for _, key := range []string{keys.FfxSchedules(at), keys.FfxSchedulesDue(at)} {
			require.EqualValues(t, 1, d.count("DEL", key))
		}
		require.Equal(t, map[string]int64{"schedules": 1, "schedules_due": 1}, d.run("key_reconciliation").Repaired)
		require.EqualValues(t, 1, d.count("SISMEMBER", keys.FfxSchedules(at), string(schedule)))
	})
}

// schedule finds the only schedule.
func (d *fixture) schedule() (keyspace.Partition, keyspace.ScheduleID) {
	d.t.Helper()
	for _, p := range d.core.Partitioning().FlowPartitions() {
		ids, err := d.do("SMEMBERS", d.keys.FfxSchedules(p)).AsStrSlice()
		require.NoError(d.t, err)
		if len(ids) > 0 {
			return p, keyspace.ScheduleID(ids[0])
		}
	}
	d.t.Fatal("no schedule exists")
	return keyspace.Partition{}, ""
}

// A list longer than the limit of a call is processed to its end, also in the background.
func TestLongStaleList(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		d := newFixture(t, b)
		p := keyspace.Partition{Family: keyspace.FlowFamily, Index: 1}
		words := []string{"RPUSH", d.keys.FfxRuns(p, "gone")}
		for i := range 1000 {
			id := enginecore.FlowID(fmt.Sprintf("00000000-0000-8000-0000-%08d0000", i))
			words = append(words, rowread.ListEntry(int64(i+1), id))
		}
		d.do(words...)
		b.Keeper(t, runtime.KeeperConfig{ReconcileEvery: 100 * time.Millisecond})
		enginetest.Eventually(t, func() string {
			if n := d.count("LLEN", d.keys.FfxRuns(p, "gone")); n > 0 {
				return fmt.Sprint(n, " stale entries")
			}
			return ""
		})
	})
}
