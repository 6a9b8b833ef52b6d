package storm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/randseed"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver/proxy"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// How long a storm lasts.
const (
	shortStorm = 1500 * time.Millisecond
	longStorm  = 3 * time.Minute
)

// storm is one engine and the processes at work on it.
type storm struct {
	seed      uint64
	lasts     time.Duration
	url       string // of the processes; the test itself is connected directly
	path      string
	binary    string // of the processes; this one when empty
	bench     *enginetest.Bench
	diary     *diary
	processes []*process
	tallies   map[string]int
	pauses    []span        // of the schedule
	pace      time.Duration // of the customers
	round     int           // of a soak
	jumps     bool          // the engine's clock is set
	spent     int64         // of the ledger, in earlier rounds
	reported  int64
	settled   time.Duration // how long the slowest round took to settle
}

// trouble is a kind of fault other than killed processes.
type trouble func(t testing.TB, s *storm, r *rand.Rand)

// TestStorm runs several storms, each on an engine of its own, and checks their final states.
func TestStorm(t *testing.T) {
	var all sync.WaitGroup
	for name, storm := range map[string]func(*testing.T){
		"processes are killed": processesAreKilled, "server is killed": serverIsKilled, "network breaks": networkBreaks,
		"clocks jump": clocksJump,
	} {
		all.Go(func() { t.Run(name, storm) })
	}
	all.Wait()
}

// Processes are killed, one after the other, all the time.
func processesAreKilled(t *testing.T) {
	server := testserver.Shared(t, testserver.Valkey)
	s := newStorm(t, testserver.Valkey, server.URL(), server.URL())
	s.rage(t, nil)
}

// The server is killed and restarted as well. It has its log on disk, written with every command.
func serverIsKilled(t *testing.T) {
	kinds := testserver.Servers(t)
	if len(kinds) == 0 {
		t.Skip("no server is to be tested")
	}
	kind := kinds[0] // the first of FLOWFABRIC_TEST_ENGINES
	server := testserver.Start(t, testserver.Options{Kind: kind, Persist: true})
	keepOnFailure(t, server)
	s := newStorm(t, kind, server.URL(), server.URL())
	s.rage(t, func(t testing.TB, s *storm, r *rand.Rand) {
		if r.IntN(6) > 0 {
			return
		}
		s.tallies["server"]++
		server.Kill()
		time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond) //nolint:forbidigo // how long the server is away
		server.Restart()
	})
}

// keepOnFailure keeps the log of a server, with which a fault can be explained.
func keepOnFailure(t *testing.T, server *testserver.Server) {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		server.Kill()
		dir, err := os.MkdirTemp("", "flowfabric-storm-")
		if err == nil {
			err = os.CopyFS(dir, os.DirFS(server.Dir()))
		}
		t.Logf("the server's log is kept in %s (%v)", dir, err)
	})
}

// The network between the processes and the server breaks, in every way it can.
func networkBreaks(t *testing.T) {
	server := testserver.Shared(t, testserver.Redis)
	p := proxy.Start(t, server.Addr())
	s := newStorm(t, testserver.Redis, server.URL(), "redis://"+p.Addr())
	s.rage(t, func(_ testing.TB, s *storm, r *rand.Rand) {
		s.breakNetwork(p, r)
	})
}

// breakNetwork breaks a network in one way for up to beyond a lease.
func (s *storm) breakNetwork(p *proxy.Proxy, r *rand.Rand) {
	outage := time.Duration(r.IntN(1500)) * time.Millisecond
	what := []string{"break", "reset", "delay", "cut", "blackhole", "deafen"}[r.IntN(6)]
	s.tallies[what]++
	switch what {
	case "break":
		p.Break()
	case "reset":
		p.Reset()
	case "delay":
		p.Delay(time.Duration(r.IntN(60)) * time.Millisecond)
		time.Sleep(outage) //nolint:forbidigo // how long the fault lasts
		p.Delay(0)
	case "cut":
		p.Intercept(proxy.CutCalls(10))
		time.Sleep(outage) //nolint:forbidigo // how long the fault lasts
		p.Intercept(nil)
	case "blackhole":
		p.Blackhole()
		time.Sleep(outage) //nolint:forbidigo // how long the fault lasts
		p.Restore()
	case "deafen":
		p.Deafen()
		time.Sleep(outage) //nolint:forbidigo // how long the fault lasts
		p.Restore()
	}
}

// stormTime is how long storms last.
func stormTime() time.Duration {
	soak := os.Getenv("FLOWFABRIC_SOAK")
	if d, err := time.ParseDuration(soak); err == nil {
		return d
	}
	if soak != "" {
		return longStorm
	}
	return shortStorm
}

func newStorm(t *testing.T, k testserver.Kind, near, far string, log ...*slog.Logger) *storm {
	t.Helper()
	s := &storm{seed: randseed.Of(t, 0), lasts: stormTime(), url: far, pace: stormPace, path: filepath.Join(t.TempDir(), "diary"), tallies: make(map[string]int)}
	d, err := openDiary(s.path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.close()) })
	var logger *slog.Logger
	if len(log) > 0 {
		logger = log[0]
	}
	s.diary, s.bench = d, enginetest.Open(t, k, near, enginetest.NewPrefix(), runtime.OpenConfig{Partitions: partitions, Logger: logger})
	return s
}

// rage runs the storm for its duration, and checks the remaining state.
func (s *storm) rage(t *testing.T, more trouble) {
	t.Helper()
	s.schedule(t, newActivities(s.diary).step)
	for _, p := range []process{
		{role: worker, name: "worker-1"}, {role: worker, name: "worker-2"}, {role: worker, name: "worker-3"},
		{role: keeper, name: "keeper-1"}, {role: keeper, name: "keeper-2"}, {role: client, name: "client-1"}, {role: client, name: "client-2"},
	} {
		s.processes = append(s.processes, &p)
		s.spawn(t, &p)
	}
	s.awaitRuns(t)
	r := rand.New(rand.NewPCG(s.seed, 10))
	for end := time.Now().Add(s.lasts); time.Now().Before(end); {
		time.Sleep(time.Duration(50+r.IntN(300)) * time.Millisecond) //nolint:forbidigo // a random moment for the next fault
		if more != nil && r.IntN(2) == 0 {
			more(t, s, r)
			continue
		}
		p := s.processes[r.IntN(len(s.processes))]
		s.tallies[string(p.role)]++
		s.kill(p)
		s.spawn(t, p)
	}
	for _, p := range s.processes {
		s.kill(p)
	}
	s.calm(t)
}

// awaitRuns lets a storm begin when there is something to disturb: on a busy machine, processes need their time to
// begin.
func (s *storm) awaitRuns(t *testing.T) {
	t.Helper()
	enginetest.Eventually(t, func() string {
		entries, err := readDiary(s.path)
		if err != nil {
			return err.Error() // a line may be in the writing
		}
		if !slices.ContainsFunc(entries, func(e entry) bool { return e.What == started }) {
			return "a run"
		}
		return ""
	})
}

// calm completes all runs with workers and keepers that are not killed, and checks them.
func (s *storm) calm(t *testing.T) *checker {
	t.Helper()
	entries, err := readDiary(s.path)
	require.NoError(t, err)
	own := newActivities(s.diary)
	ctx, cancel := context.WithTimeout(t.Context(), 2*s.patience())
	defer cancel()
	for range 2 {
		s.bench.Keeper(t)
		s.bench.Worker(t, own.handlers(), runtime.WorkerConfig{
			Lease: stormLease, Lanes: []string{activity.DefaultLane, "other"},
		})
	}
	s.stopBeats(ctx, t)
	s.resume(ctx, t)
	runs := s.revive(ctx, t, own, entries)
	begun := time.Now()
	s.settle(ctx, t, runs)
	s.settled = max(s.settled, time.Since(begun))
	s.check(ctx, t, invariant.AnyTime)
	for _, run := range runs {
		s.end(ctx, t, run)
	}
	s.endForks(ctx, t)
	letters := s.endMail(ctx, t, own, entries)
	s.released(ctx, t)
	snapshot := s.check(ctx, t, invariant.Quiescent)
	entries, err = readDiary(s.path)
	require.NoError(t, err)
	j := newChecker(t, s, entries)
	for id := range runs {
		j.run(snapshot, runs[id])
	}
	j.effects()
	j.cleanups()
	j.letters(letters)
	j.coins()
	j.settleLedger(ctx, s)
	j.keys(ctx, s)
	if !s.jumps {
		j.tallies["beats"] = s.beats(ctx, t)
	}
	j.tallies["runs"] = len(runs)
	t.Logf("%d runs, %d diary entries, killed or broken: %v, checked: %v", len(runs), len(entries), s.tallies, j.tallies)
	return j
}

// patience is how long work may take that the storm has delayed. Some of it is retried with a delay as long as its
// previous wait.
func (s *storm) patience() time.Duration { return enginetest.Patience + s.lasts }

// check reports inconsistencies of the keyspace, with the engine's records about them. Keepers may still be working on
// leftovers, so it retries for a while.
func (s *storm) check(ctx context.Context, t *testing.T, mode invariant.Mode) *invariant.Snapshot {
	t.Helper()
	for end := time.Now().Add(enginetest.Patience / 4); ; {
		snapshot, err := invariant.Read(ctx, engine.ConnOf(s.bench.Engine.Internal()).Client(), s.bench.Prefix)
		require.NoError(t, err)
		report := snapshot.Check(mode)
		if s.jumps { // an event that was before a cancel may have a later time
			report.Violations = slices.DeleteFunc(report.Violations, func(v invariant.Violation) bool {
				return v.Rule == invariant.RuleOrder && strings.Contains(v.Detail, "but the flow was cancelled at")
			})
		}
		if report.Err() == nil {
			return snapshot
		}
		if time.Now().Before(end) {
			continue
		}
		t.Errorf("the keyspace is not in order:\n%v", report.Err())
		for _, v := range report.Violations {
			if _, id, ok := strings.Cut(v.Key, ":flow:"); ok { // flow:{fp:N}:<id>:…
				_, id, _ = strings.Cut(id, "}:")
				id, _, _ = strings.Cut(id, ":")
				t.Logf("flow %s:\n%s", id, s.flowHistory(ctx, enginecore.FlowID(id)))
			}
			for _, id := range executionID.FindAllString(v.Key+" "+v.Detail, 1) {
				t.Logf("%s:\n%s", id, s.history(ctx, enginecore.ExecutionID(id)))
			}
		}
		return snapshot
	}
}

var executionID = regexp.MustCompile(`\{fp:\d+\}:[0-9a-f-]{36}`)

// flowHistory returns the engine's records about a flow.
func (s *storm) flowHistory(ctx context.Context, id enginecore.FlowID) string {
	client, keys := engine.ConnOf(s.bench.Engine.Internal()).Client(), engine.ConnOf(s.bench.Engine.Internal()).Keys()
	p, err := engine.ConnOf(s.bench.Engine.Internal()).FlowPartition(id)
	if err != nil {
		return err.Error()
	}
	core, err := client.Do(ctx, client.B().Hgetall().Key(keys.FlowCore(p, id)).Build()).AsStrMap()
	if err != nil {
		return err.Error()
	}
	members, err := client.Do(ctx, client.B().Smembers().Key(keys.FlowMembers(p, id)).Build()).AsStrSlice()
	if err != nil {
		return err.Error()
	}
	text := fmt.Sprintln(core, members)
	return text + s.eventsOf(ctx, p, id, func(enginerpc.FlowEvent) bool { return true })
}

// history returns the engine's records about an execution and its flow.
func (s *storm) history(ctx context.Context, id enginecore.ExecutionID) string {
	text := s.bench.History(ctx, id)
	client, keys := engine.ConnOf(s.bench.Engine.Internal()).Client(), engine.ConnOf(s.bench.Engine.Internal()).Keys()
	of, err := client.Do(ctx, client.B().Hmget().Key(keys.ExecCore(id)).Field("flow_id", "node").Build()).AsStrSlice()
	if err != nil {
		return text + err.Error()
	}
	p, err := keyspace.PartitionOf(id)
	if err != nil {
		return text + err.Error()
	}
	return text + s.eventsOf(ctx, p, enginecore.FlowID(of[0]),
		func(e enginerpc.FlowEvent) bool { return e.Node == of[1] || e.Node == "" })
}

// eventsOf returns the events of a flow's log, without the excluded ones.
func (s *storm) eventsOf(ctx context.Context, p keyspace.Partition, id enginecore.FlowID, keep func(enginerpc.FlowEvent) bool) (text string) {
	const page = 500
	for after := ""; ; {
		reply, err := engine.ConnOf(s.bench.Engine.Internal()).ReadEvents(ctx, enginerpc.ReadEventsCall{Partition: p, FlowID: id, After: after, Limit: page})
		if err != nil {
			return text + err.Error()
		}
		for _, e := range reply.Events {
			if after = e.ID; keep(e) {
				text += fmt.Sprintln(e.ID, e.Event, e.Node, e.Attempt, e.Detail)
			}
		}
		if len(reply.Events) < page && len(reply.Gone) == 0 {
			return text
		}
	}
}

// resume ends the pauses that a killed client has left.
func (s *storm) resume(ctx context.Context, t *testing.T) {
	t.Helper()
	pauses, err := s.bench.Client.Pauses(ctx)
	require.NoError(t, err)
	for _, p := range pauses {
		if p.Lane != "" {
			require.NoError(t, s.bench.Client.Lane(p.Lane).Resume(ctx))
		} else {
			require.NoError(t, s.bench.Client.Activity(p.Activity).Resume(ctx))
		}
	}
}

// revive starts all runs again that clients have begun to start, which completes unfinished submissions. An
// acknowledged run still exists.
func (s *storm) revive(ctx context.Context, t *testing.T, own activities, entries []entry) map[string]*runtime.Run[product] {
	t.Helper()
	acknowledged := make(map[string]bool)
	for _, e := range entries {
		if e.What == started {
			acknowledged[e.Run] = true
		}
	}
	runs := make(map[string]*runtime.Run[product])
	for _, e := range entries {
		if e.What != starting {
			continue
		}
		def, err := newRandomDAG(e.Seed).define(own)
		require.NoError(t, err)
		run, err := runtime.Start(ctx, s.bench.Client, def, 1, runtime.WithID(e.Run))
		require.NoError(t, err)
		if acknowledged[e.Run] && !run.Existed() {
			t.Errorf("run %s was acknowledged, and is gone", e.Run)
		}
		require.NoError(t, ignore(run.Resume(ctx), engine.ErrRunOver))
		runs[e.Run] = run
	}
	require.NotEmpty(t, runs)
	return runs
}

func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// settle waits until every run has ended or waits for a signal.
func (s *storm) settle(ctx context.Context, t *testing.T, runs map[string]*runtime.Run[product]) {
	t.Helper()
	for id, run := range runs {
		enginetest.EventuallyWithin(t, s.patience(), func() string {
			d, err := run.Describe(ctx)
			require.NoError(t, err)
			if d.OpenNodes == 0 {
				return ""
			}
			for _, n := range d.Nodes {
				if len(n.Waits) > 0 {
					return ""
				}
			}
			return fmt.Sprintf("run %s has ended or waits:\n%s%s", id, stateOf(d), s.flowHistory(ctx, run.FlowID()))
		})
	}
}

// end answers the waits of a run until it has ended.
func (s *storm) end(ctx context.Context, t *testing.T, run *runtime.Run[product]) {
	t.Helper()
	r := rand.New(rand.NewPCG(s.seed, 11))
	enginetest.EventuallyWithin(t, s.patience(), func() string {
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		if !d.ClosedAt.IsZero() {
			return ""
		}
		answer(ctx, s.bench.Client, s.diary, run, r, 1)
		return fmt.Sprintf("run %s has ended:\n%s", run.ID(), stateOf(d))
	})
}

func stateOf(d *runtime.RunDescription) string {
	text := fmt.Sprintf("%s, %d open, reruns %d\n", d.State, d.OpenNodes, d.Reruns)
	for _, n := range d.Nodes {
		text += fmt.Sprintf("  %s %s %s attempts=%d reclaims=%d %s\n", n.Name, n.State, n.Waiting.Sentence, n.Attempts, n.Reclaims, n.Reason)
	}
	return text
}
