package propertytest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver/proxy"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// childStageVariable makes the other process a worker of talks, which stops at the stage of its value.
const childStageVariable = "FLOWFABRIC_TEST_STAGE"

// The places where a talk may stop.
const (
	stageBeforeSuspend = "before the suspension"
	stageAfterResume   = "after the resumption"
	stageNowhere       = "nowhere"
)

// talk has a step and a wait. Who runs the step is its result.
func talk(who, stage string, stop func()) *activity.Activity[int, string] {
	return activity.New("talk", func(ctx context.Context, _ int) (string, error) {
		step, err := activity.Step(ctx, "step", func(context.Context) (string, error) { return who, nil })
		if err != nil {
			return "", err
		}
		n, err := activity.Await[int](ctx, "w")
		if err != nil {
			if stage == stageBeforeSuspend {
				stop()
			}
			return "", err
		}
		if stage == stageAfterResume {
			stop()
		}
		return fmt.Sprintf("step by %s, signal %d, finished by %s", step, n, who), nil
	}, activity.Retry(activity.RetryPolicy{Attempts: 1}))
}

// runTalker is the other process.
func runTalker(stage string) int {
	ctx := context.Background()
	e, err := runtime.Open(ctx, os.Getenv(childVariable), runtime.OpenConfig{
		Prefix: os.Getenv(childPrefixVariable), Partitions: 4, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	w, err := runtime.NewWorker(e, runtime.WorkerConfig{Lease: killedLease, NoKeeper: true})
	if err == nil {
		err = w.Register(talk("child", stage, func() {
			fmt.Println("begun")
			select {}
		}))
	}
	if err == nil {
		err = w.Run(ctx)
	}
	fmt.Println(err)
	return 1
}

func startTalker(t *testing.T, b *enginetest.Bench, stage string) *child {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), childVariable+"="+b.URL, childPrefixVariable+"="+b.Prefix, childStageVariable+"="+stage)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	c := &child{cmd: cmd, lines: bufio.NewScanner(out)}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return c
}

// A worker is killed after Await has requested the suspension and before it was made: the next one repeats the
// function, not the step, and the signal is not lost.
func TestWorkerKilledBeforeTheSuspension(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		b := enginetest.New(t, kind)
		ctx := enginetest.Context(t)
		def := fixture.OneNode(t, "talk", talk("parent", stageNowhere, nil))
		b.Keeper(t)
		other := startTalker(t, b, stageBeforeSuspend)
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		other.await(t, 1)
		other.kill(t)
		b.Worker(t, def.Handlers())
		w := fixture.OpenWaits(t, ctx, run, 1)[0]
		require.Equal(t, fabrictype.SignalResumed, fixture.Send(t, ctx, b, w, runtime.Signal{Name: "x", Payload: 7}).Outcome)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, "step by child, signal 7, finished by parent", out)
		b.Settle(t)
	})
}

// A worker is killed after the signal has come and before it has finished: the next one gets the same signal.
func TestWorkerKilledAfterTheResumption(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		b := enginetest.New(t, kind)
		ctx := enginetest.Context(t)
		def := fixture.OneNode(t, "talk", talk("parent", stageNowhere, nil))
		b.Keeper(t)
		other := startTalker(t, b, stageAfterResume)
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		w := fixture.OpenWaits(t, ctx, run, 1)[0]
		require.Equal(t, fabrictype.SignalResumed, fixture.Send(t, ctx, b, w, runtime.Signal{Name: "x", Payload: 7}).Outcome)
		other.await(t, 1)
		other.kill(t)
		b.Worker(t, def.Handlers())
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, "step by child, signal 7, finished by parent", out)
		require.Equal(t, fabrictype.SignalClosed, fixture.Send(t, ctx, b, w, runtime.Signal{Name: "x"}).Outcome)
		b.Settle(t)
	})
}

// A program with an embedded engine ends while an execution waits: the wait, its token and the journal are there when
// it starts again.
func TestWaitOutlivesTheProgram(t *testing.T) {
	t.Parallel()
	enginetest.Only(t, testserver.Embedded)
	url, prefix := "embedded:"+t.TempDir()+"?fsync=always", enginetest.NewPrefix()
	ctx := enginetest.Context(t)
	def := fixture.OneNode(t, "talk", talk("first", stageNowhere, nil))
	var token activity.Token
	t.Run("first", func(t *testing.T) {
		b := enginetest.Open(t, testserver.Embedded, url, prefix)
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID("the-run"))
		require.NoError(t, err)
		token = fixture.OpenWaits(t, ctx, run, 1)[0].Token
	})
	def = fixture.OneNode(t, "talk", talk("second", stageNowhere, nil))
	b := enginetest.Open(t, testserver.Embedded, url, prefix)
	run, err := runtime.Attach(b.Client.Run(def.Name(), "the-run"), def)
	require.NoError(t, err)
	require.Equal(t, token.Reveal(), fixture.OpenWaits(t, ctx, run, 1)[0].Token.Reveal())
	d, err := b.Client.Signal(ctx, token, runtime.Signal{Name: "x", Payload: 7})
	require.NoError(t, err)
	require.Equal(t, fabrictype.SignalResumed, d.Outcome)
	b.Worker(t, def.Handlers())
	out, err := run.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, "step by first, signal 7, finished by second", out)
	b.Settle(t)
}

// The connection breaks, several times in a row, exactly at a call that a worker makes for a function. The call is made
// again for as long as it takes: the attempt does not fail.
func TestBrokenConnectionFailsNoAttempt(t *testing.T) {
	t.Parallel()
	const breaks = 3
	test := func(t *testing.T, kind testserver.Kind, call string) {
		t.Parallel()
		ctx := enginetest.Context(t)
		server := testserver.Shared(t, kind)
		p := proxy.Start(t, server.Addr())
		b := enginetest.Open(t, kind, server.URL(), enginetest.NewPrefix())
		far := enginetest.Open(t, kind, string(kind)+"://"+p.Addr(), b.Prefix, enginetest.RetryFor(time.Nanosecond))
		def := largeTalk(t)
		var mu sync.Mutex
		left := breaks
		p.Intercept(func(chunk []byte) proxy.Fate {
			mu.Lock()
			defer mu.Unlock()
			if left == 0 || !bytes.Contains(chunk, []byte(call)) {
				return proxy.Pass
			}
			left--
			return proxy.Cut
		})
		b.Keeper(t)
		far.Worker(t, def.Handlers(), runtime.WorkerConfig{Lease: time.Hour})
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() {
			out, err := run.Result(ctx)
			if err == nil && out != 7 {
				err = fmt.Errorf("result %d", out)
			}
			ended <- err
		}()
		enginetest.Eventually(t, func() string {
			waits, err := run.Waitpoints(ctx)
			require.NoError(t, err)
			if len(ended) > 0 {
				t.Fatal(<-ended)
			}
			if len(waits) == 0 || waits[0].State != fabrictype.WaitOpen {
				return "that it waits"
			}
			fixture.Send(t, ctx, b, waits[0], runtime.Signal{Name: "x", Payload: 7})
			return ""
		})
		require.NoError(t, <-ended)
		mu.Lock()
		defer mu.Unlock()
		require.Less(t, left, breaks, "the call was made")
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.EqualValues(t, 5, d.Budgets[0].Amount("tokens").Spent, "one for the node, two for each call of its function")
		b.Settle(t)
	}
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		for _, call := range []string{
			"ffx3_read_inputs", "ffx3_record_step", "ff_list_waitpoint_hmac_kids", "HSETNX", "ffx3_open_waitpoint", "ffx3_use_budget",
			"ffx3_count_usage", "ffx3_suspend", "ffx3_read_journal",
		} {
			t.Run(call, func(t *testing.T) { test(t, kind, call) })
		}
	})
}

// The replies of a suspension are lost until the wait is over: the suspension is repeated, and the repeat leases the
// resumed execution to the worker. This reply is lost, too. The worker continues the execution nevertheless, at once.
func TestLostRepliesOfASuspension(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		ctx := enginetest.Context(t)
		server := testserver.Shared(t, kind)
		p := proxy.Start(t, server.Addr())
		b := enginetest.Open(t, kind, server.URL(), enginetest.NewPrefix())
		far := enginetest.Open(t, kind, string(kind)+"://"+p.Addr(), b.Prefix, enginetest.RetryFor(time.Nanosecond))
		resumed := make(chan struct{})
		var calls atomic.Int32
		p.Intercept(func(chunk []byte) proxy.Fate {
			if !bytes.Contains(chunk, []byte("ffx3_suspend")) {
				return proxy.Pass
			}
			switch calls.Add(1) {
			case 1:
				return proxy.Cut
			case 2:
				<-resumed
				return proxy.Cut
			}
			return proxy.Pass
		})
		def := fixture.OneNode(t, "talk", talk("far", stageNowhere, nil))
		b.Keeper(t)
		// Its only slot belongs to the suspension until its end is known, so nothing else of the worker claims.
		far.Worker(t, def.Handlers(), runtime.WorkerConfig{Lease: time.Hour, Concurrency: 1})
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		w := fixture.OpenWaits(t, ctx, run, 1)[0]
		require.Equal(t, fabrictype.SignalResumed, fixture.Send(t, ctx, b, w, runtime.Signal{Name: "x", Payload: 7}).Outcome)
		close(resumed)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, "step by far, signal 7, finished by far", out)
		require.EqualValues(t, 3, calls.Load())
		b.Settle(t)
	})
}

// largeTalk has a node whose inputs, and whose steps, are too large to come with a claim, and which waits. Nothing is
// tried a second time.
func largeTalk(t *testing.T) *flow.Definition[int, int] {
	t.Helper()
	large := strings.Repeat("x", 600_000)
	source := activity.New("source", func(context.Context, int) (string, error) { return large, nil }, activity.Retry(activity.RetryPolicy{Attempts: 1}))
	ask := activity.New("ask", func(ctx context.Context, in []string) (int, error) {
		for i := range 2 {
			if _, err := activity.Step(ctx, fmt.Sprint("step-", i), func(context.Context) (string, error) { return large, nil }); err != nil {
				return 0, err
			}
		}
		if err := activity.ReportUsageOnce(ctx, "once", map[string]int64{"tokens": 1}); err != nil {
			return 0, err
		}
		for range 2 {
			if err := activity.ReportUsage(ctx, "tokens", 1); err != nil {
				return 0, err
			}
		}
		if _, err := activity.OpenWaitpoint(ctx, "w", 0); err != nil {
			return 0, err
		}
		return activity.Await[int](ctx, "w")
	}, activity.Retry(activity.RetryPolicy{Attempts: 1}))
	f := flow.New[int, int]("large-talk", flow.Budget("spent", flow.BudgetConfig{Counted: []string{"tokens"}}))
	var sources []flow.Ref[string]
	for i := range 2 {
		sources = append(sources, flow.Node(f, fmt.Sprint("source", i), source, f.Input()))
	}
	flow.Return(f, flow.Node(f, "ask", ask, flow.List(sources...)))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}
