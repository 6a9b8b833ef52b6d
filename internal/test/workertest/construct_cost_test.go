package workertest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/interceptor"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

type (
	intFlow     = flow.Builder[int, int]
	intActivity = activity.Activity[int, int]

	intDefinition = flow.Definition[int, int]
)

// construct is something that a flow or a start can use, and others do not pay for.
type construct struct {
	name string
	opts []runtime.StartOption
	// nodes adds nodes that use the construct to a flow, and returns the result of the flow.
	nodes func(t *testing.T, f *intFlow, one *intActivity) flow.Ref[int]
	// worker changes the worker's configuration; nil changes nothing.
	worker func(*runtime.WorkerConfig)
	// start starts the run; nil is runtime.Start.
	start func(ctx context.Context, c *runtime.Client, def *intDefinition) (*runtime.Run[int], error)
	// then is called for a run that has been started; nil does nothing.
	then func(ctx context.Context, t *testing.T, run *runtime.Run[int])
	// failure is the error by which the run fails; nil is a run that succeeds.
	failure error
	// adds is how many commands each run of the namespace takes more from then on.
	adds int64
}

func onlyNode(_ *testing.T, f *intFlow, one *intActivity) flow.Ref[int] {
	return flow.Node(f, "only", one, f.Input())
}

func answerAll(_ context.Context, items []int) ([]activity.ItemResult[int], error) {
	return make([]activity.ItemResult[int], len(items)), nil
}

// constructs are all of them that take part in a run.
func constructs() []construct {
	inner := func(t *testing.T, one *intActivity) *intDefinition {
		f := flow.New[int, int]("inner")
		flow.Return(f, flow.Node(f, "inner", one, f.Input()))
		def, err := f.Build()
		require.NoError(t, err)
		return def
	}
	return []construct{
		{name: "condition", nodes: func(_ *testing.T, f *intFlow, one *intActivity) flow.Ref[int] {
			first := flow.Node(f, "first", one, f.Input())
			positive := flow.When(first, "positive", func(n int) bool { return n > 0 })
			return flow.Node(f, "last", one, flow.AnyOf(
				flow.Node(f, "yes", one, first, positive), flow.Node(f, "no", one, first, positive.Not())))
		}},
		{name: "compensation", nodes: func(_ *testing.T, f *intFlow, one *intActivity) flow.Ref[int] {
			first := flow.Node(f, "first", one, f.Input())
			undo := activity.New("undo", func(context.Context, flow.Failure) (int, error) { return 0, nil })
			flow.Node(f, "undo", undo, flow.FailureOf(first), flow.OnAnyFailure(first))
			return first
		}},
		{name: "finally", nodes: func(_ *testing.T, f *intFlow, one *intActivity) flow.Ref[int] {
			first := flow.Node(f, "first", one, f.Input())
			flow.Node(f, "close", one, f.Input(), flow.Finally(time.Minute))
			return first
		}},
		{name: "timer", nodes: func(_ *testing.T, f *intFlow, one *intActivity) flow.Ref[int] {
			return flow.Node(f, "only", one, f.Input(), flow.After(flow.Sleep(f, "sleep", time.Hour)))
		}, then: func(ctx context.Context, t *testing.T, run *runtime.Run[int]) {
			require.NoError(t, run.SkipTimer(ctx, "sleep"))
		}},
		{name: "loop", nodes: func(t *testing.T, f *intFlow, one *intActivity) flow.Ref[int] {
			enough := activity.New("enough", func(_ context.Context, n int) (bool, error) { return n > 3, nil })
			return flow.Loop(f, "loop", inner(t, one), enough, f.Input(), 5)
		}},
		{name: "expand", nodes: func(t *testing.T, f *intFlow, one *intActivity) flow.Ref[int] {
			plan := activity.New("plan", func(_ context.Context, n int) (flow.Plan[int], error) {
				return flow.PlanOf(inner(t, one), n)
			})
			return flow.Expand(f, "plan", plan, f.Input(), flow.MayRun(one))
		}},
		{name: "sub-flow", nodes: func(t *testing.T, f *intFlow, one *intActivity) flow.Ref[int] {
			return flow.Sub(f, "sub", inner(t, one), f.Input())
		}},
		{name: "live value", nodes: func(_ *testing.T, f *intFlow, _ *intActivity) flow.Ref[int] {
			publish := activity.New("publish", func(ctx context.Context, n int) (int, error) {
				return n, activity.Publish(ctx, "value", n)
			})
			return flow.Node(f, "only", publish, f.Input())
		}},
		{name: "batch activity", nodes: func(_ *testing.T, f *intFlow, _ *intActivity) flow.Ref[int] {
			return flow.Node(f, "only", activity.NewBatch("together", answerAll), f.Input())
		}},
		{name: "key", nodes: onlyNode, opts: []runtime.StartOption{runtime.WithKey("key", runtime.KeyPolicy{})}},
		{name: "throttle", nodes: onlyNode, opts: []runtime.StartOption{
			runtime.WithThrottle("key", runtime.Throttle{Starts: 1000, Per: time.Hour}),
		}},
		{name: "fork", nodes: onlyNode, then: func(ctx context.Context, t *testing.T, run *runtime.Run[int]) {
			_, err := run.Result(ctx)
			require.NoError(t, err)
			fork, err := run.Fork(ctx, runtime.ForkOptions{From: []string{"only"}})
			require.NoError(t, err)
			enginetest.Eventually(t, func() string {
				if d, err := fork.Describe(ctx); err != nil || d.State != fabrictype.RunSucceeded {
					return fmt.Sprint("the fork to succeed: ", d.State, " ", err)
				}
				return ""
			})
		}},
		{name: "debounce", nodes: onlyNode, start: func(
			ctx context.Context, c *runtime.Client, def *intDefinition) (*runtime.Run[int], error) {
			return runtime.Start(ctx, c, def, 1, runtime.WithDebounce("key", runtime.DebouncePolicy{Quiet: time.Millisecond}))
		}},
		{name: "schedule", nodes: onlyNode, start: func(
			ctx context.Context, c *runtime.Client, def *intDefinition) (*runtime.Run[int], error) {
			if _, err := runtime.Schedule(ctx, c, "yearly", def, 1, runtime.ScheduleConfig{Cron: "0 0 1 1 *"}); err != nil {
				return nil, err
			}
			id, err := c.Schedule("yearly").Trigger(ctx)
			if err != nil {
				return nil, err
			}
			return runtime.Attach(c.Run(def.Name(), id), def)
		}},
		{name: "context propagation", nodes: onlyNode, start: func(
			ctx context.Context, c *runtime.Client, def *intDefinition) (*runtime.Run[int], error) {
			return runtime.Start(context.WithValue(ctx, fixture.TenantKey{}, fixture.Tenant{Name: "acme"}), c, def, 1)
		}},
		{name: "interceptors", nodes: onlyNode, start: func(
			ctx context.Context, c *runtime.Client, def *intDefinition) (*runtime.Run[int], error) {
			return runtime.Start(ctx, c.Use(func(next interceptor.ClientFunc) interceptor.ClientFunc { return next }), def, 1)
		}, worker: func(config *runtime.WorkerConfig) {
			config.Interceptors = []interceptor.Activity{
				func(next interceptor.ActivityFunc) interceptor.ActivityFunc { return next },
			}
		}},
		{name: "error details", failure: fixture.ErrNoCreditHere, nodes: failingNode},
		failureHookConstruct(),
	}
}

func failingNode(_ *testing.T, f *intFlow, _ *intActivity) flow.Ref[int] {
	fail := activity.New("fail", func(context.Context, int) (int, error) { return 0, fixture.ErrNoCreditHere })
	return flow.Node(f, "only", fail, f.Input(), activity.Retry(activity.RetryPolicy{Attempts: 1}))
}

// failureHookConstruct has a worker that calls OnRunFailed for the run. For that, the feed of the namespace has the
// start and the end of each run, until an hour after the last reader: so it comes last.
func failureHookConstruct() construct {
	called, call := context.WithCancel(context.Background())
	return construct{
		name: "failure hook", failure: fixture.ErrNoCreditHere, nodes: failingNode, adds: 2,
		worker: func(config *runtime.WorkerConfig) {
			config.OnRunFailed = func(context.Context, *runtime.RunError) error {
				call()
				return nil
			}
		},
		then: func(ctx context.Context, t *testing.T, _ *runtime.Run[int]) {
			select {
			case <-called.Done():
			case <-ctx.Done():
				t.Error("OnRunFailed was not called")
			}
		},
	}
}

// storedFields counts the fields and values that the keys of a run have.
func storedFields(ctx context.Context, t *testing.T, b *enginetest.Bench, run string) (fields int64) {
	t.Helper()
	client := engine.ConnOf(b.Engine.Internal()).Client()
	keys, err := client.Do(ctx, client.B().Keys().Pattern("*").Build()).AsStrSlice()
	require.NoError(t, err)
	for _, key := range keys {
		if !strings.Contains(key, run) {
			continue
		}
		fields++
		if n, err := client.Do(ctx, client.B().Hlen().Key(key).Build()).AsInt64(); err == nil {
			fields += n - 1
		}
	}
	require.Positive(t, fields)
	return fields
}

// A run without a construct takes as many commands, calls and stored fields as it did before others used the construct,
// and at most the recorded number of commands. The test does not run in parallel with others, since it counts the
// commands of the server that all tests share.
func TestConstructsCostNothingWhereTheyAreNotUsed(t *testing.T) {
	b := enginetest.New(t, testserver.Valkey, runtime.OpenConfig{
		Partitions: 4, Propagators: []interceptor.Propagator{interceptor.PropagateValue[fixture.Tenant]("tenant", fixture.TenantKey{})},
	})
	ctx := enginetest.Context(t)
	one := fixture.AddOne()
	plain := []*intDefinition{fixture.ChainOf(t, one, 1), fixture.ChainOf(t, one, 3)}
	recorded := []int64{plainSingleCommands, plainChainCommands}
	before := make([]plainCost, len(plain))
	useConstruct(ctx, t, b, construct{name: "nothing", nodes: onlyNode}, one) // a keeper has been there from now on
	for i, def := range plain {
		before[i] = costOfPlain(ctx, t, b, def)
		t.Logf("plain: %+v", before[i])
		require.LessOrEqual(t, before[i].commands, recorded[i])
	}
	for _, c := range constructs() {
		useConstruct(ctx, t, b, c, one)
		for i, def := range plain {
			after := costOfPlain(ctx, t, b, def)
			after.commands -= c.adds
			t.Logf("after %s: %+v", c.name, after)
			require.Equal(t, before[i], after, c.name)
		}
	}
}

// plainSingleCommands and plainChainCommands are the commands of a plain run of one node and of three, with the
// commands around it. A greater number makes every run more expensive.
const (
	plainSingleCommands = 41
	plainChainCommands  = 63
)

// plainCost is the cost of one run: the median of several.
type plainCost struct {
	commands, calls, fields int64
}

// costOfPlain runs a flow several times. The worker acts on messages only. Now and then a run takes a call more, such
// as a claim that comes too late.
func costOfPlain(ctx context.Context, t *testing.T, b *enginetest.Bench, def *intDefinition) plainCost {
	t.Helper()
	worker := b.MessageWorker(t, def.Handlers(), runtime.WorkerConfig{Concurrency: 1})
	var took, calls []int64
	var last *runtime.Run[int]
	for i := range 70 {
		before, callsBefore := fixture.Commands(ctx, t, b)
		run, err := runtime.Start(ctx, b.Client, def, i)
		require.NoError(t, err)
		_, err = run.Result(ctx)
		require.NoError(t, err)
		after, callsAfter := fixture.Commands(ctx, t, b)
		took, calls = append(took, after-before-1), append(calls, callsAfter-callsBefore) // one is the count itself
		last = run
	}
	require.NoError(t, worker.Stop())
	slices.Sort(took)
	slices.Sort(calls)
	return plainCost{took[len(took)/2], calls[len(calls)/2], storedFields(ctx, t, b, string(last.FlowID()))}
}

// useConstruct runs a flow that uses a construct to its end.
func useConstruct(ctx context.Context, t *testing.T, b *enginetest.Bench, c construct, one *intActivity) {
	t.Helper()
	f := flow.New[int, int](strings.ReplaceAll(c.name, " ", "-"))
	flow.Return(f, c.nodes(t, f, one))
	def, err := f.Build()
	require.NoError(t, err)
	config := runtime.WorkerConfig{Concurrency: 4}
	if c.worker != nil {
		c.worker(&config)
	}
	worker := b.MessageWorker(t, def.Handlers(), config)
	keeper := b.Keeper(t)
	if c.start == nil {
		c.start = func(ctx context.Context, client *runtime.Client, def *intDefinition) (*runtime.Run[int], error) {
			return runtime.Start(ctx, client, def, 1, c.opts...)
		}
	}
	run, err := c.start(ctx, b.Client, def)
	require.NoError(t, err)
	if c.then != nil {
		c.then(ctx, t, run)
	}
	_, err = run.Result(ctx)
	require.ErrorIs(t, err, c.failure, fmt.Sprint("run with ", c.name))
	require.NoError(t, worker.Stop())
	require.NoError(t, keeper.Stop())
}
