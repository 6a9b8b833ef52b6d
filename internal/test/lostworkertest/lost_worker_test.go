package lostworkertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/explain"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/internal/waitreason"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func single(t *testing.T, a *activity.Activity[int, int], options ...flow.NodeOption) *flow.Definition[int, int] {
	t.Helper()
	f := flow.New[int, int](a.Name())
	flow.Return(f, flow.Node(f, "only", a, f.Input(), options...))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

func start(t *testing.T, b *enginetest.Bench, def *flow.Definition[int, int], n int) (runs []*runtime.Run[int]) {
	t.Helper()
	for i := range n {
		run, err := runtime.Start(enginetest.Context(t), b.Client, def, i)
		require.NoError(t, err)
		runs = append(runs, run)
	}
	return runs
}

func onServers(t *testing.T, test func(t *testing.T, b *enginetest.Bench)) {
	testserver.SideBySide(t, testserver.Servers(t), func(t *testing.T, kind testserver.Kind) { test(t, enginetest.New(t, kind)) })
}

// A function that kills its process fails, and the others of the process do not.
func TestPoison_OtherRunsSucceed(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, b *enginetest.Bench) {
		b.Keeper(t)
		others := start(t, b, single(t, kind(0)), 10)
		killer := start(t, b, single(t, poison(false)), 1)[0]
		supervise(t, b)
		for i, run := range others {
			out, err := run.Result(enginetest.Context(t))
			require.NoError(t, err)
			require.Equal(t, i, out)
		}
		_, err := killer.Result(enginetest.Context(t))
		var failed *runtime.RunError
		require.True(t, errors.As(err, &failed), "%v", err)
		require.Equal(t, engine.CategoryWorkerLost, failed.Category)
		require.Equal(t, "its worker was lost 5 times", failed.Reason)
	})
}

// A program that crashes soon after each of its starts fails nothing: a run loses two workers, and then it waits for
// one that lives.
func TestCrashLoop_RunWaitsForWorker(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, b *enginetest.Bench) {
		b.Keeper(t)
		runs := start(t, b, single(t, kind(0)), 20)
		for range 10 {
			_ = process(t, b, lease/2).Wait()
		}
		b.Worker(t, []activity.Handler{kind(0)}, runtime.WorkerConfig{Concurrency: 8, Lease: lease})
		for i, run := range runs {
			out, err := run.Result(enginetest.Context(t))
			require.NoError(t, err)
			require.Equal(t, i, out)
			d, err := run.Describe(enginetest.Context(t))
			require.NoError(t, err)
			require.LessOrEqual(t, d.Nodes[0].Attempts, 3)
		}
	})
}

// mortal claims an execution as a worker that never renews its lease, and checks the reply.
type mortal struct {
	isNew, alone bool
	leased       int
	suspect      bool
}

// once claims once. It returns the difference between the reply and the expected one, and an empty text without any.
func (m mortal) once(t *testing.T, b *enginetest.Bench, run *runtime.Run[int], instance string) string {
	t.Helper()
	core := engine.ConnOf(b.Engine.Internal())
	partition, err := core.FlowPartition(run.FlowID())
	require.NoError(t, err)
	call := enginerpc.ClaimCall{
		Partition: partition, IsNew: m.isNew, Alone: m.alone, ClaimRequest: enginerpc.ClaimRequest{
			LaneID: "default", WorkerID: "worker", WorkerInstanceID: enginecore.WorkerInstanceID(instance), ClaimID: uuid.NewString(),
			Count: 1, LeaseTTL: 5 * time.Millisecond, Kinds: "\nkind\n",
		},
	}
	var reply enginerpc.ClaimReply
	err = retry.UntilKnown(enginetest.Context(t), retry.Policy{Pause: time.Millisecond}, func(repeated bool) (err error) {
		call.Repeated = repeated
		reply, err = core.Claim(enginetest.Context(t), call)
		return err
	})
	if err != nil || len(reply.Executions) != m.leased || reply.Suspect != m.suspect {
		return fmt.Sprintf("%s: got %d executions of %d, suspect %t, %v", instance, len(reply.Executions), m.leased,
			reply.Suspect, err)
	}
	return ""
}

// claim claims until the reply is as it should be.
func (m mortal) claim(t *testing.T, b *enginetest.Bench, run *runtime.Run[int], instance string) {
	t.Helper()
	enginetest.Eventually(t, func() string { return m.once(t, b, run, instance) })
}

// Rules of take-overs: a new worker takes only executions that were lost once, a worker with other running executions
// takes no suspect, and the engine asks one worker at a time to run nothing else for a suspect.
func TestTakeOvers(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		b.Keeper(t)
		run := start(t, b, single(t, kind(0), activity.LostWorkers(2)), 1)[0]
		mortal{isNew: true, leased: 1}.claim(t, b, run, "a")
		mortal{isNew: true, leased: 1}.claim(t, b, run, "b")
		mortal{suspect: true}.claim(t, b, run, "c") // once the back-off is over
		mortal{suspect: true}.claim(t, b, run, "c")
		mortal{}.claim(t, b, run, "d")
		mortal{isNew: true, alone: true}.claim(t, b, run, "e")
		mortal{alone: true, leased: 1}.claim(t, b, run, "f")
		b.Worker(t, []activity.Handler{kind(0)}) // gives it up at once, whatever its age
		_, err := run.Result(enginetest.Context(t))
		var failed *runtime.RunError
		require.True(t, errors.As(err, &failed), "%v", err)
		require.Equal(t, "its worker was lost 3 times", failed.Reason)
		d, err := run.Describe(enginetest.Context(t))
		require.NoError(t, err)
		require.Equal(t, failed.Reason, d.Nodes[0].Reason)
		require.Equal(t, engine.CategoryWorkerLost, d.Nodes[0].Category)
		b.Settle(t)
	})
}

// A function that must not run twice fails when its worker is lost.
func TestLostWorkers_ZeroFailsNode(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		b.Keeper(t)
		run := start(t, b, single(t, kind(0), activity.LostWorkers(0)), 1)[0]
		mortal{leased: 1}.claim(t, b, run, "a")
		b.Worker(t, []activity.Handler{kind(0)})
		_, err := run.Result(enginetest.Context(t))
		var failed *runtime.RunError
		require.True(t, errors.As(err, &failed), "%v", err)
		require.Equal(t, engine.CategoryWorkerLost, failed.Category)
		require.Equal(t, "its worker was lost", failed.Reason)
		b.Settle(t)
	})
}

// An execution that an operator takes from its workers has lost none of them: a worker of any age takes it over at
// once.
func TestRevokedLeasesDoNotCountAsLost(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		const revoked = 4
		begun := make(chan enginecore.ExecutionID, revoked+1)
		hangs := activity.New("hangs", func(ctx context.Context, n int) (int, error) {
			info, _ := activity.Info(ctx)
			begun <- enginecore.ExecutionID(info.ExecutionID)
			if info.Attempt > revoked {
				return n, nil
			}
			<-ctx.Done()
			return 0, context.Cause(ctx)
		})
		b.KeepingWorker(t, []activity.Handler{hangs}, runtime.WorkerConfig{Lease: time.Hour, Concurrency: 4}) // never old enough
		run := start(t, b, single(t, hangs), 1)[0]
		operator, err := admin.New(b.Engine)
		require.NoError(t, err)
		for range revoked {
			_, err := operator.RevokeLease(ctx, <-begun, "", "it hangs")
			require.NoError(t, err)
		}
		_, err = run.Result(ctx)
		require.NoError(t, err)
	})
}

// The description of a node that has lost workers contains their number, the time since which the node is delayed, and
// the time of its next attempt. The delay begins at the end of the lease, also before a keeper has marked the lease: a
// late keeper changes neither time.
func TestLostWorkers_ReasonAndNextAttempt(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		run := start(t, b, single(t, kind(0), activity.LostWorkers(20)), 1)[0]
		now := func() time.Time {
			now, err := engine.ConnOf(b.Engine.Internal()).Now(ctx)
			require.NoError(t, err)
			return now
		}
		explained := func(workers int) (e fabrictype.Explanation) {
			enginetest.Eventually(t, func() string {
				d, err := run.Describe(ctx)
				require.NoError(t, err)
				if e = d.Nodes[0].Waiting; e.Reason != waitreason.WorkerLost || e.Have != workers {
					return fmt.Sprintf("after %d lost workers: %+v", workers, e)
				}
				require.Equal(t, e.Until, d.Nodes[0].DueAt)
				return ""
			})
			require.Equal(t, fmt.Sprint("w-", workers), e.Subject)
			require.Contains(t, e.Remedy, "lane default")
			return e
		}
		for workers := 1; workers <= 3; workers++ {
			// In place of a keeper: it checks the leases once, when the node is due.
			_, err := b.RunKeeperTask(ctx, "lease_expiry")
			require.NoError(t, err)
			require.Empty(t, mortal{alone: true, leased: 1}.once(t, b, run, fmt.Sprint("w-", workers)))
			e := explained(workers)
			if workers == 1 {
				require.Contains(t, e.Sentence, "its worker was lost: the lease ran out at ")
				require.Zero(t, e.Until)
				continue
			}
			require.Contains(t, e.Sentence, "held back since "+explain.Time(e.Since)+fmt.Sprintf(", after it lost %d workers: ", workers))
			require.Contains(t, e.Sentence, " a worker that has lived for some seconds")
			require.Equal(t, workers > 2, strings.Contains(e.Sentence, "and runs nothing else"))
			due := e.Since.Add(time.Second << (workers - 2))
			if now().Before(due) {
				require.Equal(t, due, e.Until)
				require.Contains(t, e.Sentence, "tried next at "+explain.Time(due))
			}
			enginetest.Eventually(t, func() string {
				if left := due.Sub(now()); left > 0 {
					return fmt.Sprint(left, " until it is due")
				}
				return ""
			})
		}
		b.KeepingWorker(t, []activity.Handler{kind(0)}, runtime.WorkerConfig{Lease: lease})
		_, err := run.Result(ctx)
		require.NoError(t, err)
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.Zero(t, d.Nodes[0].Waiting)
		b.Settle(t)
	})
}
