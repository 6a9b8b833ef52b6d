package main

import (
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/runrecord"
)

// costBatch is how many runs the measured submission of several creates.
const costBatch = 16

// costGraph is a chain of two nodes in a lane.
func costGraph(p keyspace.Partition, hash string, lane enginecore.LaneID) enginerpc.PutGraphCall {
	policy := []byte(`{"max_reclaim_count":5,"input":{"input":true}}`)
	carries := func(ordinal byte) []byte { return []byte{ordinal, 0, 4} } // success_only, with the result
	return enginerpc.PutGraphCall{
		Partition: p, Graph: hash, First: 1, Last: true, Edges: 1, Result: 2, Definition: make([]byte, 256),
		Nodes: []enginerpc.PutGraphNode{
			{Name: "first", Kind: "noop", LaneID: lane, UsesFlowInput: true, Policy: policy, Downs: carries(2)},
			{Name: "second", Kind: "noop", LaneID: lane, InputCount: 1, Policy: policy, Ups: carries(1)},
		},
	}
}

// newGraphHash is a hash that no other graph has.
func newGraphHash() string { return strings.ReplaceAll(uuid.NewString(), "-", "") }

// costRuns creates runs of a graph that the partition has.
func costRuns(p keyspace.Partition, hash string, count int) enginerpc.SubmitCall {
	call := enginerpc.SubmitCall{
		Partition: p,
		Class:     runrecord.Class{Graph: hash, GraphHash: "g", FlowName: "cost", Namespace: "bench"}.Encode(),
		Runs:      make([]enginerpc.SubmitRun, count),
	}
	for i := range call.Runs {
		run := uuid.NewString()
		call.Runs[i] = enginerpc.SubmitRun{
			FlowID: keyspace.FlowIDFor("bench", "cost", run), Input: make([]byte, 256),
			Record: runrecord.Record{RunID: run, InputHash: "i"}.Encode(),
		}
	}
	return call
}

func (c *costs) submit(p keyspace.Partition, hash string, count int) (enginerpc.SubmitReply, error) {
	reply, err := c.core.Submit(c.ctx, costRuns(p, hash, count))
	for _, o := range reply.Outcomes {
		if err == nil && o.Code != string(enginerpc.StatusOK) {
			return reply, fmt.Errorf("a run was not created: %s", o.Code)
		}
	}
	return reply, err
}

// submissions stores graphs and creates runs of them. The runs in the lane costLane are for the measurements after it.
func (c *costs) submissions(p keyspace.Partition) error {
	const otherLane = "others"
	graphs := make([]string, functionCalls)
	err := measured(c, "ffx_put_graph (2 nodes)", func(i int) (enginerpc.PutGraphReply, error) {
		graphs[i] = newGraphHash()
		return c.core.PutGraph(c.ctx, costGraph(p, graphs[i], otherLane))
	})
	if err != nil {
		return err
	}
	err = measured(c, "ffx_submit (2 nodes, the first run of its graph)", func(i int) (enginerpc.SubmitReply, error) {
		return c.submit(p, graphs[i], 1)
	})
	if err != nil {
		return err
	}
	several, one := newGraphHash(), newGraphHash()
	for hash, lane := range map[string]enginecore.LaneID{several: otherLane, one: costLane} {
		if _, err := c.core.PutGraph(c.ctx, costGraph(p, hash, lane)); err != nil {
			return err
		}
	}
	what := fmt.Sprintf("ffx_submit (%d runs of 2 nodes)", costBatch)
	err = measured(c, what, func(int) (enginerpc.SubmitReply, error) {
		return c.submit(p, several, costBatch)
	})
	if err != nil {
		return err
	}
	return measured(c, "ffx_submit (2 nodes)", func(int) (enginerpc.SubmitReply, error) { return c.submit(p, one, 1) })
}
