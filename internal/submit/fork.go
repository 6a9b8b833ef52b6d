package submit

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// Bounds of a fork, which is one call.
const (
	// MaxKept is the most nodes whose results a fork keeps.
	MaxKept = 256
	// MaxKeptBytes is the most bytes of their results together.
	MaxKeptBytes = 8 << 20
)

// ForkScope selects the nodes of a run that a fork does not keep.
type ForkScope struct {
	// From are nodes that run again, with all that depends on them.
	From []string
	// NewInput: those that use the run's input do.
	NewInput bool
	// Results replaces the results of nodes: the nodes that depend on them run again.
	Results map[string][]byte
}

// KeptNodes returns the nodes that a fork of a run keeps, in the order of their declaration: those that have succeeded
// or are given a result, and do not run again, and, as skips, those that were skipped since their child runs had no
// result. Its error wraps [engine.ErrUnknownNode], [engine.ErrInvalid],
// [engine.ErrTooLarge], or [engine.ErrNothingToRerun] when no node would run.
func (r *RunNodes) KeptNodes(scope ForkScope) (kept, skips []string, err error) {
	if r.graph == nil {
		return nil, nil, fmt.Errorf("%w: the run has no graph", engine.ErrInvalid)
	}
	d := newDependents(r)
	for _, name := range append(slices.Sorted(maps.Keys(scope.Results)), scope.From...) {
		if d.nodes[name] == nil {
			return nil, nil, fmt.Errorf("%w: %q", engine.ErrUnknownNode, name)
		}
	}
	again := make(map[string]bool)
	always := func(*runNode, *flowgraph.Node) bool { return true }
	seeds := slices.Clone(scope.From)
	for name := range scope.Results {
		seeds = append(seeds, d.downstreams[name]...)
	}
	if scope.NewInput {
		for i := range r.graph.Nodes {
			if n := &r.graph.Nodes[i]; n.Input.UsesFlowInput() || needsFlowInput(n) {
				seeds = append(seeds, n.Name)
			}
		}
	}
	d.add(again, seeds, always)
	for _, name := range d.failed() {
		if _, given := scope.Results[name]; !given {
			d.add(again, []string{name}, dependsOnFailure)
		}
	}
	isOpen := func(n runNode) bool {
		_, given := scope.Results[n.name]
		return !given && n.state != fabrictype.NodeSucceeded && n.state != fabrictype.NodeSkipped
	}
	if len(again) == 0 && !slices.ContainsFunc(r.nodes, isOpen) {
		return nil, nil, fmt.Errorf("%w: no node would run", engine.ErrNothingToRerun)
	}
	d.addFinally(again)
	for _, n := range r.nodes {
		_, given := scope.Results[n.name]
		switch {
		case given && again[n.name]:
			return nil, nil, fmt.Errorf("%w: node %s runs again, since it depends on what does: it cannot be given a result",
				engine.ErrInvalid, n.name)
		case given || n.state == fabrictype.NodeSucceeded && !again[n.name]:
			kept = append(kept, n.name)
		case n.withoutResult && !again[n.name]:
			skips = append(skips, n.name)
		}
	}
	if all := len(kept) + len(skips); all > MaxKept {
		return nil, nil, fmt.Errorf("%w: the fork would keep %d nodes, at most %d are allowed",
			engine.ErrTooLarge, all, MaxKept)
	}
	return kept, skips, nil
}

// Keep makes a plan the fork of a run, with the results of the nodes that it keeps, and those that it skips with their
// reasons. Its error wraps [engine.ErrTooLarge].
func (p *RunPlan) Keep(run string, names []string, results map[string][]byte, skips map[string]string) error {
	sum, size := sha256.New(), 0
	part := func(text []byte) {
		_, _ = sum.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(text))))
		_, _ = sum.Write(text)
	}
	part(p.Input)
	for _, name := range names {
		size += len(results[name])
		part([]byte(name))
		part(results[name])
		p.kept = append(p.kept, enginerpc.SubmitKept{Node: int64(p.Compiled.nodeNumbers[name]), Result: results[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(skips)) {
		part([]byte(name))
		part([]byte(skips[name]))
		p.skips = append(p.skips, enginerpc.SubmitSkip{Node: int64(p.Compiled.nodeNumbers[name]), Reason: skips[name]})
	}
	if size > MaxKeptBytes {
		return fmt.Errorf("%w: the results that the fork would keep have %d bytes, at most %d are allowed",
			engine.ErrTooLarge, size, MaxKeptBytes)
	}
	p.ForkedFrom, p.InputHash = run, hex.EncodeToString(sum.Sum(nil)[:16])
	return nil
}
