package enginerpc

import (
	"context"
	"strings"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// ReadRecords reads fields of executions, in the order of ids: nil for one that does not exist, and without the fields
// that a record lacks. Nodes of runs that were submitted whole have no hashes of their own; the library reads those.
func (conn *Conn) ReadRecords(
	ctx context.Context, ids []enginecore.ExecutionID, fields ...string,
) ([]map[string]string, error) {
	if err := conn.connected(); err != nil {
		return nil, err
	}
	records := make([]map[string]string, len(ids))
	nodes := map[enginecore.Partition][]enginecore.ExecutionID{}
	places := make(map[enginecore.ExecutionID]int, len(ids))
	var hashes []int
	var reads rueidis.Commands
	for i, id := range ids {
		p, err := id.Partition()
		if err == nil && !conn.contractOnly && isNode(id) {
			nodes[p], places[id] = append(nodes[p], id), i
			continue
		}
		hashes = append(hashes, i)
		reads = append(reads, conn.client.B().Hmget().Key(conn.keys.ExecCore(id)).Field(fields...).Build())
	}
	for i, result := range conn.client.DoMulti(ctx, reads...) {
		values, err := result.ToArray()
		if err != nil {
			return nil, CommandError("HMGET", err)
		}
		for j := range min(len(values), len(fields)) {
			text, err := values[j].ToString()
			if err != nil {
				continue // it has no such field
			}
			if records[hashes[i]] == nil {
				records[hashes[i]] = make(map[string]string, len(fields))
			}
			records[hashes[i]][fields[j]] = text
		}
	}
	for p, some := range nodes {
		reply, err := conn.ReadExecutions(ctx, ReadExecutionsCall{
			Partition: p, Fields: strings.Join(fields, ","), Executions: some,
		})
		if err != nil {
			return nil, err
		}
		for _, x := range reply.Executions {
			record := make(map[string]string, len(x.Values))
			for _, v := range x.Values {
				record[v.Name] = string(v.Value)
			}
			records[places[x.ExecutionID]] = record
		}
	}
	return records, nil
}

// isNode reports whether an id is that of a node of a run that was submitted whole: a UUID of version 8 with an
// ordinal.
func isNode(id enginecore.ExecutionID) bool {
	uuid := id.UUID()
	return len(uuid) == 36 && uuid[14] == '8' && !strings.HasSuffix(uuid, "0000")
}
