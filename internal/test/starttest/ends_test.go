package starttest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginelink"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// process opens the engine of a bench once more, as another process does. It waits for messages alone, and does not
// read runs from time to time: a wait whose message is not sent does not end.
func process(t *testing.T, b *enginetest.Bench) *enginetest.Bench {
	t.Helper()
	link := &enginelink.Link{Quiet: true}
	if b.Kind == testserver.Embedded {
		link.Shared = b.Engine.Embedded()
	}
	return enginetest.Open(t, b.Kind, b.URL, b.Prefix, runtime.OpenConfig{Internal: enginelink.HandleOf(link)})
}

func originOf(t *testing.T, b *enginetest.Bench) string {
	t.Helper()
	s, err := engine.SessionOf(b.Engine.Internal())
	require.NoError(t, err)
	return s.Origin
}

// endSpy receives the messages about the ends of runs to all processes.
type endSpy struct {
	t      *testing.T
	client rueidis.Client
	prefix string // of the channels

	mu   sync.Mutex
	told map[string][]string // the messages, by the origin
}

func spyOnEnds(t *testing.T, b *enginetest.Bench) *endSpy {
	t.Helper()
	core, ctx := engine.ConnOf(b.Engine.Internal()), enginetest.Context(t)
	s := &endSpy{t: t, client: core.Client(), prefix: core.Keys().ChannelDone(""), told: make(map[string][]string)}
	wire, leave := s.client.Dedicate()
	t.Cleanup(leave)
	wire.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) {
		s.mu.Lock()
		defer s.mu.Unlock()
		origin := strings.TrimPrefix(m.Channel, s.prefix)
		for one := range enginerpc.SplitMany(m.Message) {
			s.told[origin] = append(s.told[origin], one)
		}
	}})
	require.NoError(t, wire.Do(ctx, wire.B().Psubscribe().Pattern(s.prefix+"*").Build()).Error())
	return s
}

// all returns the numbers of messages by origin, once everything that was sent before has arrived.
func (s *endSpy) all() map[string]int {
	s.t.Helper()
	ctx := enginetest.Context(s.t)
	const marks = "mark"
	before := s.of(marks)
	for _, node := range s.client.Nodes() { // a message of each server, after all others that it has sent
		require.NoError(s.t, node.Do(ctx, node.B().Publish().Channel(s.prefix+marks).Message("mark").Build()).Error())
	}
	enginetest.Eventually(s.t, func() string {
		if got := len(s.of(marks)) - len(before); got < len(s.client.Nodes()) {
			return fmt.Sprintf("%d servers have sent a mark", got)
		}
		return ""
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := make(map[string]int)
	for origin, list := range s.told {
		if origin != marks {
			counts[origin] = len(list)
		}
	}
	return counts
}

func (s *endSpy) of(origin string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.told[origin]...)
}

func resultOf(t *testing.T, b *enginetest.Bench, def *flow.Definition[int, int], in int) {
	t.Helper()
	ctx := enginetest.Context(t)
	run, err := runtime.Start(ctx, b.Client, def, in)
	require.NoError(t, err)
	out, err := run.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, in+1, out)
}

// attached returns a run of another process.
func attached(t *testing.T, b *enginetest.Bench, def *flow.Definition[int, int], id string) *runtime.Run[int] {
	t.Helper()
	run, err := runtime.Attach(b.Client.Run(def.Name(), id), def)
	require.NoError(t, err)
	return run
}

// gated is an activity whose calls end once the gate is closed.
func gated(gate <-chan struct{}) *activity.Activity[int, int] {
	return activity.New("gated", func(ctx context.Context, n int) (int, error) {
		select {
		case <-gate:
			return n + 1, nil
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	})
}

// marksOf returns the processes that have marked a run.
func marksOf(t *testing.T, b *enginetest.Bench, flowName, run string) []string {
	t.Helper()
	core, place := engine.ConnOf(b.Engine.Internal()), b.Locate(t, flowName, run)
	key := core.Keys().FlowWatchers(place.Partition, place.FlowID)
	list, err := core.Client().Do(enginetest.Context(t), core.Client().B().Zrange().Key(key).Min("0").Max("-1").Build()).AsStrSlice()
	require.NoError(t, err)
	return list
}

// awaitMark waits until a process has marked a run.
func awaitMark(t *testing.T, b *enginetest.Bench, flowName, run string, origins ...string) {
	t.Helper()
	enginetest.Eventually(t, func() string {
		if got := marksOf(t, b, flowName, run); len(got) != len(origins) || len(got) > 0 && !containsAll(got, origins) {
			return fmt.Sprintf("the marks are %v, not %v", got, origins)
		}
		return ""
	})
}

func containsAll(list, wanted []string) bool {
	for _, one := range wanted {
		found := false
		for _, other := range list {
			found = found || one == other
		}
		if !found {
			return false
		}
	}
	return true
}

// pending waits for a run in the background. The returned function returns its result.
func pending(t *testing.T, run *runtime.Run[int]) (result func() int) {
	t.Helper()
	ctx := enginetest.Context(t)
	type outcome struct {
		out int
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		out, err := run.Result(ctx)
		done <- outcome{out, err}
	}()
	return func() int {
		t.Helper()
		o := <-done
		require.NoError(t, o.err)
		return o.out
	}
}

// A process that starts runs and ends them itself receives no message about them. All of its clients learn of the ends,
// well before they would check the runs: with each that is missed, a wait takes five seconds.
func TestEnds_OfOneProcess(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		const runs = 60
		a := fixture.AddOne()
		def, double := fixture.Single(t, a), fixture.ChainOf(t, a, 2)
		b.Worker(t, []activity.Handler{a}, runtime.WorkerConfig{Concurrency: 4})
		resultOf(t, b, def, 0)
		b.RunKeeperTasks(t) // the usual path needs partitions that have been checked
		other := enginetest.NewClient(t, b.Engine)
		spy, ctx := spyOnEnds(t, b), enginetest.Context(t)
		for i := range runs {
			id := fmt.Sprint("run-", i)
			run, err := runtime.Start(ctx, b.Client, double, i, runtime.WithID(id))
			require.NoError(t, err)
			again, err := runtime.Attach(other.Run(double.Name(), id), double)
			require.NoError(t, err)
			first, second := pending(t, run), pending(t, again)
			require.Equal(t, i+2, first())
			require.Equal(t, i+2, second())
		}
		fixture.AwaitAll(ctx, t, fixture.StartAll(ctx, t, b.Client, def, runs))
		require.Empty(t, spy.all())
		b.Settle(t)
	})
}

// Processes that have waited before receive no messages about the runs of others, and the starter receives one for each
// of its runs.
func TestEnds_ReachTheStarterAlone(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		const idle, runs = 16, 40
		a := fixture.AddOne()
		def := fixture.Single(t, a)
		b.Worker(t, []activity.Handler{a}, runtime.WorkerConfig{Concurrency: 8})
		for i := range idle {
			resultOf(t, process(t, b), def, i)
		}
		starter := process(t, b)
		resultOf(t, starter, def, 0)
		spy := spyOnEnds(t, b)
		ctx := enginetest.Context(t)
		fixture.AwaitAll(ctx, t, fixture.StartAll(ctx, t, starter.Client, def, runs))
		require.Equal(t, map[string]int{originOf(t, starter): runs}, spy.all())

		// A process that has never waited names itself in no run.
		_, err := runtime.Start(ctx, process(t, b).Client, def, 1, runtime.WithID("unnamed"))
		require.NoError(t, err)
		out, err := attached(t, starter, def, "unnamed").Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 2, out)
		counts := spy.all()
		require.LessOrEqual(t, counts[originOf(t, starter)], runs+1)
		require.Len(t, counts, 1)
		b.Settle(t)
	})
}

// A process that waits for a run of another one marks it, and receives its end; the mark ends with the run.
func TestEnds_ReachOthersThatWait(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		gate := make(chan struct{})
		a := gated(gate)
		def := fixture.Single(t, a)
		b.Worker(t, []activity.Handler{a})
		starter, first, second, idle := process(t, b), process(t, b), process(t, b), process(t, b)
		ctx := enginetest.Context(t)
		_, err := runtime.Start(ctx, starter.Client, def, 1, runtime.WithID("one"))
		require.NoError(t, err)
		spy := spyOnEnds(t, b)
		results := []func() int{
			pending(t, attached(t, first, def, "one")), pending(t, attached(t, second, def, "one")),
			pending(t, attached(t, second, def, "one")),
		}
		awaitMark(t, b, def.Name(), "one", originOf(t, first), originOf(t, second))
		waiting, leave := context.WithCancel(ctx)
		left := make(chan error, 1)
		go func() {
			_, err := attached(t, idle, def, "one").Result(waiting)
			left <- err
		}()
		awaitMark(t, b, def.Name(), "one", originOf(t, first), originOf(t, second), originOf(t, idle))
		leave()
		require.ErrorIs(t, <-left, context.Canceled)
		awaitMark(t, b, def.Name(), "one", originOf(t, first), originOf(t, second)) // its wait is over
		close(gate)
		for _, result := range results {
			require.Equal(t, 2, result())
		}
		require.Equal(t, map[string]int{originOf(t, first): 1, originOf(t, second): 1}, spy.all())
		require.Empty(t, marksOf(t, b, def.Name(), "one"))
		b.Settle(t)
	})
}

// The mark of a process that is gone ends by itself.
func TestEnds_MarksExpire(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		gate := make(chan struct{})
		a := gated(gate)
		def := fixture.Single(t, a)
		b.Worker(t, []activity.Handler{a})
		ctx := enginetest.Context(t)
		_, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID("one"))
		require.NoError(t, err)
		core, place := engine.ConnOf(b.Engine.Internal()), b.Locate(t, def.Name(), "one")
		watch := func(origin string, d time.Duration) error {
			reply, err := core.WatchRun(ctx, enginerpc.WatchRunCall{
				Partition: place.Partition, FlowID: place.FlowID, Origin: origin, Duration: d,
			})
			require.True(t, err != nil || reply.ClosedAt.IsZero())
			return err
		}
		require.NoError(t, watch("PROCESS1", time.Millisecond))
		awaitMark(t, b, def.Name(), "one")
		require.NoError(t, watch("PROCESS2", time.Hour))
		require.NoError(t, watch("PROCESS3", time.Millisecond))
		require.Contains(t, marksOf(t, b, def.Name(), "one"), "PROCESS2", "the key lasts as long as its longest mark")
		require.ErrorContains(t, watch("short", time.Hour), "origin must have 8 bytes, got: 5")
		spy := spyOnEnds(t, b)
		result := pending(t, attached(t, b, def, "one"))
		enginetest.Eventually(t, func() string {
			if !containsAll(marksOf(t, b, def.Name(), "one"), []string{originOf(t, b)}) {
				return "the wait has not marked the run"
			}
			return ""
		})
		close(gate)
		require.Equal(t, 2, result())
		require.Equal(t, map[string]int{originOf(t, b): 1, "PROCESS2": 1}, spy.all())
	})
}

// A run that another process runs again has one end after the other, for the process that has started it and for the
// one that runs it again.
func TestEnds_OfReruns(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		gate := make(chan struct{})
		a := fixture.AddOne()
		slow := gated(gate)
		f := flow.New[int, int]("again")
		flow.Return(f, flow.Node(f, "slow", slow, flow.Node(f, "fast", a, f.Input())))
		def := fixture.Build(t, f)
		quick := fixture.Single(t, a)
		b.Worker(t, []activity.Handler{a, slow})
		b.Keeper(t)
		starter, other := process(t, b), process(t, b)
		resultOf(t, starter, quick, 1)
		resultOf(t, other, quick, 1)
		ctx := enginetest.Context(t)
		run, err := runtime.Start(ctx, starter.Client, def, 1, runtime.WithID("one"))
		require.NoError(t, err)
		result := pending(t, run)
		close(gate)
		require.Equal(t, 3, result())
		spy := spyOnEnds(t, b)
		again := attached(t, other, def, "one")
		require.NoError(t, again.Rerun(ctx, fabrictype.RerunAll))
		out, err := again.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 3, out)
		id := b.Locate(t, def.Name(), "one").FlowID
		enginetest.Eventually(t, func() string {
			for _, p := range []*enginetest.Bench{starter, other} {
				told := spy.of(originOf(t, p))
				if len(told) == 0 || told[0] != string(id)+" reopened" {
					return fmt.Sprintf("a process has received %q", told)
				}
			}
			return ""
		})
		out, err = run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 3, out)
	})
}

// Waits that begin while their run ends miss nothing.
func TestEnds_WhileWaitsBegin(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		const rounds = 100
		a := fixture.AddOne()
		def := fixture.Single(t, a)
		b.Worker(t, []activity.Handler{a}, runtime.WorkerConfig{Concurrency: 4})
		starter, other := process(t, b), process(t, b)
		ctx := enginetest.Context(t)
		for i := range rounds {
			id := fmt.Sprint("run-", i)
			run, err := runtime.Start(ctx, starter.Client, def, i, runtime.WithID(id))
			require.NoError(t, err)
			first, second := pending(t, run), pending(t, attached(t, other, def, id))
			require.Equal(t, i+1, first())
			require.Equal(t, i+1, second())
		}
		b.Settle(t)
	})
}

// A run of a process that has died is waited for by others, and its end makes no difference to the server.
func TestEnds_OfProcessesThatDied(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		gate := make(chan struct{})
		a, slow := fixture.AddOne(), gated(gate)
		b.Worker(t, []activity.Handler{a, slow})
		def := fixture.Single(t, slow)
		starter, other := process(t, b), process(t, b)
		resultOf(t, starter, fixture.OneNode(t, "quick", a), 1)
		ctx := enginetest.Context(t)
		_, err := runtime.Start(ctx, starter.Client, def, 1, runtime.WithID("one"))
		require.NoError(t, err)
		starter.Client.Close()
		require.NoError(t, starter.Engine.Close())
		result := pending(t, attached(t, other, def, "one"))
		awaitMark(t, b, def.Name(), "one", originOf(t, other))
		close(gate)
		require.Equal(t, 2, result())
	})
}

// Waits whose connection breaks read the states of their runs when it is there again.
func TestEnds_AcrossBrokenConnections(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, testserver.Kinds(t), func(t *testing.T, kind testserver.Kind) {
		lost := new(enginetest.LostMessages)
		b := enginetest.New(t, kind, lost.Config())
		gate := make(chan struct{})
		a, slow := fixture.AddOne(), gated(gate)
		b.Worker(t, []activity.Handler{a, slow})
		quick, def := fixture.OneNode(t, "quick", a), fixture.Single(t, slow)
		resultOf(t, b, quick, 1)
		ctx := enginetest.Context(t)
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		result := pending(t, run)
		lost.LoseChannels("ffx:done")
		close(gate)
		enginetest.Eventually(t, func() string {
			if d, err := run.Describe(ctx); err != nil || d.State == fabrictype.RunRunning {
				return "the run is open"
			}
			return ""
		})
		lost.LoseChannels()
		lost.BreakSubscriptions()
		require.Equal(t, 2, result())
		resultOf(t, b, quick, 2)
	})
}
