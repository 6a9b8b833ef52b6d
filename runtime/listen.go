package runtime

import (
	"context"
	"log/slog"
	"time"

	"github.com/redis/rueidis"
)

// Pauses between two tries to subscribe.
const (
	firstListenPause = 10 * time.Millisecond
	maxListenPause   = time.Second
)

// listen hears channels until ctx ends, over any number of broken connections. subscribed is called whenever the
// subscription has come to stand, for messages sent before that are lost.
func listen(ctx context.Context, e *Engine, channels []string, subscribed func(), heard func(rueidis.PubSubMessage)) {
	pause := firstListenPause
	// The client subscribes again by itself, without a word, when a connection breaks. Channels are confirmed in order, so
	// the last one tells each time. Another subscriber of this channel makes it tell once too often, which does no harm.
	last := channels[len(channels)-1]
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(s rueidis.PubSubSubscription) {
		if s.Kind == "subscribe" && s.Channel == last {
			subscribed()
		}
	})
	for ctx.Err() == nil {
		begun := time.Now()
		err := e.client.Receive(hooked, e.client.B().Subscribe().Channel(channels...).Build(), heard)
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > maxListenPause {
			pause = firstListenPause
		}
		e.logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: subscription lost, subscribing again",
			slog.Any("channels", channels), slog.Any("error", err))
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		pause = min(2*pause, maxListenPause)
	}
}
