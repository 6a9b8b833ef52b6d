package contractnode

import (
	"context"
	"slices"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// maxClaimedInputs bounds the upstream results that one claim returns; the results for a node with more are read by
// ReadInputs.
const maxClaimedInputs = 32

// AddInputs adds the flow's input and the results of upstreams to the claimed executions that use them.
func (r Reader) AddInputs(ctx context.Context, p keyspace.Partition, taken []enginerpc.ClaimedExecution) error {
	var b reads
	var finish []func()
	budget := maxClaimedInputs
	for i := range taken {
		x := &taken[i]
		plan, err := submit.DecodePolicy(x.Policy)
		if err != nil || plan.Input == nil || x.FlowID == "" {
			continue // the task reports it
		}
		if plan.Input.UsesFlowInput() {
			read := b.add(r.Client.B().Hget().Key(r.Keys.FlowTags(p, x.FlowID)).Field(TagInput).Build())
			finish = append(finish, func() { x.FlowInput, _ = read.AsBytes() })
		}
		nodes := plan.Input.InputNodes()
		if budget -= len(nodes); budget < 0 {
			x.InputsComplete = len(nodes) == 0
			continue
		}
		consumer := inputConsumer{p, x.FlowID, x.ExecutionID, x.Node, plan.Input.ChosenNodes()}
		for _, node := range nodes {
			read := r.addInput(&b, consumer, node)
			finish = append(finish, func() {
				if input, found := read(); found {
					x.Inputs = append(x.Inputs, input)
				}
			})
		}
	}
	if err := b.run(ctx, r.Client); err != nil {
		return err
	}
	for _, f := range finish {
		f()
	}
	return nil
}

// inputConsumer is a node that uses the results of others. Of those that are chosen by its join it uses the ones that
// were there when the join was satisfied, so that every attempt gets the same.
type inputConsumer struct {
	partition keyspace.Partition
	flow      enginecore.FlowID
	id        enginecore.ExecutionID
	node      string
	chosen    []string
}

// edgeFields are the fields of an edge on the side of its downstream: whether it is satisfied, and whether that came
// after the join had been decided.
var edgeFields = []string{"state", "late"}

// addInput adds the reads of one upstream's result to a batch. The returned function is called after the batch.
func (r Reader) addInput(b *reads, to inputConsumer, node string) func() (enginerpc.NodeInput, bool) {
	up := keyspace.ExecutionIDFor(to.partition, to.flow, node)
	result := b.add(r.Client.B().Get().Key(r.Keys.ExecResult(up)).Build())
	var edge *rueidis.RedisResult
	if slices.Contains(to.chosen, node) {
		edge = b.add(r.hmget(r.Keys.ExecDep(to.id, keyspace.EdgeIDFor(to.flow, node, to.node)), edgeFields))
	}
	return func() (enginerpc.NodeInput, bool) {
		if edge != nil {
			if e := hashrecord.Read(*edge, edgeFields); e["state"] != "satisfied" || e["late"] != "" {
				return enginerpc.NodeInput{}, false
			}
		}
		value, err := result.AsBytes()
		return enginerpc.NodeInput{Name: node, Result: value}, err == nil
	}
}

// contractInputs is the number of results in one page of ReadInputs.
const contractInputs = 8

// ReadInputs reads a page of the results of upstreams. The cursor is the number of the next upstream; "" is the
// first.
func (r Reader) ReadInputs(ctx context.Context, call enginerpc.ReadInputsCall) (enginerpc.ReadInputsReply, error) {
	reply := enginerpc.ReadInputsReply{Status: enginerpc.StatusOK}
	var header reads
	policyText := header.add(r.Client.B().Get().Key(r.Keys.ExecPolicy(call.ExecutionID)).Build())
	core := header.add(r.hmget(r.Keys.ExecCore(call.ExecutionID), []string{"flow_id"}))
	node := header.add(r.Client.B().Hget().Key(r.Keys.ExecTags(call.ExecutionID)).Field(TagNode).Build())
	if err := header.run(ctx, r.Client); err != nil {
		return reply, err
	}
	policy, _ := policyText.AsBytes()
	plan, err := submit.DecodePolicy(policy)
	if err != nil || plan.Input == nil {
		return reply, err
	}
	name, _ := node.ToString() // "" for an execution of another program, which chooses nothing
	flow := enginecore.FlowID(hashrecord.Read(*core, []string{"flow_id"})["flow_id"])
	consumer := inputConsumer{call.Partition, flow, call.ExecutionID, name, plan.Input.ChosenNodes()}
	nodes := plan.Input.InputNodes()
	first := min(int(engine.Record{"cursor": call.Cursor}.Int("cursor")), len(nodes))
	page := nodes[first:min(first+contractInputs, len(nodes))]
	var b reads
	inputs := make([]func() (enginerpc.NodeInput, bool), len(page))
	for i, node := range page {
		inputs[i] = r.addInput(&b, consumer, node)
	}
	if err := b.run(ctx, r.Client); err != nil {
		return reply, err
	}
	for _, read := range inputs {
		if input, found := read(); found {
			reply.Inputs = append(reply.Inputs, input)
		}
	}
	if next := first + len(page); next < len(nodes) {
		reply.NextCursor = engine.Decimal(int64(next))
	}
	return reply, nil
}
