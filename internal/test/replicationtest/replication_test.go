package replicationtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/findingcode"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/internal/test/workload"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func TestMain(m *testing.M) {
	enginetest.Main(m)
}

// onServers runs a test with a primary and a replica of each kind of server.
func onServers(t *testing.T, test func(t *testing.T, w *testserver.Watched, kind testserver.Kind)) {
	t.Helper()
	testserver.SideBySide(t, testserver.Servers(t), func(t *testing.T, kind testserver.Kind) {
		test(t, testserver.StartSentinel(t, kind), kind)
	})
}

// one requires an acknowledgement by one replica. Only the loss of the replica lets the timeout end.
func one(timeout time.Duration) runtime.OpenConfig {
	return runtime.OpenConfig{Replication: runtime.Replication{Replicas: 1, Timeout: timeout}}
}

// A run that was acknowledged is there when the primary dies and its replica takes over. Without the setting, a run is
// acknowledged that is lost then.
func TestAcknowledgedRunsSurvive(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, w *testserver.Watched, kind testserver.Kind) {
		ctx := enginetest.Context(t)
		prefix, def := enginetest.NewPrefix(), workload.Counting(t)
		safe := enginetest.Open(t, kind, w.URL(), prefix, one(time.Second))
		plain := enginetest.Open(t, kind, w.URL(), prefix)
		worker := safe.Worker(t, []activity.Handler{workload.PlusOne})
		run, err := runtime.Start(ctx, safe.Client, def, 1, runtime.WithID("replicated"))
		require.NoError(t, err)
		result, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 2, result)
		require.NoError(t, worker.Stop())
		_, err = runtime.Start(ctx, safe.Client, def, 1, runtime.WithID("open"))
		require.NoError(t, err)

		w.Primary.DetachReplicas(t)
		_, err = runtime.Start(ctx, safe.Client, def, 1, runtime.WithID("warned"))
		require.ErrorIs(t, err, enginecore.ErrNotReplicated)
		require.NotErrorIs(t, err, enginecore.ErrUnavailable)
		require.ErrorContains(t, err, "run warned of flow counting has been started")
		_, err = runtime.Start(ctx, plain.Client, def, 1, runtime.WithID("lost"))
		require.NoError(t, err, "acknowledged by the primary alone")
		w.KillPrimary(t)
		w.Promoted(t)

		for id, there := range map[string]bool{"replicated": true, "open": true, "warned": false, "lost": false} {
			ref := plain.Client.Run("counting", id)
			_, err := ref.Describe(ctx)
			if there {
				require.NoError(t, err, id)
			} else {
				require.ErrorIs(t, err, engine.ErrRunNotFound, id)
			}
		}
	})
}

// Signals, cancels and results wait for replicas, too. A call without their acknowledgement is confirmed when it is
// repeated.
func TestRepeatConfirmsCall(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, w *testserver.Watched, kind testserver.Kind) {
		ctx := enginetest.Context(t)
		b := enginetest.Open(t, kind, w.URL(), enginetest.NewPrefix(), one(100*time.Millisecond))
		def := workload.Gated(t)
		b.Keeper(t)
		starts := func(id string) *runtime.Run[string] {
			for {
				run, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID(id))
				if errors.Is(err, enginecore.ErrNotReplicated) { // a busy machine
					continue
				}
				require.NoError(t, err)
				return run
			}
		}
		signalled, cancelled := starts("signalled"), starts("cancelled")

		answer := runtime.Signal{Name: "go", Payload: "now", IdempotencyKey: "k"}
		require.NoError(t, w.Replica.Freeze())
		_, err := signalled.SignalWait(ctx, runtime.WaitName{Node: "go"}, answer)
		require.ErrorIs(t, err, enginecore.ErrNotReplicated)
		require.ErrorIs(t, cancelled.Cancel(ctx, "enough"), enginecore.ErrNotReplicated)
		_, err = signalled.Result(ctx)
		require.ErrorIs(t, err, enginecore.ErrNotReplicated)
		require.ErrorContains(t, err, "the run is over")
		ended, stop := context.WithCancelCause(ctx)
		reason := errors.New("the caller leaves")
		stop(reason)
		_, err = runtime.Start(ended, b.Client, def, 1)
		require.ErrorIs(t, err, reason)
		require.NotErrorIs(t, err, enginecore.ErrNotReplicated, "nothing was sent")

		require.NoError(t, w.Replica.Thaw())
		enginetest.Eventually(t, func() string {
			out, err := signalled.Result(ctx)
			if errors.Is(err, enginecore.ErrNotReplicated) {
				return err.Error()
			}
			require.NoError(t, err)
			require.Equal(t, "now", out)
			return ""
		})
		enginetest.Eventually(t, func() string {
			receipt, err := signalled.SignalWait(ctx, runtime.WaitName{Node: "go"}, answer)
			if errors.Is(err, enginecore.ErrNotReplicated) {
				return err.Error()
			}
			require.NoError(t, err)
			require.True(t, receipt.Outcome == fabrictype.SignalDuplicate)
			return ""
		})
		_, err = cancelled.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunCancelled)
	})
}

// A worker whose report is not replicated logs the missing acknowledgement, and continues.
func TestWorkerContinuesUnconfirmed(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, w *testserver.Watched, kind testserver.Kind) {
		ctx := enginetest.Context(t)
		prefix, def := enginetest.NewPrefix(), workload.Counting(t)
		safe := enginetest.Open(t, kind, w.URL(), prefix, one(50*time.Millisecond))
		plain := enginetest.Open(t, kind, w.URL(), prefix)
		w.Primary.DetachReplicas(t)
		safe.KeepingWorker(t, []activity.Handler{workload.PlusOne})
		for i := range 3 {
			run, err := runtime.Start(ctx, plain.Client, def, i, runtime.WithID(fmt.Sprint(i)))
			require.NoError(t, err)
			out, err := run.Result(ctx)
			require.NoError(t, err)
			require.Equal(t, i+1, out)
		}
		enginetest.Eventually(t, func() string {
			if !strings.Contains(safe.Log(), "replication.missed") {
				return "nothing is logged"
			}
			return ""
		})
	})
}

// Inspect reports a primary with too few replicas, and calls of many goroutines share the barriers.
func TestInspectAndShare(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, w *testserver.Watched, kind testserver.Kind) {
		ctx := enginetest.Context(t)
		b := enginetest.Open(t, kind, w.URL(), enginetest.NewPrefix(), one(time.Minute))
		missing := func() bool {
			report, err := b.Engine.Inspect(ctx)
			require.NoError(t, err)
			for _, f := range report.Findings {
				if f.Code == findingcode.ReplicasMissing {
					return true
				}
			}
			return false
		}
		require.False(t, missing())
		def := workload.Counting(t)
		const starts = 64
		var started sync.WaitGroup
		errs := make([]error, starts)
		for i := range starts {
			started.Go(func() { _, errs[i] = runtime.Start(ctx, b.Client, def, i) })
		}
		started.Wait()
		require.NoError(t, errors.Join(errs...))
		waits := w.Primary.Query(t, "INFO", "commandstats")
		_, waits, found := strings.Cut(waits, "cmdstat_wait:")
		require.True(t, found)
		waits, _, _ = strings.Cut(waits, ",")
		t.Logf("%d starts, WAIT: %s", starts, waits)
		w.Primary.DetachReplicas(t)
		enginetest.Eventually(t, func() string {
			if !missing() {
				return "no finding"
			}
			return ""
		})
	})
}

// The setting is refused where it has no meaning, before anything is opened.
func TestReplicationIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		url    string
		config runtime.OpenConfig
		text   string
	}{
		{"embedded:", one(time.Second), "the engine of this process has no replicas"},
		{"redis://localhost:1?contract=15", one(time.Second), "contract mode does not wait for replicas"},
		{"redis://localhost:1", one(time.Hour), "Replication.Timeout 1h0m0s: must be 10ms to 1m0s"},
		{
			"redis://localhost:1", runtime.OpenConfig{Replication: runtime.Replication{Replicas: -1}},
			"Replication.Replicas -1: must be 0 to 100",
		},
	} {
		_, err := runtime.Open(t.Context(), c.url, c.config)
		require.ErrorIs(t, err, runtime.ErrInvalid)
		require.ErrorContains(t, err, c.text)
	}
}
