package contractcheck

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// servedOfFlow reports whether contract mode serves a member of the stored form of a flow. A definition with any other
// member is refused, so that a new construct is never silently ignored.
func servedOfFlow(member string) bool {
	switch member {
	case "version", "name", "description", "input_type", "output_type", "codec", "deadline_ms", "tags", "return",
		"nodes":
		return true
	}
	return false
}

// servedOfNode reports whether contract mode serves a member of the stored form of a node.
func servedOfNode(member string) bool {
	switch member {
	case "name", "activity", "codec", "lane", "priority", "capabilities", "start_to_close_ms", "heartbeat_timeout_ms",
		"keep_frames", "retry", "retry_rules", "tags", "input", "after", "on_failure", "always", "wait", "join":
		return true
	}
	return false
}

// unknownMembers returns the members of the stored form of a flow, and of its nodes, that contract mode does not
// serve, each sorted.
func unknownMembers(g *flowgraph.Graph) (ofFlow []string, ofNodes [][]string, err error) {
	definition, err := g.MarshalJSON()
	if err != nil {
		return nil, nil, err
	}
	var stored map[string]json.RawMessage
	if err := json.Unmarshal(definition, &stored); err != nil {
		return nil, nil, err
	}
	var nodes []map[string]json.RawMessage
	if err := json.Unmarshal(stored["nodes"], &nodes); err != nil {
		return nil, nil, err
	}
	ofNodes = make([][]string, len(nodes))
	for i, n := range nodes {
		ofNodes[i] = otherMembers(n, servedOfNode)
	}
	return otherMembers(stored, servedOfFlow), ofNodes, nil
}

// otherMembers returns the members that are not served, sorted.
func otherMembers(stored map[string]json.RawMessage, served func(member string) bool) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(stored)), served)
}
