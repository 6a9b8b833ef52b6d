package runtime_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// The client of OpenLocal refuses runs that no worker of the program can carry on: it names activities and lanes, also of
// sub-flows. A worker that is added to the engine, and a client of NewClient, lift that.
func TestLocalRefusesWhatItCannotRun(t *testing.T) {
	t.Parallel()
	pass := func(_ context.Context, n int) (int, error) { return n, nil }
	known, missing := activity.New("known", pass), activity.New("missing", pass)
	mail := activity.New("mail", pass, activity.Lane("mail"))
	local, err := runtime.OpenLocal(t.Context(), runtime.LocalConfig{Activities: []activity.Handler{known, mail}})
	require.NoError(t, err)
	defer func() { require.NoError(t, local.Close()) }()

	inner := flow.New[int, int]("inner")
	flow.Return(inner, flow.Node(inner, "deep", missing, inner.Input()))
	part, err := inner.Build()
	require.NoError(t, err)
	f := flow.New[int, int]("outer")
	flow.Return(f, flow.Node(f, "post", mail, flow.Sub(f, "sub", part, flow.Node(f, "first", known, f.Input()))))
	def, err := f.Build()
	require.NoError(t, err)
	_, err = runtime.Start(t.Context(), local.Client(), def, 1)
	require.ErrorIs(t, err, runtime.ErrInvalid)
	require.ErrorContains(t, err, `node sub/deep: activity "missing" is not among LocalConfig.Activities`)
	require.ErrorContains(t, err, `node post: lane "mail" is not among the worker's lanes ["default"]`)
	require.NotContains(t, err.Error(), "first")
	for run, err := range local.Client().Runs(t.Context(), runtime.RunQuery{}) {
		require.NoError(t, err)
		require.Fail(t, "a run was started", run.Run)
	}

	other, err := runtime.NewClient(local.Engine())
	require.NoError(t, err)
	defer other.Close()
	run, err := runtime.Start(t.Context(), other, def, 1)
	require.NoError(t, err)
	worker, err := runtime.NewWorker(local.Engine(), runtime.WorkerConfig{Lanes: []string{"default", "mail"}})
	require.NoError(t, err)
	require.NoError(t, worker.Register(mail, missing))
	running, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- worker.Run(running) }()
	_, err = run.Result(t.Context())
	require.NoError(t, err)
	again, err := runtime.Start(t.Context(), local.Client(), def, 2)
	require.NoError(t, err)
	_, err = again.Result(t.Context())
	require.NoError(t, err)
	stop()
	require.NoError(t, <-ended)
}
