package starttest

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// offering is a worker that offers slots and runs none of the executions that it gets.
type offering struct {
	slots  int
	leased []enginerpc.ClaimedExecution
}

func (o *offering) Serves(enginecore.LaneID, string) bool { return true }

func (o *offering) Offer(lane enginecore.LaneID, kind string, _ keyspace.Partition, n int) (engine.Offer, bool) {
	if o.slots == 0 {
		return engine.Offer{}, false
	}
	return engine.Offer{
		Claim: enginerpc.ClaimRequest{
			LaneID: lane, WorkerID: "offering", WorkerInstanceID: "offering-1", ClaimID: uuid.NewString(),
			Count: int64(min(n, o.slots)), LeaseTTL: time.Hour, Kinds: enginerpc.KindSet([]string{kind}),
		},
		Take: func(leased engine.Leased, _ time.Time, _ error) {
			o.leased = append(o.leased, leased.Executions...)
			o.slots -= len(leased.Executions)
		},
	}, true
}

func (o *offering) runs() (ids []string) {
	for _, x := range o.leased {
		ids = append(ids, x.RunID)
	}
	return ids
}

// The call that starts a run leases its first node to a worker of the process that offers a slot: in the order of the
// lane, so that an older run comes first, and not while the lane is paused.
func TestStart_LeasesToAWorkerOfTheProcess(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		session, err := engine.SessionOf(b.Engine.Internal())
		require.NoError(t, err)
		lane := "offer-" + uuid.NewString()[:8]
		f := flow.New[int, int]("offered")
		flow.Return(f, flow.Node(f, "one", activity.New("one", func(_ context.Context, n int) (int, error) { return n, nil },
			activity.Lane(lane)), f.Input()))
		def := fixture.Build(t, f)
		start := func(id string) {
			t.Helper()
			_, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID(id))
			require.NoError(t, err)
		}
		worker := &offering{slots: 1}
		leave := session.Workers.Add(worker)
		defer leave()

		start("first")
		require.Equal(t, []string{"first"}, worker.runs())
		start("second")
		require.Equal(t, []string{"first"}, worker.runs(), "no slot is free")
		worker.slots = 1
		start("third")
		if b.Kind == testserver.OnCluster {
			return // each partition has its own order
		}
		require.Equal(t, []string{"first", "second"}, worker.runs(), "the older run comes first")

		require.NoError(t, b.Client.Lane(lane).Pause(ctx, "maintenance"))
		worker.slots = 1
		start("fourth")
		require.Equal(t, []string{"first", "second"}, worker.runs(), "the lane is paused")
	})
}
