package submit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/recordtext"
)

// Limits of a run that are checked before anything is sent.
const (
	// MaxInput is the largest encoded input of a run, in bytes.
	MaxInput = 1 << 20
	// MaxResult is the largest encoded result of a node, in bytes.
	MaxResult = 1 << 20
	// MaxDefinition is the largest encoded definition of a flow, in bytes.
	MaxDefinition = 8 << 20
	// MaxRunID is the longest run id, in bytes.
	MaxRunID = 256
)

// RunPlan is a run ready to be submitted: its ids, its partition, and everything from which the calls of the submission
// are made. It is for one goroutine.
type RunPlan struct {
	// Flow and Run name the run.
	Flow, Run string
	// FlowID and Partition are where the engine keeps it.
	FlowID    enginecore.FlowID
	Partition keyspace.Partition

	namespace keyspace.Namespace
	Compiled  *CompiledFlow
	Input     []byte
	InputHash string
	Retention string
	stepwise  bool // the backend creates runs node by node
	limits    map[string]enginerpc.SubmitLimit
	FairKey   string
	Budgets   []StoredBudget
	trace     string
	Carried   string // values for activities in their stored form; "" takes them from the context of Submit
	Creator   string
	StartAt   time.Time // zero is now
	// Deadline limits the run from its start on; zero sets no limit.
	Deadline time.Duration
	Memo     []byte
	// Signal goes to the run in the step that starts it. Submit sets Sent to the outcome.
	Signal *enginerpc.SubmitSignal
	Sent   enginerpc.SentSignal
	// Arrival has the conditions under which the run may start, by its key. Submit sets Joined to the id of the run
	// that there is instead.
	Arrival *enginerpc.SubmitArrival
	Joined  string
	// ForkedFrom is the id of the run that a fork is of.
	ForkedFrom string
	kept       []enginerpc.SubmitKept
	skips      []enginerpc.SubmitSkip
	Tags       []enginerpc.SubmitTag
	OwnTags    bool                     // in addition to the tags of the flow
	Fires      []enginerpc.SubmitFire   // the fire of a schedule that the run is of
	Parents    []enginerpc.SubmitParent // at most one
}

// NewPlan plans a run in the session's namespace. The same namespace, flow, run id, graph and input give the same ids
// in every process. Its error wraps [engine.ErrInvalid] or [engine.ErrTooLarge].
func NewPlan(e *engine.Session, compiled *CompiledFlow, runID string, input []byte) (*RunPlan, error) {
	return NewPlanIn(e, e.Namespace, compiled, runID, input)
}

// NewPlanIn plans a run in any namespace, as NewPlan does.
func NewPlanIn(
	e *engine.Session, namespace keyspace.Namespace, compiled *CompiledFlow, runID string, input []byte,
) (*RunPlan, error) {
	p, err := newPlan(e.Core.FlowPartition, namespace, compiled, runID, input)
	if err != nil {
		return nil, err
	}
	p.stepwise = !e.IsWhole()
	p.Retention = compiled.retention(e.Keep)
	return p, nil
}

// newPlan plans a run, given which partition a flow lives in.
func newPlan(
	partitionOf func(enginecore.FlowID) (keyspace.Partition, error), namespace keyspace.Namespace,
	compiled *CompiledFlow, runID string, input []byte,
) (*RunPlan, error) {
	if err := CheckRunID(runID); err != nil {
		return nil, fmt.Errorf("flow %s: %w", compiled.Graph.Name, err)
	}
	if len(input) > MaxInput {
		return nil, fmt.Errorf("flow %s: %w: input has %d bytes, at most %d are allowed", compiled.Graph.Name,
			engine.ErrTooLarge,
			len(input), MaxInput)
	}
	id := keyspace.FlowIDFor(namespace, compiled.Graph.Name, runID)
	partition, err := partitionOf(id)
	if err != nil {
		return nil, err
	}
	if compiled, err = compiled.inNamespace(namespace); err != nil {
		return nil, err
	}
	limits, err := limitsOf(namespace, compiled.Graph, input)
	if err != nil {
		return nil, err
	}
	fair, err := fairKey(compiled.Graph, input)
	if err != nil {
		return nil, err
	}
	budgets, err := budgetsOf(namespace, compiled.Graph, runID, id, input)
	if err != nil {
		return nil, err
	}
	return &RunPlan{
		Flow: compiled.Graph.Name, Run: runID, FlowID: id, Partition: partition, namespace: namespace,
		Compiled: compiled, Tags: compiled.tags, Input: input, limits: limits, FairKey: fair,
		InputHash: HashInput(input), Budgets: budgets, Deadline: compiled.Graph.Deadline,
	}, nil
}

// SetPriority gives all nodes of the run one priority, which replaces the priorities in its graph. Its child runs
// inherit it.
func (p *RunPlan) SetPriority(priority int) {
	p.Compiled = p.Compiled.withPriority(priority)
}

// WaitSchema returns the text of the schema that payloads for a wait of the run must satisfy; empty if the graph has
// none. Its error wraps [engine.ErrUnknownNode], or [engine.ErrInvalid] for a node that does not wait in that way.
func (p *RunPlan) WaitSchema(node, step string) (string, error) {
	number := p.Compiled.nodeNumbers[node]
	if number == 0 {
		return "", fmt.Errorf("node %q: %w", node, engine.ErrUnknownNode)
	}
	n := &p.Compiled.Graph.Nodes[number-1]
	switch {
	case delegates(n):
		return "", fmt.Errorf("%w: node %s starts runs of its own, and waits for no signals", engine.ErrInvalid, node)
	case n.IsTimer():
		return "", fmt.Errorf("%w: node %s is a timer, and takes no signals", engine.ErrInvalid, node)
	case n.Wait == nil && step == "":
		return "", fmt.Errorf("%w: node %s is not a waitpoint: the wait of its function must be named", engine.ErrInvalid, node)
	case n.Wait != nil && step != "":
		return "", fmt.Errorf("%w: node %s is a waitpoint, and has no wait %q", engine.ErrInvalid, node, step)
	case n.Wait == nil:
		return "", nil
	}
	schema, err := answerSchema(n.Wait.WaitText)
	return string(schema), err
}

// TagsOf returns the tags of a run: the tags of its flow, replaced and extended by its own, sorted by name if it has
// its own.
func TagsOf(compiled *CompiledFlow, own map[string]string) ([]enginerpc.SubmitTag, error) {
	if len(own) == 0 {
		return compiled.tags, nil
	}
	all := maps.Clone(own)
	for _, tag := range compiled.tags {
		if _, replaced := own[tag.Name]; !replaced {
			all[tag.Name] = tag.Value
		}
	}
	if err := flowgraph.CheckTags(compiled.Graph.Name, all); err != nil {
		return nil, err
	}
	tags := make([]enginerpc.SubmitTag, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		tags = append(tags, enginerpc.SubmitTag{Name: name, Value: all[name]})
	}
	return tags, nil
}

// HashInput returns a hash of an encoded input, by which the engine detects that a run id is used with another input.
func HashInput(input []byte) string {
	sum := sha256.Sum256(input)
	var digits [32]byte
	hex.Encode(digits[:], sum[:len(digits)/2])
	return string(digits[:])
}

// CheckRunID returns an error that wraps [engine.ErrInvalid] unless id is valid UTF-8 of 1 to [MaxRunID] bytes without
// control characters, and none of "/", "." and "..", which no URL can name.
func CheckRunID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%w: run id: it is empty", engine.ErrInvalid)
	case len(id) > MaxRunID:
		return fmt.Errorf("%w: run id: %d bytes, at most %d are allowed", engine.ErrInvalid, len(id), MaxRunID)
	case !utf8.ValidString(id):
		return fmt.Errorf("%w: run id %q: it is not valid UTF-8", engine.ErrInvalid, id)
	case strings.ContainsFunc(id, unicode.IsControl):
		return fmt.Errorf("%w: run id %q: it has a control character", engine.ErrInvalid, id)
	}
	if err := recordtext.PathFault(id); err != nil {
		return fmt.Errorf("%w: run id: %w", engine.ErrInvalid, err)
	}
	return nil
}

// ownBudgets returns the budgets that the submission contains: none if the run has the budgets of its graph.
func (p *RunPlan) ownBudgets() []enginerpc.SubmitBudget {
	if len(p.Budgets) == len(p.Compiled.budgets) {
		return nil // a run has all budgets of its flow
	}
	return encodeBudgets(p.Budgets)
}

// ExecutionID returns the id of the execution of a node.
func (p *RunPlan) ExecutionID(node string) enginecore.ExecutionID {
	if p.stepwise {
		return keyspace.ExecutionIDFor(p.Partition, p.FlowID, node)
	}
	return keyspace.NodeExecutionID(p.Partition, p.FlowID, p.Compiled.nodeNumbers[node])
}

// ResultsPerCall bounds the results of items that one call reads.
const ResultsPerCall = 128

// ItemIDs returns the ids of the executions of items from to to-1 of a map, given its child run.
func ItemIDs(p keyspace.Partition, run enginecore.FlowID, from, to int) []enginecore.ExecutionID {
	ids := make([]enginecore.ExecutionID, to-from)
	for i := range ids {
		ids[i] = keyspace.NodeExecutionID(p, run, from+i+1)
	}
	return ids
}
