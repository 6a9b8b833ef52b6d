package runtime

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

const (
	// ringSettle is how long a worker waits for further changes of its peers before it subscribes to other slots of the wake ring.
	ringSettle = 300 * time.Millisecond
	// ringLinger is for how long it stays subscribed to slots that it gave up, until those that own them now are.
	ringLinger = time.Second
)

// post is a place of the rota of a lane.
type ringSlot struct {
	lane enginecore.LaneID
	slot int
}

// listenToRing hears the places of this worker, as the crowd changes, until ctx ends.
func (s *shift) listenToRing(ctx context.Context) {
	var held map[string]ringSlot
	leave := func() {}
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.peers.changed:
		}
		pause(ctx, ringSettle)
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

// ringChannels are the channels of the places that this worker is to hear.
func (s *shift) ringChannels() map[string]ringSlot {
	posts := make(map[string]ringSlot)
	for _, lane := range s.lanes() {
		for _, place := range s.peers.ring(lane).slots() {
			posts[s.core.Keys().ChannelRota(strconv.Itoa(place), lane)] = ringSlot{lane, place}
		}
	}
	return posts
}

// subscribeRing hears channels until ctx ends, and returns when they are heard: false when ctx ended before.
func (s *shift) subscribeRing(ctx context.Context, posts map[string]ringSlot) bool {
	if len(posts) == 0 {
		return ctx.Err() == nil
	}
	confirmed := make(chan struct{}, 1)
	s.ringListeners.Go(func() {
		s.session.hub.listen(ctx, slices.Collect(maps.Keys(posts)), func() { notify(confirmed) }, func(channel, message string) {
			at := posts[channel]
			s.wake(ctx, at.lane, &at.slot, message)
		})
	})
	select {
	case <-confirmed:
		return true
	case <-ctx.Done():
		return false
	}
}
