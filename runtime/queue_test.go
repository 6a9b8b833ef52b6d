package runtime

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// A worker with k shards in its queue claims from each of them within k claims, whatever wakes it meanwhile.
func TestQueueVisitsInTurn(t *testing.T) {
	const shards = 40
	at := func(i int) laneShard {
		return laneShard{"default", enginecore.Partition{Family: enginecore.FlowFamily, Index: uint16(i)}}
	}
	b := newDispatchQueue(1)
	defer b.close()
	for i := range shards {
		b.add(at(i))
	}
	last := make(map[laneShard]int)
	for claim := range 20 * shards {
		for range rand.IntN(3) {
			b.add(at(rand.IntN(shards)))
			b.addSetAside(at(rand.IntN(shards)))
		}
		v, ok := b.take(false)
		require.True(t, ok)
		require.LessOrEqual(t, claim-last[v.laneShard], shards, "%v", v.laneShard)
		last[v.laneShard] = claim
		_, again := b.take(false)
		require.False(t, again, "there is one slot")
		b.add(v.laneShard) // it left work there
		b.finishClaim(v.slots)
	}
	require.Len(t, last, shards)
}

// Where the server chooses which shard a claim visits, each lane has its turn, no more claims are in flight than shards wait, and
// a wake-up of a shard during a claim makes for another one.
func TestQueueLeavesTheChoice(t *testing.T) {
	t.Parallel()
	at := func(lane enginecore.LaneID, i int) laneShard {
		return laneShard{lane, enginecore.Partition{Family: enginecore.FlowFamily, Index: uint16(i)}}
	}
	b := newDispatchQueue(16)
	defer b.close()
	b.add(at("a", 1))
	b.addSetAside(at("a", 4))
	b.add(at("b", 2))
	first, ok := b.take(true)
	require.True(t, ok)
	require.Equal(t, "01005", first.digits)
	second, ok := b.take(true)
	require.True(t, ok)
	require.Equal(t, "01005", second.digits, "what a claim under way may visit stays on the list")
	third, ok := b.take(true)
	require.True(t, ok)
	require.Equal(t, at("b", 2), third.laneShard)
	require.Empty(t, third.digits, "there is one of the lane")
	_, ok = b.take(true)
	require.False(t, ok, "there are as many claims as shards")

	b.add(at("a", 1)) // new work, of which the claims may not know
	require.True(t, b.resolveHint(first, at("a", 4)))
	require.False(t, b.resolveHint(second, at("a", 1)))
	b.finishClaim(first.slots)
	b.finishClaim(second.slots)
	again, ok := b.take(true)
	require.True(t, ok)
	require.Equal(t, at("a", 1), again.laneShard)
	require.Empty(t, again.digits)
	_, ok = b.take(true)
	require.False(t, ok, "the other one has been visited")
}
