package tasktest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// begun is an execution that has begun: its worker, its partition, and the channel that ends it.
type begun struct {
	worker    int
	partition string
	since     time.Time
	end       chan struct{}
}

// held is longer than the time in which a slot may take hand-offs of its completions, so that each execution takes a
// claim.
const held = 25 * time.Millisecond

// In a cluster, each partition has its own order, and each worker claims from the partitions with work in turn: while
// one of them is flooded, a worker claims from each other one within twice as many of its claims as partitions have
// work. The workers keep very different paces.
//
// It does not run in parallel with others, which may delay the messages between workers.
func TestClaims_ReachEveryPartition(t *testing.T) {
	enginetest.Only(t, testserver.Valkey)
	const workers = 3
	cluster := testserver.StartCluster(t, testserver.Valkey, 3)
	for _, partitions := range []int{2 * workers, 4 * workers} {
		t.Run(fmt.Sprintf("%d partitions", partitions), func(t *testing.T) {
			b := enginetest.Open(t, testserver.OnCluster, cluster.URL(), enginetest.NewPrefix(),
				runtime.OpenConfig{Partitions: partitions})
			testVisits(t, b, workers, partitions)
		})
	}
}

func testVisits(t *testing.T, b *enginetest.Bench, workers, partitions int) {
	ctx := enginetest.Context(t)
	started := make(chan *begun, workers)
	over := make(chan struct{})
	roll := newRoll(ctx, t, b)
	for i := range workers {
		occupy := activity.New("work", func(ctx context.Context, j fixture.Job) (string, error) {
			x := &begun{worker: i, partition: j.Label, since: time.Now(), end: make(chan struct{})}
			select {
			case started <- x:
			case <-over:
			}
			select {
			case <-x.end:
			case <-over:
			}
			return j.Label, nil
		})
		b.Worker(t, []activity.Handler{occupy}, runtime.WorkerConfig{Concurrency: 1})
	}
	defer close(over)
	roll.await(ctx, t, workers)
	roll.call(ctx, t, workers)
	l := fixture.NewLedger()
	many, one := l.Flow(t, "many", 500, false), l.Flow(t, "one", 1, false)
	flooded := rand.IntN(partitions)
	fixture.StartAt(ctx, t, b, many, "many", flooded, fmt.Sprint(flooded))
	running := make([]*begun, workers)
	next := func() *begun {
		select {
		case x := <-started:
			running[x.worker] = x
			return x
		case <-time.After(enginetest.Patience):
			require.Fail(t, "no worker continues")
		}
		return nil
	}
	for range workers {
		next() // all have a list, and receive messages about further work
	}
	const perPartition = 9
	waiting := map[string]int{fmt.Sprint(flooded): 500}
	for p := range partitions {
		if p != flooded {
			for range perPartition {
				fixture.StartAt(ctx, t, b, one, "one", p, fmt.Sprint(p))
			}
			waiting[fmt.Sprint(p)] = perPartition
		}
	}
	roll.call(ctx, t, workers)
	since := make(map[string]int) // claims of a worker since its last visit
	longest := 0
	for claim := range perPartition * (partitions - 1) {
		// The first worker makes most claims, the last one few.
		x := running[min(rand.IntN(10)/6+rand.IntN(10)/9, workers-1)]
		time.Sleep(held - time.Since(x.since)) //nolint:forbidigo // the least time that an execution takes
		close(x.end)
		got := next()
		require.Equal(t, x.worker, got.worker)
		waiting[got.partition]--
		for partition, left := range waiting {
			name := fmt.Sprintf("%s of worker %d", partition, got.worker)
			since[name]++
			if left == 0 && partition != got.partition {
				delete(since, name)
				continue
			}
			require.LessOrEqual(t, since[name], 2*partitions, "claim %d: partition %s", claim, name)
			longest = max(longest, since[name])
			if partition == got.partition {
				since[name] = 0
			}
		}
	}
	t.Logf("%d workers, %d partitions: at most %d claims from one visit of a partition to the next", workers, partitions, longest)
}

// roll receives the announcements of the workers of the default lane.
type roll struct {
	b        *enginetest.Bench
	received chan string
}

func newRoll(ctx context.Context, t *testing.T, b *enginetest.Bench) *roll {
	t.Helper()
	r := &roll{b, make(chan string, 1000)}
	hearing, stop := context.WithCancel(ctx)
	client, over := engine.ConnOf(b.Engine.Internal()).Client(), make(chan struct{})
	go func() {
		defer close(over)
		_ = client.Receive(hearing, client.B().Subscribe().Channel(r.channel()).Build(), func(m rueidis.PubSubMessage) {
			if instance, here := strings.CutPrefix(m.Message, "here "); here {
				r.received <- instance
			}
		})
	}()
	t.Cleanup(func() {
		stop()
		<-over
	})
	fixture.Subscribed(ctx, t, b, "wake", 1)
	return r
}

func (r *roll) channel() string {
	return engine.ConnOf(r.b.Engine.Internal()).Keys().ChannelWake(activity.DefaultLane)
}

// call waits until count workers have answered a newcomer. They know each other then, and have received all earlier
// messages.
func (r *roll) call(ctx context.Context, t *testing.T, count int) {
	t.Helper()
	say := func(word string) {
		client := engine.ConnOf(r.b.Engine.Internal()).Client()
		require.NoError(t, client.Do(ctx, client.B().Publish().Channel(r.channel()).Message(word+" stranger").Build()).Error())
	}
	say("here")
	answers, asked := make(map[string]bool), false
	for len(answers) < count {
		select {
		case instance := <-r.received:
			if instance == "stranger" {
				asked = true
			} else if asked {
				answers[instance] = true
			}
		case <-ctx.Done():
			require.Fail(t, "not all workers answer", "%d of %d", len(answers), count)
		}
	}
	say("left")
}

// await waits until count workers have come.
func (r *roll) await(ctx context.Context, t *testing.T, count int) {
	t.Helper()
	for known := make(map[string]bool); len(known) < count; {
		select {
		case instance := <-r.received:
			known[instance] = true
		case <-ctx.Done():
			require.Fail(t, "not all workers have come", "%d of %d", len(known), count)
		}
	}
}
