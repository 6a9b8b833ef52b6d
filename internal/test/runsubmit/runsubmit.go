// Package runsubmit submits runs that tests describe by their nodes and edges, without a definition of a flow.
package runsubmit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/runrecord"
)

// Run describes a run. Its zero value lacks ids and nodes.
type Run struct {
	Partition       keyspace.Partition
	FlowID          enginecore.FlowID
	FlowName, RunID string
	Namespace       string
	GraphHash       string
	InputHash       string
	Definition      []byte
	Input           []byte
	Result          string // name of the node that gives the result
	Deadline        time.Duration
	Creator, Trace  string
	Retention       string
	FairKey         string
	Tags            []enginerpc.SubmitTag
	Nodes           []enginerpc.PutGraphNode // without Ups and Downs
	Edges           []Edge
	Limits          map[string]enginerpc.SubmitLimit // by node, without Run and Node
	Budgets         []enginerpc.SubmitBudget         // without Run
	Fires           []enginerpc.SubmitFire
	Parents         []enginerpc.SubmitParent // without Run
}

// Edge leads from one node to another.
type Edge struct {
	Up, Down string
	Kind     string // success_only when empty; case_1 to case_31 are the cases of a condition
	Carries  bool   // the upstream's result goes into the input of the other
}

var kinds = map[string]byte{"": 0, "success_only": 0, "on_failure": 1, "always": 2, "unless_failed": 3}

// Ordinal is the ordinal of a node, from 1 on; 0 when the run has none of that name.
func (r *Run) Ordinal(node string) int {
	return 1 + slices.IndexFunc(r.Nodes, func(n enginerpc.PutGraphNode) bool { return n.Name == node })
}

// ExecutionID is the execution id of a node.
func (r *Run) ExecutionID(node string) enginecore.ExecutionID {
	return keyspace.NodeExecutionID(r.Partition, r.FlowID, r.Ordinal(node))
}

// graph returns the calls that store the graph, and its hash.
func (r *Run) graph() ([]enginerpc.PutGraphCall, string) {
	nodes := slices.Clone(r.Nodes)
	for i := range nodes {
		nodes[i].Ups, nodes[i].Downs = nil, nil
	}
	for _, e := range r.Edges {
		flags := kinds[e.Kind]
		if n, isCase := strings.CutPrefix(e.Kind, "case_"); isCase {
			number, err := strconv.Atoi(n)
			if err != nil {
				panic(err)
			}
			flags = byte(3 + 8*number)
		}
		if e.Carries && flags <= 3 {
			flags |= 4
		}
		up, down := r.Ordinal(e.Up), r.Ordinal(e.Down)
		nodes[down-1].Ups = append(binary.LittleEndian.AppendUint16(nodes[down-1].Ups, uint16(up)), flags)
		nodes[up-1].Downs = append(binary.LittleEndian.AppendUint16(nodes[up-1].Downs, uint16(down)), flags)
	}
	encoded, err := json.Marshal([]any{nodes, r.Definition, r.Result})
	if err != nil {
		panic(err) // texts and numbers have a JSON form
	}
	sum := sha256.Sum256(encoded)
	hash := hex.EncodeToString(sum[:16])
	var calls []enginerpc.PutGraphCall
	const chunk = 32
	for first := 0; first < len(nodes); first += chunk {
		last := min(len(nodes), first+chunk)
		call := enginerpc.PutGraphCall{
			Partition: r.Partition, Graph: hash, First: int64(first + 1), Last: last == len(nodes), Edges: int64(len(r.Edges)),
			Result: int64(r.Ordinal(r.Result)), Nodes: nodes[first:last],
		}
		if first == 0 {
			call.Definition = r.Definition
		}
		calls = append(calls, call)
	}
	return calls, hash
}

// record is the record of the run, as it is stored.
func (r *Run) record() []byte {
	record := runrecord.Record{
		RunID: r.RunID, InputHash: r.InputHash, TraceContext: r.Trace, FairKey: r.FairKey, Creator: r.Creator,
	}
	for _, p := range r.Parents {
		record.Parent, record.FailFast = string(p.ExecutionID), p.FailFast
	}
	return record.Encode()
}

// Call returns the call that submits the run, once its graph is stored.
func (r *Run) Call() enginerpc.SubmitCall {
	_, hash := r.graph()
	call := enginerpc.SubmitCall{
		Partition: r.Partition, Deadline: r.Deadline, Tags: r.Tags,
		Class: runrecord.Class{
			Graph: hash, GraphHash: r.GraphHash, FlowName: r.FlowName, Namespace: r.Namespace, Retention: r.Retention,
		}.Encode(),
		Runs:  []enginerpc.SubmitRun{{FlowID: r.FlowID, Record: r.record(), Input: r.Input, FairKey: r.FairKey}},
		Fires: r.Fires,
	}
	for _, b := range r.Budgets {
		b.Run = 1
		call.Budgets = append(call.Budgets, b)
	}
	for _, p := range r.Parents {
		p.Run = 1
		call.Parents = append(call.Parents, p)
	}
	for node, limit := range r.Limits {
		limit.Run, limit.Node = 1, int64(r.Ordinal(node))
		call.Limits = append(call.Limits, limit)
	}
	return call
}

// Submit submits the run, and stores its graph first where the partition does not have it. It reports whether the run
// existed. A refusal is an *enginecore.Error with the code and details of its outcome.
func (r *Run) Submit(ctx context.Context, conn *enginerpc.Conn) (existed bool, err error) {
	call := r.Call()
	reply, err := conn.Submit(ctx, call)
	if errors.Is(err, errorcode.GraphUnknown) {
		puts, _ := r.graph()
		for _, put := range puts {
			if _, err := conn.PutGraph(ctx, put); err != nil {
				return false, err
			}
		}
		reply, err = conn.Submit(ctx, call)
	}
	if err != nil {
		return false, err
	}
	if len(reply.Outcomes) != 1 {
		return false, fmt.Errorf("%d outcomes for one run", len(reply.Outcomes))
	}
	o := reply.Outcomes[0]
	refusal := &enginecore.Error{Function: enginerpc.FunctionName(call), Code: enginecore.Code(o.Code)}
	switch o.Code {
	case string(enginerpc.StatusOK):
		return false, nil
	case string(enginerpc.StatusAlreadySatisfied), "purged":
		return true, nil
	case string(errorcode.FlowIDConflict):
		refusal.Details = []string{o.What, o.Stored, o.Given}
	case string(errorcode.FireTooLate):
		refusal.Details = []string{o.Stored, o.Given}
	}
	return false, refusal
}
