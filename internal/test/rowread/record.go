package rowread

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// Record returns the record of an execution: its hash, or the fields from its row, its graph and its run under the
// names of the record's fields. It is empty if the execution does not exist.
func Record(ctx context.Context, client rueidis.Client, keys enginerpc.Keys, id enginecore.ExecutionID) (map[string]string, error) {
	ordinal := Ordinal(id)
	if ordinal == 0 {
		return hash(ctx, client, keys.ExecCore(id))
	}
	p, err := keyspace.PartitionOf(id)
	if err != nil {
		return nil, err
	}
	flow := FlowID(id)
	nodes, err := client.Do(ctx, client.B().Get().Key(keys.FlowNodes(p, flow)).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return hash(ctx, client, keys.ExecCore(id))
	} else if err != nil {
		return nil, err
	}
	head, rows, err := Parse(nodes)
	if err != nil || ordinal > len(rows) {
		return nil, err
	}
	row := rows[ordinal-1]
	_, graph, err := classOf(ctx, client, keys, p, head)
	if err != nil {
		return nil, err
	}
	out, err := Node(graph, ordinal)
	if err != nil {
		return nil, err
	}
	more, err := hash(ctx, client, keys.FlowMore(p, flow))
	if err != nil {
		return nil, err
	}
	maps.Copy(out, row.Fields(MoreOf(more, ordinal)))
	out["execution_id"], out["flow_id"] = string(id), string(flow)
	out["partition_id"], out["created_at"] = strconv.Itoa(int(p.Index)), strconv.FormatInt(head.Created, 10)
	run, err := Flow(ctx, client, keys, p, flow)
	if err != nil {
		return nil, err
	}
	SpreadDelay(out, out["delay"], run["start_at"], head.Created)
	SpreadWait(out, flow)
	for _, name := range []string{"namespace", "creator_identity", "budget_ids", "fair_key"} {
		if run[name] != "" {
			out[name] = run[name]
		}
	}
	if row.Worker == 0 || row.Ownership == "unowned" { // it has completed the node
		return out, nil
	}
	workers, err := hash(ctx, client, keys.FfxWorkers(p))
	out["current_worker_instance_id"], out["current_worker_id"] = Worker(workers, row.Worker)
	return out, err
}

// Worker returns the worker that has a number in the hash of workers of its partition.
func Worker(workers map[string]string, number int64) (instance, worker string) {
	length, both, _ := strings.Cut(workers[strconv.FormatInt(number, 10)], " ")
	if n, err := strconv.Atoi(length); err == nil && n <= len(both) {
		return both[:n], both[n:]
	}
	return "", ""
}

func hash(ctx context.Context, client rueidis.Client, key string) (map[string]string, error) {
	return client.Do(ctx, client.B().Hgetall().Key(key).Build()).AsStrMap()
}

// Open returns how many nodes of a run have not ended.
func Open(ctx context.Context, client rueidis.Client, keys enginerpc.Keys, p keyspace.Partition, flow enginecore.FlowID) (int, error) {
	nodes, err := client.Do(ctx, client.B().Get().Key(keys.FlowNodes(p, flow)).Build()).ToString()
	if err != nil {
		return 0, err
	}
	head, _, err := Parse(nodes)
	return head.Open, err
}

// SetOpen writes how many nodes of a run have not ended. The run is no longer plain, so that this number counts.
func SetOpen(ctx context.Context, client rueidis.Client, keys enginerpc.Keys, p keyspace.Partition, flow enginecore.FlowID, n int) error {
	column := RunHeadColumns["open"]
	text, nodes := string(binary.LittleEndian.AppendUint32(nil, uint32(n))), keys.FlowNodes(p, flow)
	at := int64(RunHeadColumns["flags"][0])
	flags, err := client.Do(ctx, client.B().Getrange().Key(nodes).Start(at).End(at).Build()).AsBytes()
	if err != nil || len(flags) != 1 {
		return err
	}
	flags[0] &^= RunHeadPlain
	err = client.Do(ctx, client.B().Setrange().Key(nodes).Offset(at).Value(string(flags)).Build()).Error()
	if err != nil {
		return err
	}
	return client.Do(ctx, client.B().Setrange().Key(nodes).Offset(int64(column[0])).Value(text).Build()).Error()
}

// states are the columns of the fields of a record that have numbers for values, with these values.
var states = map[string]struct {
	column string
	values []string
}{
	"lifecycle_phase": {"phase", NodeRowPhase}, "ownership_state": {"owner", NodeRowOwner}, "eligibility_state": {"elig", NodeRowElig},
	"blocking_reason": {"why", NodeRowWhy}, "terminal_outcome": {"outcome", NodeRowOutcome}, "attempt_state": {"attempt", NodeRowAttempt},
	"public_state": {"public", NodeRowPublic},
}

// numbers are the columns of other fields that a test may set. Records do not have the fields open and `told`.
var numbers = map[string]string{
	"current_attempt_index": "index", "total_attempt_count": "total", "retry_count": "retries", "lease_reclaim_count": "reclaims",
	"current_lease_epoch": "epoch", "lease_expires_at": "expires", "lease_acquired_at": "acquired", "started_at": "started",
	"completed_at": "ended", "last_transition_at": "changed", "open": "open", "told": "told",
}

// columnOf returns the column of a field in a row, and the number for a value of the field.
func columnOf(field, value string) (column [2]int, n uint64, found bool, err error) {
	if state, ok := states[field]; ok {
		return NodeRowColumns[state.column], uint64(slices.Index(state.values, value) + 1), true, nil
	}
	name, ok := numbers[field]
	if !ok {
		return column, 0, false, nil
	}
	if n, err = strconv.ParseUint(value, 10, 64); err != nil {
		err = fmt.Errorf("%s: %w", field, err)
	}
	return NodeRowColumns[name], n, true, err
}

// Set writes a field of an execution's record or row. Fields of the graph or the run cannot be set.
func Set(ctx context.Context, client rueidis.Client, keys enginerpc.Keys, id enginecore.ExecutionID, field, value string) error {
	ordinal := Ordinal(id)
	if ordinal == 0 {
		return client.Do(ctx, client.B().Hset().Key(keys.ExecCore(id)).FieldValue().FieldValue(field, value).Build()).Error()
	}
	p, err := keyspace.PartitionOf(id)
	if err != nil {
		return err
	}
	column, n, found, err := columnOf(field, value)
	if err != nil {
		return err
	}
	if !found {
		more := client.B().Hset().Key(keys.FlowMore(p, FlowID(id))).FieldValue().FieldValue(strconv.Itoa(ordinal)+" "+field, value)
		if err := client.Do(ctx, more.Build()).Error(); err != nil {
			return err
		}
		return setFlag(ctx, client, keys.FlowNodes(p, FlowID(id)), ordinal)
	}
	text := binary.LittleEndian.AppendUint64(nil, n)[:column[1]]
	key := keys.FlowNodes(p, FlowID(id))
	place, err := placeIn(ctx, client, key, ordinal)
	if err != nil {
		return err
	}
	return client.Do(ctx, client.B().Setrange().Key(key).Offset(place+int64(column[0])).Value(string(text)).Build()).Error()
}

// placeIn returns where the row of a node begins in a run.
func placeIn(ctx context.Context, client rueidis.Client, key string, ordinal int) (int64, error) {
	head, err := client.Do(ctx, client.B().Getrange().Key(key).Start(0).End(RunHeadBytes-1).Build()).ToString()
	if err == nil && len(head) < RunHeadBytes {
		err = fmt.Errorf("%s has no rows", key)
	}
	if err != nil {
		return 0, err
	}
	return int64(Place(ReadRunHead([]byte(head)).Count, ordinal)), nil
}

// setFlag notes that a row has further fields.
func setFlag(ctx context.Context, client rueidis.Client, key string, ordinal int) error {
	at, err := placeIn(ctx, client, key, ordinal)
	if err != nil {
		return err
	}
	at += int64(NodeRowColumns["flags"][0])
	text, err := client.Do(ctx, client.B().Getrange().Key(key).Start(at).End(at).Build()).ToString()
	if err != nil || text == "" {
		return err
	}
	return client.Do(ctx, client.B().Setrange().Key(key).Offset(at).Value(string([]byte{text[0] | NodeRowMore})).Build()).Error()
}
