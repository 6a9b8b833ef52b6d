package runtime

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// line is what a board knows of the spots of one lane in its queue: how many there are, and how many claims are under way
// that visit one of them which the server chooses.
type laneLoad struct{ queued, hinted int }

// unclaimed is how many more claims may go to the line.
func (l laneLoad) unclaimed() int { return l.queued - l.hinted }

func (l laneLoad) withQueued(by int) laneLoad {
	l.queued += by
	return l
}

// choice is what a server chooses from when a claim visits the spot that was visited longest ago by any worker. Its zero value
// leaves no choice.
type partitionHint struct {
	digits, ringSlots string // as ffx_claim takes them
	version           int    // the latest that the board had heard
}

// Digits of the list, and what is added to them for spots where something was set aside.
const (
	digitNone     = '0'
	digitListed   = '1'
	digitShared   = '2'
	digitEarly    = '3'
	digitAssigned = '4'
	plusSetAside  = 4
	digitSetAside = digitListed + plusSetAside
	hintCapacity  = 64 // a list is made for so many partitions at first
)

// makeHint makes the list of a lane's spots in the queue. It needs the lock.
func (b *dispatchQueue) makeHint(lane enginecore.LaneID) partitionHint {
	list, places := make([]byte, 0, hintCapacity), new(strings.Builder)
	for _, v := range b.queue {
		if v.lane != lane {
			continue
		}
		i := int(v.partition.Index)
		if missing := i + 1 - len(list); missing > 0 {
			list = append(list, bytes.Repeat([]byte{digitNone}, missing)...)
		}
		c, onDuty := b.handoffs[v.laneShard]
		switch {
		case onDuty:
			list[i] = digitAssigned
			fmt.Fprintf(places, " %d@%s ", i, c.slot)
		case v.early:
			list[i] = digitEarly
		case v.shared:
			list[i] = digitShared
		default:
			list[i] = digitListed
		}
		if b.setAside[v.laneShard] {
			list[i] += plusSetAside
		}
	}
	l := b.lanes[lane]
	l.hinted++
	b.lanes[lane] = l
	return partitionHint{string(list), places.String(), b.version}
}

// resolveHint ends a choice: the claim has been at a spot, which leaves the queue unless there is newer word of it. It tells
// whether the claim looked at what was set aside, too.
func (b *dispatchQueue) resolveHint(v claimTarget, at laneShard) (aside bool) {
	if v.digits == "" {
		return v.setAside
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.endHint(v)
	if word, queued := b.queued[at]; queued && word <= v.version {
		b.remove(at)
		b.dropHandoff(at)
		delete(b.setAside, at)
	}
	i := int(at.partition.Index)
	return i < len(v.digits) && v.digits[i] >= digitSetAside
}

// dropHint ends a choice of which nobody knows where the claim has been.
func (b *dispatchQueue) dropHint(v claimTarget) {
	if v.digits == "" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.endHint(v)
}

// endHint needs the lock.
func (b *dispatchQueue) endHint(v claimTarget) {
	l := b.lanes[v.lane]
	l.hinted--
	b.lanes[v.lane] = l
}
