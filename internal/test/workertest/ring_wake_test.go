package workertest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// ringSlots is how many slots a wake ring has.
const ringSlots = 256

// gather starts workers, and returns when each of them knows all the others: they announce themselves once they listen,
// and again for every newcomer.
func gather(ctx context.Context, t *testing.T, b *enginetest.Bench, count int, handler activity.Handler) {
	t.Helper()
	client, keys := engine.ConnOf(b.Engine.Internal()).Client(), engine.ConnOf(b.Engine.Internal()).Keys()
	shown := make(chan string, 1024)
	listening, stop := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = client.Receive(listening, client.B().Subscribe().Channel(keys.ChannelWake("default")).Build(), func(m rueidis.PubSubMessage) {
			if instance, here := strings.CutPrefix(m.Message, "here "); here {
				shown <- instance
			}
		})
	}()
	defer func() {
		stop()
		<-over
	}()
	fixture.Subscribed(ctx, t, b, "wake", 1)
	for range count {
		b.MessageWorker(t, []activity.Handler{handler})
	}
	last, newcomer := make(map[string]int), 0
	agree := func() bool {
		for _, at := range last {
			if at < newcomer {
				return false
			}
		}
		return len(last) == count
	}
	for at := 1; !agree(); at++ {
		select {
		case instance := <-shown:
			if last[instance] == 0 {
				newcomer = at
			}
			last[instance] = at
		case <-ctx.Done():
			t.Fatalf("workers that show themselves: %v, the newest at %d", last, newcomer)
		}
	}
}

// pretend makes workers known that never answer.
func pretend(ctx context.Context, t *testing.T, b *enginetest.Bench, count int) {
	t.Helper()
	client, keys := engine.ConnOf(b.Engine.Internal()).Client(), engine.ConnOf(b.Engine.Internal()).Keys()
	for i := range count {
		message := fmt.Sprintf("here absent-%d", i)
		require.NoError(t, client.Do(ctx, client.B().Publish().Channel(keys.ChannelWake("default")).Message(message).Build()).Error())
	}
}

// Other workers take work that was announced to workers that died or hang at once.
func TestWakeRingWithAbsentWorkers(t *testing.T) {
	t.Parallel()
	const runs = 30
	for _, x := range []struct {
		name         string
		real, absent int
		hang         bool // the absent ones still count as listeners
	}{
		{"some on call died", 4, 2, false},
		{"some on call hang", 4, 2, true},
		{"all on call died", 1, 6, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
				if b.Contract() {
					t.Skip("wakes all")
				}
				ctx := enginetest.Context(t)
				a := fixture.AddOne()
				gather(ctx, t, b, x.real, a)
				pretend(ctx, t, b, x.absent)
				fixture.Subscribed(ctx, t, b, "rota", 1)
				if x.hang {
					// From here on, a worker gets no notice when a ring slot has no other listener.
					fixture.Subscribed(ctx, t, b, "rota", ringSlots)
					deaf, stop := context.WithCancel(ctx)
					over := make(chan struct{})
					go func() {
						defer close(over)
						client, keys := engine.ConnOf(b.Engine.Internal()).Client(), engine.ConnOf(b.Engine.Internal()).Keys()
						var channels []string
						for place := range ringSlots {
							channels = append(channels, keys.ChannelWakeRing(fmt.Sprint(place), "default"))
						}
						_ = client.Receive(deaf, client.B().Subscribe().Channel(channels...).Build(), func(rueidis.PubSubMessage) {})
					}()
					defer func() {
						stop()
						<-over
					}()
				}
				for i := range runs {
					run, err := runtime.Start(ctx, b.Client, fixture.Single(t, a), i)
					require.NoError(t, err)
					_, err = run.Result(ctx)
					require.NoError(t, err)
				}
			})
		})
	}
}

// While any worker is idle, work reaches it, however few of those on call have a slot left.
func TestWakeRingHandsOn(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		const workers = 12
		ctx := enginetest.Context(t)
		begun, open := make(chan struct{}, workers), make(chan struct{})
		a := activity.New("occupy", func(ctx context.Context, n int) (int, error) {
			begun <- struct{}{}
			select {
			case <-open:
			case <-ctx.Done():
			}
			return n, nil
		})
		for range workers {
			b.MessageWorker(t, []activity.Handler{a}, runtime.WorkerConfig{Concurrency: 1})
		}
		if !b.Contract() {
			fixture.Subscribed(ctx, t, b, "rota", 1)
		}
		all := make([]*runtime.Run[int], workers)
		for i := range all {
			var err error
			all[i], err = runtime.Start(ctx, b.Client, fixture.Single(t, a), i)
			require.NoError(t, err)
			select {
			case <-begun:
			case <-ctx.Done():
				t.Fatalf("%d of %d have begun", i, workers)
			}
		}
		close(open)
		for _, run := range all {
			_, err := run.Result(ctx)
			require.NoError(t, err)
		}
		b.Settle(t)
	})
}
