//go:build !race

package enginerpc

import (
	"testing"

	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// The race detector lets pools forget, so there is nothing to count with it.

// A call allocates only its texts: here a key and the time to live. It reuses the lists of earlier calls.
func TestEncodingAllocatesTextsOnly(t *testing.T) {
	k, c := testKeys(t), completion()
	var pool wirePool
	if n := testing.AllocsPerRun(1000, func() {
		if err := encodePooled(&pool, k, c); err != nil {
			t.Fatal(err)
		}
	}); n > 2 {
		t.Errorf("a completion allocates %v times before it is sent, want at most 2", n)
	}
}

// An execution that was leased for its first attempt is read in place, and gets its other ids from one text.
func TestClaimedExecutionAllocatesIDsOnly(t *testing.T) {
	data, conn := []byte(claimedHead+`f{"a":1}`), new(Conn)
	conn.graphs.put(graphPart{"00112233445566778899aabbccddeeff", 1}, ReadGraphReply{Nodes: make([]GraphNode, 2)})
	claimed := make([]ClaimedExecution, 1)
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() {
		claimed[0] = ClaimedExecution{}
		if problem := parseClaimed(data, &claimed[0]); problem != "" {
			t.Fatal(problem)
		}
		if err := conn.describe(ctx, claimed); err != nil {
			t.Fatal(err)
		}
	}); n > 1 {
		t.Errorf("a claimed execution allocates %v times, want 1", n)
	}
}

// Wake-ups are the most frequent messages: reading one allocates nothing, and writing one only its text.
func TestWakeUpsAllocateTextsOnly(t *testing.T) {
	m := WorkMessage{keyspace.Partition{Family: keyspace.FlowFamily, Index: 7}, "1795188498438"}
	text := m.Text()
	if n := testing.AllocsPerRun(1000, func() {
		if got, ok := ParseWorkMessage(text); !ok || got != m {
			t.Fatal(got)
		}
	}); n > 0 {
		t.Errorf("reading a wake-up allocates %v times", n)
	}
	if n := testing.AllocsPerRun(1000, func() {
		if m.Text() != text {
			t.Fatal(text)
		}
	}); n > 1 {
		t.Errorf("writing a wake-up allocates %v times, want 1", n)
	}
}
