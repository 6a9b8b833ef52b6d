package flowtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded"
	"github.com/flowfabric/flowfabric-go/flowtest/runcheck"
	"github.com/flowfabric/flowfabric-go/interceptor"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginelink"
	"github.com/flowfabric/flowfabric-go/internal/lualib"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Option configures Run.
type Option func(*config)

// config has the settings of the options.
type config struct {
	patience    time.Duration
	worker      runtime.WorkerConfig
	propagators []interceptor.Propagator
}

// By default an assertion waits for longer than any sleep or wait may last: for maxPatience of virtual time. Idle time
// is skipped, but a test may have schedules, or runs that are stuck, whose years would take very long: after each
// patiencePeriod it gives up once the engine has executed more commands than a wait for a timer needs.
const (
	maxPatience         = 12 * 366 * 24 * time.Hour
	patiencePeriod      = 30 * 24 * time.Hour
	maxPatienceCommands = 500_000
)

// Patience sets how long an assertion waits for its condition, in virtual time. It is not the time that the test takes.
// By default an assertion waits as long as necessary: it fails when 12 years have passed, or at least 30 days in which
// the engine has executed 500,000 commands.
func Patience(limit time.Duration) Option { return func(c *config) { c.patience = limit } }

// Worker configures the workers. Lanes and capabilities of the flows under test are added to its own. The keeper of
// workers is left out: Run starts another.
func Worker(w runtime.WorkerConfig) Option { return func(c *config) { c.worker = w } }

// Propagators are the propagators of the engine under test: they copy values from the context of a start to the
// contexts of the functions (runtime.OpenConfig.Propagators). Start of this package has no context of the test;
// runtime.Start with T.Client does. Used more than once, it adds.
func Propagators(list ...interceptor.Propagator) Option {
	return func(c *config) { c.propagators = append(c.propagators, list...) }
}

// T is the test in a bubble, with a separate engine. Its methods may be called by several goroutines of the bubble;
// those that end the test at a failure belong to the goroutine of the test, as for testing.T.
type T struct {
	testing.TB
	config  config
	virtual bool
	place   place
	engine  *runtime.Engine
	client  *runtime.Client
	admin   *admin.Client
	log     *logTail
	record  recorder
	fleet   fleet
	// resting is set while a goroutine waits in rest.
	resting atomic.Bool
}

// Run runs a test with a separate engine and a virtual clock, which begins at midnight UTC, 1 January 2000. All
// goroutines that the test starts must have ended when it returns: the bubble panics otherwise. The test must not call
// methods of the outer t. To run in parallel with others, call t.Parallel before.
func Run(t *testing.T, test func(t *T), opts ...Option) {
	t.Helper()
	synctest.Test(t, func(inner *testing.T) {
		inner.Helper()
		x := newT(inner, config{}, opts)
		x.virtual = true
		x.openEmbedded()
		x.run(test)
	})
}

func newT(tb testing.TB, c config, opts []Option) *T {
	for _, opt := range opts {
		opt(&c)
	}
	return &T{TB: tb, config: c, log: &logTail{}}
}

// run runs the test on the engine of its place.
func (t *T) run(test func(t *T)) {
	t.Helper()
	t.begin()
	test(t)
	t.checkFakes()
}

// place is the engine under test: the engine of this process, or a server.
type place struct {
	store  *embedded.Engine // nil for a server
	url    string
	prefix string
}

// openEmbedded makes the engine in memory, which ends with the test.
func (t *T) openEmbedded() {
	t.Helper()
	options := embedded.Options{Library: lualib.Source(), Logger: t.log.logger()}
	store, err := embedded.Open(context.Background(), options)
	if err != nil {
		t.Fatalf("flowtest: open the engine: %v", err)
	}
	t.Cleanup(func() { t.noteError("close the engine", store.Close()) })
	t.place = place{store: store}
}

// idleHeartbeat and idleReconcile keep the keeper quiet: it is alone, and nothing damages the data of a test.
const (
	idleHeartbeat = time.Minute
	idleReconcile = 10 * 366 * 24 * time.Hour
)

// begin connects to the engine and starts the keeper.
func (t *T) begin() {
	t.Helper()
	t.record.init()
	t.fleet.t = t
	engine, err := t.connect(nil)
	if err != nil {
		t.Fatalf("flowtest: %v", err)
	}
	t.engine = engine
	t.Cleanup(func() { t.noteError("close the engine", engine.Close()) })
	client, err := runtime.NewClient(engine)
	operator, adminErr := admin.New(engine)
	keeper, keeperErr := runtime.NewKeeper(engine, runtime.KeeperConfig{
		HeartbeatInterval: idleHeartbeat, ReconcileEvery: idleReconcile,
	})
	if err := errors.Join(err, adminErr, keeperErr); err != nil {
		t.Fatalf("flowtest: %v", err)
	}
	t.client, t.admin = client, operator
	t.Cleanup(client.Close)
	ctx, stop := context.WithCancel(context.Background())
	var keeping sync.WaitGroup
	keeping.Go(func() { t.noteError("keeper", keeper.Run(ctx)) })
	t.Cleanup(func() {
		stop()
		keeping.Wait()
	})
	t.Cleanup(func() {
		t.fleet.end()
		if t.Failed() {
			t.log.show(t)
		}
	})
}

// connect opens a connection to the engine under test that can be broken by its link; nil is one that never breaks.
func (t *T) connect(l *link) (*runtime.Engine, error) {
	config := runtime.OpenConfig{
		Logger: t.log.logger(), AllowVolatile: true, Prefix: t.place.prefix, Partitions: 1,
		Keeper: runtime.KeeperConfig{HeartbeatInterval: idleHeartbeat}, Propagators: t.config.propagators,
	}
	how := &enginelink.Link{Shared: t.place.store, Quiet: t.virtual}
	if l != nil {
		how.Wrap = l.wrap
	}
	config.Internal = enginelink.HandleOf(how)
	return runtime.Open(context.Background(), t.place.url, config)
}

// noteError fails the test with an error, except the error of an engine that was closed on purpose.
func (t *T) noteError(what string, err error) {
	if err != nil && !errors.Is(err, enginecore.ErrClosed) {
		t.Errorf("flowtest: %s: %v", what, err)
	}
}

// Client returns the client of the engine under test, for whatever the methods of T and TestRun do not do.
func (t *T) Client() *runtime.Client { return t.client }

// Engine returns the engine under test.
func (t *T) Engine() *runtime.Engine { return t.engine }

// Advance lets time pass: everything that is due until then happens at its time. It returns when nothing more happens
// without more time.
func (t *T) Advance(d time.Duration) {
	t.Helper()
	switch {
	case d < 0:
		t.Fatalf("flowtest: Advance(%s): time does not go back", d)
	case !t.virtual && d > longestAdvance:
		t.Skipf("flowtest: Advance(%s): on a server, a test waits %s at most", d, longestAdvance)
	}
	time.Sleep(d) // a virtual clock jumps
	t.rest()
}

// rest waits until nothing more happens without more time, unless another goroutine of the test does already.
func (t *T) rest() {
	if t.virtual && t.resting.CompareAndSwap(false, true) {
		defer t.resting.Store(false)
		synctest.Wait()
	}
}

// Virtual reports whether the clock of the test is virtual: in all tests except tests of Engines on servers.
func (t *T) Virtual() bool { return t.virtual }

// settleFor is how long the consequences of an event may take: messages are batched, and workers wait for their turns.
const settleFor = 50 * time.Millisecond

// soon reports whether a condition holds now or when all consequences of earlier events have happened.
func (t *T) soon(holds func() bool) bool {
	if t.rest(); holds() {
		return true
	}
	if t.virtual {
		t.Advance(settleFor)
		return holds()
	}
	return t.settled(holds)
}

// settled waits until a condition holds that needs no virtual time, and reports whether it does.
func (t *T) settled(holds func() bool) bool {
	if t.rest(); t.virtual {
		return holds()
	}
	for end := time.Now().Add(serverSettle); time.Now().Before(end); {
		time.Sleep(settleFor / 10) // between two looks
		if holds() {
			return true
		}
	}
	return false
}

// bounded returns a context that ends when an assertion has waited long enough. Its cause has that time.
func (t *T) bounded() (context.Context, context.CancelFunc) {
	if limit := t.config.patience; limit > 0 {
		return context.WithTimeoutCause(context.Background(), limit, impatience{fmt.Sprint("not within ", limit)})
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		before := t.commandCount()
		for waited := patiencePeriod; ; waited += patiencePeriod {
			select {
			case <-ctx.Done():
				return
			case <-time.After(patiencePeriod):
			}
			switch n := t.commandCount() - before; {
			case waited >= maxPatience:
				cancel(impatience{fmt.Sprintf("not within %d years of virtual time", maxPatience/year)})
				return
			case n > maxPatienceCommands:
				cancel(impatience{fmt.Sprintf("not within %d days of virtual time, in which the engine has "+
					"executed %d commands (flowtest.Patience waits longer)", waited/day, n)})
				return
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// commandLine matches the engine's line about a command, with how often it was executed.
var commandLine = regexp.MustCompile(`cmdstat_[a-z|]+:calls=(\d+)`)

// commandCount returns how many commands the engine has executed; 0 if it does not answer.
func (t *T) commandCount() (count int) {
	client := engine.ConnOf(t.engine.Internal()).Client()
	text, _ := client.Do(context.Background(), client.B().Info().Section("commandstats").Build()).ToString()
	for _, found := range commandLine.FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(found[1]) // of digits
		count += n
	}
	return count
}

const (
	day  = 24 * time.Hour
	year = 366 * day
)

// impatience is the reason why an assertion has ended before its condition held.
type impatience struct{ words string }

// Error returns how long the assertion has waited.
func (e impatience) Error() string { return e.words }

// logTail keeps the log lines of the engine's users, and shows its end when a test fails.
type logTail struct {
	mu    sync.Mutex
	lines []string
}

// shownLines is how many lines of the log a failed test shows.
const shownLines = 20

func (l *logTail) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// Write implements io.Writer.
func (l *logTail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(bytes.TrimSpace(p)))
	if len(l.lines) > shownLines {
		l.lines = l.lines[len(l.lines)-shownLines:]
	}
	return len(p), nil
}

func (l *logTail) show(tb testing.TB) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) > 0 {
		tb.Logf("flowtest: the engine's log ends with:\n%s", strings.Join(l.lines, "\n"))
	}
}

// CheckRuns fails the test for each run that a program could not continue: the gate before a deploy. The runs come from
// a file that runcheck.Export has written, read by runcheck.Read, or are the open ones of an engine, by runcheck.Open.
// It needs no engine, so the test need not be one of Run.
func CheckRuns(t testing.TB, program runcheck.Program, runs iter.Seq2[*runtime.RunDescription, error]) {
	t.Helper()
	for problem, err := range program.Check(runs) {
		if err != nil {
			t.Fatalf("flowtest: %v", err)
		}
		t.Errorf("flowtest: %s", problem)
	}
}
