package admin_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// What is due and done by nobody counts from when it was due, until a keeper has done it.
func TestKeeperLag(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		d := newDesk(t, b)
		lags := func() map[string]time.Duration {
			all, err := d.KeeperLag(d.ctx)
			require.NoError(t, err)
			return all
		}
		now, err := d.core.Now(d.ctx)
		require.NoError(t, err)
		d.create(admin.ExecutionSpec{Lane: lane, DelayUntil: now.Add(20 * time.Millisecond), DeadlineAt: now.Add(time.Hour)})
		enginetest.Eventually(t, enginetest.Patience, func() string {
			if lags()["delayed_promotion"] == 0 {
				return "nothing is due"
			}
			return ""
		})
		require.Zero(t, lags()["execution_deadline"])
		for task := range lags() {
			_, err := d.RunKeeperTask(d.ctx, task, runtime.KeeperConfig{})
			require.NoError(t, err, "the lag is that of a task of keepers")
		}
		require.Zero(t, lags()["delayed_promotion"])
	})
}
