package rowread

import (
	"context"
	"encoding/hex"
	"maps"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/runrecord"
)

// Stored has the stored values of a run.
type Stored struct {
	Nodes, Data    string            // the strings with its rows, and with its record
	Class          string            // the text of its class
	Graph, Overlay map[string]string // the hashes of its graph, and of the fields that have no other place
}

// Fields returns the fields of the record of a run.
func (s Stored) Fields() (map[string]string, error) {
	head := ReadRunHead([]byte(s.Nodes))
	graph := s.Graph
	class, err := runrecord.DecodeClass(s.Class)
	if err != nil {
		return nil, err
	}
	record, err := runrecord.Decode(DataOf(s.Nodes, s.Data).Record)
	if err != nil {
		return nil, err
	}
	edges, _ := strconv.Atoi(graph["edges"])
	out := map[string]string{
		"node_count": strconv.Itoa(head.Count), "graph_revision": strconv.Itoa(head.Count + edges),
	}
	if edges > 0 {
		out["edge_count"] = graph["edges"]
	}
	failFast := ""
	if record.FailFast {
		failFast = "1"
	}
	if head.Flags&RunHeadSpecial != 0 && graph["budgets"] != "" {
		out["budgets"], out["budget_ids"] = "graph", graph["blocking"]
	}
	for name, text := range map[string]string{
		"joins": joinsOf(graph), "flow_kind": class.FlowName, "namespace": class.Namespace, "graph_hash": class.GraphHash,
		"retention": class.Retention, "priority": class.Priority, "run_id": record.RunID, "input_hash": record.InputHash,
		"trace_context": record.TraceContext, "fair_key": record.FairKey, "creator_identity": record.Creator, "memo": string(record.Memo),
		"parent_execution_id": record.Parent, "fail_fast": failFast,
	} {
		if text != "" {
			out[name] = text
		}
	}
	maps.Copy(out, s.Overlay)
	out["managed"], out["created_at"] = "1", strconv.FormatInt(head.Created, 10)
	out["last_mutation_at"] = strconv.FormatInt(max(head.Created, head.Ended), 10)
	out["public_flow_state"] = valueOf(RunHeadState, head.State)
	if outcome := valueOf(RunHeadOutcome, head.Outcome); outcome != "none" {
		out["outcome"] = outcome
	}
	for name, n := range map[string]int64{
		"closed_at": head.Ended, "deadline_at": head.Deadline, "ends": int64(head.Ends), "told": int64(head.Told),
	} {
		if n > 0 {
			out[name] = strconv.FormatInt(n, 10)
		}
	}
	if head.Marks&RunHeadChildren != 0 {
		out["children"] = "1"
	}
	if head.Flags&RunHeadPurging != 0 {
		out["purging"] = "1"
	}
	return out, nil
}

// joinsOf returns the field joins of the runs of a graph.
func joinsOf(graph map[string]string) string {
	joins := ""
	for n := 1; graph["j"+strconv.Itoa(n)] != "" || graph["n"+strconv.Itoa(n)] != ""; n++ {
		ordinals := graph["j"+strconv.Itoa(n)]
		for at := 0; at+1 < len(ordinals); at += 2 {
			node, err := Node(graph, int(ordinals[at])|int(ordinals[at+1])<<8)
			if err == nil && len(node["join"]) >= 8 && node["join"][:8] == "finally " {
				return "finally"
			}
			joins = "1"
		}
	}
	return joins
}

// Flow returns the record of a flow: its hash, or the fields of its run under the names of the record's fields. It is
// empty if the flow does not exist.
func Flow(
	ctx context.Context, client rueidis.Client, keys enginerpc.Keys, p keyspace.Partition, flow enginecore.FlowID,
) (map[string]string, error) {
	overlay, err := hash(ctx, client, keys.FlowCore(p, flow))
	if err != nil {
		return nil, err
	}
	stored := Stored{Overlay: overlay}
	stored.Nodes, err = text(ctx, client, keys.FlowNodes(p, flow))
	if err != nil || stored.Nodes == "" {
		return overlay, err
	}
	head, _, err := Parse(stored.Nodes)
	if err != nil {
		return nil, err
	}
	if stored.Data, err = text(ctx, client, keys.FlowData(p, flow)); err != nil {
		return nil, err
	}
	stored.Class, stored.Graph, err = classOf(ctx, client, keys, p, head)
	if err != nil {
		return nil, err
	}
	return stored.Fields()
}

// GraphOf returns the hash under which the engine has the graph of a run.
func GraphOf(
	ctx context.Context, client rueidis.Client, keys enginerpc.Keys, p keyspace.Partition, flow enginecore.FlowID,
) (string, error) {
	nodes, err := text(ctx, client, keys.FlowNodes(p, flow))
	if err != nil {
		return "", err
	}
	head, _, err := Parse(nodes)
	if err != nil {
		return "", err
	}
	class, _, err := classOf(ctx, client, keys, p, head)
	if err != nil {
		return "", err
	}
	decoded, err := runrecord.DecodeClass(class)
	return decoded.Graph, err
}

// classOf returns the text of the class of a run, and the hash of its graph.
func classOf(
	ctx context.Context, client rueidis.Client, keys enginerpc.Keys, p keyspace.Partition, head Head,
) (class string, graph map[string]string, err error) {
	stored, err := hash(ctx, client, keys.FfxRunClass(p, hex.EncodeToString([]byte(head.Class))))
	if err != nil {
		return "", nil, err
	}
	decoded, err := runrecord.DecodeClass(stored["text"])
	if err != nil {
		return "", nil, err
	}
	graph, err = hash(ctx, client, keys.FfxGraph(p, decoded.Graph))
	return stored["text"], graph, err
}

// ResultOf returns the result of a node of a run by its ordinal, "" without one.
func ResultOf(
	ctx context.Context, client rueidis.Client, keys enginerpc.Keys, p keyspace.Partition, flow enginecore.FlowID, ordinal int,
) (string, error) {
	nodes, err := text(ctx, client, keys.FlowNodes(p, flow))
	if err != nil {
		return "", err
	}
	data, err := text(ctx, client, keys.FlowData(p, flow))
	if err != nil {
		return "", err
	}
	result, found := DataOf(nodes, data).Results[ordinal]
	if !found {
		results, err := hash(ctx, client, keys.FlowResults(p, flow))
		if err != nil {
			return "", err
		}
		result = results[strconv.Itoa(ordinal)]
	}
	if key, _, named := keys.KeptValue(result); named {
		return text(ctx, client, key)
	}
	return result, nil
}

// text returns the string at a key, "" without one.
func text(ctx context.Context, client rueidis.Client, key string) (string, error) {
	stored, err := client.Do(ctx, client.B().Get().Key(key).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return "", nil
	}
	return stored, err
}

// SetFlow sets fields of a flow that have no place in the header of its rows.
func SetFlow(
	ctx context.Context, client rueidis.Client, keys enginerpc.Keys, p keyspace.Partition, flow enginecore.FlowID, fields map[string]string,
) error {
	set := client.B().Hset().Key(keys.FlowCore(p, flow)).FieldValue()
	for name, value := range fields {
		set = set.FieldValue(name, value)
	}
	if err := client.Do(ctx, set.Build()).Error(); err != nil {
		return err
	}
	nodes, err := text(ctx, client, keys.FlowNodes(p, flow))
	if err != nil || nodes == "" {
		return err
	}
	at := RunHeadColumns["flags"][0]
	flags := string([]byte{nodes[at] | RunHeadOverlay})
	return client.Do(ctx, client.B().Setrange().Key(keys.FlowNodes(p, flow)).Offset(int64(at)).Value(flags).Build()).Error()
}
