package admin_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func (d *desk) lags() map[string]time.Duration {
	d.t.Helper()
	all, err := d.KeeperLag(d.ctx)
	require.NoError(d.t, err)
	return all
}

// The lag of a task is the lag of its oldest due work in all partitions, until a keeper has done it.
func TestKeeperLag(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		d := newDesk(t, b)
		for task, lag := range d.lags() {
			require.Zero(t, lag, task)
			_, err := d.RunKeeperTask(d.ctx, task, runtime.KeeperConfig{})
			require.NoError(t, err, "keepers have a task of this name")
		}
		client, p := d.core.Client(), keyspace.Partition{Family: keyspace.FlowFamily, Index: 1}
		due := client.B().Zadd().Key(d.core.Keys().IndexAttemptTimeout(p)).ScoreMember().ScoreMember(1, "nothing").Build()
		require.NoError(t, client.Do(d.ctx, due).Error())
		require.Greater(t, d.lags()["attempt_timeout"], 365*24*time.Hour, "it was due in 1970")
		require.Zero(t, d.lags()["execution_deadline"])
		_, err := d.RunKeeperTask(d.ctx, "attempt_timeout", runtime.KeeperConfig{})
		require.NoError(t, err)
		require.Zero(t, d.lags()["attempt_timeout"])
	})
}

// Delays have an index in each lane. The lag counts from the end of the delay.
func TestKeeperLagOfDelays(t *testing.T) {
	t.Parallel()
	b, clock := enginetest.WithClock(t)
	d := newDesk(t, b)
	now, err := d.core.Now(d.ctx)
	require.NoError(t, err)
	d.create(admin.ExecutionSpec{Lane: lane, DelayUntil: now.Add(time.Minute)})
	require.Zero(t, d.lags()["delayed_promotion"])
	clock.Jump(3 * time.Minute)
	lag := d.lags()["delayed_promotion"]
	later, err := d.core.Now(d.ctx)
	require.NoError(t, err)
	require.GreaterOrEqual(t, lag, 2*time.Minute-time.Millisecond)
	require.LessOrEqual(t, lag, later.Sub(now)-time.Minute+time.Millisecond, "the clock moves between the calls as well")
	_, err = d.RunKeeperTask(d.ctx, "delayed_promotion", runtime.KeeperConfig{})
	require.NoError(t, err)
	require.Zero(t, d.lags()["delayed_promotion"])
}
