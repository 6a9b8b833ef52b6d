package contracttest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/rowread"
	"github.com/flowfabric/flowfabric-go/internal/test/runsubmit"
)

// nodePool hands out nodes of runs in the place of executions that are created one by one. Plain ones are of one run, so
// that edges can be added between them.
type nodePool struct {
	run  *runsubmit.Run
	next int
}

// poolNodes is how many nodes a run of the pool has, poolReserve how many replenish makes sure of.
const poolNodes, poolReserve = 200, 8

// replenish makes sure that the next nodes are of one run.
func (b *bench) replenish() {
	if p := b.nodes; p != nil && p.run != nil && p.next+poolReserve > poolNodes {
		p.run = nil
	}
}

// take returns a node that is as a call would create an execution.
func (p *nodePool) take(b *bench, call enginerpc.CreateExecutionCall) enginecore.ExecutionID {
	b.tb.Helper()
	node := enginerpc.PutGraphNode{
		Name: "node", Kind: call.ExecutionKind, LaneID: call.LaneID, Priority: int64(call.Priority), Policy: []byte("{}"),
	}
	special := node.Priority != 0
	if len(call.PolicyJSON) > 0 {
		special, node.Policy, node.Capabilities = true, call.PolicyJSON, capabilitiesOf(b, call.PolicyJSON)
	}
	if !call.DelayUntil.IsZero() {
		special, node.Delay = true, max(0, time.Until(call.DelayUntil))
	}
	if special {
		aside := enginerpc.PutGraphNode{Name: "aside", Kind: "kind", LaneID: "aside", Policy: []byte("{}")}
		return b.submitRun([]enginerpc.PutGraphNode{node, aside}).ExecutionID("node")
	}
	if p.run == nil || p.next == poolNodes {
		nodes := make([]enginerpc.PutGraphNode, poolNodes)
		for i := range nodes {
			nodes[i] = node
			nodes[i].Name = fmt.Sprint("node", i)
		}
		p.run, p.next = b.submitRun(nodes), 0
	}
	p.next++
	id := keyspace.NodeExecutionID(partition, p.run.FlowID, p.next)
	if len(call.InputPayload) > 0 {
		b.do("SET", b.keys.ExecPayload(id), string(call.InputPayload))
	}
	return id
}

func capabilitiesOf(b *bench, policy []byte) string {
	b.tb.Helper()
	var p struct {
		Routing struct {
			Required []string `json:"required_capabilities"`
		} `json:"routing_requirements"`
	}
	if err := json.Unmarshal(policy, &p); err != nil {
		b.tb.Fatal(err)
	}
	return strings.Join(p.Routing.Required, ",")
}

// stagedInRun adds an edge to the run of a node. It replaces an upstream of another run by the second node of this run.
func (b *bench) stagedInRun(up, down enginecore.ExecutionID) edge {
	b.tb.Helper()
	e := edge{flow: rowread.FlowID(down), id: enginecore.EdgeID(uuid.NewString()), up: up, down: down}
	if rowread.FlowID(up) != e.flow {
		e.up = keyspace.NodeExecutionID(partition, e.flow, 2)
	}
	must(b, enginerpc.StageDependencyEdgeCall{
		FlowID: e.flow, EdgeID: e.id, UpstreamExecutionID: e.up, DownstreamExecutionID: down, DataPassingRef: "in",
		ExpectedGraphRevision: atoi(b.flowField(e.flow, "graph_revision")),
	})
	return e
}
