package accesstest

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/contract"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func TestMain(m *testing.M) {
	enginetest.Main(m)
}

// onServers runs a test on each kind of real server, as a user with the rights of an application on its prefix.
func onServers(t *testing.T, test func(t *testing.T, b *enginetest.Bench), config ...runtime.OpenConfig) {
	t.Helper()
	kinds := slices.DeleteFunc(slices.Clone(testserver.Kinds(t)), func(k testserver.Kind) bool {
		return k == testserver.Embedded
	})
	if len(kinds) == 0 {
		t.Skip("an embedded engine has no users")
	}
	testserver.SideBySide(t, kinds, func(t *testing.T, kind testserver.Kind) {
		b := enginetest.NewRestricted(t, kind, config...)
		test(t, b)
		if t.Failed() {
			return
		}
		require.Empty(t, denied(t, b), "commands that the server refused")
	})
}

// denied lists the commands that the server has refused to the engine's user. It omits CLIENT SETINFO, which is
// optional and unknown to servers before 7.2, and reads of the server's settings, which Open can do without.
func denied(t *testing.T, b *enginetest.Bench) []string {
	t.Helper()
	var list []string
	for _, operator := range b.Operators() {
		entries, err := operator.Do(enginetest.Context(t), operator.B().AclLog().Count(1000).Build()).ToArray()
		require.NoError(t, err)
		for i := range entries {
			entry, err := entries[i].AsMap()
			require.NoError(t, err)
			word := func(name string) string {
				m := entry[name]
				text, err := m.ToString()
				require.NoError(t, err)
				return text
			}
			if object := word("object"); word("username") == b.Prefix && object != "client|setinfo" && object != "config|get" {
				list = append(list, word("reason")+" "+object)
			}
		}
	}
	return list
}

type order struct {
	Tenant string   `json:"tenant"`
	Items  []string `json:"items"`
}

type consent struct {
	By string `json:"by"`
}

// everything is a flow that uses all features of flows.
func everything(t *testing.T) *flow.Definition[order, int] {
	t.Helper()
	first := activity.New("first", func(ctx context.Context, o order) ([]string, error) {
		if err := activity.Emit(ctx, activity.Frame{Kind: "line", Payload: []byte("working")}); err != nil {
			return nil, err
		}
		if err := activity.ReportUsage(ctx, "pages", 3); err != nil {
			return nil, err
		}
		if info, _ := activity.Info(ctx); info.Attempt == 1 {
			return nil, errors.New("the first attempt fails")
		}
		return o.Items, nil
	}, activity.Retry(activity.RetryPolicy{First: time.Millisecond, Factor: 1}))
	one := activity.New("one", func(_ context.Context, s string) (int, error) { return len(s), nil },
		activity.Limit("api", activity.LimitConfig{AtMost: 1000, Per: time.Second, AtOnce: 2}))
	last := activity.New("last", func(_ context.Context, n []int) (int, error) { return len(n), nil })
	f := flow.New[order, int]("everything", flow.Budget("plan", flow.BudgetConfig{Hard: map[string]int64{"pages": 1000}, PerKey: []string{"tenant"}}),
		flow.FairBy("tenant"), flow.Tag("team.name", "a"), flow.Retention(time.Hour), flow.Deadline(time.Hour))
	listed := flow.Node(f, "first", first, f.Input())
	ok := flow.Waitpoint[consent](f, "ok", activity.Signals("yes"), flow.After(listed))
	flow.Return(f, flow.Node(f, "last", last, flow.Map(f, "each", one, listed), flow.After(ok)))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

// An application's rights suffice for all that programs, keepers and operators do.
func TestApplication(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		def := everything(t)
		c := b.Client
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		b.Worker(t, def.Handlers(), runtime.WorkerConfig{
			ClaimThrough: b.Engine.ClaimForWorker, Lanes: []string{"granted"},
		})
		in := order{Tenant: "acme", Items: []string{"a", "bb"}}
		run, err := runtime.Start(ctx, c, def, in, runtime.WithID("r"), runtime.WithTag("customer.id", "7"))
		require.NoError(t, err)
		for _, err := range c.Run("everything", "r").Stream(ctx, "first", "") {
			require.NoError(t, err)
		}
		waits, err := run.Waitpoints(ctx)
		require.NoError(t, err)
		_, err = c.Signal(ctx, waits[0].Token, runtime.Signal{Name: "yes", Payload: consent{"ann"}, Source: "ann", IdempotencyKey: "1"})
		require.NoError(t, err)
		for _, err := range c.Run("everything", "r").Watch(ctx, "") {
			require.NoError(t, err)
		}
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 2, out)
		operate(ctx, t, b, def, in)
		look(ctx, t, b)
		for _, task := range b.KeeperTasks() {
			_, err := b.RunKeeperTask(ctx, task.Name)
			require.NoError(t, err, task.Name)
		}
		require.NoError(t, b.Engine.Check(ctx))
		require.NoError(t, c.Run("everything", "r").Purge(ctx))
	})
}

// operate performs an operator's calls.
func operate(ctx context.Context, t *testing.T, b *enginetest.Bench, def *flow.Definition[order, int], in order) {
	t.Helper()
	c := b.Client
	require.NoError(t, c.Lane("default").Pause(ctx, "r"))
	run, err := runtime.Start(ctx, c, def, in, runtime.WithID("cancelled"))
	require.NoError(t, err)
	require.NoError(t, c.Run("everything", "cancelled").Pause(ctx, "r"))
	require.NoError(t, c.Run("everything", "cancelled").SetPriority(ctx, 3))
	_, err = c.Pauses(ctx)
	require.NoError(t, err)
	require.NoError(t, c.Run("everything", "cancelled").Resume(ctx))
	require.NoError(t, c.Run("everything", "cancelled").Cancel(ctx, "r"))
	require.NoError(t, c.Lane("default").Resume(ctx))
	_, err = run.Result(ctx)
	require.Error(t, err)
	require.NoError(t, c.Run("everything", "cancelled").Rerun(ctx, fabrictype.RerunAll))
	require.NoError(t, c.Run("everything", "cancelled").Cancel(ctx, "r"))
	require.NoError(t, c.Budget(fabrictype.BudgetName{Name: "plan", Key: "acme"}).Set(ctx, flow.BudgetConfig{Hard: map[string]int64{"pages": 2000}}))
	require.NoError(t, c.Budget(fabrictype.BudgetName{Name: "plan", Key: "acme"}).Reset(ctx))
	require.NoError(t, c.Limit("api", "").Set(ctx, activity.LimitConfig{AtMost: 10, Per: time.Second}))
	_, err = b.Engine.RotateSecrets(ctx, time.Minute)
	require.NoError(t, err)
	_, err = c.StartBulkJob(ctx, runtime.RunQuery{Flow: "none"}, fabrictype.BulkAction{Kind: "purge"}, runtime.BulkOptions{ID: "purge"})
	require.NoError(t, err)
	require.NoError(t, c.BulkJob("purge").Stop(ctx))
	_, err = runtime.Schedule(ctx, c, "nightly", def, in, runtime.ScheduleConfig{Every: time.Hour})
	require.NoError(t, err)
	_, err = c.Schedule("nightly").Trigger(ctx)
	require.NoError(t, err)
	require.NoError(t, c.Schedule("nightly").Delete(ctx))
}

// look calls all reading operations.
func look(ctx context.Context, t *testing.T, b *enginetest.Bench) {
	t.Helper()
	c := b.Client
	_, err := c.Run("everything", "r").Describe(ctx)
	require.NoError(t, err)
	for _, err := range c.Runs(ctx, runtime.RunQuery{Tags: map[string]string{"customer.id": "7"}}) {
		require.NoError(t, err)
	}
	for _, err := range c.Run("everything", "r").Items(ctx, "each", 1) {
		require.NoError(t, err)
	}
	for _, err := range c.Schedules(ctx) {
		require.NoError(t, err)
	}
	for _, err := range c.BulkJobs(ctx) {
		require.NoError(t, err)
	}
	_, err = c.Lanes(ctx)
	require.NoError(t, err)
	feed, err := c.Feed(ctx, runtime.FeedFilter{}, "")
	require.NoError(t, err)
	feed.Close()
	_, err = c.Counts(ctx, runtime.RunQuery{}, "flow")
	require.NoError(t, err)
	_, err = c.Flows(ctx)
	require.NoError(t, err)
	workers, err := c.Workers(ctx)
	require.NoError(t, err)
	require.NotEmpty(t, workers)
	_, err = c.Budgets(ctx)
	require.NoError(t, err)
	_, err = c.Limits(ctx)
	require.NoError(t, err)
	a, err := admin.New(b.Engine)
	require.NoError(t, err)
	for x, err := range a.Executions(ctx, admin.ExecutionQuery{}) {
		require.NoError(t, err)
		_, err = a.Waitpoints(ctx, x.ID)
		require.NoError(t, err)
	}
	for _, err := range a.Flows(ctx, admin.FlowQuery{}) {
		require.NoError(t, err)
	}
}

// They suffice in contract mode, too.
func TestApplicationInContractMode(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		double := activity.New("double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
		f := flow.New[int, int]("doubling")
		flow.Return(f, flow.Node(f, "again", double, flow.Node(f, "once", double, f.Input())))
		def, err := f.Build()
		require.NoError(t, err)
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		for _, err := range run.Watch(ctx, "") {
			require.NoError(t, err)
		}
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 4, out)
		for _, info := range b.KeeperTasks() {
			_, err := b.RunKeeperTask(ctx, info.Name)
			require.NoError(t, err, info.Name)
		}
	}, runtime.OpenConfig{Backend: contract.Backend(contract.Config{})})
}

// An application can neither replace code, nor inspect the server, nor reach data under another prefix.
func TestApplication_CannotReachOtherData(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, b *enginetest.Bench) {
		if b.Kind == testserver.OnCluster {
			t.Skip("each of its servers is as the others are")
		}
		ctx := enginetest.Context(t)
		other := b.Prefix + "x"
		user := enginetest.Connect(t, b.URL)
		noPermission := func(err error, words ...string) {
			t.Helper()
			server, ok := rueidis.IsRedisErr(err)
			require.True(t, ok, "%v: %v", words, err)
			require.Regexp(t, "^NOPERM", server.Error(), words)
		}
		refused := func(words ...string) {
			t.Helper()
			noPermission(user.Do(ctx, user.B().Arbitrary(words...).Build()).Error(), words...)
		}
		for _, command := range []string{
			"FUNCTION LOAD REPLACE x", "FUNCTION DELETE flowfabric", "FUNCTION FLUSH", "FUNCTION DUMP", "EVAL x 0", "SCRIPT FLUSH",
			"FLUSHALL", "FLUSHDB", "SWAPDB 0 1", "CONFIG GET *", "CONFIG SET maxmemory 1", "KEYS *", "ACL LIST", "SHUTDOWN", "DEBUG SLEEP 0",
			"MONITOR", "CLIENT LIST", "CLIENT KILL TYPE normal", "REPLICAOF NO ONE", "CLUSTER RESET", "SAVE", "BGREWRITEAOF",
			"RANDOMKEY", "MODULE LIST",
		} {
			refused(strings.Fields(command)...)
		}
		for _, command := range []string{"GET %:x", "SET %:x 1", "HGETALL %:x", "SMEMBERS %:x", "XREAD STREAMS %:x 0", "UNLINK %:x", "PUBLISH %:x y"} {
			refused(strings.Fields(strings.ReplaceAll(command, "%", other))...)
		}
		received := func(rueidis.PubSubMessage) {}
		noPermission(user.Receive(ctx, user.B().Subscribe().Channel(other+":x").Build(), received), "SUBSCRIBE")
		noPermission(user.Receive(ctx, user.B().Psubscribe().Pattern("*").Build(), received), "PSUBSCRIBE")
		_, err := runtime.Open(ctx, b.URL, runtime.OpenConfig{Prefix: other})
		require.ErrorIs(t, err, enginecore.ErrUnauthorized)
		operator := b.Operator()
		require.NoError(t, operator.Do(ctx, operator.B().AclLog().Reset().Build()).Error()) // this test intends its refusals
	})
}

// Without the library, an application returns an error that it may not load it.
func TestApplicationWithoutLibrary(t *testing.T) {
	t.Parallel()
	for _, kind := range testserver.Kinds(t) {
		if kind != testserver.Redis && kind != testserver.Valkey {
			continue
		}
		t.Run(string(kind), func(t *testing.T) {
			server := testserver.Start(t, testserver.Options{Kind: kind})
			operator := enginetest.Connect(t, server.URL())
			ctx, prefix := enginetest.Context(t), enginetest.NewPrefix()
			user := func(name string, rules func(string) (string, error)) string {
				return enginetest.AddUser(t, []rueidis.Client{operator}, server.URL(), name, prefix, rules)
			}
			app, deployer := user("app", enginecore.ApplicationRules), user("deployer", enginecore.DeployerRules)
			missing := func(err error) {
				t.Helper()
				require.ErrorIs(t, err, enginecore.ErrUnauthorized)
				require.ErrorContains(t, err, "a deployer has to load first")
			}
			deploy := func() {
				engine, err := runtime.Open(ctx, deployer, runtime.OpenConfig{Prefix: prefix, Partitions: 4})
				require.NoError(t, err)
				require.NoError(t, engine.Close())
			}
			_, err := runtime.Open(ctx, app, runtime.OpenConfig{Prefix: prefix})
			missing(err)
			deploy()
			b := enginetest.Open(t, kind, app, prefix)
			require.NoError(t, b.Client.Lane("default").Pause(ctx, ""))
			require.NoError(t, operator.Do(ctx, operator.B().FunctionFlush().Sync().Build()).Error())
			missing(b.Client.Lane("default").Resume(ctx))
			missing(b.Engine.Check(ctx))
			deploy()
			require.NoError(t, b.Client.Lane("default").Resume(ctx))
		})
	}
}

// The page shows the rules as the package gives them.
func TestAccessPage_MatchesRules(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "operations", "access.md"))
	require.NoError(t, err)
	rules := map[string]func(string) (string, error){"app": enginecore.ApplicationRules, "deployer": enginecore.DeployerRules}
	for _, user := range slices.Sorted(maps.Keys(rules)) {
		line, err := rules[user]("ff")
		require.NoError(t, err)
		require.Contains(t, string(text), "\nACL SETUSER "+user+" on "+line+"\n")
		_, err = rules[user]("a*")
		require.Error(t, err)
	}
}
