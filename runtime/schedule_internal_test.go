package runtime

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/schedule"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// The stored form of schedules is one that keepers of all releases read.
func TestStoredFormOfSchedules(t *testing.T) {
	t.Parallel()
	spec := schedule.Spec{
		Version: 1, Namespace: "default", Name: "nightly", Flow: "report", GraphHash: "g", InputHash: "i", Cron: "0 3 * * *",
		Zone: "Europe/Berlin", StartMS: 1, EndMS: 2, JitterMS: 3, Overlap: fabrictype.OverlapQueue, QueueLimit: 4, CatchUpMS: 5, Retention: "6",
		Tags: map[string]string{"a.b": "c"}, FireField: "at", Creator: "ann",
	}
	const storedSpec = `{"version":1,"namespace":"default","name":"nightly","flow":"report","graph_hash":"g","input_hash":"i",` +
		`"cron":"0 3 * * *","zone":"Europe/Berlin","start":1,"end":2,"jitter_ms":3,"overlap":"queue","queue_limit":4,"catch_up_ms":5,` +
		`"retention":"6","tags":{"a.b":"c"},"fire_field":"at","creator":"ann"}`
	text, err := json.Marshal(&spec)
	require.NoError(t, err)
	require.Equal(t, storedSpec, string(text))
	state := schedule.State{
		CreatedAt: 1, UpdatedAt: 2, Plan: 3, Plans: []int{2, 3}, Due: 4, PausedAt: 5, PauseReason: "r", Serial: 6,
		Waiting: []schedule.PendingFire{{At: 7, Serial: 8, Triggered: true, StartBefore: 9, Plan: 2}},
		Last:    &schedule.StartedRun{Flow: "report", Run: "x", At: 10, Cancelled: true}, LastFire: 11, Fired: []schedule.FiredSpan{{From: 16, Until: 17}}, Started: 12, Skipped: 13, Missed: 14,
		Failed: 15, Deleting: true,
	}
	const storedState = `{"created_at":1,"updated_at":2,"plan":3,"plans":[2,3],"due":4,"paused_at":5,"pause_reason":"r","serial":6,` +
		`"waiting":[{"at":7,"serial":8,"triggered":true,"start_before":9,"plan":2}],` +
		`"last":{"flow":"report","run":"x","at":10,"cancelled":true},"last_fire":11,"fired":[{"from":16,"until":17}],"started":12,"skipped":13,"missed":14,"failed":15,` +
		`"deleting":true}`
	text, err = json.Marshal(&state)
	require.NoError(t, err)
	require.Equal(t, storedState, string(text))
	r, err := schedule.ReadRecord(keyspace.Partition{}, time.Time{}, enginerpc.ScheduleRecord{Spec: []byte(storedSpec), State: []byte(storedState)})
	require.NoError(t, err)
	require.Equal(t, spec, r.Spec)
	require.Equal(t, state, r.State)

	require.Equal(t, keyspace.ScheduleID("70676f0e-3516-5bec-847e-1bf0d81da28c"), spec.ID())
	at := schedule.PendingFire{At: 1_790_000_000_000, Serial: 3}
	require.Equal(t, "nightly@2026-09-21T14:13:20Z", schedule.RunOf("nightly", at))
	at.Triggered = true
	require.Equal(t, "nightly@2026-09-21T14:13:20.000Z#3", schedule.RunOf("nightly", at))
	spec.JitterMS = time.Hour.Milliseconds()
	times, err := spec.Timetable()
	require.NoError(t, err)
	require.Equal(t, 941838*time.Millisecond, times.Delay("nightly", time.UnixMilli(at.At)))
}

// A keeper compiles a stored definition to the same graph as the program compiles from the declared flow.
func TestStoredFlowCompilesTheSame(t *testing.T) {
	t.Parallel()
	f := flow.New[string, int]("everything", flow.Deadline(time.Hour), flow.Tag("team.name", "census"), flow.Retention(time.Hour))
	count := activity.New("count", func(context.Context, string) (int, error) { return 0, nil },
		activity.Limit("api", activity.LimitConfig{AtMost: 3, Per: time.Second}), activity.Capabilities("gpu"))
	sum := activity.New("sum", func(context.Context, []int) (int, error) { return 0, nil })
	a, b := flow.Node(f, "a", count, f.Input()), flow.Node(f, "b", count, f.Input())
	ok := flow.Waitpoint[string](f, "ok", activity.Signals("yes"), flow.After(a))
	flow.Node(f, "undo", count, f.Input(), flow.OnFailure(a))
	flow.Return(f, flow.Node(f, "sum", sum, flow.List(a, b), flow.After(ok)))
	def, err := f.Build()
	require.NoError(t, err)
	for _, g := range []submit.Definition{def, fixtureFlow(t)} {
		declared, err := submit.CompileFlow(flowgraph.Of(g.Internal()), g.Hash())
		require.NoError(t, err)
		stored, err := schedule.CompileStored(declared.Definition, g.Hash())
		require.NoError(t, err)
		declared.Graph, stored.Graph = nil, nil // the names of Go types and descriptions need not be the same
		require.Equal(t, declared, stored)
	}
}
