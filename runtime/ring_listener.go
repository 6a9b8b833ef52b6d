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
type post struct {
	lane  enginecore.LaneID
	place int
}

// keepRota hears the places of this worker, as the crowd changes, until ctx ends.
func (s *shift) keepRota(ctx context.Context) {
	var held map[string]post
	leave := func() {}
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.crowd.changed:
		}
		pause(ctx, ringSettle)
		wanted := s.posts()
		if ctx.Err() != nil || maps.Equal(held, wanted) {
			continue
		}
		listening, stop := context.WithCancel(ctx)
		if !s.takePosts(listening, wanted) {
			stop()
			return
		}
		time.AfterFunc(ringLinger, leave)
		held, leave = wanted, stop
	}
}

// posts are the channels of the places that this worker is to hear.
func (s *shift) posts() map[string]post {
	posts := make(map[string]post)
	for _, lane := range s.lanes() {
		for _, place := range s.crowd.rotaOf(lane).places() {
			posts[s.core.Keys().ChannelRota(strconv.Itoa(place), lane)] = post{lane, place}
		}
	}
	return posts
}

// takePosts hears channels until ctx ends, and returns when they are heard: false when ctx ended before.
func (s *shift) takePosts(ctx context.Context, posts map[string]post) bool {
	if len(posts) == 0 {
		return ctx.Err() == nil
	}
	confirmed := make(chan struct{}, 1)
	s.onDuty.Go(func() {
		s.session.hub.listen(ctx, slices.Collect(maps.Keys(posts)), func() { notify(confirmed) }, func(channel, message string) {
			at := posts[channel]
			s.wake(ctx, at.lane, &at.place, message)
		})
	})
	select {
	case <-confirmed:
		return true
	case <-ctx.Done():
		return false
	}
}
