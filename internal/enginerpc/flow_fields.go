package enginerpc

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// flowsPerRead is how many flows one call reads.
const flowsPerRead = 100

// FlowFields reads fields of the records of flows, which may be in several partitions. Flows that do not exist are left
// out. A connection in contract mode reads hashes: it has no other flows.
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
	out := make(map[enginecore.FlowID]map[string]string, len(ids))
	for p, all := range places {
		for len(all) > 0 {
			some := all[:min(len(all), flowsPerRead)]
			all = all[len(some):]
			if err := conn.readFlows(ctx, p, some, fields, out); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func (conn *Conn) readFlows(
	ctx context.Context, p keyspace.Partition, ids []enginecore.FlowID, fields []string,
	out map[enginecore.FlowID]map[string]string,
) error {
	if conn.contractOnly {
		return conn.readFlowHashes(ctx, p, ids, fields, out)
	}
	reply, err := conn.ReadFlows(ctx, ReadFlowsCall{Partition: p, Fields: strings.Join(fields, ","), Flows: ids})
	if err != nil {
		return err
	}
	for _, flow := range reply.Flows {
		values := make(map[string]string, len(flow.Values))
		for _, v := range flow.Values {
			values[v.Name] = string(v.Value)
		}
		out[flow.FlowID] = values
	}
	return nil
}

func (conn *Conn) readFlowHashes(
	ctx context.Context, p keyspace.Partition, ids []enginecore.FlowID, fields []string,
	out map[enginecore.FlowID]map[string]string,
) error {
	commands := make(rueidis.Commands, len(ids))
	for i, id := range ids {
		commands[i] = conn.client.B().Hmget().Key(conn.keys.FlowCore(p, id)).Field(fields...).Build()
	}
	for i, result := range conn.client.DoMulti(ctx, commands...) {
		values, err := result.ToArray()
		if err != nil {
			return readError(ctx, err)
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
	return nil
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
