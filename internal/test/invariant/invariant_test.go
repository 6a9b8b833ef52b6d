package invariant_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/rowread"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func TestMain(m *testing.M) {
	enginetest.Main(m)
}

// stage is a keyspace with one finished run and one in the middle: a has succeeded, b is active, c is eligible and d
// waits for both. Unless it is in contract mode, there is a finished run with a join, too.
type stage struct {
	*enginetest.Bench
	done, open, joined enginetest.RunPlace
	nodes              map[enginecore.FlowID]int
	graph              string
	instance           string
	finish             func()
}

func diamond(t *testing.T, pass, hold *activity.Activity[int, int]) *flow.Definition[int, int] {
	f := flow.New[int, int]("diamond", flow.Deadline(time.Hour))
	a := flow.Node(f, "a", pass, f.Input())
	b := flow.Node(f, "b", hold, a, activity.Priority(1), activity.StartToClose(time.Hour), activity.ScheduleToStart(time.Hour))
	c := flow.Node(f, "c", hold, a)
	d := flow.Node(f, "d", pass, b, flow.After(c))
	flow.Return(f, d)
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

// contractDiamond has the same nodes, without options that contract mode does not support.
func contractDiamond(t *testing.T, pass, hold *activity.Activity[int, int]) *flow.Definition[int, int] {
	f := flow.New[int, int]("diamond")
	a := flow.Node(f, "a", pass, f.Input())
	b := flow.Node(f, "b", hold, a, activity.Priority(1))
	c := flow.Node(f, "c", hold, a)
	d := flow.Node(f, "d", pass, b, flow.After(c))
	flow.Return(f, d)
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

func joined(t *testing.T, pass *activity.Activity[int, int]) *flow.Definition[int, int] {
	f := flow.New[int, int]("joined")
	x, y := flow.Node(f, "x", pass, f.Input()), flow.Node(f, "y", pass, f.Input())
	flow.Return(f, flow.Node(f, "j", pass, flow.AnyOf(x, y), flow.LetRun()))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

func newStage(t *testing.T) *stage {
	t.Helper()
	return setUp(t, enginetest.New(t, testserver.Embedded, runtime.OpenConfig{Partitions: 1}), diamond)
}

func newContractStage(t *testing.T) *stage {
	t.Helper()
	return setUp(t, enginetest.NewContract(t, testserver.Embedded, runtime.OpenConfig{Partitions: 1}), contractDiamond)
}

func setUp(
	t *testing.T, bench *enginetest.Bench, define func(t *testing.T, pass, hold *activity.Activity[int, int]) *flow.Definition[int, int],
) *stage {
	t.Helper()
	ctx := enginetest.Context(t)
	begun, gate := make(chan struct{}, 1), make(chan struct{})
	pass := activity.New("pass", func(_ context.Context, n int) (int, error) { return n, nil })
	hold := activity.New("hold", func(_ context.Context, n int) (int, error) {
		if n == 2 {
			begun <- struct{}{}
			<-gate
		}
		return n, nil
	})
	w := enginetest.NewWorker(t, bench.Engine, runtime.WorkerConfig{Concurrency: 1, Lease: time.Hour, NoKeeper: true})
	require.NoError(t, w.Register(pass, hold))
	running, stop := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(running) }()
	s := &stage{Bench: bench, instance: string(w.Instance()), finish: sync.OnceFunc(func() { close(gate) })}
	t.Cleanup(func() {
		s.finish()
		stop()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	run := func(def *flow.Definition[int, int], id string, n int) (*runtime.Run[int], enginetest.RunPlace) {
		run, err := runtime.Start(ctx, bench.Client, def, n, runtime.WithID(id))
		require.NoError(t, err)
		return run, bench.Locate(t, def.Name(), id)
	}
	finished := func(def *flow.Definition[int, int], id string) enginetest.RunPlace {
		run, place := run(def, id, 1)
		_, err := run.Result(ctx)
		require.NoError(t, err)
		return place
	}
	def := define(t, pass, hold)
	s.done = finished(def, "done")
	if !bench.Contract() {
		s.joined = finished(joined(t, pass), "joined")
	}
	_, s.open = run(def, "open", 2)
	<-begun
	if !bench.Contract() {
		s.graph = rowread.ReadRunHead([]byte(s.read(t, s.keys().FlowNodes(s.open.Partition, s.open.FlowID)))).Graph
		s.nodes = map[enginecore.FlowID]int{s.done.FlowID: 4, s.open.FlowID: 4, s.joined.FlowID: 3}
		s.log(t, s.done)
		s.log(t, s.open)
	}
	return s
}

func (s *stage) keys() enginerpc.Keys { return engine.ConnOf(s.Engine.Internal()).Keys() }

// log writes the events of a diamond, which follow from its rows, into its event log.
func (s *stage) log(t *testing.T, of enginetest.RunPlace) {
	t.Helper()
	nodes := s.keys().FlowNodes(of.Partition, of.FlowID)
	stored := s.read(t, nodes)
	head, rows, err := rowread.Parse(stored)
	require.NoError(t, err)
	for _, e := range rowread.Events(stored, head, rows) {
		node, attempt := "", ""
		if e.Ordinal > 0 {
			node, attempt = string(rune('a'+e.Ordinal-1)), "0"
		}
		element := fmt.Sprintf("%d⏎%s␣%s␣%s␣", e.At, e.Kind, node, attempt)
		s.do(t, "RPUSH "+s.keys().FlowEvents(of.Partition, of.FlowID)+" "+element)
	}
	s.do(t, fmt.Sprintf("SETRANGE %s %d \xff\xff", nodes, rowread.RunHeadColumns["events"][0]))
}

func (s *stage) read(t *testing.T, key string) string {
	t.Helper()
	client := engine.ConnOf(s.Engine.Internal()).Client()
	text, err := client.Do(context.Background(), client.B().Get().Key(key).Build()).ToString()
	require.NoError(t, err)
	return text
}

var ordinals = map[string]int{"a": 1, "b": 2, "c": 3, "d": 4, "x": 1, "y": 2, "j": 3}

// place splits "done.a" into the place of the run and the name of the node. Without a run, it is the open one.
func (s *stage) place(node string) (enginetest.RunPlace, string) {
	run, name, found := strings.Cut(node, ".")
	if !found {
		run, name = "", node
		if node == "done" || node == "joined" {
			run, name = node, ""
		}
	}
	switch run {
	case "done":
		return s.done, name
	case "joined":
		return s.joined, name
	}
	return s.open, name
}

func (s *stage) executionID(place enginetest.RunPlace, node string) enginecore.ExecutionID {
	if s.Contract() {
		return place.ExecutionID(node)
	}
	return keyspace.NodeExecutionID(place.Partition, place.FlowID, ordinals[node])
}

// expand replaces the names of a command by keys and ids: $core:a, $id:a and so on mean the open run, $core:done.a the
// finished one.
func (s *stage) expand(word string) string {
	keys := s.keys()
	name, node, _ := strings.Cut(strings.TrimPrefix(word, "$"), ":")
	if !strings.HasPrefix(word, "$") {
		return word
	}
	if name == "prefix" {
		return s.Prefix + ":" + node
	}
	place, node := s.place(node)
	p, id := place.Partition, s.executionID(place, node)
	lane := enginecore.LaneID("default")
	edge := keyspace.EdgeIDFor(place.FlowID, "b", "d")
	switch name {
	case "id":
		return string(id)
	case "flowid":
		return string(place.FlowID)
	case "edgeid":
		return string(edge)
	case "core":
		return keys.ExecCore(id)
	case "result":
		return keys.ExecResult(id)
	case "lease":
		return keys.ExecLeaseCurrent(id)
	case "attempts":
		return keys.ExecAttempts(id)
	case "attempt":
		return keys.AttemptRecord(id, 0)
	case "attempt1":
		return keys.AttemptRecord(id, 1)
	case "usage1":
		return keys.AttemptUsage(id, 1)
	case "meta":
		return keys.ExecDepsMeta(id)
	case "unresolved":
		return keys.ExecDepsUnresolved(id)
	case "alledges":
		return keys.ExecDepsAllEdges(id)
	case "dep":
		return keys.ExecDep(id, edge)
	case "eligible":
		return keys.LaneEligible(p, lane)
	case "active":
		return keys.LaneActive(p, lane)
	case "delayed":
		return keys.LaneDelayed(p, lane)
	case "terminal":
		return keys.LaneTerminal(p, lane)
	case "blocked":
		return keys.LaneBlockedDependencies(p, lane)
	case "expiry":
		return keys.IndexLeaseExpiry(p)
	case "worker":
		return keys.IndexWorkerLeases(p, enginecore.WorkerInstanceID(s.instance))
	case "all":
		return keys.IndexAllExecutions(p)
	case "timeout":
		return keys.IndexAttemptTimeout(p)
	case "reclaimable":
		return keys.FfxReclaimable(p, lane)
	case "queue":
		return keys.FfxQueue(p, lane, "a")
	case "turns":
		return keys.FfxTurns(p, lane)
	case "startdeadlines":
		return keys.FfxStartDeadlines(p)
	case "flowdeadlines":
		return keys.FfxFlowDeadlines(p)
	case "closedflows":
		return keys.FfxClosedFlows(p)
	case "flowindex":
		return keys.IndexFlowIndex(p)
	case "runs":
		return keys.FfxRuns(p, "diamond")
	case "backlog":
		return keys.FfxBacklog(p)
	case "waiting":
		return keys.FfxUnresolvedEdges(id)
	case "cancelbacklog":
		return keys.IndexCancelBacklog(p)
	case "flow":
		return keys.FlowCore(p, place.FlowID)
	case "members":
		return keys.FlowMembers(p, place.FlowID)
	case "tags":
		return keys.FlowTags(p, place.FlowID)
	case "nodes":
		return keys.FlowNodes(p, place.FlowID)
	case "watchers":
		return keys.FlowWatchers(p, place.FlowID)
	case "more":
		return keys.FlowMore(p, place.FlowID)
	case "results":
		return keys.FlowResults(p, place.FlowID)
	case "join":
		return keys.FlowJoin(place.FlowID, id)
	case "group":
		return keys.FlowEdgegroup(place.FlowID, id)
	case "graph":
		return keys.FfxGraph(p, s.graph)
	case "graphhash":
		return s.graph
	case "unused":
		return keys.FfxUnusedGraphs(p)
	case "workers":
		return keys.FfxWorkers(p)
	case "lanes":
		return keys.FfxLanes(p)
	case "pending":
		return keys.FlowPendingCancels(p, place.FlowID)
	case "edge":
		return keys.FlowEdge(p, place.FlowID, edge)
	case "out":
		return keys.FlowOut(place.FlowID, id)
	case "events":
		return keys.FlowEvents(p, place.FlowID)
	}
	panic("unknown name " + word)
}

// rowCommand makes a command of ROW <node> <column> <number>, or of HEAD <run> <column> <number>.
func (s *stage) rowCommand(words []string) []string {
	place, node := s.place(words[1])
	column := rowread.NodeRowColumns[words[2]]
	if words[0] == "HEAD" {
		column = rowread.RunHeadColumns[words[2]]
	} else {
		column[0] += rowread.Place(s.nodes[place.FlowID], ordinals[node])
	}
	bytes := []byte(words[3])
	if column[1] <= 8 {
		n, err := strconv.Atoi(words[3])
		if err != nil || column[1] == 0 {
			panic("a bad command: " + strings.Join(words, " "))
		}
		bytes = binary.LittleEndian.AppendUint64(nil, uint64(n))[:column[1]]
	}
	return []string{"SETRANGE", s.keys().FlowNodes(place.Partition, place.FlowID), strconv.Itoa(column[0]), string(bytes)}
}

func (s *stage) do(t *testing.T, command string) {
	t.Helper()
	words := strings.Fields(command)
	switch words[0] {
	case "ROW", "HEAD":
		words = s.rowCommand(words)
	default:
		for i := range words {
			words[i] = strings.NewReplacer("␣", " ", "⏎", "\n").Replace(s.expand(words[i]))
		}
	}
	client := engine.ConnOf(s.Engine.Internal()).Client()
	require.NoError(t, client.Do(context.Background(), client.B().Arbitrary(words...).Build()).Error(), command)
}

const kept = "kept:"

// keep copies all keys aside; restore puts them back as they were.
func (s *stage) keep(t *testing.T) {
	t.Helper()
	for _, key := range s.stored(t, s.Prefix) {
		s.do(t, "COPY "+key+" "+kept+key)
	}
}

func (s *stage) restore(t *testing.T) {
	t.Helper()
	s.do(t, "DEL "+strings.Join(s.stored(t, s.Prefix), " "))
	for _, key := range s.stored(t, kept) {
		s.do(t, "COPY "+key+" "+strings.TrimPrefix(key, kept))
	}
}

func (s *stage) stored(t *testing.T, prefix string) []string {
	t.Helper()
	client := engine.ConnOf(s.Engine.Internal()).Client()
	keys, err := client.Do(context.Background(), client.B().Keys().Pattern(prefix+"*").Build()).AsStrSlice()
	require.NoError(t, err)
	return keys
}

func TestCheck_AcceptsGoodKeyspace(t *testing.T) {
	s := newStage(t)
	report, err := invariant.Check(context.Background(), engine.ConnOf(s.Engine.Internal()).Client(), s.Prefix, invariant.AnyTime)
	require.NoError(t, err)
	require.NoError(t, report.Err())
	require.Equal(t, 11, report.Executions)
	require.Equal(t, 3, report.Flows)

	report, err = invariant.Check(context.Background(), engine.ConnOf(s.Engine.Internal()).Client(), s.Prefix, invariant.Quiescent)
	require.NoError(t, err)
	require.ErrorContains(t, report.Err(), "is not closed")
	s.finish()
	s.Settle(t)
}

// damage is a change of a valid keyspace by commands, and the fault that the checker must report.
type damage struct {
	rule     invariant.Rule
	commands string
	says     string
}

func (s *stage) mustNotice(t *testing.T, damages []damage) {
	t.Helper()
	s.keep(t)
	for _, tt := range damages {
		t.Run(string(tt.rule)+"/"+tt.says, func(t *testing.T) {
			defer s.restore(t)
			for command := range strings.SplitSeq(tt.commands, ";") {
				s.do(t, command)
			}
			report, err := invariant.Check(context.Background(), engine.ConnOf(s.Engine.Internal()).Client(), s.Prefix, invariant.AnyTime)
			require.NoError(t, err)
			for _, v := range report.Violations {
				if v.Rule == tt.rule && strings.Contains(v.Detail, tt.says) {
					return
				}
			}
			t.Fatalf("rule %s did not fire with %q:\n%v", tt.rule, tt.says, report.Err())
		})
	}
}
