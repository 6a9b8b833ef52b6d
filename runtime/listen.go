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
	for ctx.Err() == nil {
		confirmed := 0
		hooked := rueidis.WithOnSubscriptionHook(ctx, func(s rueidis.PubSubSubscription) {
			if s.Kind != "subscribe" {
				return
			}
			if confirmed++; confirmed == len(channels) {
				pause = firstListenPause
				subscribed()
			}
		})
		err := e.client.Receive(hooked, e.client.B().Subscribe().Channel(channels...).Build(), heard)
		if ctx.Err() != nil {
			return
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
