package dispatch

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// A worker with k shards in its queue claims from each of them within k claims, whatever wakes it meanwhile.
func TestQueueVisitsInTurn(t *testing.T) {
	const shards = 40
	at := func(i int) LaneShard {
		return LaneShard{"default", enginecore.Partition{Family: enginecore.FlowFamily, Index: uint16(i)}}
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
		v, ok := b.Take(false)
		require.True(t, ok)
		require.LessOrEqual(t, claim-last[v.LaneShard], shards, "%v", v.LaneShard)
		last[v.LaneShard] = claim
		_, again := b.Take(false)
		require.False(t, again, "there is one slot")
		b.Add(v.LaneShard) // it left work there
		b.FinishClaim(v.Slots)
	}
	require.Len(t, last, shards)
}

// Where the server chooses which shard a claim visits, each lane has its turn, no more claims are in flight than shards
// wait, and a wake-up of a shard during a claim makes for another one.
func TestQueueLeavesTheChoice(t *testing.T) {
	t.Parallel()
	at := func(lane enginecore.LaneID, i int) LaneShard {
		return LaneShard{lane, enginecore.Partition{Family: enginecore.FlowFamily, Index: uint16(i)}}
	}
	b := NewQueue(16)
	defer b.Close()
	b.Add(at("a", 1))
	b.AddSetAside(at("a", 4))
	b.Add(at("b", 2))
	first, ok := b.Take(true)
	require.True(t, ok)
	require.Equal(t, "01005", first.Digits)
	second, ok := b.Take(true)
	require.True(t, ok)
	require.Equal(t, "01005", second.Digits, "what a claim under way may visit stays on the list")
	third, ok := b.Take(true)
	require.True(t, ok)
	require.Equal(t, at("b", 2), third.LaneShard)
	require.Empty(t, third.Digits, "there is one of the lane")
	_, ok = b.Take(true)
	require.False(t, ok, "there are as many claims as shards")

	b.Add(at("a", 1)) // new work, of which the claims may not know
	require.True(t, b.ResolveHint(first, at("a", 4)))
	require.False(t, b.ResolveHint(second, at("a", 1)))
	b.FinishClaim(first.Slots)
	b.FinishClaim(second.Slots)
	again, ok := b.Take(true)
	require.True(t, ok)
	require.Equal(t, at("a", 1), again.LaneShard)
	require.Empty(t, again.Digits)
	_, ok = b.Take(true)
	require.False(t, ok, "the other one has been visited")
}
