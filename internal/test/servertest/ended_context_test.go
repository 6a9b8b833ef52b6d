package servertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// callsWithContext are calls of the API that query the engine. The run is one that has not ended.
func callsWithContext(
	t *testing.T, b *enginetest.Bench, run *runtime.Run[int], def *flow.Definition[int, int],
) map[string]func(context.Context) error {
	t.Helper()
	c := b.Client
	issuer := b.Engine
	return map[string]func(context.Context) error{
		"start":       func(ctx context.Context) error { _, err := runtime.Start(ctx, c, def, 1); return err },
		"result":      func(ctx context.Context) error { _, err := run.Result(ctx); return err },
		"describe":    func(ctx context.Context) error { _, err := run.Describe(ctx); return err },
		"cancel":      func(ctx context.Context) error { return run.Cancel(ctx, "test") },
		"cancel node": func(ctx context.Context) error { return run.CancelNode(ctx, "n0", "test") },
		"pause":       func(ctx context.Context) error { return run.Pause(ctx, "test") },
		"resume":      func(ctx context.Context) error { return run.Resume(ctx) },
		"priority":    func(ctx context.Context) error { return run.SetPriority(ctx, 3) },
		"purge":       func(ctx context.Context) error { return run.Purge(ctx) },
		"rerun":       func(ctx context.Context) error { return run.Rerun(ctx, fabrictype.RerunAll) },
		"waitpoints":  func(ctx context.Context) error { _, err := run.Waitpoints(ctx); return err },
		"items": func(ctx context.Context) (err error) {
			for _, err = range run.Items(ctx, "n0", 0) {
			}
			return err
		},
		"watch": func(ctx context.Context) (err error) {
			for _, err = range run.Watch(ctx, "") {
			}
			return err
		},
		"stream": func(ctx context.Context) (err error) {
			for _, err = range run.Stream(ctx, "n0", "") {
			}
			return err
		},
		"runs": func(ctx context.Context) (err error) {
			for _, err = range c.Runs(ctx, runtime.RunQuery{}) {
			}
			return err
		},
		"list runs": func(ctx context.Context) error {
			_, err := c.ListRuns(ctx, runtime.RunQuery{}, "", 0)
			return err
		},
		"schedules": func(ctx context.Context) (err error) {
			for _, err = range c.Schedules(ctx) {
			}
			return err
		},
		"bulk job": func(ctx context.Context) error { _, err := c.BulkJob("b").Describe(ctx); return err },
		"bulk jobs": func(ctx context.Context) (err error) {
			for _, err = range c.BulkJobs(ctx) {
			}
			return err
		},
		"schedule":       func(ctx context.Context) error { _, err := c.Schedule("s").Describe(ctx); return err },
		"pause schedule": func(ctx context.Context) error { return c.Schedule("s").Pause(ctx, "") },
		"budgets":        func(ctx context.Context) error { _, err := c.Budgets(ctx); return err },
		"budget": func(ctx context.Context) error {
			_, err := c.Budget(fabrictype.BudgetName{Name: "b"}).Describe(ctx)
			return err
		},
		"reset budget":    func(ctx context.Context) error { return c.Budget(fabrictype.BudgetName{Name: "b"}).Reset(ctx) },
		"limits":          func(ctx context.Context) error { _, err := c.Limits(ctx); return err },
		"set limit":       func(ctx context.Context) error { return c.Limit("l", "").Set(ctx, activity.LimitConfig{AtOnce: 1}) },
		"lanes":           func(ctx context.Context) error { _, err := c.Lanes(ctx); return err },
		"pauses":          func(ctx context.Context) error { _, err := c.Pauses(ctx); return err },
		"pause lane":      func(ctx context.Context) error { return c.Lane("other").Pause(ctx, "") },
		"resume activity": func(ctx context.Context) error { return c.Activity("other").Resume(ctx) },
		"inspect":         func(ctx context.Context) error { _, err := b.Engine.Inspect(ctx); return err },
		"claim for worker": func(ctx context.Context) error {
			_, err := issuer.ClaimForWorker(ctx, enginecore.GrantRequest{Lane: "default", WorkerID: "w", Instance: "w1", TTL: time.Second})
			return err
		},
	}
}

var errCallerLeft = errors.New("the caller left")

// A call whose context has ended, or ends before an answer comes, returns the cause of that, and does not say that the
// engine is unavailable.
func TestEndedContexts(t *testing.T) {
	testserver.SideBySide(t, testserver.Kinds(t), func(t *testing.T, kind testserver.Kind) {
		ctx := enginetest.Context(t)
		stalls := kind == testserver.Redis || kind == testserver.Valkey
		var b *enginetest.Bench
		if stalls { // others need not wait for this test
			b = enginetest.Open(t, kind, testserver.Start(t, testserver.Options{Kind: kind}).URL(), enginetest.NewPrefix())
		} else {
			b = enginetest.New(t, kind)
		}
		def := fixture.ChainOf(t, fixture.AddOne(), 1)
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		calls := callsWithContext(t, b, run, def)
		operator, err := admin.New(b.Engine)
		require.NoError(t, err)
		calls["flow, of admin"] = func(ctx context.Context) error { _, err := operator.Flow(ctx, run.FlowID()); return err }
		calls["members, of admin"] = func(ctx context.Context) (err error) {
			for _, err = range operator.Members(ctx, run.FlowID()) {
			}
			return err
		}
		requireCause := func(name string, err, cause error) {
			require.ErrorIs(t, err, cause, name)
			require.NotErrorIs(t, err, enginecore.ErrUnavailable, name)
			require.NotErrorIs(t, err, enginecore.ErrNotReachable, name)
		}
		left, leave := context.WithCancelCause(ctx)
		leave(errCallerLeft)
		for name, call := range calls {
			requireCause(name, call(left), errCallerLeft)
		}
		if !stalls {
			return
		}
		command(t, ctx, b, "CLIENT", "PAUSE", "5000", "ALL") // nothing else ends a pause of all clients
		late, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		type end struct {
			name string
			err  error
		}
		ends := make(chan end, len(calls))
		for name, call := range calls {
			go func() { ends <- end{name, call(late)} }()
		}
		for range calls {
			e := <-ends
			requireCause(e.name, e.err, context.DeadlineExceeded)
		}
	})
}

// A nil context is an argument that cannot be used.
func TestNilContexts(t *testing.T) {
	t.Parallel()
	enginetest.Only(t, testserver.Embedded)
	b := enginetest.New(t, testserver.Embedded)
	def := fixture.ChainOf(t, fixture.AddOne(), 1)
	run, err := runtime.Start(enginetest.Context(t), b.Client, def, 1)
	require.NoError(t, err)
	calls := callsWithContext(t, b, run, def)
	calls["check"] = b.Engine.Check
	calls["run a worker"] = enginetest.NewWorker(t, b.Engine, runtime.WorkerConfig{}).Run
	calls["run a keeper"] = enginetest.NewKeeper(t, b.Engine, runtime.KeeperConfig{}).Run
	calls["rotate secrets"] = func(ctx context.Context) error { _, err := b.Engine.RotateSecrets(ctx, 0); return err }
	var none context.Context
	for name, call := range calls {
		err := call(none)
		require.ErrorIs(t, err, runtime.ErrInvalid, name)
		require.ErrorContains(t, err, "the context is nil", name)
	}
}
