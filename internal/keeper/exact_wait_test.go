package keeper

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// A timer covers a wait except for its end, which a pause covers. If a pause ended too early, a timer is next, so that
// the loop does not spin.
func TestExactWait(t *testing.T) {
	t.Parallel()
	var w exactWait
	require.Equal(t, time.Hour-timerGrain, w.timer(time.Hour))
	require.Zero(t, w.timer(time.Nanosecond))
	require.Equal(t, 300*time.Microsecond, w.timer(300*time.Microsecond), "the pause was too short")
	require.Zero(t, w.timer(200*time.Microsecond))
	require.Equal(t, time.Minute, w.timer(time.Minute), "the wait became longer during the pause")
	require.Equal(t, time.Minute-timerGrain, w.timer(time.Minute))
}

// On one server, the best reading of the clock counts for all partitions; in a cluster, each partition has its own.
func TestReadingsOfOneClockAreShared(t *testing.T) {
	t.Parallel()
	const us = time.Microsecond
	partitions := []keyspace.Partition{{Family: keyspace.FlowFamily}, {Family: keyspace.FlowFamily, Index: 1}}
	begin, engineBegin := time.Now(), time.UnixMilli(1_800_000_000_000)
	due := engineBegin.Add(time.Second)
	for _, oneClock := range []bool{true, false} {
		timer := NewPartitionTimer(partitions, time.Minute)
		timer.oneClock = oneClock
		read := func(at int, after, answer time.Duration) (late time.Duration) {
			timer.NoteClock(partitions[at], engineBegin.Add(after), begin.Add(after-100*us), begin.Add(after+answer))
			local, known := timer.ToLocal(partitions[at], due)
			require.True(t, known)
			return local.Sub(begin.Add(time.Second))
		}
		require.Equal(t, 200*us, read(0, 1234*us, 200*us), "microseconds are heeded")
		want := 5000 * us
		if oneClock {
			want = 200 * us
		}
		require.Equal(t, want, read(1, 2345*us, 5000*us))
	}
}
