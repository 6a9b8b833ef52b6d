package dispatch

import (
	"fmt"
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

const testLane = enginecore.LaneID("default")

func newPeerSets(count int) []*PeerSet {
	sets := make([]*PeerSet, count)
	for i := range sets {
		sets[i] = NewPeerSet(enginecore.WorkerInstanceID(fmt.Sprint("worker-", i)))
		for j := range count {
			if i != j {
				sets[i].Add(testLane, fmt.Sprint("worker-", j), time.Now())
			}
		}
	}
	return sets
}

// One worker answers at once, two at the next turn, four at the one after, and all have the same chance of being first.
func TestPeersShareTurnsFairly(t *testing.T) {
	t.Parallel()
	const workers, messages = 10, 5000
	sets := newPeerSets(workers)
	first := make([]int, workers)
	for n := range messages {
		turns := make(map[time.Duration]int)
		for i, c := range sets {
			wait, _ := c.TurnDelay(testLane, fmt.Sprintf("%d %d", n%4, 1_700_000_000_000+n))
			turns[wait]++
			if wait == 0 {
				first[i]++
			}
		}
		if turns[0] != 1 || turns[minTurnInterval] != 2 || turns[2*minTurnInterval] != 4 || turns[3*minTurnInterval] != 3 {
			t.Fatalf("message %d: %v", n, turns)
		}
	}
	for i, count := range first {
		if fair := messages / workers; count < fair*3/4 || count > fair*5/4 {
			t.Errorf("worker %d was first %d times of %d", i, count, messages)
		}
	}
}

// A worker without peers answers at once, and silent peers are forgotten.
func TestPeerSetForgetsSilentPeers(t *testing.T) {
	t.Parallel()
	c := NewPeerSet("worker-0")
	now := time.Now()
	for i := range 30 {
		if !c.Add(testLane, fmt.Sprint("peer-", i), now) {
			t.Fatal("not new")
		}
	}
	if c.Add(testLane, "peer-0", now) {
		t.Error("known already")
	}
	c.Remove(testLane, "peer-1")
	if c.Size() != 29 {
		t.Errorf("%d peers", c.Size())
	}
	c.RemoveSilent(now.Add(silentTurns*presenceInterval(c.Size()) + time.Second))
	if wait, first := c.TurnDelay(testLane, "1 1"); c.Size() != 0 || wait != 0 || !first {
		t.Errorf("%d peers, waits %s", c.Size(), wait)
	}
}

// Presence messages of workers cause a bounded load of the server for up to 80 workers.
func TestPresenceIntervalGrowsWithWorkers(t *testing.T) {
	t.Parallel()
	last := time.Duration(0)
	for workers := 1; workers <= 80; workers++ {
		interval := presenceInterval(workers - 1)
		if interval < last {
			t.Errorf("%d workers announce themselves more often than fewer", workers)
		}
		if perSecond := float64(workers*workers) / interval.Seconds(); perSecond > 11 {
			t.Errorf("%d workers receive %.1f announcements a second", workers, perSecond)
		}
		last = interval
	}
	if got := presenceInterval(1 << 20); got != maxPresence {
		t.Errorf("very many workers announce themselves every %s", got)
	}
}

func TestQueueLeavesShardsToOthers(t *testing.T) {
	t.Parallel()
	b := NewQueue(1)
	taken, open := LaneShard{Lane: testLane}, LaneShard{Lane: testLane, Partition: keyspace.Partition{Index: 1}}
	b.AddShared(taken, after(time.Hour))
	b.AddShared(open, after(time.Millisecond))
	b.MarkEmpty(taken)
	<-b.Changed
	v, ok := b.Take()
	if !ok || v.LaneShard != open || !v.Shared || !v.Early {
		t.Fatalf("%+v %v", v, ok)
	}
	// Without a free slot the shard is queued at once, but this worker then does not have to report an empty shard to
	// others.
	b.AddShared(taken, after(time.Hour))
	if _, ok := b.Take(); ok {
		t.Error("a visit without a slot")
	}
	b.FinishClaim(1)
	if v, ok := b.Take(); !ok || v.LaneShard != taken || !v.Shared || v.Early {
		t.Errorf("%+v %v", v, ok)
	}
	b.FinishClaim(1)
	b.AddSetAside(taken)
	b.MarkEmpty(taken)
	if v, ok := b.Take(); !ok || !v.SetAside {
		t.Errorf("a shard that was set aside counts as taken by others: %+v %v", v, ok)
	}
	b.AddShared(open, after(time.Hour))
	b.Close()
	if len(b.delayed) != 0 {
		t.Error("a timer is left")
	}
}

func after(d time.Duration) func() (time.Duration, bool) {
	return func() (time.Duration, bool) { return d, true }
}
