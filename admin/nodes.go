package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/recordstate"
)

// The nodes of runs that were submitted whole have no separate hashes: the library reads and lists them.

// isNode reports whether an execution is a node of a run that was submitted whole: its id is a UUID of version 8 that
// ends in an ordinal.
func isNode(id enginecore.ExecutionID) bool {
	uuid := id.UUID()
	return len(uuid) == 36 && uuid[14] == '8' && !strings.HasSuffix(uuid, "0000")
}

// nodeRecord has the fields of a node that were read.
type nodeRecord struct {
	fields hashrecord.Record
	tags   map[string]string
}

// nodesPerRead is how many nodes one call reads.
const nodesPerRead = 100

// readNodes reads fields and tags of those executions that are nodes and exist.
func (c *Client) readNodes(ctx context.Context, ids []string, fields []string) (map[string]nodeRecord, error) {
	byPartition := map[keyspace.Partition][]enginecore.ExecutionID{}
	for _, text := range ids {
		if id := enginecore.ExecutionID(text); isNode(id) {
			p, err := keyspace.PartitionOf(id)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
			}
			byPartition[p] = append(byPartition[p], id)
		}
	}
	found := map[string]nodeRecord{}
	for p, of := range byPartition {
		for some := range slices.Chunk(of, nodesPerRead) {
			reply, err := c.core.ReadExecutions(ctx, enginerpc.ReadExecutionsCall{
				Partition: p, Fields: strings.Join(fields, ","), Executions: some,
			})
			if err != nil {
				return nil, err
			}
			for _, x := range reply.Executions {
				n := nodeRecord{fields: make(hashrecord.Record, len(x.Values))}
				for _, v := range x.Values {
					n.fields[v.Name] = string(v.Value)
				}
				for _, tag := range x.Tags {
					if n.tags == nil {
						n.tags = map[string]string{}
					}
					n.tags[tag.Name] = string(tag.Value)
				}
				found[string(x.ExecutionID)] = n
			}
		}
	}
	return found, nil
}

// nodeResult reads the result of a node.
func (c *Client) nodeResult(ctx context.Context, id enginecore.ExecutionID) ([]byte, bool, error) {
	found, err := c.readNodes(ctx, []string{string(id)}, []string{"result"})
	if errors.Is(err, enginecore.ErrContractOnly) {
		return nil, false, nil // there are none
	} else if err != nil {
		return nil, false, err
	}
	result, has := found[string(id)].fields["result"]
	return []byte(result), has, nil
}

// isOfIndex reports whether a node belongs to an index that lists no nodes of runs. known is false for an index that
// lists them.
func isOfIndex(index string, e Execution) (is, known bool) {
	switch index {
	case indexActive:
		return e.Phase == recordstate.PhaseActive, true
	case indexTerminal:
		return e.Phase == recordstate.PhaseTerminal, true
	case indexBlockedDependencies:
		return e.Eligibility == recordstate.EligibilityBlockedByDeps, true
	}
	return false, false
}

// nodesCursor begins the cursor of a page of nodes, which follow all other executions: "nodes.<partition>.<rest>".
const nodesCursor = "nodes."

// nodeIDs lists nodes from a cursor on, about limit of them.
func (c *Client) nodeIDs(
	ctx context.Context, q ExecutionQuery, partitions []keyspace.Partition, cursor string, limit int,
) (ids []string, next string, err error) {
	if limit <= 0 {
		limit = defaultLimit
	}
	at, rest, err := placeOf(cursor, nodesCursor, partitions)
	if err != nil {
		return nil, "", err
	}
	for limit = min(limit, maxLimit); len(ids) < limit && at < len(partitions); {
		reply, err := c.core.ListNodes(ctx, enginerpc.ListNodesCall{
			Partition: partitions[at], Cursor: rest, Limit: int64(limit - len(ids)), FlowID: q.Flow,
		})
		if errors.Is(err, enginecore.ErrContractOnly) {
			return nil, "", nil // contract mode has no nodes
		} else if err != nil {
			return nil, "", err
		}
		for _, n := range reply.Nodes {
			ids = append(ids, string(n.ExecutionID))
		}
		if rest = reply.NextCursor; rest == "" {
			at++
		}
	}
	if at == len(partitions) {
		return ids, "", nil
	}
	return ids, fmt.Sprintf("%s%d.%s", nodesCursor, partitions[at].Index, rest), nil
}
