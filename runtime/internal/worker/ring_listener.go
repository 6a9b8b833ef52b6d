package worker

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

const (
	// ringSettle is how long a worker waits for further changes of its peers before it subscribes to other slots of the wake ring.
	ringSettle = 300 * time.Millisecond
	// ringLinger is for how long it stays subscribed to slots that it gave up, until those that own them now are.
	ringLinger = time.Second
)

// ringSlot is a slot of the wake ring of a lane.
type ringSlot struct {
	lane enginecore.LaneID
	slot int
}

// listenToRing subscribes to the slots of this worker in the wake rings of its lanes, which change with its peers, until ctx ends.
func (s *WorkerRun) listenToRing(ctx context.Context) {
	var held map[string]ringSlot
	leave := func() {}
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.peers.Changed:
		}
		engine.Pause(ctx, ringSettle)
		wanted := s.ringChannels()
		if ctx.Err() != nil || maps.Equal(held, wanted) {
			continue
		}
		listening, stop := context.WithCancel(ctx)
		if !s.subscribeRing(listening, wanted) {
			stop()
			return
		}
		time.AfterFunc(ringLinger, leave)
		held, leave = wanted, stop
	}
}

// ringChannels returns the slots to which this worker listens, by their channels.
func (s *WorkerRun) ringChannels() map[string]ringSlot {
	slots := make(map[string]ringSlot)
	for _, lane := range s.lanes() {
		for _, slot := range s.peers.Ring(lane).Slots() {
			slots[s.core.Keys().ChannelRota(strconv.Itoa(slot), lane)] = ringSlot{lane, slot}
		}
	}
	return slots
}

// subscribeRing listens to channels until ctx ends. It returns when it is subscribed; false when ctx ended before.
func (s *WorkerRun) subscribeRing(ctx context.Context, slots map[string]ringSlot) bool {
	if len(slots) == 0 {
		return ctx.Err() == nil
	}
	confirmed := make(chan struct{}, 1)
	s.ringListeners.Go(func() {
		s.Session.Hub.Listen(ctx, slices.Collect(maps.Keys(slots)), func() { engine.Notify(confirmed) }, func(channel, message string) {
			at := slots[channel]
			s.handleWake(ctx, at.lane, &at.slot, message)
		})
	})
	select {
	case <-confirmed:
		return true
	case <-ctx.Done():
		return false
	}
}
