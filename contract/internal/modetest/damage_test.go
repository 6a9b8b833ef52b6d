package modetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/contract"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A delayed signal, which some libraries cannot promote, ends its wait all the same, and does not keep another run from
// ending.
func TestContractDelayedSignal(t *testing.T) {
	anyContract(t, func(t *testing.T, x *outside) {
		failuresAreWanted(t, x)
		_, err := x.operator.RotateSecret(x.ctx, enginecore.WaitpointSecret{KID: "k1", Hex: "00112233445566778899aabbccddeeff"}, time.Hour)
		require.NoError(t, err)
		id := x.create("of a program", "")
		w, err := x.suspend(x.program.Claim(id, 0))
		require.NoError(t, err)
		_, err = x.operator.DeliverSignal(x.ctx, admin.Signal{
			Execution: id, Waitpoint: w.WaitpointID, Token: w.WaitpointToken, Name: "go", ResumeDelay: time.Millisecond,
		})
		require.NoError(t, err)
		require.Equal(t, fabrictype.NodeDelayed, x.execution(id).State)
		x.Keeper(t)
		x.awaitState(id, fabrictype.NodeWaiting)
		require.Equal(t, "attempt_interrupted", string(x.execution(id).Attempt), "it continues in the same attempt")
		requireRunTimesOut(t, x.Bench, x.ctx)
		require.NotContains(t, x.Log(), "keeper.item_failed")
		client := x.core.Client()
		n, err := client.Do(x.ctx, client.B().Exists().Key("ff:idx:{fp:0}:lane:default:delayed").Build()).AsInt64()
		require.NoError(t, err)
		require.Zero(t, n, "it has left the index of delayed executions")
	})
}

// failuresAreWanted keeps the check that no call fails from the server of a test in which some do.
func failuresAreWanted(t *testing.T, x *outside) {
	if x.Kind == testserver.Embedded {
		return
	}
	t.Cleanup(func() {
		client := x.core.Client()
		require.NoError(t, client.Do(x.ctx, client.B().ConfigResetstat().Build()).Error())
	})
}

// requireRunTimesOut starts a run that waits for a signal with a timeout, and requires that it ends by it.
func requireRunTimesOut(t *testing.T, b *enginetest.Bench, ctx context.Context) {
	t.Helper()
	f := flow.New[int, int]("approved-in-time")
	flow.Return(f, flow.Waitpoint[int](f, "approval", activity.Timeout(10*time.Millisecond, activity.FailOnTimeout)))
	def, err := f.Build()
	require.NoError(t, err)
	run, err := runtime.Start(ctx, b.Client, def, 1)
	require.NoError(t, err)
	_, err = run.Result(ctx)
	require.ErrorIs(t, err, runtime.ErrRunFailed)
}

// Damaged members of an index that keepers work off do not delay other members. Keepers put them off, log them by name
// and count them. A run in the same indexes, whose nodes are retried, delayed, blocked and time out, ends.
func TestContractDamagedMembers(t *testing.T) {
	anyContract(t, func(t *testing.T, x *outside) {
		failuresAreWanted(t, x)
		client := x.core.Client()
		command := func(args ...string) {
			t.Helper()
			require.NoError(t, client.Do(x.ctx, client.B().Arbitrary(args[0]).Keys(args[1]).Args(args[2:]...).Build()).Error())
		}
		damaged := make(map[string]string) // by index
		wrong := func() string {
			id := "{fp:0}:" + uuid.NewString()
			command("SET", "ff:exec:{fp:0}:"+id+":core", "no hash")
			return id
		}
		for _, index := range []string{
			"lease_expiry", "attempt_timeout", "execution_deadline", "suspension_timeout", "lane:default:delayed",
			"lane:flowfabric.waits:delayed", "lane:default:active", "lane:default:blocked:dependencies",
			"lane:default:blocked:route", "lane:default:blocked:budget", "lane:flowfabric.waits:eligible",
			"lane:default:eligible",
		} {
			damaged[index] = wrong()
			command("ZADD", "ff:idx:{fp:0}:"+index, "1", damaged[index])
			command("ZADD", "ff:idx:{fp:0}:"+index, "1", "no id at all", "1", "{fp:0}:"+uuid.NewString(),
				"1", "{fp:9}:"+uuid.NewString())
		}
		unknown := uuid.NewString()
		command("SET", "ff:wp:{fp:0}:"+unknown, "no hash")
		command("ZADD", "ff:idx:{fp:0}:pending_waitpoint_expiry", "1", unknown, "1", uuid.NewString())
		command("ZADD", "ff:idx:{fp:0}:cancel_backlog", "1", "no flow", "1", unknown)
		command("SET", "ff:flow:{fp:0}:"+unknown+":pending_cancels", "no set")
		command("SADD", "ff:idx:{fp:0}:pending_cancel_groups", "nonsense", unknown+"|"+wrong(), "x|no id")

		flaky := activity.New("flaky", func(ctx context.Context, n int) (int, error) {
			if info, _ := activity.Info(ctx); info.Attempt == 1 {
				return 0, fmt.Errorf("not yet")
			}
			return n + 1, nil
		}, activity.Retry(activity.RetryPolicy{First: 5 * time.Millisecond, Attempts: 3}))
		keeper := enginetest.NewKeeper(t, x.Engine, runtime.KeeperConfig{})
		x.Run(t, "keeper", keeper.Run)
		x.Worker(t, []activity.Handler{flaky})
		run, err := runtime.Start(x.ctx, x.Client, fixture.ChainOf(t, flaky, 3), 1)
		require.NoError(t, err)
		out, err := run.Result(x.ctx)
		require.NoError(t, err)
		require.Equal(t, 4, out)
		requireRunTimesOut(t, x.Bench, x.ctx)

		failed := func() (total int64) {
			for _, task := range keeper.Stats().Tasks {
				total += task.Failed
				require.Zero(t, task.Errors, "no step fails as a whole")
			}
			return total
		}
		enginetest.Eventually(t, func() string {
			var missing []string
			for _, index := range []string{
				"lease_expiry", "attempt_timeout", "execution_deadline", "suspension_timeout", "lane:default:delayed",
				"lane:default:active", "lane:default:blocked:route",
			} {
				if !strings.Contains(x.Log(), damaged[index]) {
					missing = append(missing, index)
				}
			}
			if len(missing) > 0 || failed() == 0 {
				return fmt.Sprintf("not reported: %v; %d failures", missing, failed())
			}
			return ""
		})
	})
}

// Any active keeper promotes retried and delayed executions of any lane: keepers learn of lanes from workers, from
// creations, and from the configurations of other keepers.
func TestContractLanesOfOthers(t *testing.T) {
	anyContract(t, func(t *testing.T, x *outside) {
		keepers := enginetest.Open(t, x.Kind, x.URL, x.Prefix, runtime.OpenConfig{Partitions: 1, Backend: contract.Backend(contract.Config{
			PollInterval: 20 * time.Millisecond, ReconcileInterval: time.Hour,
		})})
		if x.Kind == testserver.Embedded {
			keepers = x.Bench // an engine in memory has one process
		}
		keepers.Keeper(t)
		delayed := func(lane enginecore.LaneID) enginecore.ExecutionID {
			id, _, err := x.operator.CreateExecution(x.ctx, admin.ExecutionSpec{
				Kind: "of a program", Lane: lane, DelayUntil: time.Now().Add(20 * time.Millisecond),
			})
			require.NoError(t, err)
			return id
		}
		x.awaitState(delayed("created"), fabrictype.NodeWaiting)

		flaky := activity.New("flaky", func(ctx context.Context, n int) (int, error) {
			if info, _ := activity.Info(ctx); info.Attempt == 1 {
				return 0, fmt.Errorf("not yet")
			}
			return n + 1, nil
		}, activity.Retry(activity.RetryPolicy{First: 5 * time.Millisecond, Attempts: 3}))
		x.Worker(t, []activity.Handler{flaky}, runtime.WorkerConfig{Lanes: []string{"of a worker"}})
		// Another program, which enters no lanes, creates it.
		id := enginecore.ExecutionID("{fp:0}:" + uuid.NewString())
		_, err := enginerpc.Do(x.ctx, x.core, enginerpc.CreateDelayedCall{CreateExecutionCall: enginerpc.CreateExecutionCall{
			ExecutionID: id, Namespace: "default", LaneID: "of a worker", ExecutionKind: "flaky", CreatorIdentity: "x",
			PolicyJSON:   []byte(`{"retry_policy":{"max_retries":2,"backoff":{"type":"fixed","delay_ms":5}}}`),
			InputPayload: []byte("1"), DelayUntil: time.Now().Add(20 * time.Millisecond), PartitionID: "{fp:0}",
		}})
		require.NoError(t, err)
		x.awaitState(id, fabrictype.NodeSucceeded)
		require.Equal(t, 1, x.execution(id).Retries)

		x.Keeper(t, runtime.KeeperConfig{Lanes: []string{"of a keeper"}})
		client := x.core.Client()
		enginetest.Eventually(t, func() string {
			lanes, err := client.Do(x.ctx, client.B().Smembers().Key("ff:idx:lanes").Build()).AsStrSlice()
			require.NoError(t, err)
			if len(lanes) < 3 {
				return fmt.Sprint(lanes)
			}
			return ""
		})
	})
}

// An execution whose delay was over when it was created moves to the index of eligible executions, also where the
// library has entered it into the index of delayed ones.
func TestContractPassedDelay(t *testing.T) {
	anyContract(t, func(t *testing.T, x *outside) {
		id := enginecore.ExecutionID("{fp:0}:" + uuid.NewString())
		_, err := enginerpc.Do(x.ctx, x.core, enginerpc.CreateDelayedCall{CreateExecutionCall: enginerpc.CreateExecutionCall{
			ExecutionID: id, Namespace: "default", LaneID: enginetest.ProgramLane, ExecutionKind: "of a program",
			CreatorIdentity: "x", PolicyJSON: []byte("{}"), InputPayload: []byte("1"),
			DelayUntil: time.Now().Add(-time.Hour), PartitionID: "{fp:0}",
		}})
		require.NoError(t, err)
		x.Keeper(t)
		lane := "ff:idx:{fp:0}:lane:" + string(enginetest.ProgramLane)
		client := x.core.Client()
		enginetest.Eventually(t, func() string {
			eligible := client.Do(x.ctx, client.B().Zscore().Key(lane+":eligible").Member(string(id)).Build()).Error()
			delayed := client.Do(x.ctx, client.B().Zscore().Key(lane+":delayed").Member(string(id)).Build()).Error()
			if eligible != nil || delayed == nil {
				return fmt.Sprintf("it is %+v: eligible: %v; delayed: %v", x.execution(id), eligible, delayed)
			}
			return ""
		})
	})
}

// Executions that a worker cannot run hide no others, however many they are. Executions that no worker can run are
// blocked.
func TestContractHiddenExecutions(t *testing.T) {
	anyContract(t, func(t *testing.T, x *outside) {
		const many = 300
		create := func(count int, kind, policy string) (last enginecore.ExecutionID) {
			for range count {
				last = x.create(kind, policy)
			}
			return last
		}
		needs := func(capability string) string {
			return `{"routing_requirements":{"required_capabilities":["` + capability + `"]}}`
		}
		client := x.core.Client()
		require.NoError(t, client.Do(x.ctx, client.B().Set().Key("ff:worker:busy:caps").Value("gpu").Build()).Error())
		require.NoError(t, client.Do(x.ctx, client.B().Sadd().Key("ff:idx:workers").Member("busy").Build()).Error())
		plain := activity.New("plain", func(_ context.Context, n int) (int, error) { return n, nil })
		create(many, "unknown", "")
		gpu := create(many, "plain", needs("gpu"))
		tpu := create(many, "plain", needs("tpu"))
		x.Worker(t, []activity.Handler{plain})
		for range 3 {
			x.awaitState(x.create("plain", ""), fabrictype.NodeSucceeded)
		}
		require.Equal(t, fabrictype.NodeWaiting, x.execution(gpu).State, "a worker of the contract offers it")
		enginetest.Eventually(t, func() string {
			if e := x.execution(tpu); e.Eligibility != "blocked_by_route" {
				return e.Eligibility
			}
			return ""
		})
		x.Worker(t, []activity.Handler{plain}, runtime.WorkerConfig{Capabilities: []string{"tpu"}})
		x.awaitState(tpu, fabrictype.NodeSucceeded)
	})
}
