package conformance

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded"
)

// NewEmbedded returns an opener of embedded engines in memory. Their clocks
// follow the recording, so that a replay keeps its pace on any machine, and
// waits for nothing.
func NewEmbedded() Opener {
	return func(ctx context.Context) (rueidis.Client, func(), error) {
		clock := &followingClock{}
		clock.advance(time.Now().UnixMilli())
		engine, err := embedded.Open(ctx, embedded.Options{Clock: clock.now})
		if err != nil {
			return nil, nil, err
		}
		client, err := rueidis.NewClient(engine.ClientOption())
		if err != nil {
			_ = engine.Close()
			return nil, nil, err
		}
		return &timedClient{client, clock}, func() {
			client.Close()
			_ = engine.Close()
		}, nil
	}
}

// followingClock stands still until the replay moves it on.
type followingClock struct{ ms atomic.Int64 }

func (c *followingClock) now() time.Time { return time.UnixMilli(c.ms.Load()) }

// advance moves the clock on to a time (ms), never back.
func (c *followingClock) advance(to int64) {
	if c.ms.Load() < to {
		c.ms.Store(to)
	}
}

// timedClient is a client of an engine whose clock the replay moves.
type timedClient struct {
	rueidis.Client
	clock *followingClock
}

// clockOf is the clock of a client's engine, nil where that has its own.
func clockOf(client rueidis.Client) *followingClock {
	if timed, ok := client.(*timedClient); ok {
		return timed.clock
	}
	return nil
}
