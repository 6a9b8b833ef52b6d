package worker

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/sleep"
)

const (
	// ringSettle is the time for which a worker waits for further changes of its peers before it subscribes
	// to other slots of the wake ring.
	ringSettle = 300 * time.Millisecond
	// ringLinger is the time for which a worker stays subscribed to slots that it has given up, so that their
	// new owners can subscribe.
	ringLinger = time.Second
)

// ringSlot is one slot of the wake ring of a lane.
type ringSlot struct {
	lane enginecore.LaneID
	slot int
}

// listenToRing subscribes to this worker's slots of the wake rings of its lanes until ctx ends. The slots
// change with the worker's peers.
func (r *Run) listenToRing(ctx context.Context) {
	var held map[string]ringSlot
	leave := func() {}
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.peers.Changed:
		}
		sleep.For(ctx, ringSettle)
		wanted := r.ringChannels()
		if ctx.Err() != nil || maps.Equal(held, wanted) {
			continue
		}
		listening, stop := context.WithCancel(ctx)
		if !r.subscribeRing(listening, wanted) {
			stop()
			return
		}
		time.AfterFunc(ringLinger, leave)
		held, leave = wanted, stop
	}
}

// ringChannels returns this worker's slots by their channels.
func (r *Run) ringChannels() map[string]ringSlot {
	slots := make(map[string]ringSlot)
	for _, lane := range r.lanes() {
		for _, slot := range r.peers.Ring(lane).Slots() {
			slots[r.Core.Keys().ChannelWakeRing(strconv.Itoa(slot), lane)] = ringSlot{lane, slot}
		}
	}
	return slots
}

// subscribeRing listens to the channels of slots until ctx ends. It returns true when it is subscribed, false
// if ctx ended before.
func (r *Run) subscribeRing(ctx context.Context, slots map[string]ringSlot) bool {
	if len(slots) == 0 {
		return ctx.Err() == nil
	}
	confirmed := make(chan struct{}, 1)
	r.ringListeners.Go(func() {
		r.Session.Hub.Listen(ctx, slices.Collect(maps.Keys(slots)), func() { sleep.Wake(confirmed) }, func(channel, message string) {
			at := slots[channel]
			r.handleWake(ctx, at.lane, &at.slot, message)
		})
	})
	select {
	case <-confirmed:
		return true
	case <-ctx.Done():
		return false
	}
}
