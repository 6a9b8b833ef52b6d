package enginerpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/singleflight"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/payload"
)

// graphChunk is how many nodes of a graph one ReadGraph returns.
const graphChunk = 32

const (
	// maxGraphBytes bounds the size of a graphCache. When it is exceeded, the cache drops all of it.
	maxGraphBytes = 8 << 20
	// graphNodeBytes is the approximate size of a node without its texts: the node itself, and the rounding of its
	// texts by the allocator.
	graphNodeBytes = 160
	// graphChunkBytes is the approximate size of an entry without its nodes.
	graphChunkBytes = 256
)

// graphCache keeps the nodes of graphs, which replies of claims leave out. A graph never changes, as its hash
// identifies it. The zero value is empty. It is safe for concurrent use.
type graphCache struct {
	mu     sync.RWMutex
	chunks map[graphPart]ReadGraphReply
	bytes  int
	reads  singleflight.Group
}

// graphPart identifies graphChunk nodes of a graph by its hash and the ordinal of the first of them.
type graphPart struct {
	graph string
	first int
}

func (p graphPart) flight() string { return p.graph + " " + strconv.Itoa(p.first) }

func (g *graphCache) get(part graphPart) (ReadGraphReply, bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	chunk, found := g.chunks[part]
	return chunk, found
}

func (g *graphCache) put(part graphPart, chunk ReadGraphReply) {
	bytes := graphChunkBytes + len(part.graph) + len(chunk.Budgets)
	for _, n := range chunk.Nodes {
		bytes += graphNodeBytes + len(n.Name) + len(n.Kind) + len(n.Policy) + len(n.Limits) + len(n.Tags)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.bytes += bytes; g.chunks == nil || g.bytes > maxGraphBytes {
		g.chunks, g.bytes = make(map[graphPart]ReadGraphReply), bytes
	}
	// The hash may be a part of a long text.
	part.graph = strings.Clone(part.graph)
	g.chunks[part] = chunk
}

// ofGraph is a placeholder for the admission of a first attempt that was leased before its permits, under the limits
// that its graph has, and for budgets that its graph has.
const ofGraph = "?"

// describe sets the fields of executions that the reply of a claim leaves out. For a first attempt with the shortest
// description, these are the attempt and its journal, which is empty. Node, Kind, FlowID and Policy come from the
// graph, and so do Admission and Budgets where the reply has ofGraph. Policy is shared and must not be changed. These
// fields stay empty if the graph is gone, because the run was purged after the claim. The error wraps
// enginecore.ErrOutcomeUnknown: the claim itself was executed.
func (conn *Conn) describe(ctx context.Context, claimed []ClaimedExecution) error {
	for i := range claimed {
		x := &claimed[i]
		if x.Graph == "" { // described completely, or by Commit
			continue
		}
		flow, ordinal := flowNode(x.ExecutionID)
		if ordinal == 0 {
			return &enginecore.DecodeError{
				Function: "claim", Field: "execution_id",
				Problem: fmt.Sprintf("%q names no node of a graph", x.ExecutionID),
			}
		}
		if x.AttemptID == "" {
			x.FlowID, x.AttemptID = firstIDs(flow, x.LeaseID)
			x.JournalComplete = true
			if x.AttemptType == "" {
				x.AttemptType, x.LeaseEpoch = "initial", 1
			}
		} else {
			x.FlowID = enginecore.FlowID(flow + rootSuffix)
		}
		chunk, err := conn.readGraph(ctx, x, graphPart{x.Graph, (ordinal-1)/graphChunk*graphChunk + 1})
		if err != nil {
			return fmt.Errorf("%w: the graph of a claimed execution could not be read: %w",
				enginecore.ErrOutcomeUnknown, err)
		}
		if x.Budgets == ofGraph {
			x.Budgets = chunk.Budgets
		}
		if at := (ordinal - 1) % graphChunk; at < len(chunk.Nodes) {
			node := &chunk.Nodes[at]
			x.Node, x.Kind, x.Policy, x.Tags = node.Name, node.Kind, node.Policy, node.Tags
			if x.Admission == ofGraph {
				x.Admission = PermitsText{Ahead: true, Limits: node.Limits}.Text()
			}
		}
	}
	return nil
}

// attemptDigit is the index of the digit in which the id of a first attempt differs from the id of its lease.
const attemptDigit = 24

// firstIDs returns the ids of a flow, given how it begins, and of the attempt that a claim has begun with a lease. They
// are parts of one text.
func firstIDs(flow string, lease enginecore.LeaseID) (enginecore.FlowID, keyspace.AttemptID) {
	if len(lease) <= attemptDigit {
		return enginecore.FlowID(flow + rootSuffix), ""
	}
	both := flow + rootSuffix + string(lease[:attemptDigit]) + "1" + string(lease[attemptDigit+1:])
	return enginecore.FlowID(both[:uuidLength]), keyspace.AttemptID(both[uuidLength:])
}

// uuidLength is the length of a UUID as text, and flowPrefix how much of it the executions of a flow share with its id,
// which ends with rootSuffix.
const (
	uuidLength = 36
	flowPrefix = 32
	rootSuffix = "0000"
)

// flowNode returns how the id of the flow of an execution begins, without rootSuffix, and the ordinal of its node
// there, as keyspace.NodeExecutionID takes it; 0 for an execution that is not a node of a flow that was submitted
// whole.
func flowNode(id enginecore.ExecutionID) (flow string, ordinal int) {
	text := id.UUID()
	if len(text) != uuidLength {
		return "", 0
	}
	number, err := strconv.ParseUint(text[flowPrefix:], 16, 16)
	if err != nil {
		return "", 0
	}
	return text[:flowPrefix], int(number)
}

// readGraph returns a part of a graph that the partition of an execution has; an empty one if the graph is gone.
func (conn *Conn) readGraph(ctx context.Context, x *ClaimedExecution, part graphPart) (ReadGraphReply, error) {
	if chunk, found := conn.graphs.get(part); found {
		return chunk, nil
	}
	p, err := keyspace.PartitionOf(x.ExecutionID)
	if err != nil {
		return ReadGraphReply{}, err
	}
	read := func() (any, error) {
		reply, err := conn.ReadGraph(ctx, ReadGraphCall{Partition: p, Graph: part.graph, First: int64(part.first)})
		if err == nil {
			conn.graphs.put(part, reply)
		}
		return reply, err
	}
	chunk, err, shared := conn.graphs.reads.Do(part.flight(), read)
	if err != nil && shared && ctx.Err() == nil {
		// The call may have been made by another caller, whose context has ended or whose partition lacks the graph.
		chunk, err = read()
	}
	if errors.Is(err, errorcode.GraphUnknown) {
		return ReadGraphReply{}, nil
	}
	if err != nil {
		return ReadGraphReply{}, err
	}
	return chunk.(ReadGraphReply), nil
}

// Commit makes a call of a worker whose completions are of executions that it has claimed: done, in their order. The
// library describes a node that follows on one of them, with its result as the only input, by the place of that
// completion.
func (conn *Conn) Commit(ctx context.Context, call WorkCall, done []*ClaimedExecution) (WorkReply, error) {
	reply, err := Do(ctx, conn, call)
	if err != nil {
		return reply, err
	}
	for i := range reply.Executions {
		x := &reply.Executions[i]
		if x.After == 0 {
			continue
		}
		if x.After > int64(len(done)) {
			return reply, &enginecore.DecodeError{
				Function: FunctionName(call), Field: "executions", Problem: "follow on a completion that the call does not have",
			}
		}
		before := x.After - 1
		follow(x, done[before], call.Completions[before].Result, call.ClaimID, i)
		if err := conn.describe(ctx, reply.Executions[i:i+1]); err != nil {
			return reply, err
		}
	}
	return reply, nil
}

// follow describes the node x that was leased, as the n-th of a claim, because another node of its run was completed.
func follow(x, done *ClaimedExecution, result []byte, claimID string, n int) {
	end := len(done.ExecutionID) - len(rootSuffix)
	x.ExecutionID = done.ExecutionID[:end] + x.ExecutionID
	x.LeaseID = enginecore.LeaseID(claimID[:attemptDigit] + leaseNumber(n))
	x.FlowName, x.RunID, x.CreatedAt, x.DeadlineAt = done.FlowName, done.RunID, done.CreatedAt, done.DeadlineAt
	x.TraceContext, x.Graph, x.Budgets = done.TraceContext, done.Graph, done.Budgets
	x.InputsComplete, x.FlowInput = true, []byte{}
	x.Inputs = []NodeInput{{Name: done.Node, Result: slices.Clone(payload.Value(result))}}
}

// leaseNumber is the end of the id of the n-th lease of a claim: see claim_request.lease_id in
// lua/composite/claiming/claim_request.lua.
func leaseNumber(n int) string {
	digits := strconv.FormatInt(int64(n), 16)
	return "000000000000"[len(digits):] + digits
}

// Completed returns the completion of a claimed execution with a result. It names the attempt unless that is the first
// one under its first lease, whose id follows from the lease.
func Completed(x *ClaimedExecution, result []byte) WorkCompletion {
	lease := string(x.LeaseID)
	if !isFirstAttempt(x) {
		lease += " " + strconv.FormatInt(int64(x.LeaseEpoch), 10) + " " + string(x.AttemptID)
	}
	return WorkCompletion{
		ExecutionID: x.ExecutionID, Lease: lease, Run: keyspace.PackRunOf(x.ExecutionID), Result: result,
	}
}

// isFirstAttempt reports whether the id of an attempt follows from its lease.
func isFirstAttempt(x *ClaimedExecution) bool {
	lease, attempt, rest := x.LeaseID, x.AttemptID, attemptDigit+1
	return x.LeaseEpoch == 1 && len(attempt) == len(lease) && len(lease) >= rest && attempt[attemptDigit] == '1' &&
		string(attempt[:attemptDigit]) == string(lease[:attemptDigit]) && string(attempt[rest:]) == string(lease[rest:])
}
