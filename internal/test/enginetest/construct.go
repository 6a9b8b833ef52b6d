package enginetest

import (
	"cmp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/runtime"
)

// NewClient is runtime.NewClient for a test that fails with its error.
func NewClient(tb testing.TB, e *runtime.Engine) *runtime.Client {
	tb.Helper()
	client, err := runtime.NewClient(e)
	require.NoError(tb, err)
	return client
}

// LongLease is the lease of workers whose config has none: nothing that a test does by default may depend on whether a
// worker renews its leases in time.
const LongLease = time.Hour

// NewWorker is runtime.NewWorker for a test, which fails on an error. A worker without a configured lease has
// [LongLease]. A test sets a shorter lease if it needs expired leases, or if it breaks connections or stops workers
// while calls fail: executions that such a worker could not release wait until their lease expires.
func NewWorker(tb testing.TB, e *runtime.Engine, config runtime.WorkerConfig) *runtime.Worker {
	tb.Helper()
	config.Lease = cmp.Or(config.Lease, LongLease)
	w, err := runtime.NewWorker(e, config)
	require.NoError(tb, err)
	return w
}

// NewKeeper is runtime.NewKeeper for a test that fails with its error.
func NewKeeper(tb testing.TB, e *runtime.Engine, config runtime.KeeperConfig) *runtime.Keeper {
	tb.Helper()
	k, err := runtime.NewKeeper(e, config)
	require.NoError(tb, err)
	return k
}

// atMostOne is the config of a call that may leave it out.
func atMostOne[C any](tb testing.TB, configs []C) (config C) {
	tb.Helper()
	require.LessOrEqual(tb, len(configs), 1, "configs")
	if len(configs) == 1 {
		config = configs[0]
	}
	return config
}
