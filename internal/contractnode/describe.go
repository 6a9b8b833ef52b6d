package contractnode

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// FlowFields returns the fields of a flow that DescribeRun needs.
func FlowFields() []string { return []string{"flow_kind"} }

// HeaderTags returns the tags of a flow that DescribeRun needs.
func HeaderTags() []string { return []string{TagRunID, TagGraphHash, TagTrace, TagDeadline} }

// DescribeRun adds the run of a claimed node to its description, from the FlowFields and HeaderTags of its flow. It
// returns the hash of the graph.
func DescribeRun(x *enginerpc.ClaimedExecution, flow, header rueidis.RedisResult) (graphHash string) {
	tags := hashrecord.Read(header, HeaderTags())
	x.FlowName = hashrecord.Read(flow, FlowFields())["flow_kind"]
	x.RunID, x.TraceContext, x.DeadlineAt = tags[TagRunID], tags[TagTrace], tags.Time(TagDeadline)
	return tags[TagGraphHash]
}

// IsUndescribed reports whether an execution is a node of a run that a program in contract mode has submitted, and was
// claimed by a worker that uses the whole library, whose claims read no tags.
func IsUndescribed(x *enginerpc.ClaimedExecution) bool {
	return x.RunID == "" && x.FlowID != "" && bytes.Contains(x.Tags, []byte(`"`+TagNode+`"`))
}

// Describe adds its run, the input of the flow and the results of its upstreams to the description of an undescribed
// node. After an error, the description is unchanged.
func (r Reader) Describe(ctx context.Context, p keyspace.Partition, x *enginerpc.ClaimedExecution) error {
	var reads reads
	flow := reads.add(r.hmget(r.Keys.FlowCore(p, x.FlowID), FlowFields()))
	header := reads.add(r.hmget(r.Keys.FlowTags(p, x.FlowID), HeaderTags()))
	if err := reads.run(ctx, r.Client); err != nil {
		return err
	}
	var tags map[string]string
	if err := json.Unmarshal(x.Tags, &tags); err != nil {
		return err
	}
	node := *x
	node.Node, node.InputsComplete, node.Inputs = tags[TagNode], true, nil
	node.Tags = UserTags(tags)
	DescribeRun(&node, *flow, *header)
	list := []enginerpc.ClaimedExecution{node}
	if err := r.AddInputs(ctx, p, list); err != nil {
		return err
	}
	call := enginerpc.ReadInputsCall{Partition: p, ExecutionID: x.ExecutionID}
	for more := !list[0].InputsComplete; more; more = call.Cursor != "" {
		page, err := r.ReadInputs(ctx, call)
		if err != nil {
			return err
		}
		list[0].Inputs = append(list[0].Inputs, page.Inputs...)
		call.Cursor = page.NextCursor
	}
	list[0].InputsComplete = true
	*x = list[0]
	return nil
}
