package dispatch

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// A worker with k shards in its queue claims from each of them within k claims, regardless of wake-ups in between.
func TestQueueVisitsInTurn(t *testing.T) {
	const shards = 40
	at := func(i int) LaneShard {
		return LaneShard{"default", keyspace.Partition{Family: keyspace.FlowFamily, Index: uint16(i)}}
	}
	b := NewQueue(1)
	defer b.Close()
	for i := range shards {
		b.Add(at(i))
	}
	last := make(map[LaneShard]int)
	for claim := range 20 * shards {
		for range rand.IntN(3) {
			b.Add(at(rand.IntN(shards)))
			b.AddSetAside(at(rand.IntN(shards)))
		}
		v, ok := b.Take()
		require.True(t, ok)
		require.LessOrEqual(t, claim-last[v.LaneShard], shards, "%v", v.LaneShard)
		last[v.LaneShard] = claim
		_, again := b.Take()
		require.False(t, again, "there is one slot")
		b.Add(v.LaneShard) // it left work there
		b.FinishClaim(v.Slots)
	}
	require.Len(t, last, shards)
}
