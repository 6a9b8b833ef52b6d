package starttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/rowread"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver/proxy"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// plansInPartition are plans of runs that are in one partition.
func plansInPartition[In, Out any](t *testing.T, b *enginetest.Bench, def *flow.Definition[In, Out], inputs ...In) []*submit.RunPlan {
	t.Helper()
	var plans []*submit.RunPlan
	for i := 0; len(plans) < len(inputs); i++ {
		plan, err := fixture.NewPlan(b.Client, def, inputs[len(plans)], fmt.Sprintf("run-%06d", i))
		require.NoError(t, err)
		if len(plans) == 0 || plan.Partition == plans[0].Partition {
			plans = append(plans, plan)
		}
	}
	return plans
}

var (
	uuids    = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	instants = regexp.MustCompile(`1[0-9]{12}(-0)?`)
)

// recordsOf returns the keys of a run and their values, with names in place of ids, and without times.
func recordsOf(t *testing.T, b *enginetest.Bench, plan *submit.RunPlan, def *flow.Definition[int, int]) []string {
	t.Helper()
	ctx := enginetest.Context(t)
	client := engine.ConnOf(b.Engine.Internal()).Client()
	var keys []string
	for _, node := range client.Nodes() {
		some, err := node.Do(ctx, node.B().Keys().Pattern(b.Prefix+":*").Build()).AsStrSlice()
		require.NoError(t, err)
		keys = append(keys, some...)
	}
	names := map[string]string{string(plan.FlowID): "flow", plan.Run: "run"}
	for _, n := range flowgraph.Of(def.Internal()).Nodes {
		id := string(plan.ExecutionID(n.Name))
		names[id[strings.LastIndex(id, ":")+1:]] = n.Name
	}
	mine := func(key string) bool {
		return slices.ContainsFunc(uuids.FindAllString(key, -1), func(id string) bool { return names[id] != "" })
	}
	rename := func(text string) string {
		text = strings.ReplaceAll(instants.ReplaceAllString(text, "T"), plan.Run, "run")
		for id, name := range names {
			text = strings.ReplaceAll(text, id, name)
		}
		return uuids.ReplaceAllString(text, "edge")
	}
	var records []string
	for _, key := range keys {
		if mine(key) {
			records = append(records, rename(key)+" = "+contentOf(t, ctx, client, key, rename))
		}
	}
	slices.Sort(records)
	return records
}

// contentOf returns the value of a key, with its texts renamed.
func contentOf(t *testing.T, ctx context.Context, client rueidis.Client, key string, rename func(string) string) string {
	t.Helper()
	b := client.B()
	kind, err := client.Do(ctx, b.Type().Key(key).Build()).ToString()
	require.NoError(t, err)
	if kind == "set" {
		members, err := client.Do(ctx, b.Smembers().Key(key).Build()).AsStrSlice()
		require.NoError(t, err)
		for i := range members {
			members[i] = rename(members[i])
		}
		slices.Sort(members)
		return fmt.Sprint(members)
	}
	read, known := map[string]func() rueidis.Completed{
		"string": b.Get().Key(key).Build, "hash": b.Hgetall().Key(key).Build,
		"list":   b.Lrange().Key(key).Start(0).Stop(-1).Build,
		"stream": b.Xrange().Key(key).Start("-").End("+").Build,
	}[kind]
	require.True(t, known, "key %s is a %s", key, kind)
	answer, err := client.Do(ctx, read()).ToAny()
	require.NoError(t, err)
	if strings.HasSuffix(key, ":nodes") {
		// The rows: the header has the time of creation, which is also the time of changes by the same call, the deadline, and
		// the time of the entry in the lists of runs, which no two runs share.
		text := answer.(string)
		created := rowread.RunHeadColumns["created"]
		rest := []byte(text)
		for _, column := range []string{"listed", "deadline"} {
			at := rowread.RunHeadColumns[column]
			copy(rest[at[0]:], make([]byte, at[1]))
		}
		answer = fmt.Sprintf("%x", strings.ReplaceAll(string(rest), text[created[0]:created[0]+created[1]], ""))
	}
	return rename(fmt.Sprint(answer))
}

// TestStartsTogether_StoreTheRecordsOfSingleStarts compares the stored records of a run that was started together with
// others with the records of a run that was started alone.
func TestStartsTogether_StoreTheRecordsOfSingleStarts(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		def, handlers := fixture.SmallFlow(t)
		plans := plansInPartition(t, b, def, 7, 7, 7)
		existed, err := fixture.SubmitAlone(ctx, b.Client, plans[0])
		require.NoError(t, err)
		require.False(t, existed)
		codes, err := fixture.SubmitTogether(ctx, b.Client, plans[1:]...)
		require.NoError(t, err)
		require.Equal(t, []string{"OK", "OK"}, codes)
		alone := recordsOf(t, b, plans[0], def)
		require.GreaterOrEqual(t, len(alone), 4)
		assert.Equal(t, alone, recordsOf(t, b, plans[1], def))
		assert.Equal(t, alone, recordsOf(t, b, plans[2], def))

		tagged := plansInPartition(t, b, def, 7, 7, 7, 7, 7, 7)[3:]
		for i, owner := range []string{"a", "a", "b"} {
			tagged[i], err = fixture.NewTaggedPlan(b.Client, def, 7, tagged[i].Run, map[string]string{"own.er": owner, "team.name": "own"})
			require.NoError(t, err)
		}
		_, err = fixture.SubmitAlone(ctx, b.Client, tagged[0])
		require.NoError(t, err)
		codes, err = fixture.SubmitTogether(ctx, b.Client, tagged[1:]...)
		require.NoError(t, err)
		require.Equal(t, []string{"OK", "OK"}, codes)
		assert.Equal(t, recordsOf(t, b, tagged[0], def), recordsOf(t, b, tagged[1], def))
		for owner, runs := range map[string]int{"a": 2, "b": 1} {
			found := 0
			for _, err := range b.Client.Runs(ctx, runtime.RunQuery{Tags: map[string]string{"own.er": owner}}) {
				require.NoError(t, err)
				found++
			}
			assert.Equal(t, runs, found, "runs of owner %s", owner)
		}
		b.Check(t, invariant.AnyTime)

		plans = append(plans, tagged...)
		b.Worker(t, handlers, runtime.WorkerConfig{Lanes: []string{"default", "slow"}})
		for _, plan := range plans {
			run, err := runtime.Attach(b.Client.Run(def.Name(), plan.Run), def)
			require.NoError(t, err)
			out, err := run.Result(ctx)
			require.NoError(t, err)
			require.Equal(t, 18, out)
		}
		b.Settle(t)
	})
}

// TestStartsTogether_StoreTheEdgesOfSingleStarts does the same for a flow without limits and budgets: with nodes that
// one edge leaves, with data or without, several, and none, and some to which several lead.
func TestStartsTogether_StoreTheEdgesOfSingleStarts(t *testing.T) {
	t.Parallel()
	double := activity.New("double", func(_ context.Context, n int) (int, error) { return n * 2, nil })
	f := flow.New[int, int]("copied", flow.Deadline(2*time.Hour), flow.Tag("team.name", "census"))
	first := flow.Node(f, "first", double, f.Input(), flow.Tag("cost.centre", "7"))
	urgent := activity.New("urgent", func(_ context.Context, n int) (int, error) { return n, nil },
		activity.Priority(7), activity.ScheduleToStart(time.Hour))
	second := flow.Node(f, "second", urgent, f.Input())
	third := flow.Node(f, "third", double, first, flow.After(second))
	fourth := flow.Node(f, "fourth", double, first)
	sum := activity.New("sum", func(_ context.Context, list []int) (int, error) { return list[0] + list[1], nil })
	flow.Return(f, flow.Node(f, "last", sum, flow.List(third, fourth)))
	def, err := f.Build()
	require.NoError(t, err)
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		plans := plansInPartition(t, b, def, 7, 7, 7, 7)
		_, err := fixture.SubmitAlone(ctx, b.Client, plans[0])
		require.NoError(t, err)
		codes, err := fixture.SubmitTogether(ctx, b.Client, plans[1], plans[2], plans[1], plans[3])
		require.NoError(t, err)
		require.Equal(t, []string{"OK", "OK", "ALREADY_SATISFIED", "OK"}, codes)
		alone := recordsOf(t, b, plans[0], def)
		require.Greater(t, len(alone), 2)
		for _, plan := range plans[1:] {
			assert.Equal(t, alone, recordsOf(t, b, plan, def))
		}
		b.Check(t, invariant.AnyTime)
		b.Worker(t, []activity.Handler{double, urgent, sum})
		for _, plan := range plans {
			run, err := runtime.Attach(b.Client.Run(def.Name(), plan.Run), def)
			require.NoError(t, err)
			out, err := run.Result(ctx)
			require.NoError(t, err)
			require.Equal(t, 56, out)
		}
		b.Settle(t)
	})
}

// TestStartsTogether_HaveTheirOutcomes sends runs of which some exist or are refused: each has its own outcome.
func TestStartsTogether_HaveTheirOutcomes(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		def, _ := fixture.SmallFlow(t)
		plans := plansInPartition(t, b, def, 1, 2, 3, 4)
		_, err := fixture.SubmitAlone(ctx, b.Client, plans[1])
		require.NoError(t, err)
		other, err := fixture.NewPlan(b.Client, def, 99, plans[2].Run)
		require.NoError(t, err)

		codes, err := fixture.SubmitTogether(ctx, b.Client, plans[0], plans[1], plans[2], plans[2], other, plans[3])
		require.NoError(t, err)
		assert.Equal(t, []string{"OK", "ALREADY_SATISFIED", "OK", "ALREADY_SATISFIED", "flow_id_conflict", "OK"}, codes)
		codes, err = fixture.SubmitTogether(ctx, b.Client, plans...)
		require.NoError(t, err)
		assert.Equal(t, slices.Repeat([]string{"ALREADY_SATISFIED"}, 4), codes)
		b.Check(t, invariant.AnyTime)
	})
}

// TestManyStartsAtOnce starts runs from many goroutines, some of them twice, while calls lose their replies.
func TestManyStartsAtOnce(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		ctx := enginetest.Context(t)
		server := testserver.Shared(t, kind)
		b := enginetest.Open(t, kind, server.URL(), enginetest.NewPrefix())
		def, handlers := fixture.SmallFlow(t)
		b.Worker(t, handlers, runtime.WorkerConfig{Lanes: []string{"default", "slow"}})
		p := proxy.Start(t, server.Addr())
		far := enginetest.Open(t, kind, string(kind)+"://"+p.Addr(), b.Prefix)
		plans := plansInPartition(t, b, def, slices.Repeat([]int{5}, 60)...)
		var mu sync.Mutex
		lost := 0
		p.Intercept(func(chunk []byte) proxy.Fate {
			mu.Lock()
			defer mu.Unlock()
			if lost < 3 && bytes.Contains(chunk, []byte("ffx3_submit")) {
				lost++
				return proxy.Cut
			}
			return proxy.Pass
		})
		var group sync.WaitGroup
		faults := make([]error, 2*len(plans))
		for i := range faults {
			group.Go(func() {
				run, err := runtime.Start(ctx, far.Client, def, 5, runtime.WithID(plans[i/2].Run))
				if err == nil {
					_, err = run.Result(ctx)
				}
				faults[i] = err
			})
		}
		group.Wait()
		require.NoError(t, errors.Join(faults...))
		mu.Lock()
		require.Equal(t, 3, lost, "calls that bring several runs")
		mu.Unlock()
		_, err := runtime.Start(ctx, far.Client, def, 6, runtime.WithID(plans[0].Run))
		require.ErrorIs(t, err, engine.ErrRunConflict)
		b.Settle(t)
	})
}

// TestStarts_EndWithTheirContexts ends the contexts of starts that wait for an earlier call without an answer. The
// others continue.
func TestStarts_EndWithTheirContexts(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		ctx := enginetest.Context(t)
		server := testserver.Shared(t, kind)
		b := enginetest.Open(t, kind, server.URL(), enginetest.NewPrefix())
		def, _ := fixture.SmallFlow(t)
		p := proxy.Start(t, server.Addr())
		far := enginetest.Open(t, kind, string(kind)+"://"+p.Addr(), b.Prefix)
		plans := plansInPartition(t, b, def, slices.Repeat([]int{5}, 8)...)
		start := func(ctx context.Context, plan *submit.RunPlan) error {
			_, err := runtime.Start(ctx, far.Client, def, 5, runtime.WithID(plan.Run))
			return err
		}
		require.NoError(t, start(ctx, plans[0]))
		stalled := make(chan struct{})
		p.Intercept(proxy.StallAfter("ffx3_submit", 1, stalled))
		impatient, giveUp := context.WithCancel(ctx)
		first := make(chan error, 1)
		go func() { first <- start(ctx, plans[1]) }()
		<-stalled
		faults := make(chan error, 5)
		for _, plan := range plans[2:7] {
			go func() { faults <- start(impatient, plan) }()
		}
		giveUp()
		for range cap(faults) {
			require.ErrorIs(t, <-faults, context.Canceled)
		}
		p.Intercept(nil)
		p.Break()
		require.NoError(t, <-first)
		require.NoError(t, start(ctx, plans[7]))
		b.Check(t, invariant.AnyTime)
	})
}

// TestRecordsOfLaterRuns submits equal runs at different times, into different partitions: the records of each have its
// own time and partition.
func TestRecordsOfLaterRuns(t *testing.T) {
	t.Parallel()
	double := activity.New("double", func(_ context.Context, n int) (int, error) { return n * 2, nil })
	f := flow.New[int, int]("later")
	first := flow.Node(f, "first", double, f.Input())
	flow.Return(f, flow.Node(f, "second", double, first))
	def, err := f.Build()
	require.NoError(t, err)
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		conn := engine.ConnOf(b.Engine.Internal())
		client, keys, last := conn.Client(), conn.Keys(), int64(0)
		for i := range 4 {
			plan, err := fixture.NewPlan(b.Client, def, i, fmt.Sprintf("later-%d", i))
			require.NoError(t, err)
			require.Eventually(t, func() bool {
				now, err := client.Do(ctx, client.B().Time().Build()).AsIntSlice()
				require.NoError(t, err)
				return now[0]*1000+now[1]/1000 > last
			}, enginetest.Patience, time.Millisecond)
			_, err = fixture.SubmitAlone(ctx, b.Client, plan)
			require.NoError(t, err)
			run, err := rowread.Flow(ctx, client, keys, plan.Partition, plan.FlowID)
			require.NoError(t, err)
			for _, node := range flowgraph.Of(def.Internal()).Nodes {
				id := plan.ExecutionID(node.Name)
				core, err := fixture.NodeFields(ctx, conn, id, "created_at", "last_mutation_at", "last_transition_at", "flow_id",
					"execution_id", "node", "partition_id")
				require.NoError(t, err)
				for _, field := range []string{"created_at", "last_mutation_at", "last_transition_at"} {
					assert.Equal(t, run["created_at"], core[field], "%s of node %s of run %d", field, node.Name, i)
				}
				assert.Equal(t, string(plan.FlowID), core["flow_id"])
				assert.Equal(t, string(id), core["execution_id"])
				assert.Equal(t, node.Name, core["node"])
				assert.Equal(t, fmt.Sprint(plan.Partition.Index), core["partition_id"])
			}
			last, err = strconv.ParseInt(run["created_at"], 10, 64)
			require.NoError(t, err)
		}
		b.Check(t, invariant.AnyTime)
	})
}

// TestStartsTogether_EnterQueuesOfTheirKeys starts runs together with fairness keys, and then others without: each run
// is in the queue of its key, and runs without one share a queue while keys wait.
func TestStartsTogether_EnterQueuesOfTheirKeys(t *testing.T) {
	t.Parallel()
	type order struct{ Tenant string }
	serve := activity.New("serve", func(_ context.Context, o order) (string, error) { return o.Tenant, nil })
	build := func(name string, options ...flow.Option) *flow.Definition[order, string] {
		f := flow.New[order, string](name, options...)
		flow.Return(f, flow.Node(f, "only", serve, f.Input()))
		def, err := f.Build()
		require.NoError(t, err)
		return def
	}
	defs := []*flow.Definition[order, string]{build("before"), build("keyed", flow.FairBy("Tenant")), build("after")}
	orders := []order{{"a"}, {"a"}, {"b"}, {"b"}, {"a"}, {"a"}}
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		for _, def := range defs {
			codes, err := fixture.SubmitTogether(ctx, b.Client, plansInPartition(t, b, def, orders...)...)
			require.NoError(t, err)
			require.Equal(t, slices.Repeat([]string{"OK"}, len(orders)), codes)
			b.Check(t, invariant.AnyTime)
		}
		b.Worker(t, []activity.Handler{serve})
		for _, def := range defs {
			for i, plan := range plansInPartition(t, b, def, orders...) {
				run, err := runtime.Attach(b.Client.Run(def.Name(), plan.Run), def)
				require.NoError(t, err)
				out, err := run.Result(ctx)
				require.NoError(t, err)
				require.Equal(t, orders[i].Tenant, out)
			}
		}
		b.Settle(t)
	}, runtime.OpenConfig{Partitions: 1})
}
