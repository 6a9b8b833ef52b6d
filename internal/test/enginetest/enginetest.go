package enginetest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginelink"
	"github.com/flowfabric/flowfabric-go/internal/payload"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Patience bounds every wait of a test for something that must happen. It is long, since a machine may be busy with
// other tests, and costs nothing if the condition becomes true.
const Patience = 5 * time.Minute

// Bench is one engine with a keyspace of its own.
type Bench struct {
	Kind   testserver.Kind
	URL    string
	Prefix string
	Engine *runtime.Engine
	Client *runtime.Client

	log       *logBuffer
	reference bool
	// operators is a client with the rights that the engine's user lacks; nil if that user has all rights.
	operators []rueidis.Client
}

// Each runs a test on all engines at the same time, so data that the test shares between engines must allow concurrent
// use. The config is optional, here and in other functions of this package.
func Each(t *testing.T, test func(t *testing.T, b *Bench), config ...runtime.OpenConfig) {
	t.Helper()
	testserver.SideBySide(t, testserver.Kinds(t), func(t *testing.T, kind testserver.Kind) { test(t, New(t, kind, config...)) })
}

// EachTimed is Each for a test that waits for time: the embedded engine has a virtual clock there (testing/synctest),
// which jumps to the next thing that is due when all goroutines of the test wait.
func EachTimed(t *testing.T, test func(t *testing.T, b *Bench), config ...runtime.OpenConfig) {
	t.Helper()
	testserver.SideBySide(t, testserver.Kinds(t), func(t *testing.T, kind testserver.Kind) {
		if kind != testserver.Embedded {
			test(t, New(t, kind, config...))
			return
		}
		synctest.Test(t, func(t *testing.T) { test(t, New(t, kind, config...)) })
	})
}

// EachAlone runs a test on one engine after the other, because it measures something.
func EachAlone(t *testing.T, test func(t *testing.T, b *Bench), config ...runtime.OpenConfig) {
	t.Helper()
	testserver.InTurn(t, testserver.Kinds(t), func(t *testing.T, kind testserver.Kind) { test(t, New(t, kind, config...)) })
}

// Only skips the test when a kind of engine is not among those to be tested.
func Only(tb testing.TB, kind testserver.Kind) {
	tb.Helper()
	if !slices.Contains(testserver.Kinds(tb), kind) {
		tb.Skipf("%s is not to be tested", kind)
	}
}

// New opens an engine of a kind. It is closed at the end of the test, after everything started later.
func New(tb testing.TB, kind testserver.Kind, config ...runtime.OpenConfig) *Bench {
	tb.Helper()
	if os.Getenv(restrictedVariable) != "" && kind != testserver.Embedded && kind != testserver.OnCluster {
		return NewRestricted(tb, kind, config...)
	}
	b := Open(tb, kind, URL(tb, kind), NewPrefix(), config...)
	if kind == testserver.OnCluster {
		tb.Cleanup(func() { b.Wipe(tb) }) // the tests share it, and each check goes through all keys
	}
	return b
}

// URL is the address of an engine of a kind: an embedded one of its own, a database of its own on a server that the
// tests of this process share, or the cluster that they share.
func URL(tb testing.TB, kind testserver.Kind) string {
	tb.Helper()
	switch kind {
	case testserver.Embedded:
		return "embedded:"
	case testserver.OnCluster:
		return testserver.SharedCluster(tb).URL()
	}
	return testserver.Database(tb, kind)
}

// prefixFor returns the key prefix of an engine with the config: a new prefix, or ContractPrefix in contract mode.
func prefixFor(config runtime.OpenConfig) string {
	if engine.GuestOf(config.Backend) != nil {
		return ContractPrefix
	}
	return NewPrefix()
}

// NewPrefix returns a unique key prefix.
func NewPrefix() string { return "t" + strings.ReplaceAll(uuid.NewString(), "-", "")[:20] }

// Open opens the engine at a URL. The test logs the engine's output when it fails.
func Open(tb testing.TB, kind testserver.Kind, url, prefix string, config ...runtime.OpenConfig) *Bench {
	tb.Helper()
	url, c := inContractMode(url, atMostOne(tb, config))
	b := &Bench{Kind: kind, URL: url, Prefix: prefix, log: &logBuffer{}}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("log of the engine's users:\n%s", b.log.tail(60))
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	c.Prefix, c.AllowVolatile = prefix, true
	c.Partitions = cmp.Or(c.Partitions, 4)
	c.Logger = cmp.Or(c.Logger, b.Logger())
	c.Internal = sealing(tb, c.Internal)
	opened, err := runtime.Open(ctx, url, c)
	for errors.Is(err, enginecore.ErrNotReachable) && ctx.Err() == nil {
		// on a busy machine, a server's answer may take longer than a client waits
		opened, err = runtime.Open(ctx, url, c)
	}
	require.NoError(tb, err)
	b.Engine, b.Client = opened, NewClient(tb, opened)
	tb.Cleanup(func() {
		b.Client.Close()
		if err := b.Engine.Close(); err != nil {
			tb.Errorf("close engine: %v", err)
		}
	})
	return b
}

// sealedVariable makes all engines seal the values of users, if it is set.
const sealedVariable = "FLOWFABRIC_TEST_SEALED"

// sealing adds the keys of tests to the link of an engine, if all engines are to seal.
func sealing(tb testing.TB, handle enginelink.Handle) enginelink.Handle {
	tb.Helper()
	if os.Getenv(sealedVariable) == "" {
		return handle
	}
	ring, err := payload.NewRing(payload.Key{ID: "test", Secret: bytes.Repeat([]byte("k"), payload.KeyBytes)})
	require.NoError(tb, err)
	var link enginelink.Link
	if l := enginelink.Of(handle); l != nil {
		link = *l
	}
	link.Payloads = &payload.Pipeline{Keys: ring}
	return enginelink.HandleOf(&link)
}

// Logger writes to the output shown when the test fails.
func (b *Bench) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Log returns the records logged so far.
func (b *Bench) Log() string { return b.log.tail(1 << 20) }

// Context ends with the patience of tests.
func Context(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	tb.Cleanup(cancel)
	return ctx
}

// Running is a worker or keeper at work.
type Running struct {
	tb     testing.TB
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// Stop cancels Run, waits for its end, and returns its error.
func (r *Running) Stop() error {
	r.tb.Helper()
	r.cancel()
	select {
	case <-r.done:
		return r.err
	case <-time.After(Patience):
		err := errors.New("it does not stop")
		r.tb.Error(err)
		return err
	}
}

// Stopping is closed when the worker begins to stop.
func (r *Running) Stopping() <-chan struct{} { return r.ctx.Done() }

// Done is closed when it has ended.
func (r *Running) Done() <-chan struct{} { return r.done }

func start(tb testing.TB, name string, run func(context.Context) error) *Running {
	ctx, cancel := context.WithCancel(context.Background())
	r := &Running{tb: tb, ctx: ctx, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = run(ctx)
	}()
	tb.Cleanup(func() {
		// A test that closes the engine ends it on purpose.
		if err := r.Stop(); err != nil && !errors.Is(err, enginecore.ErrClosed) {
			tb.Errorf("%s: %v", name, err)
		}
	})
	return r
}

// Worker starts a worker without a keeper, so that a test controls when a keeper runs; it stops with the test.
func (b *Bench) Worker(tb testing.TB, handlers []activity.Handler, config ...runtime.WorkerConfig) *Running {
	tb.Helper()
	c := atMostOne(tb, config)
	c.NoKeeper = true
	return b.KeepingWorker(tb, handlers, c)
}

// KeepingWorker starts a worker as programs do, with a keeper; it stops with the test.
func (b *Bench) KeepingWorker(tb testing.TB, handlers []activity.Handler, config ...runtime.WorkerConfig) *Running {
	tb.Helper()
	w := NewWorker(tb, b.Engine, atMostOne(tb, config))
	require.NoError(tb, w.Register(handlers...))
	return start(tb, "worker", w.Run)
}

// Run starts something that runs until its context ends; it stops with the test.
func (b *Bench) Run(tb testing.TB, name string, run func(context.Context) error) *Running {
	tb.Helper()
	return start(tb, name, run)
}

// Contract reports whether the engine is in contract mode.
func (b *Bench) Contract() bool { return strings.Contains(b.URL, ContractQuery) }

// Keeper starts a keeper; it stops with the test.
func (b *Bench) Keeper(tb testing.TB, config ...runtime.KeeperConfig) *Running {
	tb.Helper()
	return start(tb, "keeper", NewKeeper(tb, b.Engine, atMostOne(tb, config)).Run)
}

// Check reports every inconsistency of the keyspace, and returns the snapshot.
func (b *Bench) Check(tb testing.TB, mode invariant.Mode) *invariant.Snapshot {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	s, err := invariant.Read(ctx, b.Operator(), b.Prefix)
	require.NoError(tb, err)
	if report := b.report(s, mode); report.Err() != nil {
		tb.Errorf("the keyspace is not in order:\n%v", report.Err())
		for _, v := range report.Violations {
			for _, id := range executionID.FindAllString(v.Key, 1) {
				tb.Logf("%s:\n%s", id, b.History(ctx, enginecore.ExecutionID(id)))
			}
		}
	}
	return s
}

var executionID = regexp.MustCompile(`\{fp:\d+\}:[0-9a-f-]{36}`)

// History returns the record of an execution and the history of its leases, to explain a fault.
func (b *Bench) History(ctx context.Context, id enginecore.ExecutionID) string {
	client, keys := b.Operator(), engine.ConnOf(b.Engine.Internal()).Keys()
	core, err := client.Do(ctx, client.B().Hgetall().Key(keys.ExecCore(id)).Build()).AsStrMap()
	text := fmt.Sprintln(core, err)
	entries, err := client.Do(ctx, client.B().Xrange().Key(keys.ExecLeaseHistory(id)).Start("-").End("+").Build()).AsXRange()
	for _, e := range entries {
		text += fmt.Sprintln(e.ID, e.FieldValues)
	}
	return text + fmt.Sprintln(err)
}

// RunKeeperTasks performs each task of keepers once, in all partitions, until no work is left.
func (b *Bench) RunKeeperTasks(tb testing.TB) {
	tb.Helper()
	for _, info := range b.KeeperTasks() {
		_, err := b.RunKeeperTask(Context(tb), info.Name)
		require.NoError(tb, err, info.Name)
	}
}

// Look makes keepers sweep all partitions of flows at once.
func (b *Bench) Look(tb testing.TB) {
	tb.Helper()
	core := engine.ConnOf(b.Engine.Internal())
	client := core.Client()
	for i := range core.Partitioning().Flow {
		message := strconv.Itoa(i) + " 0"
		require.NoError(tb, client.Do(Context(tb),
			client.B().Publish().Channel(core.Keys().ChannelDue()).Message(message).Build()).Error())
	}
}

// Settle waits until the keyspace is consistent and without leftovers, and reports the violations otherwise. A flow's
// result may be known before a keeper has performed all consequences of the flow's end.
func (b *Bench) Settle(tb testing.TB) *invariant.Snapshot {
	tb.Helper()
	patience := Patience / 4
	if b.reference {
		patience = 10 * time.Second
	}
	deadline := time.Now().Add(patience)
	for {
		s, err := invariant.Read(context.Background(), b.Operator(), b.Prefix)
		require.NoError(tb, err)
		report := b.report(s, invariant.Quiescent)
		if report.Err() == nil {
			return s
		}
		if time.Now().After(deadline) {
			tb.Errorf("the keyspace is not in order:\n%v", report.Err())
			return s
		}
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // between two readings of the keyspace
	}
}

// Wipe deletes all data of flows and executions, so that it does not slow down later measurements. Nothing may be in
// progress.
func (b *Bench) Wipe(tb testing.TB) {
	tb.Helper()
	ctx := Context(tb)
	client := b.Operator()
	keys, err := invariant.Keys(ctx, client, b.Prefix)
	require.NoError(tb, err)
	var deletions []rueidis.Completed
	for _, key := range keys {
		// The engine keeps the numbers of workers in mind.
		if strings.Contains(key, "{") && !strings.HasSuffix(key, ":workers") {
			deletions = append(deletions, client.B().Del().Key(key).Build())
		}
	}
	for _, result := range client.DoMulti(ctx, deletions...) {
		require.NoError(tb, result.Error())
	}
}

// Eventually waits up to Patience for a condition. The condition returns a description of the missing event, or "" when
// it holds. A failure shows the last two different texts, since the last one may only report that the test's time is
// up.
func Eventually(tb testing.TB, condition func() string) {
	tb.Helper()
	EventuallyWithin(tb, Patience, condition)
}

// EventuallyWithin is Eventually with a bound of its own, for a test whose subject takes part of the time.
func EventuallyWithin(tb testing.TB, within time.Duration, condition func() string) {
	tb.Helper()
	deadline := time.Now().Add(within)
	last, before := "", ""
	for {
		missing := condition()
		if missing == "" {
			return
		}
		if missing != last {
			last, before = missing, last
		}
		if time.Now().After(deadline) {
			tb.Fatalf("not within %s: %s; before that: %s", within, last, before)
		}
		time.Sleep(2 * time.Millisecond) //nolint:forbidigo // between two probes
	}
}

// logBuffer stores log output.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logBuffer) tail(lines int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := strings.Split(l.text.String(), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

var _ io.Writer = (*logBuffer)(nil)

// RunKeeperTask runs a keeper task, as admin.Client.RunKeeperTask does, with the zero config by default.
func (b *Bench) RunKeeperTask(ctx context.Context, name string, config ...runtime.KeeperConfig) (admin.KeeperTaskReport, error) {
	c, err := admin.New(b.Engine)
	if err != nil {
		return admin.KeeperTaskReport{}, fmt.Errorf("run keeper task: %w", err)
	}
	var only runtime.KeeperConfig
	if len(config) > 0 {
		only = config[0]
	}
	return c.RunKeeperTask(ctx, name, only)
}

// KeeperTasks describes the tasks of keepers, as admin.Client.KeeperTasks does.
func (b *Bench) KeeperTasks() []admin.KeeperTask {
	c, err := admin.New(b.Engine)
	if err != nil {
		return nil
	}
	return c.KeeperTasks()
}

// Main runs the tests of a package and fails if one of them leaks a goroutine. Goroutines of shared servers do not
// count, nor do goroutines of the client library that sleep for a few seconds after changes of a cluster.
func Main(m *testing.M) { goleak.VerifyTestMain(m, leakOptions()...) }

// MainOnServers is Main for tests that use flowtest.Engines: they run on a server of each selected kind too.
func MainOnServers(m *testing.M) {
	stop, err := testserver.SetTestURLs()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, append(leakOptions(), goleak.Cleanup(func(code int) {
		stop()
		os.Exit(code)
	}))...)
}

func leakOptions() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreAnyFunction(testserver.Supervisor), goleak.IgnoreAnyFunction(testserver.LateClose),
		goleak.IgnoreAnyFunction(testserver.LateRefresh),
	}
}
