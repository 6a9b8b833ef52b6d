package runtime

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// A worker with k places on its list visits each of them within k claims, whatever it hears meanwhile.
func TestBoardVisitsInTurn(t *testing.T) {
	const places = 40
	at := func(i int) spot {
		return spot{"default", enginecore.Partition{Family: enginecore.FlowFamily, Index: uint16(i)}}
	}
	b := newBoard(1)
	defer b.close()
	for i := range places {
		b.add(at(i))
	}
	last := make(map[spot]int)
	for claim := range 20 * places {
		for range rand.IntN(3) {
			b.add(at(rand.IntN(places)))
			b.addAside(at(rand.IntN(places)))
		}
		v, ok := b.take()
		require.True(t, ok)
		require.LessOrEqual(t, claim-last[v.spot], places, "%v", v.spot)
		last[v.spot] = claim
		_, again := b.take()
		require.False(t, again, "there is one slot")
		b.add(v.spot) // it left work there
		b.claimed(v.slots)
	}
	require.Len(t, last, places)
}
