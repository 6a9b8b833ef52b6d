package storm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A soak runs on all engines at the same time, at a rate that leaves most of a processor free.
const (
	soakRound = 75 * time.Second // of faults, between two quiet points
	soakPace  = 600 * time.Millisecond
	// soakPause is the longest pause between two faults.
	soakPause = 8 * time.Second

	smokeFaults = 2 // of the one round without FLOWFABRIC_SOAK
	smokePause  = 300 * time.Millisecond

	// profileEvery is how many measurements of the process there are for each heap profile.
	profileEvery = 5

	// recoversWithin bounds how long after a fault a run takes that needs a moment otherwise.
	recoversWithin = 3 * time.Minute
)

// TestSoak disturbs all engines for the duration in FLOWFABRIC_SOAK, or with a few faults if it is not set. About once
// a minute each engine comes to rest: its runs are compared with the model, its keyspace is checked and its runs are
// purged. At the end, memory, goroutines and file descriptors must not have grown.
func TestSoak(t *testing.T) {
	k := &soak{t: t, begun: time.Now()}
	if os.Getenv("FLOWFABRIC_SOAK") != "" {
		k.jumping = buildWithJumpingClock(t)
		k.begun, k.lasts = time.Now(), stormTime()
	}
	ctx, stop := context.WithCancel(t.Context())
	var sampling, all sync.WaitGroup
	sampling.Go(func() { k.sample(ctx) })
	for name, open := range soakEngines(t) {
		e := &soaked{soak: k, name: name}
		k.engines = append(k.engines, e)
		all.Go(func() { t.Run(name, func(t *testing.T) { e.run(t, open) }) })
	}
	all.Wait()
	stop()
	sampling.Wait()
	k.report()
}

// soak is one run of TestSoak.
type soak struct {
	t       *testing.T
	begun   time.Time
	lasts   time.Duration // 0 for one short round
	jumping string        // the program of processes whose clocks jump; none in a short soak
	engines []*soaked

	goroutines, descriptors, resident series // of the process of the test, every minute
}

func (k *soak) long() bool { return k.lasts > 0 }

// sample measures the process of the test until the context ends. It writes a heap profile every few minutes, which
// shows the objects that accumulate.
func (k *soak) sample(ctx context.Context) {
	dir := k.t.TempDir()
	k.t.Cleanup(func() { k.keepEvidence(k.t, "profiles", dir) })
	for tick := time.NewTicker(time.Minute); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
			debug.FreeOSMemory()
			pid := os.Getpid()
			k.goroutines.add(goroutines())
			k.descriptors.add(descriptorsOf(pid))
			k.resident.add(residentOf(pid))
			if n := len(k.resident); n%profileEvery == 0 {
				writeHeap(k.t, filepath.Join(dir, fmt.Sprintf("heap-%03d", n)))
			}
		}
	}
}

// soaked is one engine under soak, with its measurements.
type soaked struct {
	*soak
	name    string
	storm   *storm
	engine  soakEngine
	far     *enginetest.Bench // for programs that live for the whole soak, connected through the faulty network
	rounds  int
	checked map[string]int
	worst   time.Duration // until a run ended after a fault

	memory, keys, disk series // at the quiet points
}

func (e *soaked) run(t *testing.T, open func(t *testing.T) soakEngine) {
	e.checked = make(map[string]int)
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = log.Close() })
	t.Cleanup(func() { e.keepEvidence(t, e.name, dir) })
	e.engine = open(t)
	near, far := e.engine.urls()
	e.storm = e.newStorm(t, dir, near, far, log)
	// The memory of these programs is measured, so they must not keep their logs in memory.
	e.far = enginetest.Open(t, e.engine.kind(), far, e.storm.bench.Prefix, runtime.OpenConfig{
		Partitions: partitions, Logger: quiet(log),
	})
	e.far.KeepingWorker(t, newActivities(e.storm.diary).handlers(), runtime.WorkerConfig{
		Lease: stormLease, Concurrency: 4, Lanes: []string{activity.DefaultLane, "other"},
	})
	r := rand.New(rand.NewPCG(e.storm.seed, 12))
	for round := 1; round == 1 || e.long() && !t.Failed() && time.Since(e.begun)+soakRound/2 < e.lasts; round++ {
		ok := t.Run(fmt.Sprint("round=", round), func(t *testing.T) { e.round(t, r, dir, round) })
		if !ok {
			return
		}
		e.rounds++
	}
}

func quiet(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func (e *soaked) newStorm(t *testing.T, dir, near, far string, log io.Writer) *storm {
	t.Helper()
	s := newStorm(t, e.engine.kind(), near, far, quiet(log))
	s.path = filepath.Join(dir, "diary")
	s.lasts = min(e.lasts, soakRound)
	if e.long() {
		s.pace = soakPace
	}
	return s
}

// round is a time of faults, and the quiet point after it.
func (e *soaked) round(t *testing.T, r *rand.Rand, dir string, round int) {
	s := e.storm
	s.jumps = round%2 == 1 && e.engine.setsClock() // checks that need a steady clock run in the other rounds
	s.round, s.path, s.pauses, s.processes = round, filepath.Join(dir, fmt.Sprint("diary-", round)), nil, nil
	require.NoError(t, s.diary.reopen(s.path))
	s.schedule(t, newActivities(s.diary).step)
	for _, p := range []process{
		{role: worker, name: "worker-1"}, {role: worker, name: "worker-2"}, {role: keeper, name: "keeper-1"},
		{role: client, name: "client-1"},
	} {
		s.processes = append(s.processes, &p)
		e.spawn(t, r, &p)
	}
	t.Cleanup(func() { // a round that ends early has not killed them
		for _, p := range s.processes {
			s.kill(p)
		}
	})
	s.awaitRuns(t)
	most := smokePause
	if e.long() {
		most = soakPause
	}
	end := time.Now().Add(min(soakRound, time.Until(e.begun.Add(e.lasts))))
	for faults := 0; e.long() && time.Now().Before(end) || !e.long() && faults < smokeFaults; faults++ {
		time.Sleep(most/10 + time.Duration(r.Int64N(int64(most)))) //nolint:forbidigo // a random moment for the next fault
		if faults%2 == 0 {
			p := s.processes[r.IntN(len(s.processes))]
			s.tallies["process killed"]++
			s.kill(p)
			e.spawn(t, r, p)
			continue
		}
		e.engine.strike(t, s, r)
		e.probe(t, fmt.Sprint("probe-", round, "-", faults))
	}
	for _, p := range s.processes {
		s.kill(p)
	}
	e.engine.calm(t)
	checked := s.calm(t)
	for what, n := range checked.tallies {
		if strings.HasPrefix(what, "most") {
			e.checked[what] = max(e.checked[what], n)
		} else {
			e.checked[what] += n
		}
	}
	e.purge(t)
	e.memory.add(e.engine.memory(t))
	e.disk.add(e.engine.disk())
	keys := e.storm.lastingKeys(t)
	e.keys.add(len(keys))
	t.Logf("after the purge: memory %v, keys %v, log %v; %v", e.memory.scaled(mebi), e.keys.scaled(1), e.disk.scaled(mebi), kindsOf(keys))
	if !t.Failed() {
		require.NoError(t, os.Remove(s.path))
	}
}

// spawn starts a process; in a long soak, the clocks of half of them jump.
func (e *soaked) spawn(t *testing.T, r *rand.Rand, p *process) {
	t.Helper()
	e.storm.binary = ""
	if r.IntN(2) == 0 {
		e.storm.binary = e.jumping
	}
	if e.storm.binary != "" {
		e.storm.tallies["process with a clock that jumps"]++
	}
	e.storm.spawn(t, p)
}

// probe runs a flow after a fault, on the programs that live for the whole soak.
func (e *soaked) probe(t *testing.T, id string) {
	t.Helper()
	def, err := keyedFlow(newActivities(e.storm.diary).step)
	require.NoError(t, err)
	begun := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), recoversWithin)
	defer cancel()
	for {
		soon, cancel := context.WithTimeout(ctx, 5*time.Second)
		run, err := runtime.Start(soon, e.far.Client, def, 1, runtime.WithID(id))
		if err == nil {
			_, err = run.Result(soon)
		}
		cancel()
		if err == nil {
			e.worst = max(e.worst, time.Since(begun))
			return
		}
		if ctx.Err() != nil {
			t.Errorf("%s does not run within %s after a fault: %v", id, recoversWithin, err)
			return
		}
		e.unpause(ctx) // a client may have been killed between a pause and its end
	}
}

// unpause ends all pauses of lanes and activities.
func (e *soaked) unpause(ctx context.Context) {
	client := e.storm.bench.Client
	pauses, err := client.Pauses(ctx)
	if err != nil {
		return // the next round of the probe retries
	}
	for _, p := range pauses {
		if p.Lane != "" {
			_ = client.Lane(p.Lane).Resume(ctx)
		} else {
			_ = client.Activity(p.Activity).Resume(ctx)
		}
	}
}

// purge deletes all runs and the schedule, and waits until nothing is left of them.
func (e *soaked) purge(t *testing.T) {
	t.Helper()
	ctx, s := enginetest.Context(t), e.storm
	require.NoError(t, s.bench.Client.Schedule(scheduleName).Delete(ctx))
	s.finishJob(ctx, t, runtime.RunQuery{}, fabrictype.BulkAction{Kind: "purge"})
	enginetest.EventuallyWithin(t, s.patience(), func() string {
		for run, err := range s.bench.Client.Runs(ctx, runtime.RunQuery{Children: true}) {
			require.NoError(t, err)
			return fmt.Sprintf("run %s of flow %s, %s, is purged", run.Run, run.Flow, run.State)
		}
		return ""
	})
}

// keepEvidence keeps a folder of a failed soak: diaries and the log of an engine, or profiles.
func (k *soak) keepEvidence(t *testing.T, name, dir string) {
	if !t.Failed() {
		return
	}
	kept, err := os.MkdirTemp("", "flowfabric-soak-"+name+"-")
	if err == nil {
		err = os.CopyFS(kept, os.DirFS(dir))
	}
	t.Logf("%s: evidence is kept in %s (%v)", name, kept, err)
}

func writeHeap(t *testing.T, path string) {
	file, err := os.Create(path)
	if err == nil {
		err = errors.Join(pprof.Lookup("heap").WriteTo(file, 0), file.Close())
	}
	assert.NoError(t, err)
}

// report prints the figures, and fails if anything has grown.
func (k *soak) report() {
	slices.SortFunc(k.engines, func(a, b *soaked) int { return strings.Compare(a.name, b.name) })
	elapsed := time.Since(k.begun)
	var table strings.Builder
	fmt.Fprintf(&table, "%s on %d engines at once; %.2f processors were busy with it\n", elapsed.Round(time.Second),
		len(k.engines), cpuTime().Seconds()/elapsed.Seconds())
	fmt.Fprintln(&table, "| engine | rounds | runs | nodes | function calls | retries | workers lost "+
		"| slowest run after a fault | slowest rest | server MiB | keys | log MiB |")
	fmt.Fprintln(&table, "| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |")
	for _, e := range k.engines {
		if e.storm == nil {
			continue
		}
		c := e.checked
		fmt.Fprintf(&table, "| %s | %d | %d | %d | %d | %d | %d | %.1f s | %.1f s | %s | %s | %s |\n", e.name, e.rounds,
			c["runs"]+c["keyed runs"]+c["beats"], c["nodes"], c["calls"], c["retries"], c["workers lost"],
			e.worst.Seconds(), e.storm.settled.Seconds(), e.memory.span(mebi), e.keys.span(1), e.disk.span(mebi))
	}
	for _, e := range k.engines {
		if e.storm != nil {
			fmt.Fprintf(&table, "%s: faults %v; checked %v\n", e.name, e.storm.tallies, e.checked)
		}
	}
	fmt.Fprintf(&table, "the test's process: %s goroutines, %s descriptors, %s MiB resident\n",
		k.goroutines.span(1), k.descriptors.span(1), k.resident.span(mebi))
	for _, e := range k.engines {
		fmt.Fprintf(&table, "%s: memory %v, keys %v, log %v\n",
			e.name, e.memory.scaled(mebi), e.keys.scaled(1), e.disk.scaled(mebi))
	}
	fmt.Fprintf(&table, "goroutines %v\ndescriptors %v\nresident %v\n",
		k.goroutines.scaled(1), k.descriptors.scaled(1), k.resident.scaled(mebi))
	k.t.Log("\n" + table.String())
	k.goroutines.flat(k.t, "goroutines", 20)
	k.descriptors.flat(k.t, "file descriptors", 10)
	k.resident.flat(k.t, "resident memory of the test's process", 24*mebi)
	for _, e := range k.engines {
		if e.storm == nil {
			continue // -run left it out
		}
		e.memory.flat(k.t, e.name+": memory of the server", e.engine.slack())
		e.keys.flat(k.t, e.name+": keys", 50)
		e.disk.flat(k.t, e.name+": log", 8*mebi)
	}
}

// testserverKinds are the kinds of which a soak is to be made.
func testserverKinds(t *testing.T) map[testserver.Kind]bool {
	kinds := make(map[testserver.Kind]bool)
	for _, k := range testserver.Kinds(t) {
		kinds[k] = true
	}
	return kinds
}
