//go:build !race

package enginerpc

import (
	"testing"

	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// The race detector lets pools forget, so there is nothing to count with it.

// A call allocates only its texts: here the partition's tag, a key and the time to live. It reuses the lists of
// earlier calls.
func TestEncodingAllocatesTextsOnly(t *testing.T) {
	k, c := testKeys(t), completion()
	var pool wirePool
	if n := testing.AllocsPerRun(1000, func() {
		if err := encodePooled(&pool, k, c); err != nil {
			t.Fatal(err)
		}
	}); n > 3 {
		t.Errorf("a completion allocates %v times before it is sent, want at most 3", n)
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
