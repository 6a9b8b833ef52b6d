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
	// rotaMS and rotaPlaces are those of the library: whoever makes work publishes it at the place of the time that it is.
	rotaMS, rotaPlaces = 20, 256
	// onDuty is how many workers hear a place, as the library has it. The second and third take over when the first is away, busy or slow.
	onDuty = 3
	// rotaSettle is how long a worker waits for further changes of the crowd before it takes up other places.
	rotaSettle = 300 * time.Millisecond
	// rotaLinger is for how long it still hears the places that it gave up, until those that have them now hear them.
	rotaLinger = time.Second
)

// rota says which workers of a lane are on duty when. A wake-up goes to the place of the rota whose time it is, and each
// place is heard by onDuty workers. While there are not more than that, nobody takes places, and wake-ups go to all.
//
// Each worker works it out by itself, from the crowd that it knows. When they do not agree, a place is heard by fewer
// workers or by more, and what is published at a place that nobody hears goes to all; that costs, but loses nothing.
type rota struct {
	workers int
	self    int // position among them
}

func newRota(self uint64, peers map[string]peer) rota {
	r := rota{workers: len(peers) + 1}
	for _, p := range peers {
		if p.hash < self {
			r.self++
		}
	}
	return r
}

// places are those that this worker hears.
func (r rota) places() []int {
	if r.workers <= onDuty {
		return nil
	}
	var list []int
	for place := range rotaPlaces {
		if r.rank(place) < onDuty {
			list = append(list, place)
		}
	}
	return list
}

// rank is how many workers stand before this one at a place.
func (r rota) rank(place int) int {
	return ((r.self-place)%r.workers + r.workers) % r.workers
}

// turn is how many of those on duty answer a wake-up of a time (Unix ms) before this worker. Who is first changes from
// round to round, so that it does not depend on the number of workers that all get their share.
func (r rota) turn(place int, at int64) int {
	rank := r.rank(place)
	if rank >= onDuty {
		return onDuty // others have this place by now
	}
	round := at / rotaMS / rotaPlaces
	return (rank + int(round%onDuty)) % onDuty
}

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
		pause(ctx, rotaSettle)
		wanted := s.posts()
		if ctx.Err() != nil || maps.Equal(held, wanted) {
			continue
		}
		listening, stop := context.WithCancel(ctx)
		if !s.takePosts(listening, wanted) {
			stop()
			return
		}
		time.AfterFunc(rotaLinger, leave)
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
