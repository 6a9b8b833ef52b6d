package queueread_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/queueread"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

type order struct {
	Tenant string `json:"tenant"`
	Label  string `json:"label"`
}

// queued has runs that wait in a paused lane, and notes the order in which a worker takes them.
type queued struct {
	*enginetest.Bench
	*queueread.Reader
	ctx context.Context

	work *activity.Activity[order, string]
	mu   sync.Mutex
	ran  []string
}

func newQueued(t *testing.T, b *enginetest.Bench) *queued {
	q := &queued{Bench: b, Reader: queueread.New(b.Engine), ctx: enginetest.Context(t)}
	q.work = activity.New("work", func(_ context.Context, in order) (string, error) {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.ran = append(q.ran, in.Label)
		return in.Label, nil
	}, activity.Retry(activity.RetryPolicy{Attempts: 1}))
	require.NoError(t, b.Client.Lane(activity.DefaultLane).Pause(q.ctx, "test"))
	return q
}

func (q *queued) start(t *testing.T, name, tenant, label string, opts ...flow.Option) {
	t.Helper()
	f := flow.New[order, string](name, opts...)
	flow.Return(f, flow.Node(f, "step", q.work, f.Input()))
	def, err := f.Build()
	require.NoError(t, err)
	_, err = runtime.Start(q.ctx, q.Client, def, order{tenant, label}, runtime.WithID(label))
	require.NoError(t, err)
	enginetest.Pass(t, engine.ConnOf(q.Engine.Internal()), 0) // each is younger than the one before
}

// next returns the ids of the runs in the order of the queue.
func (q *queued) next(t *testing.T, places int) (runs []string, rules map[string]queueread.ClaimRule) {
	t.Helper()
	queues, err := q.LaneQueues(q.ctx, activity.DefaultLane, places)
	require.NoError(t, err)
	require.Len(t, queues, 1)
	require.True(t, queues[0].Paused)
	rules = map[string]queueread.ClaimRule{}
	for _, n := range queues[0].Next {
		require.Equal(t, "step", n.Node)
		require.Equal(t, "work", n.Activity)
		runs, rules[n.Run] = append(runs, n.Run), n.Rule
	}
	return runs, rules
}

// proceed lets a worker with one slot work through the waiting nodes, and returns them in the order in which they ran.
func (q *queued) proceed(t *testing.T, nodes int) []string {
	t.Helper()
	q.Worker(t, []activity.Handler{q.work}, runtime.WorkerConfig{Concurrency: 1})
	require.NoError(t, q.Client.Lane(activity.DefaultLane).Resume(q.ctx))
	enginetest.Eventually(t, func() string {
		q.mu.Lock()
		defer q.mu.Unlock()
		if len(q.ran) != nodes {
			return fmt.Sprintf("%d of %d nodes ran", len(q.ran), nodes)
		}
		return ""
	})
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ran
}

func onOneServer(t *testing.T, test func(t *testing.T, q *queued)) {
	t.Helper()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		if engine.ConnOf(b.Engine.Internal()).Client().Mode() == rueidis.ClientModeCluster {
			t.Skip("each partition of a cluster has an order of its own")
		}
		test(t, newQueued(t, b))
	}, runtime.OpenConfig{Partitions: 8})
}

// A worker runs nodes in the order that the queue predicts: by priority, by age, and every eighth time the one that
// has waited longest.
func TestLaneQueueByPriority(t *testing.T) {
	t.Parallel()
	onOneServer(t, func(t *testing.T, q *queued) {
		q.start(t, "low", "", "oldest")
		for i := range 20 {
			priority := i % 3
			q.start(t, fmt.Sprint("p", priority), "", fmt.Sprint("run-", priority, "-", i), flow.Priority(priority))
		}
		said, rules := q.next(t, 21)
		require.Len(t, said, 21)
		require.Equal(t, queueread.ByPriority, rules[said[0]])
		require.Equal(t, queueread.ByLongestWait, rules["oldest"])
		require.Equal(t, queueread.ByAge, rules[said[20]])
		first, _ := q.next(t, 8)
		require.Equal(t, said[:8], first, "fewer places are the first ones of more")
		require.Equal(t, said, q.proceed(t, 21))
	})
}

// Fairness keys take turns.
func TestLaneQueueByTurns(t *testing.T) {
	t.Parallel()
	onOneServer(t, func(t *testing.T, q *queued) {
		fair := flow.FairBy("tenant")
		for i := range 6 {
			q.start(t, "a", "atlas", fmt.Sprint("atlas-", i), fair)
		}
		q.start(t, "b", "borealis", "borealis-0", fair)
		q.start(t, "none", "", "none-0")
		q.start(t, "top", "borealis", "borealis-top", fair, flow.Priority(5))
		queues, err := q.LaneQueues(q.ctx, activity.DefaultLane, 0)
		require.NoError(t, err)
		require.ElementsMatch(t, []queueread.LaneTurn{{"atlas", 6}, {"borealis", 2}, {"", 1}}, queues[0].Turns)
		require.Equal(t, 9, queues[0].Waiting)
		said, rules := q.next(t, 20)
		require.Equal(t, queueread.ByTurn, rules["atlas-0"])
		require.Equal(t, said, q.proceed(t, 9))
	})
}

// Executions outside of runs have places, too, and an empty lane has none.
func TestLaneQueueOfExecutions(t *testing.T) {
	t.Parallel()
	enginetest.EachMode(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, r := enginetest.Context(t), queueread.New(b.Engine)
		_, err := r.LaneQueues(ctx, "", 1)
		require.ErrorIs(t, err, queueread.ErrInvalid)
		_, err = r.LaneQueues(ctx, "a", queueread.MaxQueued+1)
		require.ErrorIs(t, err, queueread.ErrInvalid)
		queues, err := r.LaneQueues(ctx, "a", 1)
		require.NoError(t, err)
		require.Empty(t, queues)
		operator, err := admin.New(b.Engine)
		require.NoError(t, err)
		id, _, err := operator.CreateExecution(ctx, admin.ExecutionSpec{Lane: "a", Priority: 3, Kind: "work"})
		require.NoError(t, err)
		queues, err = r.LaneQueues(ctx, "a", 1)
		require.NoError(t, err)
		require.Equal(t, id, queues[0].Next[0].ID)
		require.Equal(t, 3, queues[0].Next[0].Priority)
		require.Equal(t, queueread.RunOf{Namespace: "default", Activity: "work"}, queues[0].Next[0].RunOf)
	})
}

// The use of a limit lists the holders of its permits, and the nodes that wait for one in the order in which they get
// it.
func TestLimitUse(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		reader := queueread.New(b.Engine)
		ctx, release := enginetest.Context(t), make(chan struct{})
		held := activity.New("held", func(ctx context.Context, n int) (int, error) {
			select {
			case <-release:
			case <-ctx.Done():
			}
			return n, ctx.Err()
		}, activity.Limit("crm", activity.LimitConfig{AtOnce: 1}), activity.Retry(activity.RetryPolicy{Attempts: 1}))
		f := flow.New[int, int]("limited")
		flow.Return(f, flow.Node(f, "step", held, f.Input()))
		def, err := f.Build()
		require.NoError(t, err)
		b.Worker(t, []activity.Handler{held}, runtime.WorkerConfig{Concurrency: 4})
		id := keyspace.QuotaIDFor("default", "crm", "")
		start := func(run string) {
			_, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID(run))
			require.NoError(t, err)
		}
		var use queueread.LimitUse
		reaches := func(holding, waiting int) {
			enginetest.Eventually(t, func() string {
				use, err = reader.LimitUse(ctx, id, 0)
				require.NoError(t, err)
				if use.Holding+len(use.Pools) != holding || use.Waiting != waiting {
					return fmt.Sprintf("%+v", use)
				}
				return ""
			})
		}
		start("first")
		reaches(1, 0)
		start("second")
		reaches(1, 1)
		require.Len(t, use.Queue, 1)
		require.Equal(t, queueread.RunOf{Namespace: "default", Flow: "limited", Run: "second", Node: "step", Activity: "held"},
			use.Queue[0].RunOf)
		require.False(t, use.Queue[0].Since.IsZero())
		if len(use.Holders) > 0 {
			require.Equal(t, "first", use.Holders[0].Run)
			require.False(t, use.Holders[0].Since.IsZero())
		}
		close(release)
		reaches(0, 0)
		_, err = reader.LimitUse(ctx, id, 501)
		require.ErrorIs(t, err, queueread.ErrInvalid)
	})
}
