package dispatch

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// laneLoad counts the shards of one lane in a dispatch queue, and the claims in flight with a hint, each of which
// visits one of these shards.
type laneLoad struct{ queued, hinted int }

// unclaimed returns how many more claims the shards suffice for.
func (l laneLoad) unclaimed() int { return l.queued - l.hinted }

func (l laneLoad) withQueued(by int) laneLoad {
	l.queued += by
	return l
}

// partitionHint lists the partitions of a lane where work may be waiting. The server picks the one that was visited
// longest ago by any worker. The zero value leaves the choice to the claim. The engine reads the texts in ffx_claim.
type partitionHint struct {
	Digits    string // one for each partition, by its index
	RingSlots string // " <partition>@<slot> " for each digitAssigned
	version   int    // of the queue when the hint was made
}

// Digits of a hint, and what is added to them for shards where an execution was set aside.
const (
	digitNone     = '0'
	digitListed   = '1'
	digitShared   = '2'
	digitEarly    = '3'
	digitAssigned = '4'
	plusSetAside  = 4
	digitSetAside = digitListed + plusSetAside
	hintCapacity  = 64 // initial, in partitions
)

// makeHint makes the hint for the shards of a lane in the queue, and counts the claim that uses it. It needs the lock.
func (q *Queue) makeHint(lane enginecore.LaneID) partitionHint {
	digits, ringSlots := make([]byte, 0, hintCapacity), new(strings.Builder)
	for _, v := range q.queue {
		if v.Lane != lane {
			continue
		}
		i := int(v.Partition.Index)
		if missing := i + 1 - len(digits); missing > 0 {
			digits = append(digits, bytes.Repeat([]byte{digitNone}, missing)...)
		}
		pending, assigned := q.broadcasts[v.LaneShard]
		switch {
		case assigned:
			digits[i] = digitAssigned
			fmt.Fprintf(ringSlots, " %d@%s ", i, pending.slot)
		case v.Early:
			digits[i] = digitEarly
		case v.Shared:
			digits[i] = digitShared
		default:
			digits[i] = digitListed
		}
		if q.setAside[v.LaneShard] {
			digits[i] += plusSetAside
		}
	}
	l := q.lanes[lane]
	l.hinted++
	q.lanes[lane] = l
	return partitionHint{string(digits), ringSlots.String(), q.version}
}

// ResolveHint ends the use of a hint after its claim visited the shard at, which leaves the queue unless a newer
// wake-up of it has arrived. It reports whether the claim also took executions that were set aside. For a target
// without a hint it only reports that.
func (q *Queue) ResolveHint(v ClaimTarget, at LaneShard) (setAside bool) {
	if v.Digits == "" {
		return v.SetAside
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.endHint(v)
	if version, queued := q.queued[at]; queued && version <= v.version {
		q.remove(at)
		q.dropBroadcast(at)
		delete(q.setAside, at)
	}
	i := int(at.Partition.Index)
	return i < len(v.Digits) && v.Digits[i] >= digitSetAside
}

// DropHint ends the use of a hint by a claim whose visited shard is not known, because the claim failed. The shards
// stay queued. It does nothing for a target without a hint.
func (q *Queue) DropHint(v ClaimTarget) {
	if v.Digits == "" {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.endHint(v)
}

// endHint counts the claim off. It needs the lock.
func (q *Queue) endHint(v ClaimTarget) {
	l := q.lanes[v.Lane]
	l.hinted--
	q.lanes[v.Lane] = l
}
