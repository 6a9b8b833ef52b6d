package enginerpc

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// flowsPerRead is how many flows one call reads.
const flowsPerRead = 100

// FlowFields reads fields of the records of flows, which may be in several partitions, in one round trip. Flows that do
// not exist are left out. A connection in contract mode reads hashes: it has no other flows.
func (conn *Conn) FlowFields(
	ctx context.Context, ids []enginecore.FlowID, fields []string,
) (map[enginecore.FlowID]map[string]string, error) {
	if err := conn.connected(); err != nil {
		return nil, err
	}
	places := make(map[keyspace.Partition][]enginecore.FlowID)
	for _, id := range ids {
		p, err := conn.FlowPartition(id)
		if err != nil {
			return nil, err
		}
		places[p] = append(places[p], id)
	}
	if conn.contractOnly {
		return conn.readFlowHashes(ctx, places, fields)
	}
	return conn.readFlows(ctx, places, fields)
}

func (conn *Conn) readFlows(
	ctx context.Context, places map[keyspace.Partition][]enginecore.FlowID, fields []string,
) (map[enginecore.FlowID]map[string]string, error) {
	pipeline := conn.Pipeline()
	var replies []*Result[ReadFlowsReply]
	for p, ids := range places {
		for some := range slices.Chunk(ids, flowsPerRead) {
			call := ReadFlowsCall{Partition: p, Fields: strings.Join(fields, ","), Flows: some}
			replies = append(replies, Add[ReadFlowsReply](pipeline, call))
		}
	}
	if err := pipeline.Run(ctx); err != nil {
		return nil, err
	}
	out := make(map[enginecore.FlowID]map[string]string)
	for _, result := range replies {
		reply, err := result.Get()
		if err != nil {
			return nil, err
		}
		for _, flow := range reply.Flows {
			values := make(map[string]string, len(flow.Values))
			for _, v := range flow.Values {
				values[v.Name] = string(v.Value)
			}
			out[flow.FlowID] = values
		}
	}
	return out, nil
}

func (conn *Conn) readFlowHashes(
	ctx context.Context, places map[keyspace.Partition][]enginecore.FlowID, fields []string,
) (map[enginecore.FlowID]map[string]string, error) {
	var commands rueidis.Commands
	var ids []enginecore.FlowID
	for p, some := range places {
		for _, id := range some {
			commands = append(commands, conn.client.B().Hmget().Key(conn.keys.FlowCore(p, id)).Field(fields...).Build())
		}
		ids = append(ids, some...)
	}
	out := make(map[enginecore.FlowID]map[string]string, len(ids))
	for i, result := range conn.client.DoMulti(ctx, commands...) {
		values, err := result.ToArray()
		if err != nil {
			return nil, readError(ctx, err)
		}
		found := make(map[string]string, len(fields))
		for at := range min(len(values), len(fields)) {
			if text, err := values[at].ToString(); err == nil {
				found[fields[at]] = text
			}
		}
		if len(found) > 0 {
			out[ids[i]] = found
		}
	}
	return out, nil
}

// readError is the error of a read.
func readError(ctx context.Context, err error) error {
	if ended := Unanswered(ctx, err); ended != nil {
		return ended
	}
	if _, refused := rueidis.IsRedisErr(err); refused {
		return ConnectError(err)
	}
	return fmt.Errorf("%w: %w", enginecore.ErrUnavailable, err)
}
