package dispatch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/dispatch"
)

// A worker that has to run an execution alone takes no other work until it is idle, then runs the execution with all
// its slots.
func TestIsolate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := dispatch.NewQueue(4)
		a, b := dispatch.LaneShard{Lane: "a"}, dispatch.LaneShard{Lane: "b"}
		q.Add(a)
		v, ok := q.Take()
		require.True(t, ok)
		require.False(t, v.Alone)
		q.Add(b)
		q.Isolate(a, time.Minute)
		require.True(t, q.IsIsolating())
		q.FinishClaim(v.Slots - 1) // one task runs
		_, ok = q.Take()
		require.False(t, ok)
		require.Zero(t, q.Reserve(1))

		q.ReleaseSlot()
		<-q.Changed
		v, ok = q.Take()
		require.True(t, ok)
		require.Equal(t, dispatch.ClaimTarget{LaneShard: a, Slots: 4, Alone: true}, v)
		require.False(t, q.IsIsolating())
		_, ok = q.Take()
		require.False(t, ok, "it has all slots")
		q.FinishClaim(4)
		v, ok = q.Take()
		require.True(t, ok)
		require.Equal(t, b, v.LaneShard)
		q.FinishClaim(v.Slots - 1)

		q.Add(b)
		q.Isolate(a, time.Minute)
		time.Sleep(time.Minute) //nolint:forbidigo // by the virtual clock
		synctest.Wait()
		require.False(t, q.IsIsolating(), "running functions have not ended in time")
		v, ok = q.Take()
		require.True(t, ok)
		require.Equal(t, b, v.LaneShard)
		require.False(t, v.Alone)
		q.Close()
	})
}
