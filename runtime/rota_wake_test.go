package runtime_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// unswept is far below the time of a sweep, which would find the work anyway.
const unswept = 5 * time.Second

// heard waits until workers hear channels of a kind.
func heard(ctx context.Context, t *testing.T, b *enginetest.Bench, kind string) {
	t.Helper()
	client := b.Engine.Core().Client()
	require.Eventually(t, func() bool {
		list, err := client.Do(ctx, client.B().PubsubChannels().Pattern(b.Prefix+":ffx:"+kind+":*").Build()).AsStrSlice()
		return err == nil && len(list) > 0
	}, enginetest.Patience, 20*time.Millisecond)
}

// pretend makes workers known that never answer.
func pretend(ctx context.Context, t *testing.T, b *enginetest.Bench, count int) {
	t.Helper()
	client, keys := b.Engine.Core().Client(), b.Engine.Core().Keys()
	for i := range count {
		message := fmt.Sprintf("here absent-%d", i)
		require.NoError(t, client.Do(ctx, client.B().Publish().Channel(keys.ChannelWake("default")).Message(message).Build()).Error())
	}
}

// What is published for workers that died or hang is taken by others at once.
func TestRotaWithAbsentWorkers(t *testing.T) {
	const runs = 30
	for _, x := range []struct {
		name         string
		real, absent int
		hang         bool // the absent ones still count as hearing
	}{
		{"some on duty died", 4, 2, false},
		{"some on duty hang", 4, 2, true},
		{"all on duty died", 1, 6, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
				if b.Contract() {
					t.Skip("wakes all")
				}
				ctx := enginetest.Context(t)
				a := addOne()
				for range x.real {
					b.Worker(t, []activity.Handler{a})
				}
				heard(ctx, t, b, "wake")
				pretend(ctx, t, b, x.absent)
				heard(ctx, t, b, "rota")
				if x.hang {
					deaf, stop := context.WithCancel(ctx)
					over := make(chan struct{})
					go func() {
						defer close(over)
						client, keys := b.Engine.Core().Client(), b.Engine.Core().Keys()
						var channels []string
						for place := range 256 {
							channels = append(channels, keys.ChannelRota(fmt.Sprint(place), "default"))
						}
						_ = client.Receive(deaf, client.B().Subscribe().Channel(channels...).Build(), func(rueidis.PubSubMessage) {})
					}()
					defer func() {
						stop()
						<-over
					}()
				}
				var slowest time.Duration
				for i := range runs {
					begun := time.Now()
					run, err := runtime.Start(ctx, b.Client, single(t, a), i)
					require.NoError(t, err)
					_, err = run.Result(ctx)
					require.NoError(t, err)
					slowest = max(slowest, time.Since(begun))
				}
				t.Logf("slowest run: %s", slowest)
				require.Less(t, slowest, unswept)
			})
		})
	}
}

// While any worker is idle, work reaches it, however few of those on duty have a slot left.
func TestRotaHandsOn(t *testing.T) {
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
			b.Worker(t, []activity.Handler{a}, runtime.Concurrency(1))
		}
		if !b.Contract() {
			heard(ctx, t, b, "rota")
		}
		var slowest time.Duration
		all := make([]*runtime.Run[int], workers)
		for i := range all {
			started := time.Now()
			var err error
			all[i], err = runtime.Start(ctx, b.Client, single(t, a), i)
			require.NoError(t, err)
			select {
			case <-begun:
			case <-time.After(unswept):
				t.Fatalf("%d of %d have begun", i, workers)
			}
			slowest = max(slowest, time.Since(started))
		}
		t.Logf("slowest: %s", slowest)
		close(open)
		for _, run := range all {
			_, err := run.Result(ctx)
			require.NoError(t, err)
		}
		b.Settle(t)
	})
}
