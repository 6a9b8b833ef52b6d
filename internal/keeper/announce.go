package keeper

import (
	"context"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/sleep"
)

// farewellWithin bounds the time to publish the message of a stopping keeper.
const farewellWithin = time.Second

// announce publishes heartbeats, receives the heartbeats of other keepers, and divides the partitions among them, until
// ctx ends.
func (k *Keeper) announce(ctx context.Context) {
	channel := k.Session.Core.ChannelKeepers()
	here, gone := k.Members.hereMessage().Text(), enginerpc.KeeperGoneMessage{KeeperID: k.Members.self}.Text()
	publish := func(ctx context.Context, message string) bool {
		// A lost message costs other keepers visits of partitions that they do not own.
		return k.Session.Client.Do(ctx,
			k.Session.Client.B().Publish().Channel(channel).Message(message).Build()).Error() == nil
	}
	// atOnce receives a value when the next heartbeat is due before the ticker.
	atOnce := make(chan struct{}, 1)
	var listening sync.WaitGroup
	defer listening.Wait()
	listening.Go(func() {
		subscribed := func() {
			k.Members.listens()
			sleep.Wake(atOnce)
		}
		k.Session.Hub.Listen(ctx, []string{channel}, subscribed, func(_, message string) {
			if k.Members.Handle(message, time.Now()) {
				k.share()
				sleep.Wake(atOnce)
			}
		})
	})
	ticker := time.NewTicker(k.Members.heartbeat)
	if k.Session.Quiet {
		ticker.Reset(quietSweep)
	}
	defer ticker.Stop()
	wasStandby := false
	for {
		select {
		case <-ctx.Done():
			// The others take over at once instead of after SilentBeats heartbeats.
			bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewellWithin)
			publish(bye, gone)
			cancel()
			return
		case <-ticker.C:
		case <-atOnce:
		}
		if k.Members.ForgetSilent(time.Now()) {
			k.share()
		}
		switch isStandby := k.Members.isStandby(); {
		case isStandby && !wasStandby:
			wasStandby = publish(ctx, gone)
			continue
		case isStandby:
			continue
		}
		wasStandby = false
		if k.Members.Healthy(time.Now()) && publish(ctx, here) {
			k.liveness.Touch() // steps are rare while nothing is due
		}
	}
}

// hereMessage is the heartbeat of this keeper.
func (m *Membership) hereMessage() enginerpc.KeeperHereMessage {
	here := enginerpc.KeeperHereMessage{KeeperID: m.self, Heartbeat: m.heartbeat}
	if m.builtIn {
		here.Mark = builtInMark
	}
	return here
}

// share recomputes which partitions each loop owns.
func (k *Keeper) share() {
	now := time.Now()
	for _, l := range k.Loops {
		l.Timer.share(now, k.Members.Owns)
	}
	k.takeOvers.share(k.Members.Owns)
}
