package keeper

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/sleep"
)

const (
	// hotStandbys is the number of workers' keepers that follow the presence messages of the active ones, to take over.
	// The others only receive the messages of the hot standbys, which announce themselves every standbyBeat: the cost
	// of a message for the server grows with the subscribers of its channel.
	hotStandbys = 2
	standbyBeat = 15 * time.Second
	// standbySpread is the time within which keepers that notice a lack of hot standbys check again, at random times,
	// so that the first of them fill the gap.
	standbySpread = time.Second
)

// hotStandby decides whether the keeper of workers follows the presence messages of keepers. It does while it is active
// or one of the hot standbys.
type hotStandby struct {
	keeper *Keeper
	beat   time.Duration
	others *Membership // the other hot standbys
	isHot  bool        // this keeper has announced that it is one
	// following ends the goroutine that follows the presence messages; nil while there is none.
	following context.CancelFunc
	follows   sync.WaitGroup
}

func newHotStandby(k *Keeper) *hotStandby {
	others := NewMembership(k.Members.self, k.standbyBeat)
	others.builtIn = true
	return &hotStandby{keeper: k, beat: k.standbyBeat, others: others}
}

// run follows the presence messages of keepers while this one should, until ctx ends.
func (h *hotStandby) run(ctx context.Context) {
	h.follow(ctx)
	defer h.follows.Wait()
	if h.keeper.Session.InProcess != nil {
		<-ctx.Done()
		return
	}
	channel := h.keeper.Session.Core.ChannelStandbyKeepers()
	lack := make(chan struct{}, 1)
	var listening sync.WaitGroup
	defer listening.Wait()
	listening.Go(func() {
		h.keeper.Session.Hub.Listen(ctx, []string{channel}, func() {}, func(_, message string) {
			before := h.others.Size()
			h.others.Handle(message, time.Now())
			if h.others.Size() < before {
				sleep.Wake(lack)
			}
		})
	})
	// Within the first interval it has received a message of each hot standby.
	look := time.NewTimer(h.beat + rand.N(h.beat))
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			if h.isHot {
				bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewellWithin)
				h.announce(bye, false)
				cancel()
			}
			return
		case <-h.keeper.becameActive:
			if h.isHot {
				h.announce(ctx, false)
			}
			continue
		case <-lack:
			look.Reset(rand.N(min(standbySpread, h.beat)))
			continue
		case <-look.C:
			look.Reset(h.beat)
		}
		h.look(ctx)
	}
}

// look decides whether this keeper is a hot standby, and announces that.
func (h *hotStandby) look(ctx context.Context) {
	h.others.ForgetSilent(time.Now())
	needed := h.others.Size() <= hotStandbys
	if h.isHot {
		needed = !h.others.isStandby() // of too many, those with the lowest ids stay
	}
	switch {
	case !h.keeper.Members.isStandby():
		needed = false // it follows because it is active
	case needed:
		h.follow(ctx)
	default:
		h.unfollow()
	}
	if needed || h.isHot {
		h.announce(ctx, needed)
	}
}

// announce publishes to the other keepers whether this one is a hot standby. A lost message costs messages, or a longer
// time without a hot standby.
func (h *hotStandby) announce(ctx context.Context, isHot bool) {
	h.isHot = isHot
	message := enginerpc.KeeperGoneMessage{KeeperID: h.others.self}.Text()
	if isHot {
		message = h.others.hereMessage().Text()
	}
	client, channel := h.keeper.Session.Client, h.keeper.Session.Core.ChannelStandbyKeepers()
	client.Do(ctx, client.B().Publish().Channel(channel).Message(message).Build())
}

func (h *hotStandby) follow(ctx context.Context) {
	if h.following != nil {
		return
	}
	ctx, h.following = context.WithCancel(ctx)
	h.keeper.Members.resume(time.Now())
	h.follows.Go(func() { h.keeper.announce(ctx) })
}

func (h *hotStandby) unfollow() {
	if h.following == nil {
		return
	}
	h.following()
	h.follows.Wait()
	h.following = nil
}
