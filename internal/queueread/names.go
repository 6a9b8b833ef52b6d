package queueread

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// RunOf identifies the run and the node of an execution. The names are empty for an execution outside of runs.
type RunOf struct {
	Namespace, Flow, Run, Node, Activity string
}

var (
	executionFields = []string{"namespace", "execution_kind", "flow_id", "node"}
	flowFields      = []string{"flow_kind", "run_id", "managed"}
)

// runsOf returns the runs of executions by their ids. Runs that no longer exist are left out.
func (r *Reader) runsOf(ctx context.Context, ids []enginecore.ExecutionID) (map[enginecore.ExecutionID]RunOf, error) {
	records, err := r.records(ctx, ids)
	if err != nil {
		return nil, err
	}
	flows, err := r.flows(ctx, records)
	if err != nil {
		return nil, err
	}
	out := make(map[enginecore.ExecutionID]RunOf, len(records))
	for id, record := range records {
		one := RunOf{Namespace: record["namespace"], Node: record["node"], Activity: record["execution_kind"]}
		if f := flows[enginecore.FlowID(record["flow_id"])]; f["managed"] != "" {
			one.Flow, one.Run = f["flow_kind"], f["run_id"]
		}
		out[id] = one
	}
	return out, nil
}

// flows reads the flows that records name.
func (r *Reader) flows(
	ctx context.Context, records map[enginecore.ExecutionID]hashrecord.Record,
) (map[enginecore.FlowID]map[string]string, error) {
	var ids []enginecore.FlowID
	for _, record := range records {
		if id := enginecore.FlowID(record["flow_id"]); id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return r.core.FlowFields(ctx, ids, flowFields)
}

// records reads executions. The library reads them, because only it can read executions of runs that were submitted
// whole; a library of the contract alone has no such runs.
func (r *Reader) records(
	ctx context.Context, ids []enginecore.ExecutionID,
) (map[enginecore.ExecutionID]hashrecord.Record, error) {
	byPartition := map[keyspace.Partition][]enginecore.ExecutionID{}
	for _, id := range ids {
		p, err := keyspace.PartitionOf(id)
		if err != nil {
			return nil, err
		}
		byPartition[p] = append(byPartition[p], id)
	}
	out := make(map[enginecore.ExecutionID]hashrecord.Record, len(ids))
	for p, of := range byPartition {
		reply, err := r.core.ReadExecutions(ctx, enginerpc.ReadExecutionsCall{
			Partition: p, Fields: strings.Join(executionFields, ","), Executions: of,
		})
		if errors.Is(err, enginecore.ErrContractOnly) {
			return r.contractRecords(ctx, ids)
		} else if err != nil {
			return nil, err
		}
		for _, x := range reply.Executions {
			record := make(hashrecord.Record, len(x.Values))
			for _, v := range x.Values {
				record[v.Name] = string(v.Value)
			}
			out[x.ExecutionID] = record
		}
	}
	return out, nil
}

// contractRecords reads executions as the contract stores them.
func (r *Reader) contractRecords(
	ctx context.Context, ids []enginecore.ExecutionID,
) (map[enginecore.ExecutionID]hashrecord.Record, error) {
	commands := make([]rueidis.Completed, len(ids))
	for i, id := range ids {
		commands[i] = r.client.B().Hmget().Key(r.keys.ExecCore(id)).Field(executionFields...).Build()
	}
	results, err := r.read(ctx, commands...)
	if err != nil {
		return nil, err
	}
	out := make(map[enginecore.ExecutionID]hashrecord.Record, len(ids))
	for i, id := range ids {
		if record := hashrecord.Read(results[i], executionFields); record != nil {
			out[id] = record
		}
	}
	return out, nil
}

// describe adds the runs to executions of a queue.
func (r *Reader) describe(ctx context.Context, places []QueuedExecution) error {
	ids := make([]enginecore.ExecutionID, len(places))
	for i := range places {
		ids[i] = places[i].ID
	}
	runs, err := r.runsOf(ctx, ids)
	if err != nil {
		return err
	}
	for i := range places {
		places[i].RunOf = runs[places[i].ID]
	}
	return nil
}
