package engine

import (
	"context"
	"strings"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// ReadExecutions reads fields of the records of executions, which may be in several partitions. The records have the
// order of the ids; the record of an execution that does not exist is nil. The ids must be well formed.
func (s *Session) ReadExecutions(ctx context.Context, ids []enginecore.ExecutionID, fields []string) ([]Record, error) {
	if !Has[GraphStore](s.Backend) {
		return s.readExecutionHashes(ctx, ids, fields)
	}
	places := make(map[keyspace.Partition][]enginecore.ExecutionID)
	for _, id := range ids {
		p, err := keyspace.PartitionOf(id)
		if err != nil {
			return nil, err
		}
		places[p] = append(places[p], id)
	}
	found := make(map[enginecore.ExecutionID]Record, len(ids))
	for p, some := range places {
		reply, err := s.Core.ReadExecutions(ctx, enginerpc.ReadExecutionsCall{
			Partition: p, Fields: strings.Join(fields, ","), Executions: some,
		})
		if err != nil {
			return nil, err
		}
		for _, x := range reply.Executions {
			record := make(Record, len(x.Values))
			for _, value := range x.Values {
				record[value.Name] = string(value.Value)
			}
			found[x.ExecutionID] = record
		}
	}
	records := make([]Record, len(ids))
	for i, id := range ids {
		records[i] = found[id]
	}
	return records, nil
}

// readExecutionHashes reads the records of an engine in contract mode, which are all hashes.
func (s *Session) readExecutionHashes(
	ctx context.Context, ids []enginecore.ExecutionID, fields []string,
) ([]Record, error) {
	reads := make(rueidis.Commands, len(ids))
	for i, id := range ids {
		reads[i] = s.Client.B().Hmget().Key(s.Core.Keys().ExecCore(id)).Field(fields...).Build()
	}
	records := make([]Record, len(ids))
	for i, result := range s.Client.DoMulti(ctx, reads...) {
		if err := result.Error(); err != nil {
			return nil, ReadError(ctx, "HMGET", err)
		}
		records[i] = hashrecord.Read(result, fields)
	}
	return records, nil
}
