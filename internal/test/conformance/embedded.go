package conformance

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded"
)

// NewEmbedded returns an opener of embedded engines in memory.
func NewEmbedded() Opener {
	return func(ctx context.Context) (rueidis.Client, func(), error) {
		clock := newEngineClock()
		engine, err := embedded.Open(ctx, embedded.Options{Clock: clock.time})
		if err != nil {
			return nil, nil, err
		}
		client, err := rueidis.NewClient(engine.ClientOption())
		if err != nil {
			_ = engine.Close()
			return nil, nil, err
		}
		return &timedClient{Client: client, clock: clock}, func() {
			client.Close()
			_ = engine.Close()
		}, nil
	}
}
