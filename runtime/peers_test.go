package runtime

import (
	"fmt"
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

const testLane = enginecore.LaneID("default")

func newCrowds(count int) []*crowd {
	crowds := make([]*crowd, count)
	for i := range crowds {
		crowds[i] = newCrowd(enginecore.WorkerInstanceID(fmt.Sprint("worker-", i)))
		for j := range count {
			if i != j {
				crowds[i].here(testLane, fmt.Sprint("worker-", j), time.Now())
			}
		}
	}
	return crowds
}

// One worker answers at once, two at the next turn, four at the one after, and all have the same chance of being first.
func TestTurns(t *testing.T) {
	t.Parallel()
	const workers, messages = 10, 5000
	crowds := newCrowds(workers)
	first := make([]int, workers)
	for n := range messages {
		turns := make(map[time.Duration]int)
		for i, c := range crowds {
			wait, _ := c.wait(testLane, fmt.Sprintf("%d %d", n%4, 1_700_000_000_000+n))
			turns[wait]++
			if wait == 0 {
				first[i]++
			}
		}
		if turns[0] != 1 || turns[minTurn] != 2 || turns[2*minTurn] != 4 || turns[3*minTurn] != 3 {
			t.Fatalf("message %d: %v", n, turns)
		}
	}
	for i, count := range first {
		if fair := messages / workers; count < fair*3/4 || count > fair*5/4 {
			t.Errorf("worker %d was first %d times of %d", i, count, messages)
		}
	}
}

// Whoever is alone answers at once, and the silent are forgotten.
func TestCrowdForgets(t *testing.T) {
	t.Parallel()
	c := newCrowd("worker-0")
	now := time.Now()
	for i := range 30 {
		if !c.here(testLane, fmt.Sprint("peer-", i), now) {
			t.Fatal("not new")
		}
	}
	if c.here(testLane, "peer-0", now) {
		t.Error("known already")
	}
	c.left(testLane, "peer-1")
	if c.size() != 29 {
		t.Errorf("%d peers", c.size())
	}
	c.forgetSilent(now.Add(presenceLasts + time.Second))
	if wait, first := c.wait(testLane, "1 1"); c.size() != 0 || wait != 0 || !first {
		t.Errorf("%d peers, waits %s", c.size(), wait)
	}
}

func TestBoardLeavesSpotsToOthers(t *testing.T) {
	t.Parallel()
	b := newBoard(1)
	taken, open := spot{lane: testLane}, spot{lane: testLane, partition: enginecore.Partition{Index: 1}}
	b.hear(taken, after(time.Hour))
	b.hear(open, after(time.Millisecond))
	b.nothingAt(taken)
	<-b.changed
	v, ok := b.take(false)
	if !ok || v.spot != open || !v.heard || !v.first {
		t.Fatalf("%+v %v", v, ok)
	}
	// Without a free slot it is noted at once, but others need not be told by this worker then that nothing was there.
	b.hear(taken, after(time.Hour))
	if _, ok := b.take(false); ok {
		t.Error("a visit without a slot")
	}
	b.claimed(1)
	if v, ok := b.take(false); !ok || v.spot != taken || !v.heard || v.first {
		t.Errorf("%+v %v", v, ok)
	}
	b.claimed(1)
	b.addAside(taken)
	b.nothingAt(taken)
	if v, ok := b.take(false); !ok || !v.aside {
		t.Errorf("what was set aside is not what others have taken: %+v %v", v, ok)
	}
	b.hear(open, after(time.Hour))
	b.close()
	if len(b.later) != 0 {
		t.Error("a timer is left")
	}
}

func after(d time.Duration) func() (time.Duration, bool) {
	return func() (time.Duration, bool) { return d, true }
}
