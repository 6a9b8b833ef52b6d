package enginerpc

import (
	"strings"
	"testing"
	"time"

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
		assert.Equal(t, string(flow), found+rootSuffix)
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

const claimedHead = "{fp:7}:01234567-89ab-8def-8123-456789ab0002 lease-1 1700000030000 " +
	"1700000000000 - 00112233445566778899aabbccddeeff 5 13 my fl\x01\x93\xa5r u\nn\xa0\xa3t c"

func TestParseClaimed(t *testing.T) {
	want := ClaimedExecution{
		ExecutionID: "{fp:7}:01234567-89ab-8def-8123-456789ab0002", LeaseID: "lease-1",
		LeaseExpiresAt: time.UnixMilli(1700000030000).UTC(), CreatedAt: time.UnixMilli(1700000000000).UTC(),
		Graph: "00112233445566778899aabbccddeeff", FlowName: "my fl", RunID: "r u\nn", TraceContext: "t c",
		InputsComplete: true, FlowInput: []byte{},
	}
	for text, set := range map[string]func(*ClaimedExecution){
		"":                     func(*ClaimedExecution) {},
		"i5 12 a nodei1 f\x00": func(x *ClaimedExecution) { x.Inputs = []NodeInput{{"a nod", []byte("ei1 f\x00"), "12"}} },
		"i1 1 a":               func(x *ClaimedExecution) { x.Inputs = []NodeInput{{"a", []byte{}, "1"}} },
		"f{}":                  func(x *ClaimedExecution) { x.FlowInput = []byte("{}") },
		"r1 3 2 fr": func(x *ClaimedExecution) {
			x.AttemptType, x.AttemptIndex, x.LeaseEpoch, x.RetryCount, x.FlowInput = "retry", 1, 3, 2, []byte("r")
		},
	} {
		var got ClaimedExecution
		expected := want
		set(&expected)
		assert.Empty(t, parseClaimed([]byte(claimedHead+text), &got), text)
		assert.Equal(t, expected, got, text)
	}
}

// singleHead describes the node of a run without others up to its data.
const singleHead = "1{fp:7}:01234567-89ab-8def-8123-456789ab0001 lease-1 1700000030000 " +
	"\x01\x02\x03\x04\x05\x06\x07\x00\x68\xe5\xcf\x8b\x01\x01\x68\xe5\xcf\x8b\x01classid8" +
	"ag00112233445566778899aabbccddeeff 5 my fl"

// singleRecord is the record of its run after its length.
const singleRecord = "\x0d\x00\x00\x00\x01\x93\xa5r u\nn\xa0\xa3t c"

func TestParseClaimed_RunOfOneNode(t *testing.T) {
	want := ClaimedExecution{
		ExecutionID: "{fp:7}:01234567-89ab-8def-8123-456789ab0001", LeaseID: "lease-1",
		LeaseExpiresAt: time.UnixMilli(1700000030000).UTC(), CreatedAt: time.UnixMilli(1700000000000).UTC(),
		DeadlineAt: time.UnixMilli(1700000000001).UTC(), Admission: ofGraph, Budgets: ofGraph,
		Graph: "00112233445566778899aabbccddeeff", FlowName: "my fl", RunID: "r u\nn", TraceContext: "t c",
		InputsComplete: true, FlowInput: []byte{},
	}
	var got ClaimedExecution
	assert.Empty(t, parseClaimed([]byte(singleHead+singleRecord), &got))
	assert.Equal(t, want, got)
	got, want.FlowInput = ClaimedExecution{}, []byte("{}")
	assert.Empty(t, parseClaimed([]byte(singleHead+singleRecord+"\x02\x00\x00\x00{}"), &got))
	assert.Equal(t, want, got)
	for n := range len(singleHead + singleRecord) {
		assert.NotEmpty(t, parseClaimed([]byte((singleHead + singleRecord)[:n]), &got), n)
	}
	assert.NotEmpty(t, parseClaimed([]byte(singleHead+singleRecord+"\x03\x00\x00\x00{}"), &got))
}

// A node that follows on a completion has the fields of the completed node, its own id and lease, and the result.
func TestParseClaimed_FollowingNode(t *testing.T) {
	done := ClaimedExecution{
		ExecutionID: "{fp:7}:01234567-89ab-8def-8123-456789ab0001", LeaseID: "lease-1", FlowName: "f", RunID: "r",
		CreatedAt: time.UnixMilli(1).UTC(), DeadlineAt: time.UnixMilli(2).UTC(), TraceContext: "t", Graph: "g", Budgets: "b",
		Node: "a", FlowInput: []byte("in"), AttemptIndex: 3,
	}
	var got ClaimedExecution
	assert.Empty(t, parseClaimed([]byte(">2a 000a 1700000030000"), &got))
	assert.EqualValues(t, 2, got.After)
	follow(&got, &done, []byte("1"), "00000000-0000-4000-8000-0123456789ab", 17)
	assert.Equal(t, ClaimedExecution{
		ExecutionID: "{fp:7}:01234567-89ab-8def-8123-456789ab000a", LeaseID: "00000000-0000-4000-8000-000000000011",
		LeaseExpiresAt: time.UnixMilli(1700000030000).UTC(), FlowName: "f", RunID: "r", CreatedAt: done.CreatedAt,
		DeadlineAt: done.DeadlineAt, TraceContext: "t", Graph: "g", Budgets: "b", Admission: ofGraph, InputsComplete: true,
		FlowInput: []byte{}, Inputs: []NodeInput{{Name: "a", Result: []byte("1")}}, After: 2,
	}, got)
	for _, text := range []string{">", ">0 0001 17", ">a 0001 17", ">1 001 17", ">1 0001", ">1 0001 x"} {
		assert.NotEmpty(t, parseClaimed([]byte(text), new(ClaimedExecution)), text)
	}
}

func TestParseClaimed_RefusesTruncatedReply(t *testing.T) {
	for n := range len(claimedHead) {
		var got ClaimedExecution
		assert.NotEmpty(t, parseClaimed([]byte(claimedHead[:n]), &got), claimedHead[:n])
	}
	for _, text := range []string{"x", "i5 a", "i5 1 a", "i-1 1 a", "i"} {
		var got ClaimedExecution
		assert.NotEmpty(t, parseClaimed([]byte(claimedHead+text), &got), text)
	}
}

func TestParseClaimed_RefusesNewerRecord(t *testing.T) {
	var got ClaimedExecution
	fault := parseClaimed([]byte(strings.Replace(claimedHead, "\x01", "\x02", 1)), &got)
	assert.Equal(t, "is of {fp:7}:01234567-89ab-8def-8123-456789ab0002 of flow my fl: "+
		"the record of the run has version 2, this program reads version 1", fault)
}
