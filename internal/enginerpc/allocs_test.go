//go:build !race

package enginerpc

import "testing"

// The race detector lets pools forget, so there is nothing to count with it.

// What a call allocates are the texts that it is made of: here the partition's tag, a key and the time to live. The lists are
// those of calls before it.
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
