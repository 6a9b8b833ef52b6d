package servertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// command runs a command of the server's own, as its administrator.
func command(t *testing.T, ctx context.Context, b *enginetest.Bench, words ...string) string {
	t.Helper()
	client := engine.ConnOf(b.Engine.Internal()).Client()
	text, err := client.Do(ctx, client.B().Arbitrary(words...).Build()).ToString()
	require.NoError(t, err, "%v", words)
	return text
}

// info reads one number or word of the server's INFO.
func info(t *testing.T, ctx context.Context, b *enginetest.Bench, section, field string) string {
	t.Helper()
	for line := range strings.Lines(command(t, ctx, b, "INFO", section)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return value
		}
	}
	t.Fatalf("INFO %s has no field %s", section, field)
	return ""
}

// holdWork is an activity whose functions end when they are let go, and counts how often each run's began.
type holdWork struct {
	*activity.Activity[string, string]
	released chan struct{}

	mu     sync.Mutex
	starts map[string]int
}

func newHoldWork(result string) *holdWork {
	h := &holdWork{released: make(chan struct{}), starts: make(map[string]int)}
	h.Activity = activity.New("hold", func(ctx context.Context, _ string) (string, error) {
		i, _ := activity.Info(ctx)
		h.mu.Lock()
		h.starts[i.RunID]++
		h.mu.Unlock()
		select {
		case <-h.released:
			return result, nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	})
	return h
}

func (h *holdWork) begun() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	begun := make(map[string]int)
	for run, n := range h.starts {
		begun[run] = n
	}
	return begun
}

func (h *holdWork) define(t *testing.T, name string, opts ...flow.NodeOption) *flow.Definition[string, string] {
	t.Helper()
	f := flow.New[string, string](name)
	flow.Return(f, flow.Node(f, "hold", h.Activity, f.Input(), opts...))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

func begunOnce(runs ...*runtime.Run[string]) map[string]int {
	once := make(map[string]int)
	for _, run := range runs {
		once[run.ID()] = 1
	}
	return once
}

// requireRefused starts a run, which the server has no room for. The call is sent again until its time is up.
func requireRefused(t *testing.T, ctx context.Context, b *enginetest.Bench, def *flow.Definition[string, string]) {
	t.Helper()
	enginetest.Eventually(t, func() string {
		soon, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		_, err := runtime.Start(soon, b.Client, def, "", runtime.WithID("refused"))
		require.Error(t, err)
		if !errors.Is(err, enginecore.ErrFull) {
			return err.Error() // the server had no time to say so
		}
		require.ErrorIs(t, err, enginecore.ErrUnavailable)
		return ""
	})
}

// A server whose memory is full accepts no new work. Its existing runs continue, end and can be purged, which frees
// memory.
func TestFullServer(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, testserver.Servers(t), func(t *testing.T, kind testserver.Kind) {
		ctx := enginetest.Context(t)
		server := testserver.Start(t, testserver.Options{Kind: kind})
		b := enginetest.Open(t, kind, server.URL(), enginetest.NewPrefix())
		b.Keeper(t)
		work := newHoldWork(strings.Repeat("r", 10_000))
		const running = 4
		worker := []activity.Handler{work}
		b.Worker(t, worker, runtime.WorkerConfig{Concurrency: running, Lease: 15 * time.Second})
		now, later, idle := work.define(t, "now"), work.define(t, "later", activity.Lane("later")), work.define(t, "idle", activity.Lane("idle"))

		g := flow.New[string, fixture.Vote]("gate")
		flow.Return(g, flow.Waitpoint[fixture.Vote](g, "approve", activity.Signals("approve")))
		gate, err := g.Build()
		require.NoError(t, err)
		waiting, err := runtime.Start(ctx, b.Client, gate, "")
		require.NoError(t, err)
		waits := fixture.OpenWaits(t, ctx, waiting, 1)

		start := func(def *flow.Definition[string, string], input string) *runtime.Run[string] {
			run, err := runtime.Start(ctx, b.Client, def, input)
			require.NoError(t, err)
			return run
		}
		var held []*runtime.Run[string]
		for range running {
			held = append(held, start(now, ""))
		}
		enginetest.Eventually(t, func() string {
			if n := len(work.begun()); n != running {
				return fmt.Sprintf("%d functions run, not %d", n, running)
			}
			return ""
		})
		// Had they been started earlier, the worker could have claimed one of them before one that is to be held: a
		// lane has no order across partitions.
		queued := []*runtime.Run[string]{start(now, ""), start(now, "")}
		waitsForWorker := start(later, "")

		var stored []*runtime.Run[string]
		for range 80 {
			stored = append(stored, start(idle, strings.Repeat("i", 100_000)))
		}
		used, err := strconv.Atoi(info(t, ctx, b, "memory", "used_memory"))
		require.NoError(t, err)
		command(t, ctx, b, "CONFIG", "SET", "maxmemory-policy", "noeviction")
		command(t, ctx, b, "CONFIG", "SET", "maxmemory", strconv.Itoa(used-4_000_000)) // more than buffers may free

		requireRefused(t, ctx, b, now)
		_, err = b.Client.Run("now", "refused").Describe(ctx)
		require.ErrorIs(t, err, engine.ErrRunNotFound)

		// Leases are renewed.
		leaseEnd := func() time.Time {
			d, err := held[0].Describe(ctx)
			require.NoError(t, err)
			return d.Nodes[0].LeaseExpiresAt
		}
		first := leaseEnd()
		require.NotZero(t, first, "its function runs, so it has a lease")
		enginetest.Eventually(t, func() string {
			if !leaseEnd().After(first) {
				return "a renewal"
			}
			return ""
		})

		// Running, queued, and signal waits end, and so does the run that waits for a worker started only now.
		close(work.released)
		b.Worker(t, worker, runtime.WorkerConfig{Lanes: []string{"later"}})
		ended := append(append(held, queued...), waitsForWorker)
		for _, run := range ended {
			result, err := run.Result(ctx)
			require.NoError(t, err)
			require.Len(t, result, 10_000)
		}
		require.Equal(t, begunOnce(ended...), work.begun(), "no function ran twice")
		d := fixture.Send(t, ctx, b, waits[0], runtime.Signal{Name: "approve", Payload: fixture.Vote{By: "ann", Yes: true}, Source: "ann"})
		require.Equal(t, fabrictype.SignalResumed, d.Outcome)
		answer, err := waiting.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, "ann", answer.By)
		require.NoError(t, b.Client.Lane("idle").Pause(ctx, "full"))
		require.NoError(t, b.Client.Lane("idle").Resume(ctx))

		requireRefused(t, ctx, b, now) // it is still full
		for _, run := range stored {
			require.NoError(t, run.Cancel(ctx, "room is needed"))
			require.NoError(t, b.Client.Run("idle", run.ID()).Purge(ctx))
		}
		// The call is sent again until there is memory, which servers free while they process other calls.
		_, err = start(now, "").Result(ctx)
		require.NoError(t, err)
		require.NotContains(t, b.Log(), "result.not_committed")
		b.Settle(t)
	})
}

// cannotPersist are options of a server that refusePersistence works on.
var cannotPersist = []string{"save 3600 1", "enable-protected-configs yes"}

// refusePersistence makes a server fail to save, after which it refuses all writes, until restore is called.
func refusePersistence(t *testing.T, ctx context.Context, b *enginetest.Bench) (restore func()) {
	t.Helper()
	save := func(dir, status string) {
		command(t, ctx, b, "CONFIG", "SET", "dir", dir)
		if status == "err" {
			require.NoError(t, os.Remove(dir))
		}
		command(t, ctx, b, "BGSAVE")
		enginetest.Eventually(t, func() string {
			if got := info(t, ctx, b, "persistence", "rdb_last_bgsave_status"); got != status {
				return "the last save is " + got
			}
			return ""
		})
	}
	dir := filepath.Join(t.TempDir(), "gone")
	require.NoError(t, os.Mkdir(dir, 0o700))
	save(dir, "err")
	return func() { save(t.TempDir(), "ok") }
}

// A server that cannot persist refuses all writes. The results of functions are kept until it can.
func TestServerThatCannotPersist(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, testserver.Servers(t), func(t *testing.T, kind testserver.Kind) {
		ctx := enginetest.Context(t)
		server := testserver.Start(t, testserver.Options{Kind: kind, Args: cannotPersist})
		b := enginetest.Open(t, kind, server.URL(), enginetest.NewPrefix())
		b.Keeper(t)
		work := newHoldWork("done")
		b.Worker(t, []activity.Handler{work}, runtime.WorkerConfig{Lease: time.Minute})
		def := work.define(t, "now")
		run, err := runtime.Start(ctx, b.Client, def, "")
		require.NoError(t, err)
		enginetest.Eventually(t, func() string {
			if len(work.begun()) == 0 {
				return "the function does not run"
			}
			return ""
		})

		restore := refusePersistence(t, ctx, b)
		requireRefused(t, ctx, b, def)
		require.ErrorIs(t, b.Engine.Check(ctx), enginecore.ErrFull)
		_, err = run.Describe(ctx)
		require.NoError(t, err, "reads continue")
		refusals := func() int {
			n, err := strconv.Atoi(strings.TrimPrefix(info(t, ctx, b, "errorstats", "errorstat_MISCONF"), "count="))
			require.NoError(t, err)
			return n
		}
		before := refusals()
		close(work.released)
		enginetest.Eventually(t, func() string {
			if refusals() < before+3 {
				return "the result has not been refused"
			}
			return ""
		})
		require.Equal(t, begunOnce(run), work.begun())

		restore()
		result, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, "done", result)
		require.Equal(t, begunOnce(run), work.begun(), "the function did not run twice")
		require.NotContains(t, b.Log(), "result.not_committed")
	})
}

// Workers, keepers, waits and listings end while a server refuses all writes, also its PING, as one that cannot persist
// does. Others of the same engine continue, and all work continues once the server accepts writes again.
func TestEndWhileServerCannotPersist(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, testserver.Servers(t), func(t *testing.T, kind testserver.Kind) {
		ctx := enginetest.Context(t)
		server := testserver.Start(t, testserver.Options{Kind: kind, Args: cannotPersist})
		b := enginetest.Open(t, kind, server.URL(), enginetest.NewPrefix())
		endWhileRefused(t, ctx, b, func() (restore func()) { return refusePersistence(t, ctx, b) })
	})
}

// endWhileRefused ends everything that listens, one after the other, while the engine refuses writes between the calls
// of refuse and restore.
func endWhileRefused(t *testing.T, ctx context.Context, b *enginetest.Bench, refuse func() (restore func())) {
	t.Helper()
	work := newHoldWork("done")
	def := work.define(t, "now")
	handlers, config := []activity.Handler{work}, runtime.WorkerConfig{Lease: time.Second}
	bystander := b.Worker(t, handlers, runtime.WorkerConfig{Lanes: []string{"other"}})
	enginetest.Eventually(t, func() string {
		if len(channels(t, ctx, b)) < 2 {
			return "the worker does not listen to its lane and to messages of its own"
		}
		return ""
	})
	listened := channels(t, ctx, b)
	run, err := runtime.Start(ctx, b.Client, def, "")
	require.NoError(t, err)
	holder := b.Worker(t, handlers, config)
	enginetest.Eventually(t, func() string {
		if len(work.begun()) == 0 {
			return "the function does not run"
		}
		return ""
	})
	keeper := b.Keeper(t)
	waiting, leave := context.WithCancel(ctx)
	waited := make(chan error, 1)
	go func() {
		_, err := run.Result(waiting)
		waited <- err
	}()
	enginetest.Eventually(t, func() string {
		if n, _ := enginetest.KeepersSeen(ctx, t, b.Engine); n == 0 {
			return "the keeper does not listen"
		}
		return ""
	})

	restore := refuse()
	require.NoError(t, keeper.Stop())
	if b.Kind != testserver.Embedded { // which refuses reads as well
		enginetest.Eventually(t, func() string {
			if n, known := enginetest.KeepersSeen(ctx, t, b.Engine); n != 0 || !known {
				return "the channel of keepers is still subscribed"
			}
			return ""
		})
		operator, err := admin.New(b.Engine)
		require.NoError(t, err)
		listing, cancel := context.WithCancel(context.WithoutCancel(ctx)) // without a deadline
		for _, err := range operator.Flows(listing, admin.FlowQuery{}) {
			require.NoError(t, err)
		}
		cancel()
	}
	leave()
	require.ErrorIs(t, <-waited, context.Canceled)
	require.NoError(t, holder.Stop())
	require.NoError(t, b.Worker(t, handlers, config).Stop())
	if b.Kind != testserver.Embedded {
		enginetest.Eventually(t, func() string {
			if got := channels(t, ctx, b); !slices.Equal(listened, got) {
				return fmt.Sprintf("not only %q is subscribed, but %q", listened, got)
			}
			return ""
		})
	}

	restore()
	close(work.released)
	b.Keeper(t)
	b.Worker(t, handlers, config)
	result, err := run.Result(ctx)
	require.NoError(t, err)
	require.Equal(t, "done", result)
	require.NoError(t, bystander.Stop())
}

// channels are those to which workers and keepers of a server are subscribed, sorted. Clients listen on for a while
// after the end of a wait.
func channels(t *testing.T, ctx context.Context, b *enginetest.Bench) []string {
	t.Helper()
	client := engine.ConnOf(b.Engine.Internal()).Client()
	list, err := client.Do(ctx, client.B().PubsubChannels().Build()).AsStrSlice()
	require.NoError(t, err)
	list = slices.DeleteFunc(list, func(channel string) bool { return strings.Contains(channel, ":done:") })
	return slices.Sorted(slices.Values(list))
}

// A user that loses the right to send messages does not break calls half-way: a message is a hint.
func TestRightsLostAfterOpen(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, testserver.Servers(t), func(t *testing.T, kind testserver.Kind) {
		ctx := enginetest.Context(t)
		server := testserver.Start(t, testserver.Options{Kind: kind, Args: []string{"user app on >pw ~* &* +@all"}})
		b := enginetest.Open(t, kind, server.URL(), enginetest.NewPrefix())
		url := "redis://app:pw@" + server.Addr()
		app, err := runtime.Open(ctx, url, runtime.OpenConfig{Prefix: b.Prefix, Logger: b.Logger()})
		require.NoError(t, err)
		t.Cleanup(func() { _ = app.Close() })
		client := enginetest.NewClient(t, app)
		t.Cleanup(client.Close)

		g := flow.New[string, fixture.Vote]("gate")
		flow.Return(g, flow.Waitpoint[fixture.Vote](g, "approve", activity.Signals("approve")))
		gate, err := g.Build()
		require.NoError(t, err)
		waiting, err := runtime.Start(ctx, client, gate, "")
		require.NoError(t, err)
		waits := fixture.OpenWaits(t, ctx, waiting, 1)

		command(t, ctx, b, "ACL", "SETUSER", "app", "resetchannels")
		work := newHoldWork("")
		_, err = runtime.Start(ctx, client, work.define(t, "now"), "", runtime.WithID("r"))
		require.NoError(t, err)
		described, err := client.Run("now", "r").Describe(ctx)
		require.NoError(t, err)
		require.Len(t, described.Nodes, 1)

		signal := runtime.Signal{Name: "approve", Payload: fixture.Vote{By: "ann", Yes: true}, Source: "ann", IdempotencyKey: "1"}
		d, err := client.Signal(ctx, waits[0].Token, signal)
		require.NoError(t, err)
		require.Equal(t, fabrictype.SignalResumed, d.Outcome)
		described, err = waiting.Describe(ctx)
		require.NoError(t, err)
		require.False(t, described.ClosedAt.IsZero(), "the run is over with its only node: %+v", described)

		require.ErrorIs(t, app.Check(ctx), enginecore.ErrUnauthorized)
		_, err = runtime.Open(ctx, url, runtime.OpenConfig{Prefix: b.Prefix})
		require.ErrorIs(t, err, enginecore.ErrUnauthorized)
		require.ErrorContains(t, err, "&"+b.Prefix+":*")
	})
}
