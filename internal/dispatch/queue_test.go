package dispatch

import (
	"math/rand/v2"
	"testing"
	"time"

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

// A slot that gets its executions from a shard makes way for claims from other shards, and for those from its own shard
// that have another effect than its next execution.
func TestQueueHasWaiting(t *testing.T) {
	mine := LaneShard{"default", keyspace.Partition{Family: keyspace.FlowFamily}}
	other := LaneShard{"other", mine.Partition}
	now := func() (time.Duration, bool) { return 0, true }
	for name, c := range map[string]struct {
		queue func(*Queue)
		want  bool
	}{
		"nothing":                     {func(*Queue) {}, false},
		"the shard of the slot":       {func(q *Queue) { q.Add(mine) }, false},
		"another shard":               {func(q *Queue) { q.Add(mine); q.Add(other) }, true},
		"executions set aside":        {func(q *Queue) { q.AddSetAside(mine) }, true},
		"a wake-up of all workers":    {func(q *Queue) { q.AddShared(mine, now) }, true},
		"a wake-up in a slot of ring": {func(q *Queue) { q.AddAssigned(mine, 1, 0, time.Hour, func() {}) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			q := NewQueue(1)
			defer q.Close()
			require.Equal(t, 1, q.Reserve(1))
			c.queue(q)
			require.Equal(t, c.want, q.HasWaiting(mine))
		})
	}
}
