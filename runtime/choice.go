package runtime

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// line is what a board knows of the spots of one lane in its queue: how many there are, and how many claims are under way
// that visit one of them which the server chooses.
type line struct{ length, chosen int }

// free is how many more claims may go to the line.
func (l line) free() int { return l.length - l.chosen }

func (l line) grown(by int) line {
	l.length += by
	return l
}

// choice is what a server chooses from when a claim visits the spot that was visited longest ago by any worker. Its zero value
// leaves no choice.
type choice struct {
	list, places string // as ffx_claim takes them
	word         int    // the latest that the board had heard
}

// Digits of the list, and what is added to them for spots where something was set aside.
const (
	digitNone     = '0'
	digitListed   = '1'
	digitHeard    = '2'
	digitFirst    = '3'
	digitOnDuty   = '4'
	plusAside     = 4
	digitAside    = digitListed + plusAside
	listedAtATime = 64 // a list is made for so many partitions at first
)

// choose makes the list of a lane's spots in the queue. It needs the lock.
func (b *board) choose(lane enginecore.LaneID) choice {
	list, places := make([]byte, 0, listedAtATime), new(strings.Builder)
	for _, v := range b.queue {
		if v.lane != lane {
			continue
		}
		i := int(v.partition.Index)
		if missing := i + 1 - len(list); missing > 0 {
			list = append(list, bytes.Repeat([]byte{digitNone}, missing)...)
		}
		c, onDuty := b.duty[v.spot]
		switch {
		case onDuty:
			list[i] = digitOnDuty
			fmt.Fprintf(places, " %d@%s ", i, c.place)
		case v.first:
			list[i] = digitFirst
		case v.heard:
			list[i] = digitHeard
		default:
			list[i] = digitListed
		}
		if b.aside[v.spot] {
			list[i] += plusAside
		}
	}
	l := b.lines[lane]
	l.chosen++
	b.lines[lane] = l
	return choice{string(list), places.String(), b.words}
}

// visited ends a choice: the claim has been at a spot, which leaves the queue unless there is newer word of it. It tells
// whether the claim looked at what was set aside, too.
func (b *board) visited(v visit, at spot) (aside bool) {
	if v.list == "" {
		return v.aside
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unchoose(v)
	if word, queued := b.queued[at]; queued && word <= v.word {
		b.remove(at)
		b.discharge(at)
		delete(b.aside, at)
	}
	i := int(at.partition.Index)
	return i < len(v.list) && v.list[i] >= digitAside
}

// notVisited ends a choice of which nobody knows where the claim has been.
func (b *board) notVisited(v visit) {
	if v.list == "" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unchoose(v)
}

// unchoose needs the lock.
func (b *board) unchoose(v visit) {
	l := b.lines[v.lane]
	l.chosen--
	b.lines[v.lane] = l
}
