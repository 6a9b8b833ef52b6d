package runtime_test

import (
	"context"
	"strings"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
)

// nodeFields reads fields of the record of an execution, which are none when it does not exist.
func nodeFields(
	ctx context.Context, core *enginerpc.Conn, id enginecore.ExecutionID, fields ...string,
) (map[string]string, error) {
	if id[len(id)-22] == '5' {
		return recordFields(ctx, core, id, fields)
	}
	p, err := keyspace.PartitionOf(id)
	if err != nil {
		return nil, err
	}
	reply, err := core.ReadExecutions(ctx, enginerpc.ReadExecutionsCall{
		Partition: p, Fields: strings.Join(fields, ","), Executions: []enginecore.ExecutionID{id},
	})
	found := map[string]string{}
	for _, x := range reply.Executions {
		for _, v := range x.Values {
			found[v.Name] = string(v.Value)
		}
	}
	return found, err
}

// recordFields reads fields of an execution of the contract, which has a separate record: the functions that read nodes
// are not part of the contract.
func recordFields(
	ctx context.Context, core *enginerpc.Conn, id enginecore.ExecutionID, fields []string,
) (map[string]string, error) {
	client := core.Client()
	values, err := client.Do(ctx, client.B().Hmget().Key(core.Keys().ExecCore(id)).Field(fields...).Build()).ToArray()
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for i, v := range values {
		if text, err := v.ToString(); err == nil {
			found[fields[i]] = text
		}
	}
	return found, nil
}

// resultOf reads the stored result of an execution, nil when it has none.
func resultOf(ctx context.Context, b *enginetest.Bench, id enginecore.ExecutionID) ([]byte, error) {
	c, err := admin.New(b.Engine)
	if err != nil {
		return nil, err
	}
	result, _, err := c.ExecutionResult(ctx, id)
	return result, err
}

// nodesOf lists the nodes of runs in all partitions.
func nodesOf(ctx context.Context, core *enginerpc.Conn) ([]enginecore.ExecutionID, error) {
	var ids []enginecore.ExecutionID
	for _, p := range core.Partitioning().FlowPartitions() {
		for call := (enginerpc.ListNodesCall{Partition: p, Limit: 100}); ; {
			reply, err := core.ListNodes(ctx, call)
			if err != nil {
				return nil, err
			}
			for _, n := range reply.Nodes {
				ids = append(ids, n.ExecutionID)
			}
			if call.Cursor = reply.NextCursor; call.Cursor == "" {
				break
			}
		}
	}
	return ids, nil
}
