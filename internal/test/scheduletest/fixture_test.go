package scheduletest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func TestMain(m *testing.M) {
	enginetest.Main(m)
}

// job is the input of the flows under test.
type job struct {
	Name string    `json:"name"`
	At   time.Time `json:"at,omitzero"`
}

// fixture has a flow of one node, whose function waits until it may end.
type fixture struct {
	*enginetest.Bench
	def *flow.Definition[job, string]
	// first is the first time of all timetables: half an hour before the beginning of a test, and whole days, so that
	// no time comes while a test looks, whatever the time of day.
	first time.Time

	mu    sync.Mutex
	ran   map[string][]job         // by run
	gates map[string]chan struct{} // by run, of those that have to wait
	hold  bool
}

func newFixture(t *testing.T, b *enginetest.Bench) *fixture {
	t.Helper()
	now, err := engine.ConnOf(b.Engine.Internal()).Now(enginetest.Context(t))
	require.NoError(t, err)
	l := &fixture{
		Bench: b, ran: make(map[string][]job), gates: make(map[string]chan struct{}),
		first: now.Add(-500*24*time.Hour - 30*time.Minute).Truncate(time.Second).UTC(),
	}
	work := activity.New("work", func(ctx context.Context, in job) (string, error) {
		info, _ := activity.Info(ctx)
		select {
		case <-l.begin(info.RunID, in):
			return in.Name, nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	})
	l.def = l.define(t, "report", work, flow.Tag("team.name", "finance"))
	return l
}

func (l *fixture) define(t *testing.T, name string, work *activity.Activity[job, string], opts ...flow.Option) *flow.Definition[job, string] {
	t.Helper()
	f := flow.New[job, string](name, opts...)
	flow.Return(f, flow.Node(f, "work", work, f.Input()))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

var open = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// begin records a run and returns the channel that it waits for.
func (l *fixture) begin(run string, in job) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ran[run] = append(l.ran[run], in)
	if !l.hold {
		return open
	}
	if l.gates[run] == nil {
		l.gates[run] = make(chan struct{})
	}
	return l.gates[run]
}

// holdRuns makes runs that begin from now on wait for release.
func (l *fixture) holdRuns() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hold = true
}

// release ends the wait of a run.
func (l *fixture) release(run string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gates[run] == nil {
		l.gates[run] = make(chan struct{})
	}
	close(l.gates[run])
}

// runs are those that have begun, in order of their ids.
func (l *fixture) runs() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.ran))
}

func (l *fixture) input(run string) job {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ran[run][0]
}

// onceEach fails when a run began twice.
func (l *fixture) onceEach(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for run, times := range l.ran {
		require.Len(t, times, 1, "run %s", run)
	}
}

func (l *fixture) worker(t *testing.T) { l.Worker(t, l.def.Handlers()) }

// schedule makes the schedule "s". It fires every hour unless the config contains other times, so that only fires of
// the test happen.
func (l *fixture) schedule(t *testing.T, config runtime.ScheduleConfig) *fabrictype.Schedule {
	t.Helper()
	d, err := runtime.Schedule(enginetest.Context(t), l.Client, "s", l.def, job{Name: "nightly"}, l.config(config))
	require.NoError(t, err)
	return d
}

// config is c with the defaults of a test.
func (l *fixture) config(c runtime.ScheduleConfig) runtime.ScheduleConfig {
	c.Every, c.StartingAt = cmp.Or(c.Every, time.Hour), l.first
	return c
}

func (l *fixture) describe(t *testing.T) *fabrictype.Schedule {
	t.Helper()
	d, err := l.Client.Schedule("s").Describe(enginetest.Context(t))
	require.NoError(t, err)
	return d
}

// await waits for a state of the schedule.
func (l *fixture) await(t *testing.T, what string, holds func(*fabrictype.Schedule) bool) *fabrictype.Schedule {
	t.Helper()
	var d *fabrictype.Schedule
	enginetest.Eventually(t, func() string {
		if d = l.describe(t); holds(d) {
			return ""
		}
		return fmt.Sprintf("%s: %+v", what, d)
	})
	return d
}

func (l *fixture) awaitRuns(t *testing.T, n int) []string {
	t.Helper()
	enginetest.Eventually(t, func() string {
		if got := l.runs(); len(got) < n {
			return fmt.Sprintf("%d of %d runs", len(got), n)
		}
		return ""
	})
	return l.runs()
}

func (l *fixture) place(t *testing.T) (keyspace.Partition, keyspace.ScheduleID) {
	t.Helper()
	id := keyspace.ScheduleIDFor("default", "s")
	p, err := engine.ConnOf(l.Engine.Internal()).Partitioning().SchedulePartition(id)
	require.NoError(t, err)
	return p, id
}

// editState changes the stored state of the schedule, and makes keepers check it at once.
func (l *fixture) editState(t *testing.T, change func(state map[string]any)) {
	t.Helper()
	ctx := enginetest.Context(t)
	p, id := l.place(t)
	for {
		reply, err := engine.ConnOf(l.Engine.Internal()).ReadSchedule(ctx, enginerpc.ReadScheduleCall{Partition: p, ScheduleID: id})
		require.NoError(t, err)
		state := decode(t, reply.State)
		change(state)
		text, err := json.Marshal(state)
		require.NoError(t, err)
		_, err = engine.ConnOf(l.Engine.Internal()).WriteSchedule(ctx, enginerpc.WriteScheduleCall{
			Partition: p, ScheduleID: id, Version: reply.Version, WriteID: uuid.NewString(), State: text, DueAt: reply.Now,
		})
		if errors.Is(err, errorcode.ScheduleChanged) {
			continue
		}
		require.NoError(t, err)
		return
	}
}

func decode(t *testing.T, text []byte) map[string]any {
	t.Helper()
	state := make(map[string]any)
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&state))
	return state
}

// fireAt sets the time of the next fire to one in the past.
func (l *fixture) fireAt(t *testing.T, at time.Time) {
	t.Helper()
	l.editState(t, func(state map[string]any) {
		state["due"] = at.UnixMilli()
		delete(state, "fired") // the same time may be fired again
	})
}

// now is the engine's clock.
func (l *fixture) now(t *testing.T) time.Time {
	t.Helper()
	now, err := engine.ConnOf(l.Engine.Internal()).Now(enginetest.Context(t))
	require.NoError(t, err)
	return now
}

// lastHour is the time of the hourly schedule that has just passed.
func (l *fixture) lastHour(t *testing.T) time.Time {
	t.Helper()
	return l.first.Add(l.now(t).Sub(l.first).Truncate(time.Hour))
}

// lastHours are the latest times of the hourly schedule, the oldest first, for schedules with the window catchUp.
func (l *fixture) lastHours(t *testing.T, n int) []time.Time {
	t.Helper()
	last := l.lastHour(t)
	list := make([]time.Time, n)
	for i := range list {
		list[i] = last.Add(time.Duration(i-n+1) * time.Hour)
	}
	return list
}

// catchUp lets keepers make up whatever a test has moved to the past.
const catchUp = 100 * time.Hour

func outcomes(d *fabrictype.Schedule) string {
	var list []string
	for _, fire := range slices.Backward(d.History) {
		text := string(fire.Outcome)
		if fire.Count > 1 {
			text = fmt.Sprintf("%d %s", fire.Count, text)
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}
