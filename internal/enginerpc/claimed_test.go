package enginerpc

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// TestFlowNode reads flows and ordinals from the ids of executions.
func TestFlowNode(t *testing.T) {
	flow := keyspace.FlowIDFor("n", "f", "r")
	p := keyspace.Partition{Family: keyspace.FlowFamily, Index: 7}
	for _, ordinal := range []int{1, 32, 33, 65535} {
		found, at := flowNode(keyspace.NodeExecutionID(p, flow, ordinal))
		assert.Equal(t, flow, found)
		assert.Equal(t, ordinal, at)
	}
	for _, id := range []enginecore.ExecutionID{"", "{fp:7}:short", "{fp:7}:00000000-0000-8000-8000-00000000zzzz"} {
		_, at := flowNode(id)
		assert.Zero(t, at, id)
	}
}

// TestGraphCacheIsBounded fills a cache beyond its bound: it drops the old entries and keeps the latest.
func TestGraphCacheIsBounded(t *testing.T) {
	var g graphCache
	large := ReadGraphReply{Nodes: []GraphNode{{Name: "n", Policy: make([]byte, maxGraphBytes/2)}}}
	for _, graph := range []string{"a", "b"} {
		g.put(graphPart{graph, 1}, large)
	}
	_, found := g.get(graphPart{"a", 1})
	assert.False(t, found)
	nodes, found := g.get(graphPart{"b", 1})
	require.True(t, found)
	assert.Equal(t, "n", nodes.Nodes[0].Name)
}
