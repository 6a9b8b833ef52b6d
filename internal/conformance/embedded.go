package conformance

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded"
)

// NewEmbedded returns an opener of embedded engines in memory.
func NewEmbedded() Opener {
	return func(ctx context.Context) (rueidis.Client, func(), error) {
		engine, err := embedded.Open(ctx, embedded.Options{})
		if err != nil {
			return nil, nil, err
		}
		client, err := rueidis.NewClient(engine.ClientOption())
		if err != nil {
			_ = engine.Close()
			return nil, nil, err
		}
		return client, func() {
			client.Close()
			_ = engine.Close()
		}, nil
	}
}
