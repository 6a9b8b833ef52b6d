package dispatch

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each slot has wakeFanout workers, which answer at different turns, and the first turns are spread evenly.
func TestWakeRing(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{4, 7, 50, 256, 400} {
		sets := newPeerSets(workers)
		received, first := make(map[int]int), make([]int, workers)
		for i, c := range sets {
			for _, slot := range c.Ring(testLane).Slots() {
				received[slot]++
				for round := range wakeFanout {
					if c.Ring(testLane).turn(slot, int64(round*ringSlotMS*ringSlots)) == 0 {
						first[i]++
					}
				}
			}
		}
		require.Len(t, received, ringSlots, "%d workers", workers)
		for slot, count := range received {
			require.Equal(t, wakeFanout, count, "slot %d of %d workers", slot, workers)
		}
		fair := float64(wakeFanout*ringSlots) / float64(workers)
		for i, count := range first {
			require.InDelta(t, fair, count, max(2, fair/4), "worker %d of %d", i, workers)
		}
	}
	few := newPeerSets(wakeFanout)
	require.Empty(t, few[0].Ring(testLane).Slots(), "few workers all receive every wake-up")
	require.Equal(t, wakeFanout, newPeerSets(8)[0].Ring(testLane).turn((newPeerSets(8)[0].Ring(testLane).self+1)%8, 0),
		"workers that no longer receive a slot come last")
}

// A wake-up of a ring slot that no worker took is handed on to all, once, and none that was taken.
func TestQueueHandsOnUntakenRingSlot(t *testing.T) {
	t.Parallel()
	at := func(i int) LaneShard {
		s := LaneShard{Lane: testLane}
		s.Partition.Index = uint16(i)
		return s
	}
	handed := make(chan int, 8)
	b := NewQueue(1)
	receive := func(i int, wait, patience time.Duration) {
		b.AddAssigned(at(i), 17, wait, patience, func() { handed <- i })
	}
	receive(0, 0, time.Hour)
	v, ok := b.Take()
	require.True(t, ok)
	require.Equal(t, ClaimTarget{LaneShard: at(0), Slots: 1, Shared: true, Early: true, RingSlot: "17"}, v)

	// Without a slot.
	receive(1, 0, time.Millisecond)
	receive(2, time.Hour, time.Hour)
	receive(3, time.Hour, time.Hour)
	b.MarkEmpty(at(2))
	b.AddShared(at(3), after(time.Hour))
	require.Equal(t, 1, <-handed)
	require.Empty(t, b.broadcasts)

	// It comes itself later, too.
	b.FinishClaim(1)
	v, ok = b.Take()
	require.True(t, ok)
	require.Equal(t, at(1), v.LaneShard)
	require.Empty(t, v.RingSlot, "all have received it")
	receive(4, time.Hour, time.Hour)
	b.Close()
	require.Equal(t, 4, <-handed, "a worker that stops hands on")
	receive(5, 0, time.Hour)
	require.Equal(t, 5, <-handed)
	require.Empty(t, handed)
}

// A peer set signals peers that come and go.
func TestPeerSetSignalsChanges(t *testing.T) {
	t.Parallel()
	c := NewPeerSet("worker-0")
	changed := func() bool {
		select {
		case <-c.Changed:
			return true
		default:
			return false
		}
	}
	for i := range 5 {
		c.Add(testLane, fmt.Sprint("peer-", i), time.Now())
	}
	require.True(t, changed())
	c.Add(testLane, "peer-0", time.Now())
	require.False(t, changed(), "known already")
	c.Remove(testLane, "peer-0")
	require.True(t, changed())
	c.RemoveSilent(time.Now().Add(2 * silentTurns * maxPresence))
	require.True(t, changed())
	require.Empty(t, c.Ring(testLane).Slots())
}
