package flowtest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// StormConfig configures Storm.
type StormConfig struct {
	// Seed selects the faults of each attempt. Equal seeds select the same.
	Seed uint64
	// Runs is how many runs the storm passes over at a time, 1 to 1,000. Defaults to 10.
	Runs int
	// Answer answers a wait, also in the run without faults. Defaults to nil: waits end by their timeouts.
	Answer func(runtime.Waitpoint) runtime.Signal
}

const (
	defaultStormRuns = 10
	maxStormRuns     = 1000
	// stormAttempts is how many attempts of a node are disturbed, so that each has one that is not.
	stormAttempts = 3
	// stormWorkers is how many workers there are in a storm. Each runs one function at a time: a node whose worker is
	// lost more often than the engine tolerates would fail.
	stormWorkers = 4
)

// Storm runs a flow once without faults and then many times while workers die, connections break and replies are lost
// at random attempts, and asserts that the end does not differ:
//
//   - each run ends as the one without faults, and so does each node;
//   - the result of a node was returned by one of its calls;
//   - each effect happens once: all calls for a node that report effects (T.Effect) use the same keys in the same
//     order, and no two nodes use one key.
//
// During the storm and after it there are four workers, which run one function at a time each. Fakes are set up before,
// by Fake. A flow in which lost workers show by design, such as one with a deadline that is shorter than a lease,
// fails. A failure names the seed.
func Storm[In, Out any](t *T, def *flow.Definition[In, Out], in In, config StormConfig) {
	t.Helper()
	config.Runs = cmp.Or(config.Runs, defaultStormRuns)
	if config.Runs < 1 || config.Runs > maxStormRuns {
		t.Fatalf("flowtest: Storm: Runs %d: must be 1 to %d", config.Runs, maxStormRuns)
	}
	calm := Start(t, def, in).TestRun
	calm.answer(config.Answer)
	want := calm.endings()
	if err := t.fleet.scatter(stormWorkers); err != nil {
		t.Fatalf("flowtest: Storm: %v", err)
	}
	s := &storm{seed: config.Seed}
	runs := make([]*TestRun, config.Runs)
	t.record.rage(s)
	defer t.record.rage(nil)
	for i := range runs {
		id := fmt.Sprintf("storm-%d-%d", config.Seed, i)
		runs[i] = Start(t, def, in, runtime.WithID(id)).TestRun
	}
	var all sync.WaitGroup
	for _, run := range runs {
		all.Go(func() { run.answer(config.Answer) })
	}
	all.Wait()
	for _, run := range runs {
		for _, fault := range run.afterStorm(want) {
			t.Errorf("storm with seed %d: %s\n%s%s", config.Seed, fault, run.Table(), s.told(run.ID()))
		}
	}
	for _, fault := range t.record.sharedKeys() {
		t.Errorf("storm with seed %d: %s", config.Seed, fault)
	}
	t.Logf("storm with seed %d: %d runs, %s", config.Seed, config.Runs, s.tally())
}

// Effect records that the function of an attempt has an effect outside, such as a payment, under the key by which the
// outside recognizes a repetition. Functions call it, or their fakes. Outside of a test it has no use.
func (t *T) Effect(ctx context.Context, key string) {
	info, _ := activity.Info(ctx)
	t.record.mu.Lock()
	defer t.record.mu.Unlock()
	t.record.effects = append(t.record.effects, effect{
		key: key, run: info.RunID, node: info.Node, execution: info.ExecutionID, lease: info.LeaseID,
		attempt: info.Attempt,
	})
}

// effect is one effect outside.
type effect struct {
	key, run, node, execution, lease string
	attempt                          int
}

// fate is the storm's fault at an attempt.
type fate string

const (
	spared     fate = ""
	lostBefore fate = "the worker died before the function ran"
	lostAfter  fate = "the worker died after the function ran"
	lostReply  fate = "the reply was lost"
	broken     fate = "the connections broke"
)

// storm selects faults.
type storm struct {
	seed uint64

	mu   sync.Mutex
	done []stormDone
}

type stormDone struct {
	run, node string
	attempt   int
	fate      fate
}

// fateOf selects the fault of an attempt. It depends on nothing else.
func (s *storm) fateOf(info activity.ExecutionInfo) fate {
	if s == nil || info.Attempt > stormAttempts {
		return spared
	}
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s/%s/%d", info.RunID, info.Node, info.Attempt)
	r := rand.New(rand.NewPCG(s.seed, h.Sum64()))
	f := []fate{lostBefore, lostAfter, lostReply, lostReply, broken, spared, spared, spared}[r.IntN(8)]
	if f != spared {
		s.mu.Lock()
		s.done = append(s.done, stormDone{info.RunID, info.Node, info.Attempt, f})
		s.mu.Unlock()
	}
	return f
}

// The text has one line for each fault in a run.
func (s *storm) told(run string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var text strings.Builder
	for _, d := range s.done {
		if d.run == run {
			fmt.Fprintf(&text, "  %s, attempt %d: %s\n", d.node, d.attempt, d.fate)
		}
	}
	return text.String()
}

// tally counts the faults.
func (s *storm) tally() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	count := make(map[fate]int)
	for _, d := range s.done {
		count[d.fate]++
	}
	return fmt.Sprintf("%d workers lost, %d replies lost, connections broken %d times",
		count[lostBefore]+count[lostAfter], count[lostReply], count[broken])
}

// rage begins a storm, or ends it with nil.
func (r *recorder) rage(s *storm) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.storm = s
}

// fate returns the fate of an attempt.
func (r *recorder) fate(info activity.ExecutionInfo) fate {
	r.mu.Lock()
	s := r.storm
	r.mu.Unlock()
	return s.fateOf(info)
}

// weather runs the function as the storm wants it.
func (h *handler) weather(
	ctx context.Context, info activity.ExecutionInfo, run func() ([]byte, error),
) ([]byte, error) {
	f := h.member.fleet.t.record.fate(info)
	if f == lostBefore {
		h.member.lose()
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	result, err := run()
	switch f {
	case lostAfter:
		h.member.lose()
	case lostReply:
		h.member.link.loseReply(info.ExecutionID, func() {})
	case broken:
		h.member.link.breakAll()
	}
	return result, err
}

// breakAll breaks all connections; new ones can be made.
func (l *link) breakAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		c.deaf.Store(true)
		_ = c.Conn.Close()
	}
	clear(l.conns)
}

// answer answers the waits of a run until it is over.
func (r *TestRun) answer(with func(runtime.Waitpoint) runtime.Signal) {
	ctx, cancel := r.t.bounded()
	defer cancel()
	for e, err := range r.Watch(ctx, "") {
		if err != nil {
			r.t.Errorf("flowtest: run %s has not ended: %v\n%s", r.ID(), err, r.Table())
			return
		}
		if e.Kind == fabrictype.EventSuspended && with != nil {
			r.answerAll(ctx, with)
		}
	}
}

func (r *TestRun) answerAll(ctx context.Context, with func(runtime.Waitpoint) runtime.Signal) {
	waits, err := r.Waitpoints(ctx)
	if err != nil {
		r.t.Errorf("flowtest: %v", err)
	}
	for _, w := range waits {
		if w.State != fabrictype.WaitOpen {
			continue
		}
		if _, err := r.t.client.Signal(ctx, w.Token, with(w)); err != nil {
			r.t.Errorf("flowtest: answer node %s: %v", w.Node, err)
		}
	}
}

// endings returns how the run and its nodes ended; the run itself has the name "".
func (r *TestRun) endings() map[string]string {
	d := r.describe()
	ends := map[string]string{"": string(d.State)}
	for _, n := range d.Nodes {
		ends[n.Name] = string(n.State)
	}
	return ends
}

// afterStorm returns the faults of a run that has passed through a storm.
func (r *TestRun) afterStorm(want map[string]string) (faults []string) {
	got := r.endings()
	for name, state := range want {
		what := "run " + r.ID()
		if name != "" {
			what = "node " + name
		}
		if got[name] != state {
			faults = append(faults, fmt.Sprintf("%s is %s, and %s without a storm", what, got[name], state))
		}
	}
	slices.Sort(faults)
	for _, n := range r.describe().Nodes {
		if n.State == fabrictype.NodeSucceeded && n.Child == nil && !r.returned(n.Name) {
			faults = append(faults, fmt.Sprintf("no call returned the result of node %s", n.Name))
		}
	}
	return append(faults, r.t.record.changedKeys(r.ID())...)
}

// returned reports whether the result of a node was returned by one of its calls. A node without calls has no function.
func (r *TestRun) returned(node string) bool {
	stored, err := (&TestNode{r, node}).result()
	if err != nil {
		return true // an empty result is not stored
	}
	r.t.record.mu.Lock()
	defer r.t.record.mu.Unlock()
	calls := 0
	for _, c := range r.t.record.calls {
		if c.Run != r.ID() || c.Node != node {
			continue
		}
		calls++
		if c.Err == nil && (bytes.Equal(c.Result, stored) || isDecision(stored, c.Result)) {
			return true
		}
	}
	return calls == 0
}

// changedKeys returns the nodes of a run whose calls used different keys for their effects.
func (r *recorder) changedKeys(run string) (faults []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	type calls struct {
		order []string
		keys  map[string][]string
	}
	nodes := make(map[string]*calls)
	for _, e := range r.effects {
		if e.run != run {
			continue
		}
		c := nodes[e.node]
		if c == nil {
			c = &calls{keys: make(map[string][]string)}
			nodes[e.node] = c
		}
		if c.keys[e.lease] == nil {
			c.order = append(c.order, e.lease)
		}
		c.keys[e.lease] = append(c.keys[e.lease], e.key)
	}
	for node, c := range nodes {
		first := c.keys[c.order[0]]
		for _, lease := range c.order[1:] {
			keys := c.keys[lease]
			both := min(len(keys), len(first)) // a call may end before its last effect
			if !slices.Equal(keys[:both], first[:both]) {
				faults = append(faults, fmt.Sprintf("node %s had an effect more than once: its first call used the "+
					"keys %q, a later one %q", node, first, keys))
				break
			}
		}
	}
	slices.Sort(faults)
	return faults
}

// sharedKeys returns the keys that several nodes used.
func (r *recorder) sharedKeys() (faults []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	owner, told := make(map[string]effect), make(map[string]bool)
	for _, e := range r.effects {
		first, ok := owner[e.key]
		if !ok {
			owner[e.key] = e
		} else if first.execution != e.execution && !told[e.key] {
			told[e.key] = true
			faults = append(faults, fmt.Sprintf("the key %q stands for the effects of node %s of run %s and of "+
				"node %s of run %s", e.key, first.node, first.run, e.node, e.run))
		}
	}
	return faults
}
