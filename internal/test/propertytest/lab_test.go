package propertytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
)

// behaviour is the action of a node's function in one attempt.
type behaviour string

const (
	succeed    behaviour = "succeed"
	slowly     behaviour = "succeed slowly"
	fail       behaviour = "fail"
	failLater  behaviour = "fail, retry after"
	failForAll behaviour = "fail, not retryable"
	panics     behaviour = "panic"
	overstay   behaviour = "overstay the timeout"
)

// script is how a node behaves: some attempts that fail, then for ever the last behaviour. Its fate does not depend on
// how often the node loses its worker.
type script struct {
	first    []behaviour
	last     behaviour
	attempts int // of the retry policy
}

func (s script) at(attempt int) behaviour {
	if attempt <= len(s.first) {
		return s.first[attempt-1]
	}
	return s.last
}

func (s script) succeeds() bool { return s.last == succeed || s.last == slowly }

// sketch is a random flow.
type sketch struct {
	nodes []sketchNode
	// pace is how long each function takes at least, so that there is time to interfere.
	pace time.Duration
}

type sketchNode struct {
	name     string
	data     []int // upstreams whose results it takes
	after    []int // upstreams that it only waits for
	lane     string
	rare     bool // its activity is known by some workers only
	priority int
	timeout  time.Duration
	script   script
}

func (n *sketchNode) upstreams() []int { return slices.Concat(n.data, n.after) }

const maxSketchNodes = 60

func nodeName(i int) string { return fmt.Sprintf("n%02d", i) }

// newSketch draws a random flow in which about one of calm nodes fails for good.
func newSketch(r *rand.Rand, calm int) *sketch {
	s := &sketch{nodes: make([]sketchNode, 1+r.IntN(maxSketchNodes))}
	density := 1 + r.IntN(4)
	for i := range s.nodes {
		n := &s.nodes[i]
		n.name = nodeName(i)
		n.lane = []string{"default", "default", "other"}[r.IntN(3)]
		n.rare = r.IntN(8) == 0
		if r.IntN(4) == 0 {
			n.priority = r.IntN(9000 + 1)
		}
		taken := make(map[int]bool)
		for range r.IntN(density + 1) {
			if i == 0 {
				break
			}
			// Half of the edges come from near by, so that the graphs are deep as well as wide.
			up := r.IntN(i)
			if r.IntN(2) == 0 {
				up = max(0, i-1-r.IntN(4))
			}
			if taken[up] {
				continue
			}
			taken[up] = true
			if r.IntN(3) == 0 {
				n.after = append(n.after, up)
			} else {
				n.data = append(n.data, up)
			}
		}
		n.script = newScript(r, calm)
		if slices.Contains(n.script.first, overstay) || n.script.last == overstay {
			n.timeout = 30 * time.Millisecond
		}
	}
	return s
}

func newScript(r *rand.Rand, calm int) script {
	failures := []behaviour{fail, fail, failLater, panics, overstay}
	var s script
	if r.IntN(5) == 0 {
		for range 1 + r.IntN(3) {
			s.first = append(s.first, failures[r.IntN(len(failures))])
		}
	}
	if r.IntN(calm) == 0 {
		s.last = []behaviour{fail, failForAll, panics, failLater, overstay}[r.IntN(5)]
		s.attempts = 1 + r.IntN(3)
		return s
	}
	s.last = []behaviour{succeed, succeed, slowly}[r.IntN(3)]
	// Attempts to spare, so that a machine under load, which lets an attempt time out, does not change the fate.
	s.attempts = len(s.first) + 6
	return s
}

// unlucky reports whether a node that its script lets succeed has failed because it was kept from running: its worker
// was lost more often than allowed, or each of its attempts ran into the timeout. A worker whose process gets no time
// for seconds does lose its leases, and its functions are late.
func (n *sketchNode) unlucky(got invariant.Node) bool {
	if got.Outcome != "failed" || !n.script.succeeds() {
		return false
	}
	return got.Category == engine.CategoryWorkerLost ||
		n.timeout > 0 && got.Attempts >= n.script.attempts && got.Category == activityspec.CategoryTimeout
}

// outcomes are the outcomes of all nodes without interference: a node runs when all its upstreams have succeeded, and
// is skipped otherwise. The unlucky ones fail.
func (s *sketch) outcomes(unlucky map[string]bool) map[string]string {
	out := make(map[string]string, len(s.nodes))
	for i := range s.nodes {
		n := &s.nodes[i]
		outcome := "failed"
		if n.script.succeeds() && !unlucky[n.name] {
			outcome = "success"
		}
		for _, up := range n.upstreams() {
			if out[nodeName(up)] != "success" {
				outcome = "skipped"
			}
		}
		out[n.name] = outcome
	}
	return out
}

// define makes the flow that the sketch describes.
func (s *sketch) define(name string, common, rare *activity.Activity[[]string, string]) (*flow.Definition[[]string, string], error) {
	f := flow.New[[]string, string](name)
	refs := make([]flow.Ref[string], len(s.nodes))
	for i := range s.nodes {
		n := &s.nodes[i]
		opts := []flow.NodeOption{
			activity.Lane(n.lane), activity.Priority(n.priority), activity.StartToClose(n.timeout),
			activity.Retry(activity.RetryPolicy{First: time.Millisecond, Max: 4 * time.Millisecond, Attempts: n.script.attempts}),
		}
		var after, data []flow.Ref[string]
		for _, up := range n.after {
			after = append(after, refs[up])
		}
		for _, up := range n.data {
			data = append(data, refs[up])
		}
		opts = append(opts, flow.AfterEach(after))
		a := common
		if n.rare {
			a = rare
		}
		if len(data) == 0 {
			refs[i] = flow.Node(f, n.name, a, f.Input(), opts...)
		} else {
			refs[i] = flow.Node(f, n.name, a, flow.List(data...), opts...)
		}
	}
	flow.Return(f, refs[len(refs)-1])
	return f.Build()
}

// call is one run of a node's function.
type call struct {
	attempt  int
	inputs   []string
	result   string
	returned bool
	ctx      context.Context
}

// lab has the functions of the flows under test and the calls that they recorded.
type lab struct {
	common, rare *activity.Activity[[]string, string]

	mu       sync.Mutex
	sketches map[string]*sketch // by run
	calls    map[string][]*call // by run and node
	overlaps map[string]bool    // nodes of which two attempts ran at a time
	serial   int
	tallies  map[string]int // how often each event happened, for the log of the test
}

func newLab() *lab {
	l := &lab{sketches: make(map[string]*sketch), calls: make(map[string][]*call), overlaps: make(map[string]bool), tallies: make(map[string]int)}
	l.common = activity.New("lab.common", l.run)
	l.rare = activity.New("lab.rare", l.run)
	return l
}

func (l *lab) tally(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tallies[what]++
}

func (l *lab) add(run string, s *sketch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sketches[run] = s
}

func (l *lab) forget(run string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.sketches[run]
	for i := range s.nodes {
		delete(l.calls, run+"/"+s.nodes[i].name)
	}
	delete(l.sketches, run)
}

// begin records that a function runs, and returns its behaviour.
func (l *lab) begin(ctx context.Context, run, node string, attempt int, in []string) (*call, behaviour, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := run + "/" + node
	for _, c := range l.calls[key] {
		if !c.returned && c.ctx.Err() == nil {
			l.overlaps[key] = true
		}
	}
	l.serial++
	c := &call{attempt: attempt, inputs: in, result: fmt.Sprintf("%s#%d", node, l.serial), ctx: ctx}
	l.calls[key] = append(l.calls[key], c)
	s := l.sketches[run]
	for i := range s.nodes {
		if s.nodes[i].name == node {
			return c, s.nodes[i].script.at(attempt), s.pace
		}
	}
	return c, failForAll, 0
}

func (l *lab) end(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.returned = true
}

var errScripted = errors.New("scripted failure")

func (l *lab) run(ctx context.Context, in []string) (string, error) {
	info, _ := activity.Info(ctx)
	c, do, pace := l.begin(ctx, info.RunID, info.Node, info.Attempt, in)
	defer l.end(c)
	if do == slowly {
		pace += time.Duration(1+len(in)%3) * 5 * time.Millisecond
	}
	if pace > 0 {
		timer := time.NewTimer(pace)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	switch do {
	case succeed, slowly:
		return c.result, nil
	case failLater:
		return "", activity.RetryAfter(errScripted, 3*time.Millisecond)
	case failForAll:
		return "", activity.NonRetryable(errScripted)
	case panics:
		panic("scripted panic")
	case overstay:
		<-ctx.Done()
		return "", ctx.Err()
	}
	return "", errScripted
}

// results returns the values that the calls of a node returned or would have returned.
func (l *lab) results(run, node string) map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[string]bool)
	for _, c := range l.calls[run+"/"+node] {
		encoded, _ := json.Marshal(c.result)
		out[string(encoded)] = true
	}
	return out
}

// inputs returns the values that the calls of a node received.
func (l *lab) inputs(run, node string) [][]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out [][]string
	for _, c := range l.calls[run+"/"+node] {
		out = append(out, c.inputs)
	}
	return out
}

func (l *lab) overlapped(run, node string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.overlaps[run+"/"+node]
}
