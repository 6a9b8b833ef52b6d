package modetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/contract"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/lualib"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Contract mode refuses operations that the contract does not have by name, before anything is written.
func TestContractRefusals(t *testing.T) {
	t.Parallel()
	b := enginetest.NewContract(t, testserver.Embedded)
	a := fixture.AddOne()
	for name, c := range map[string]struct {
		add  func(f *flow.Builder[int, int], first flow.Ref[int]) flow.Ref[int]
		want string
	}{
		"start": {func(f *flow.Builder[int, int], first flow.Ref[int]) flow.Ref[int] {
			return flow.Node(f, "second", a, first, activity.ScheduleToStart(time.Minute))
		}, "node second: contract mode refuses schedule-to-start timeouts"},
		"map": {func(f *flow.Builder[int, int], first flow.Ref[int]) flow.Ref[int] {
			list := flow.Node(f, "list", activity.New("list", func(context.Context, int) ([]int, error) { return nil, nil }), first)
			return flow.Node(f, "sum", fixture.Adder(), flow.Map(f, "each", a, list))
		}, "node each: contract mode refuses maps"},
		"sub": {func(f *flow.Builder[int, int], first flow.Ref[int]) flow.Ref[int] {
			return flow.Sub(f, "inner", fixture.ChainOf(t, a, 1), first)
		}, "node inner: contract mode refuses sub-flows"},
		"limit": {func(f *flow.Builder[int, int], first flow.Ref[int]) flow.Ref[int] {
			return flow.Node(f, "second", a, first, activity.Limit("two", activity.LimitConfig{AtOnce: 2}))
		}, "node second: contract mode refuses limits"},
		"tag": {func(f *flow.Builder[int, int], first flow.Ref[int]) flow.Ref[int] {
			return flow.Node(f, "second", a, first, flow.Tag("flowfabric.node", "x"))
		}, `node second: contract mode refuses tag "flowfabric.node"`},
	} {
		t.Run(name, func(t *testing.T) {
			f := flow.New[int, int](name)
			flow.Return(f, c.add(f, flow.Node(f, "first", a, f.Input())))
			requireStartRefused(t, b, f, c.want)
		})
	}
}

// Options of flows without a place in the contract are refused by name.
func TestContractRefusesOptions(t *testing.T) {
	t.Parallel()
	b := enginetest.NewContract(t, testserver.Embedded)
	ctx := enginetest.Context(t)
	for want, option := range map[string]flow.Option{
		"budgets of flows":   flow.Budget("calls", flow.BudgetConfig{Hard: map[string]int64{"calls": 5}}),
		"retention of flows": flow.Retention(time.Hour),
	} {
		_, err := runtime.Start(ctx, b.Client, fixture.ChainOf(t, fixture.AddOne(), 1, option), 1, runtime.WithID("refused"))
		require.ErrorIs(t, err, runtime.ErrNotInContract)
		require.ErrorContains(t, err, want)
		_, err = b.Client.Run("chain", "refused").Describe(ctx)
		require.ErrorIs(t, err, engine.ErrRunNotFound)
	}
}

// Operations without a counterpart in the contract are refused.
func TestContractRefusesOperations(t *testing.T) {
	t.Parallel()
	b := enginetest.NewContract(t, testserver.Embedded)
	ctx := enginetest.Context(t)
	b.Worker(t, []activity.Handler{fixture.AddOne()})
	started, err := runtime.Start(ctx, b.Client, fixture.ChainOf(t, fixture.AddOne(), 1), 1)
	require.NoError(t, err)
	run := b.Client.Run("chain", started.ID())
	operations := map[string]error{
		"rerun": run.Rerun(ctx, fabrictype.RerunFailed), "cancel a node": run.CancelNode(ctx, "n0", "no"), "purge": run.Purge(ctx),
		"priority": run.SetPriority(ctx, 1), "start": run.MoveStart(ctx, time.Now()), "pause": run.Pause(ctx, "no"), "pause of a schedule": b.Client.Schedule("x").Pause(ctx, "no"),
	}
	for _, operations["schedules"] = range b.Client.Schedules(ctx) {
	}
	_, operations["a later start"] = runtime.Start(ctx, b.Client, fixture.ChainOf(t, fixture.AddOne(), 1), 1, runtime.StartAt(time.Now().Add(time.Hour)))
	_, operations["feed"] = b.Client.Feed(ctx, runtime.FeedFilter{}, "")
	_, operations["bulk job"] = b.Client.StartBulkJob(ctx, runtime.RunQuery{}, fabrictype.BulkAction{Kind: "purge"}, runtime.BulkOptions{})
	_, operations["preview of a bulk job"] = b.Client.PreviewBulkJob(ctx, runtime.RunQuery{}, fabrictype.BulkAction{Kind: "purge"}, runtime.BulkOptions{})
	_, operations["a bulk job"] = b.Client.BulkJob("x").Describe(ctx)
	operations["stop of a bulk job"] = b.Client.BulkJob("x").Stop(ctx)
	for _, operations["bulk jobs"] = range b.Client.BulkJobs(ctx) {
	}
	_, operations["counts"] = b.Client.Counts(ctx, runtime.RunQuery{})
	for _, operations["runs"] = range b.Client.Runs(ctx, runtime.RunQuery{}) {
	}
	for name, err := range operations {
		require.ErrorIs(t, err, runtime.ErrNotInContract, name)
	}
}

// Operations that need a library with the edge-group functions are refused with another library. The server's functions
// are not listed each time.
func TestContractRefusesExtensions(t *testing.T) {
	t.Parallel()
	enginetest.EachReference(t, func(t *testing.T, b *enginetest.Bench) {
		a := fixture.AddOne()
		before := functionLists(t, b)
		for name, c := range map[string]struct {
			add  func(f *flow.Builder[int, int], first flow.Ref[int]) flow.Ref[int]
			want string
		}{
			"edge": {func(f *flow.Builder[int, int], first flow.Ref[int]) flow.Ref[int] {
				return flow.Node(f, "second", a, f.Input(), flow.OnFailure(first))
			}, "node second: contract mode refuses edges of other kinds"},
			"join": {func(f *flow.Builder[int, int], first flow.Ref[int]) flow.Ref[int] {
				return flow.Node(f, "second", a, flow.AnyOf(first, flow.Node(f, "other", a, f.Input())))
			}, "node second: contract mode refuses joins"},
			"distinct": {func(f *flow.Builder[int, int], first flow.Ref[int]) flow.Ref[int] {
				return flow.Waitpoint[int](f, "second", flow.After(first), activity.AtLeastDistinct(2))
			}, "node second: contract mode refuses signals of different sources"},
			"decisive": {func(f *flow.Builder[int, int], first flow.Ref[int]) flow.Ref[int] {
				return flow.Waitpoint[int](f, "second", flow.After(first), activity.Signals("a"), activity.Decisive("b"))
			}, "node second: contract mode refuses decisive signals"},
		} {
			f := flow.New[int, int](name)
			flow.Return(f, c.add(f, flow.Node(f, "first", a, f.Input())))
			requireStartRefused(t, b, f, c.want)
		}
		require.Less(t, functionLists(t, b)-before, 4, "one for each flow")
	})
}

// functionLists returns how often a server listed its functions; the embedded engine does not count that.
func functionLists(t *testing.T, b *enginetest.Bench) (n int) {
	t.Helper()
	client := engine.ConnOf(b.Engine.Internal()).Client()
	stats, err := client.Do(enginetest.Context(t), client.B().Info().Section("commandstats").Build()).ToString()
	require.NoError(t, err)
	_, rest, _ := strings.Cut(stats, "cmdstat_function|list:calls=")
	_, _ = fmt.Sscan(rest, &n) // 0 where it is not counted
	return n
}

// An operation on all partitions is refused once, by its name.
func TestContractRefusesOnce(t *testing.T) {
	t.Parallel()
	b := enginetest.NewContract(t, testserver.Embedded)
	ctx := enginetest.Context(t)
	_, lanes := b.Client.Lanes(ctx)
	_, pauses := b.Client.Pauses(ctx)
	for text, err := range map[string]error{
		"list lanes": lanes, "list pauses": pauses,
		"pause lane x":      b.Client.Lane("x").Pause(ctx, "why"),
		"resume lane x":     b.Client.Lane("x").Resume(ctx),
		"pause activity x":  b.Client.Activity("x").Pause(ctx, "why"),
		"resume activity x": b.Client.Activity("x").Resume(ctx),
	} {
		require.EqualError(t, err,
			text+": contract mode refuses pauses and totals of lanes: "+runtime.ErrNotInContract.Error())
		require.ErrorIs(t, err, runtime.ErrNotInContract)
	}
}

// Other programs of the contract know one prefix only.
func TestContractPrefix(t *testing.T) {
	t.Parallel()
	_, err := runtime.Open(enginetest.Context(t), "embedded:?contract=15",
		runtime.OpenConfig{Backend: contract.Backend(contract.Config{}), Prefix: "mine"})
	require.ErrorIs(t, err, runtime.ErrInvalid)
	require.ErrorContains(t, err, `Prefix "mine": in contract mode it is "ff"`)
}

// A program that does not import package contract gets an error that names the import, before anything is dialled.
func TestContractNeedsItsBackend(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"embedded:?contract=15", "valkey://127.0.0.1:1?contract=15"} {
		_, err := runtime.Open(t.Context(), url, runtime.OpenConfig{})
		require.ErrorIs(t, err, runtime.ErrInvalid)
		require.NotErrorIs(t, err, enginecore.ErrNotReachable)
		require.ErrorContains(t, err,
			"import github.com/flowfabric/flowfabric-go/contract and set OpenConfig.Backend")
	}
}

// A composite call is refused before it is sent.
func TestContractSendsNoCompositeCall(t *testing.T) {
	t.Parallel()
	b := enginetest.NewContract(t, testserver.Embedded)
	ctx := enginetest.Context(t)
	partition := keyspace.Partition{Family: keyspace.FlowFamily}
	_, err := engine.ConnOf(b.Engine.Internal()).Tick(ctx, enginerpc.TickCall{Partition: partition, Limit: 1})
	require.ErrorIs(t, err, enginecore.ErrContractOnly)
	require.ErrorContains(t, err, enginerpc.FunctionName(enginerpc.TickCall{}))
	pipeline := engine.ConnOf(b.Engine.Internal()).Pipeline()
	result := enginerpc.Add[enginerpc.TickReply](pipeline, enginerpc.TickCall{Partition: partition, Limit: 1})
	require.NoError(t, pipeline.Run(ctx))
	_, err = result.Get()
	require.ErrorIs(t, err, enginecore.ErrContractOnly)
}

// A server without the library, or with another version, is left as it is.
func TestContractLeavesTheLibrary(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Start(t, testserver.Options{Kind: kind})
		ctx := enginetest.Context(t)
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true, ForceSingleClient: true})
		require.NoError(t, err)
		defer client.Close()
		open := func() error {
			e, err := runtime.Open(ctx, server.URL()+enginetest.ContractQuery, runtime.OpenConfig{
				Prefix: enginetest.ContractPrefix, Backend: contract.Backend(contract.Config{}),
			})
			if err == nil {
				require.NoError(t, e.Close())
			}
			return err
		}
		err = open()
		require.ErrorIs(t, err, enginecore.ErrNoLibrary)
		load := func(source string) {
			require.NoError(t, client.Do(ctx, client.B().FunctionLoad().Replace().FunctionCode(source).Build()).Error())
		}
		load("#!lua name=" + lualib.Name + "\nredis.register_function('ff_version', function() return '26' end)\n")
		err = open()
		require.ErrorIs(t, err, enginecore.ErrIncompatibleLibrary)
		require.ErrorContains(t, err, "version 26")
		version, err := client.Do(context.Background(), client.B().Fcall().Function("ff_version").Numkeys(0).Build()).ToString()
		require.NoError(t, err)
		require.Equal(t, "26", version)
		load(lualib.ContractSource())
		require.NoError(t, open())
		_, err = runtime.Open(ctx, server.URL()+"?contract=26", runtime.OpenConfig{})
		require.ErrorIs(t, err, runtime.ErrInvalid)
	})
}

// requireStartRefused starts a run of a flow, and requires that it is refused with words before anything is written.
func requireStartRefused(t *testing.T, b *enginetest.Bench, f *flow.Builder[int, int], want string) {
	t.Helper()
	def, err := f.Build()
	require.NoError(t, err)
	_, err = runtime.Start(t.Context(), b.Client, def, 1, runtime.WithID("refused"))
	require.ErrorIs(t, err, runtime.ErrNotInContract)
	require.ErrorContains(t, err, want)
	_, err = b.Client.Run(def.Name(), "refused").Describe(t.Context())
	require.ErrorIs(t, err, engine.ErrRunNotFound)
}
