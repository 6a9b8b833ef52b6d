package servertest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Workers and keepers of one process share a connection. The messages to its present listeners must not overload new
// ones, and with them all the others.
func TestSubscribingUnderLoad(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := fixture.AddOne()
		b.Worker(t, []activity.Handler{a})
		b.Keeper(t)
		loading, quiet := context.WithCancel(ctx)
		var load sync.WaitGroup
		for range 2 {
			load.Go(func() {
				client, keys := engine.ConnOf(b.Engine.Internal()).Client(), engine.ConnOf(b.Engine.Internal()).Keys()
				for loading.Err() == nil {
					var messages []rueidis.Completed
					for range 50 {
						messages = append(messages, client.B().Publish().Channel(keys.ChannelWake("default")).Message("work 0 1").Build(),
							client.B().Publish().Channel(keys.ChannelDue()).Message(fmt.Sprintf("0 %d", time.Now().UnixMilli())).Build())
					}
					client.DoMulti(loading, messages...)
				}
			})
		}
		for i := range 8 {
			b.Worker(t, []activity.Handler{a})
			b.Keeper(t)
			run, err := runtime.Start(ctx, b.Client, fixture.ChainOf(t, a, 3), i)
			require.NoError(t, err)
			_, err = run.Result(ctx)
			require.NoError(t, err)
		}
		quiet()
		load.Wait()
	})
}
