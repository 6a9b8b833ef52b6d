package storm

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// checker compares the final state of a storm with the diary and with the definition of each flow.
type checker struct {
	t       *testing.T
	entries []entry
	seeds   map[string]uint64          // of runs
	touched map[string]bool            // runs that were cancelled or run again
	made    map[string]map[string]bool // nonces by run and node: of calls that were begun and of signals that were sent
	calls   map[string]string          // nodes by nonce, in whichever run
	tallies map[string]int
	// jumps reports that the engine's clock is set during the round. Leases then expire early while their functions
	// still run, so that for a moment more functions run than the engine counts.
	jumps bool
}

func newChecker(t *testing.T, s *storm, entries []entry) *checker {
	j := &checker{
		t: t, entries: entries, seeds: make(map[string]uint64), touched: make(map[string]bool),
		made: make(map[string]map[string]bool), calls: make(map[string]string), tallies: make(map[string]int), jumps: s.jumps,
	}
	for _, e := range entries {
		switch e.What {
		case starting:
			j.seeds[e.Run] = e.Seed
		case meddling:
			j.touched[e.Run] = true
		case began, signal:
			j.calls[e.Nonce] = e.Node
			place := e.Run + "/" + e.Node
			if j.made[place] == nil {
				j.made[place] = make(map[string]bool)
			}
			j.made[place][e.Nonce] = true
		}
	}
	return j
}

// maxLosses is how often a node may lose its worker before it fails.
const maxLosses = 5

// run checks one run, node by node.
func (j *checker) run(snapshot *invariant.Snapshot, run *runtime.Run[product]) {
	f, ok := snapshot.Flow(string(run.FlowID()))
	if !ok {
		j.t.Errorf("run %s is gone", run.ID())
		return
	}
	s := newRandomDAG(j.seeds[run.ID()])
	j.tallies["run "+f.Outcome]++
	products := make(map[string]product)
	for i := range s.nodes {
		n := &s.nodes[i]
		got := f.Nodes[n.name]
		j.tallies["node "+got.Outcome]++
		j.tallies["nodes"]++
		j.tallies["retries"] += max(0, got.Attempts-1)
		j.tallies["workers lost"] += got.Reclaims
		fault := j.outcome(run.ID(), s, f, i)
		if fault == "" && got.Outcome == "success" {
			var p product
			if err := json.Unmarshal(got.Result, &p); err != nil {
				fault = err.Error()
			} else {
				products[n.name] = p
				fault = j.product(run.ID(), s, n, p, products)
			}
		}
		if fault != "" {
			j.t.Errorf("run %s (seed %d), node %s (%s %v), %s %q after %d attempts and %d losses: %s", run.ID(), j.seeds[run.ID()],
				n.name, n.kind, n.from, got.Outcome, got.Reason, got.Attempts, got.Reclaims, fault)
		}
	}
	if got := f.Nodes[closing]; s.closes && got.Outcome != "success" && got.Reclaims < maxLosses {
		j.t.Errorf("run %s (seed %d): the node that runs however the run ends is %q: %s", run.ID(), j.seeds[run.ID()],
			got.Outcome, got.Reason)
	}
	if j.touched[run.ID()] {
		return
	}
	if want := s.verdict(f); !slices.Contains(want, f.Outcome) {
		j.t.Errorf("run %s (seed %d) is %s, must be %v", run.ID(), j.seeds[run.ID()], f.Outcome, want)
	}
}

// outcome returns the fault in a node's outcome, given the outcomes of its upstreams.
func (j *checker) outcome(run string, s *randomDAG, f invariant.Flow, i int) string {
	n, got := &s.nodes[i], f.Nodes[s.nodes[i].name]
	ready := s.ready(f, n)
	mayFail := n.task.Dies || n.kind == hurried || got.Reclaims >= maxLosses
	mustFail := n.task.Dies && !n.isWait() && !n.isFlow()
	if j.touched[run] {
		if got.Outcome == "success" && mustFail {
			return "its function never succeeds"
		}
		return ""
	}
	switch got.Outcome {
	case "success":
		if !ready {
			return "it ran although its join was not satisfied"
		}
		if mustFail {
			return "its function never succeeds"
		}
	case "failed":
		if !ready {
			return "it ran although its join was not satisfied"
		}
		if !mayFail {
			return "its function never fails for good"
		}
	case "skipped":
		if ready {
			return "its join was satisfied"
		}
	case "cancelled":
		if !s.cancellable(i) {
			return "no client cancelled it"
		}
	default:
		return "it has not ended"
	}
	return ""
}

// ready reports whether the outcomes of the upstreams let the node run.
func (s *randomDAG) ready(f invariant.Flow, n *dagNode) bool {
	succeeded, failed, cancelled, left := 0, 0, 0, 0
	for _, up := range n.from {
		switch got := f.Nodes[s.nodes[up].name]; got.Outcome {
		case "skipped":
			if got.Reason != "" {
				left++
			}
		case "success":
			succeeded++
		case "failed", "expired":
			failed++
		case "cancelled":
			cancelled++
		}
	}
	switch n.kind {
	case mapped:
		return f.Nodes[n.itemsName()].Outcome == "success"
	case slept:
		return f.Nodes[n.timerName()].Outcome == "success"
	case barred, hollow:
		return false
	case always:
		return true
	case backed:
		return succeeded+left == len(n.from)
	case undoing:
		return failed+cancelled > 0
	case rescue:
		return failed == len(n.from)
	case anyOf:
		return succeeded >= 1
	case quorum:
		return succeeded >= n.needed
	}
	return succeeded == len(n.from)
}

// cancellable reports whether a decided join may have cancelled a node.
func (s *randomDAG) cancellable(i int) bool {
	for k := range s.nodes {
		if down := &s.nodes[k]; down.isJoin() && !down.letRun && slices.Contains(down.from, i) {
			return true
		}
	}
	return false
}

// verdict returns the possible outcomes of a run without interference. Joins can tolerate failures, so with joins a
// failed node need not fail the run.
func (s *randomDAG) verdict(f invariant.Flow) []string {
	failures, joins := false, false
	for i := range s.nodes {
		failures = failures || f.Nodes[s.nodes[i].name].Outcome == "failed"
		joins = joins || s.nodes[i].isJoin()
	}
	switch {
	case !failures:
		return []string{"success"}
	case !joins:
		return []string{"failed"}
	}
	return []string{"success", "failed"}
}

// product returns the fault of a node's result: one of its calls must have made it, from the results that its upstreams
// still have.
func (j *checker) product(run string, s *randomDAG, n *dagNode, p product, products map[string]product) string {
	if n.kind == looped {
		if p.Node != "turn" || p.Turn != turns || len(p.From) != 1 || j.calls[p.Nonce] != "turn" || j.calls[p.From[0]] != "turn" {
			return fmt.Sprintf("no turn of the loop has made its result %+v", p)
		}
		return ""
	}
	if n.isFlow() {
		if p.Node != "second" || len(p.From) != 1 || j.calls[p.Nonce] != "second" || j.calls[p.From[0]] != "first" {
			return fmt.Sprintf("no run of the other flow has made its result %+v", p)
		}
		return ""
	}
	if p.Node != n.name || !j.made[run+"/"+n.name][p.Nonce] {
		return fmt.Sprintf("no function has returned its result %+v", p)
	}
	var want []string
	for _, up := range n.from {
		if made, ok := products[s.nodes[up].name]; ok {
			want = append(want, made.Nonce)
		}
	}
	switch n.kind {
	case mapped:
		if len(p.From) != n.needed {
			return fmt.Sprintf("it was made of %d items instead of %d", len(p.From), n.needed)
		}
		for _, from := range p.From {
			if j.calls[from] == "" {
				return fmt.Sprintf("no call has made the item %s that it was made of", from)
			}
		}
	case plain, backed:
		// A rerun may leave the result of a node that it skips.
		if !(n.kind == backed && j.touched[run]) && !slices.Equal(p.From, want) {
			return fmt.Sprintf("it was made of %v, its upstreams have %v", p.From, want)
		}
	case anyOf, quorum:
		needed := max(1, n.needed)
		if len(p.From) < needed || (n.kind == anyOf && len(p.From) != 1) {
			return fmt.Sprintf("it was made of %d results", len(p.From))
		}
		for _, from := range p.From {
			// A satisfied join keeps its inputs when only upstreams are rerun.
			kept := j.touched[run] && slices.ContainsFunc(n.from, func(up int) bool { return j.made[run+"/"+s.nodes[up].name][from] })
			if !kept && !slices.Contains(want, from) {
				return fmt.Sprintf("it was made of %s, its upstreams have %v", from, want)
			}
		}
	}
	return ""
}

// effects checks side effects outside the engine.
func (j *checker) effects() {
	j.t.Helper()
	running := make(map[string]entry) // calls under the limit, by nonce
	most := 0
	steps := make(map[string]string) // recorded results by run and node
	for _, e := range j.entries {
		place := e.Run + "/" + e.Node
		switch e.What {
		case began:
			j.tallies["calls"]++
			if e.Limited {
				running[e.Nonce] = e
				most = max(most, len(running))
			}
		case ended:
			delete(running, e.Nonce)
		case died:
			for nonce, r := range running {
				if r.Pid == e.Pid {
					delete(running, nonce)
				}
			}
		case charged:
			j.tallies["durable steps"]++
			if before, done := steps[place]; done && !j.touched[e.Run] && !j.jumps {
				j.t.Errorf("%s: the durable step ran again, although its result %s was recorded", place, before)
			}
		case recorded:
			if before, done := steps[place]; done && before != e.Nonce && !j.touched[e.Run] {
				j.t.Errorf("%s: the durable step has result %s, and had %s", place, e.Nonce, before)
			}
			steps[place] = e.Nonce
			if within := steps[half(place, 0)] + " " + steps[half(place, 1)]; !strings.Contains(e.Node, "/") && e.Nonce != within {
				j.t.Errorf("%s: the durable step has result %s, the steps within it have %s", place, e.Nonce, within)
			}
		}
	}
	if most > limitPlace && !j.jumps {
		j.t.Errorf("%d calls at a time, the limit allows %d", most, limitPlace)
	}
	j.tallies["most under the limit"] = most
}

// cleanups checks that a node with flow.Finally began when all other functions of its run, and of the runs below it, had
// returned or lost their leases.
func (j *checker) cleanups() {
	j.t.Helper()
	working := make(map[string]entry) // calls, by nonce
	over := make(map[string][]entry)  // cleanups that began during a call, by its nonce
	for _, e := range j.entries {
		switch e.What {
		case began:
			if e.Node == closing {
				j.tallies["cleanups"]++
				for nonce, w := range working {
					if w.Node != closing && (w.Run == e.Run || strings.Contains(w.Run, flowName+"/"+e.Run+"/")) {
						over[nonce] = append(over[nonce], e)
					}
				}
			}
			working[e.Nonce] = e
		case ended:
			delete(working, e.Nonce)
			for _, cleanup := range over[e.Nonce] {
				if e.Lost {
					j.tallies["cleanups during a lost function"]++
				} else {
					j.t.Errorf("run %s was cleaned up while the function of %s/%s worked, which had its lease", cleanup.Run, e.Run, e.Node)
				}
			}
		case died: // whether it had its leases is not known
			for nonce, w := range working {
				if w.Pid == e.Pid {
					delete(working, nonce)
				}
			}
		}
	}
}
