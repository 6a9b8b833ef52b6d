package servertest

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver/proxy"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// passed returns a channel that is closed when the first request with a text passes a proxy.
func passed(p *proxy.Proxy, text string) <-chan struct{} {
	seen := make(chan struct{})
	var once sync.Once
	p.Intercept(func(chunk []byte) proxy.Fate {
		if bytes.Contains(chunk, []byte(text)) {
			once.Do(func() { close(seen) })
		}
		return proxy.Pass
	})
	return seen
}

// Silent connections are replaced before leases run out: the function continues under its first lease.
func TestSilentConnectionsCostNoLease(t *testing.T) {
	t.Parallel() // most of it is waiting
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Shared(t, kind)
		p := proxy.Start(t, server.Addr())
		prefix := enginetest.NewPrefix()
		b := enginetest.Open(t, kind, server.URL(), prefix)
		far := enginetest.Open(t, kind, string(kind)+"://"+p.Addr(), prefix)
		ctx := enginetest.Context(t)
		var starts atomic.Int32
		begun, finish := make(chan struct{}, 9), make(chan struct{})
		work := activity.New("work", func(ctx context.Context, n int) (int, error) {
			starts.Add(1)
			begun <- struct{}{}
			select {
			case <-finish:
				return n, nil
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
		})
		b.Keeper(t)
		// Silence is noticed within a third of the default lease; the rest is for a machine that is busy.
		far.Worker(t, []activity.Handler{work}, runtime.WorkerConfig{Lease: 30 * time.Second})
		run, err := runtime.Start(ctx, b.Client, fixture.Single(t, work), 1)
		require.NoError(t, err)
		<-begun
		p.Silence()
		<-passed(p, "ffx3_renew")
		close(finish)
		_, err = run.Result(ctx)
		require.NoError(t, err)
		require.EqualValues(t, 1, starts.Load(), "starts of the function")
		b.Settle(t)
	})
}

// mute is a listener that accepts connections and sends nothing.
type mute struct {
	net.Listener
	taken chan struct{} // has a value when there was a connection
}

func newMute(t *testing.T) *mute {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	m := &mute{listener, make(chan struct{}, 1)}
	var tasks sync.WaitGroup
	tasks.Go(func() {
		var conns []net.Conn
		for {
			conn, err := listener.Accept()
			if err != nil {
				break
			}
			conns = append(conns, conn)
			select {
			case m.taken <- struct{}{}:
			default:
			}
		}
		for _, conn := range conns {
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		tasks.Wait()
	})
	return m
}

// never are options of a URL under which the client library waits for longer than a test may take.
const never = "?dial_timeout=1h&write_timeout=1h"

// within fails the test when something takes longer than the patience of tests.
func within(t *testing.T, what string, do func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-time.After(enginetest.Patience):
		t.Errorf("%s does not return", what)
		return nil
	}
}

// Open ends with its context when the other side accepts connections and sends nothing. No server is needed for that.
func TestOpenEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct{ scheme, path string }{
		"server": {"valkey", ""}, "cluster": {"valkey+cluster", ""}, "sentinels": {"valkey+sentinel", "/primary"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMute(t)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-m.taken
				cancel()
			}()
			err := within(t, "open", func() error {
				_, err := runtime.Open(ctx, x.scheme+"://"+m.Addr().String()+x.path+never, runtime.OpenConfig{})
				return err
			})
			require.ErrorIs(t, err, context.Canceled)

			late, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			err = within(t, "open", func() error {
				_, err := runtime.Open(late, x.scheme+"://"+m.Addr().String()+x.path+never, runtime.OpenConfig{})
				return err
			})
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
	}
}

// Calls end with their contexts while the connection that they need is being made, however many wait for it.
func TestCallsEndWhileConnecting(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Shared(t, kind)
		p := proxy.Start(t, server.Addr())
		prefix := enginetest.NewPrefix()
		b := enginetest.Open(t, kind, server.URL(), prefix)
		far := enginetest.Open(t, kind, string(kind)+"://"+p.Addr()+never, prefix)
		ctx := enginetest.Context(t)
		f := flow.New[int, int]("waits")
		flow.Return(f, flow.Waitpoint[int](f, "asks"))
		def, err := f.Build()
		require.NoError(t, err)
		run, err := runtime.Start(ctx, far.Client, def, 1)
		require.NoError(t, err)
		b.Keeper(t)
		waits := fixture.OpenWaits(t, ctx, run, 1)
		noop := activity.New("noop", func(_ context.Context, n int) (int, error) { return n, nil })
		worker := enginetest.NewWorker(t, far.Engine, runtime.WorkerConfig{})
		require.NoError(t, worker.Register(noop))
		working, stop := context.WithCancel(ctx)
		worked := make(chan error, 1)
		go func() { worked <- worker.Run(working) }()
		eventuallyReady(t, worker.Check)

		p.Blackhole()
		p.Break()
		calls := map[string]func(context.Context) error{
			"start":    func(ctx context.Context) error { _, err := runtime.Start(ctx, far.Client, def, 1); return err },
			"result":   func(ctx context.Context) error { _, err := run.Result(ctx); return err },
			"describe": func(ctx context.Context) error { _, err := run.Describe(ctx); return err },
			"signal": func(ctx context.Context) error {
				_, err := far.Client.Signal(ctx, waits[0].Token, runtime.Signal{Name: waits[0].Step, Payload: 1})
				return err
			},
			"watch":  func(ctx context.Context) error { return lastError(run.Watch(ctx, "")) },
			"stream": func(ctx context.Context) error { return lastError(run.Stream(ctx, "asks", "")) },
			"runs": func(ctx context.Context) error {
				return lastError(far.Client.Runs(ctx, runtime.RunQuery{Flow: "waits"}))
			},
			"list": func(ctx context.Context) error {
				_, err := far.Client.ListRuns(ctx, runtime.RunQuery{Flow: "waits"}, "", 1)
				return err
			},
			"lanes":  func(ctx context.Context) error { _, err := far.Client.Lanes(ctx); return err },
			"check":  far.Engine.Check,
			"cancel": func(ctx context.Context) error { return run.Cancel(ctx, "") },
			"purge":  func(ctx context.Context) error { return far.Client.Run("waits", run.ID()).Purge(ctx) },
		}
		var all sync.WaitGroup
		for name, call := range calls {
			for range 8 {
				all.Go(func() {
					ctx, cancel := context.WithCancel(ctx)
					time.AfterFunc(50*time.Millisecond, cancel)
					assert.Error(t, within(t, name, func() error { return call(ctx) }), name)
				})
				all.Go(func() {
					ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
					defer cancel()
					assert.Error(t, within(t, name, func() error { return call(ctx) }), name)
				})
			}
		}
		all.Wait()
		watched, unwatch := context.WithCancel(ctx)
		var watching sync.WaitGroup
		watching.Go(func() { _ = lastError(run.Watch(watched, "")) })
		defer watching.Wait()
		defer unwatch()
		stop()
		require.NoError(t, within(t, "worker", func() error { return <-worked }))
		require.NoError(t, within(t, "close", func() error { far.Client.Close(); return far.Engine.Close() }))
	})
}

// No call fails while connections are opened, even if replies take longer than other callers may wait for a connection.
// This includes calls that the client does not repeat.
func TestConnectingOnSlowNetwork(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		p := proxy.Start(t, testserver.Shared(t, kind).Addr())
		p.Delay(30 * time.Millisecond)
		b := enginetest.Open(t, kind, string(kind)+"://"+p.Addr(), enginetest.NewPrefix())
		ctx := enginetest.Context(t)
		client := engine.ConnOf(b.Engine.Internal()).Client()
		set := func(key string) rueidis.Completed {
			return client.B().Set().Key(b.Prefix + key).Value("1").Ex(time.Minute).Build()
		}
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() { assert.NoError(t, client.Do(ctx, set(fmt.Sprint(i))).Error()) })
			all.Go(func() {
				for _, result := range client.DoMulti(ctx, set(fmt.Sprint("a", i)), set(fmt.Sprint("b", i))) {
					assert.NoError(t, result.Error())
				}
			})
			all.Go(func() {
				for _, node := range client.Nodes() {
					assert.NoError(t, node.Do(context.Background(), set(fmt.Sprint("n", i))).Error())
				}
			})
		}
		all.Wait()
	})
}

// A dedicated connection receives messages, however long it takes to open it, and reports when it breaks.
func TestDedicatedConnection_OnSlowNetwork(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		p := proxy.Start(t, testserver.Shared(t, kind).Addr())
		b := enginetest.Open(t, kind, string(kind)+"://"+p.Addr(), enginetest.NewPrefix())
		p.Delay(80 * time.Millisecond) // an answer takes longer than anybody is made to wait for a connection
		ctx := enginetest.Context(t)
		client, channel := engine.ConnOf(b.Engine.Internal()).Client(), engine.ConnOf(b.Engine.Internal()).Keys().ChannelDue()
		listener, leave := client.Dedicate()
		defer leave()
		subscribed, received := make(chan struct{}), make(chan string, 1)
		broken := listener.SetPubSubHooks(rueidis.PubSubHooks{
			OnSubscription: func(rueidis.PubSubSubscription) { close(subscribed) },
			OnMessage:      func(m rueidis.PubSubMessage) { received <- m.Message },
		})
		require.NoError(t, listener.Do(ctx, listener.B().Subscribe().Channel(channel).Build()).Error())
		select {
		case <-subscribed:
		case <-ctx.Done():
			t.Fatal("not subscribed")
		}
		require.NoError(t, client.Do(ctx, client.B().Publish().Channel(channel).Message("0 1").Build()).Error())
		select {
		case message := <-received:
			require.Equal(t, "0 1", message)
		case err := <-broken:
			t.Fatal("broken: ", err)
		case <-ctx.Done():
			t.Fatal("no message arrived")
		}
		p.Break()
		select {
		case err := <-broken:
			require.Error(t, err)
		case <-ctx.Done():
			t.Fatal("the break of the connection is not reported")
		}
	})
}

// Open waits for its connections in all calls to a server which has no library yet.
func TestOpenOnSlowNetwork(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		p := proxy.Start(t, testserver.Start(t, testserver.Options{Kind: kind}).Addr())
		p.Delay(80 * time.Millisecond) // an answer takes longer than anybody is made to wait for a connection
		// Each part of the library is delayed; a busy machine must not need longer for all of them than a write may
		// take.
		enginetest.Open(t, kind, string(kind)+"://"+p.Addr()+"?write_timeout=5m", enginetest.NewPrefix())
	})
}

// lastError is how a sequence ends.
func lastError[T any](values iter.Seq2[T, error]) (last error) {
	for _, err := range values {
		last = err
	}
	return last
}

// A watch beyond those that the engine allows is refused at once, and one that ends makes room.
func TestTooManyWatches(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		f := flow.New[int, int]("waits")
		flow.Return(f, flow.Waitpoint[int](f, "asks"))
		def, err := f.Build()
		require.NoError(t, err)
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		var watching sync.WaitGroup
		defer watching.Wait()
		stops := make([]context.CancelFunc, 2)
		for i := range stops {
			begun := make(chan struct{})
			watched, stop := context.WithCancel(ctx)
			defer stop()
			stops[i] = stop
			watching.Go(func() {
				var once sync.Once
				for _, err := range run.Watch(watched, "") {
					once.Do(func() { close(begun) })
					if err != nil {
						assert.ErrorIs(t, err, context.Canceled)
					}
				}
			})
			<-begun
		}
		require.ErrorIs(t, lastError(run.Watch(ctx, "")), runtime.ErrTooManyWatches)
		require.ErrorIs(t, lastError(run.Stream(ctx, "asks", "")), runtime.ErrTooManyWatches)
		require.ErrorContains(t, lastError(run.Watch(ctx, "")), "2 go on")
		require.NoError(t, lastError(run.Frames(ctx, "asks", "")))
		stops[0]()
		enginetest.Eventually(t, func() string {
			for _, err := range run.Watch(ctx, "") {
				if err != nil {
					return err.Error()
				}
				break
			}
			return ""
		})
		stops[1]()
	}, runtime.OpenConfig{MaxWatches: 2})
}

func TestMaxWatchesIsBounded(t *testing.T) {
	t.Parallel()
	for _, n := range []int{-1, 100_001} {
		_, err := runtime.Open(t.Context(), "", runtime.OpenConfig{MaxWatches: n})
		require.ErrorContains(t, err, "MaxWatches")
	}
}

// A watch whose connection has fallen silent continues on another one.
func TestWatch_ContinuesAfterSilentConnection(t *testing.T) {
	t.Parallel()
	fixture.OnServers(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Shared(t, kind)
		p := proxy.Start(t, server.Addr())
		prefix := enginetest.NewPrefix()
		b := enginetest.Open(t, kind, server.URL(), prefix)
		far := enginetest.Open(t, kind, string(kind)+"://"+p.Addr()+"?write_timeout=300ms", prefix)
		enginetest.HoldWatches(t, far.Engine, 200*time.Millisecond)
		ctx := enginetest.Context(t)
		f := flow.New[int, int]("waits")
		flow.Return(f, flow.Waitpoint[int](f, "asks"))
		def, err := f.Build()
		require.NoError(t, err)
		run, err := runtime.Start(ctx, b.Client, def, 1)
		require.NoError(t, err)
		b.Keeper(t)
		b.Worker(t, []activity.Handler{fixture.AddOne()})
		waits := fixture.OpenWaits(t, ctx, run, 1)
		reading := passed(p, "XREAD")
		silenced := make(chan struct{})
		go func() {
			<-reading
			p.Silence()
			close(silenced)
		}()
		told := make(chan error, 1)
		go func() { told <- lastError(far.Client.Run("waits", run.ID()).Watch(ctx, "")) }()
		<-silenced
		fixture.Send(t, ctx, b, waits[0], runtime.Signal{Name: "asks", Payload: 1})
		require.NoError(t, <-told)
	})
}

// A worker whose leases are too short to outlive a silent connection logs a warning, and a shorter timeout helps. One
// server is enough.
func TestShortLeaseIsWarnedOf(t *testing.T) {
	t.Parallel()
	kinds := testserver.Servers(t)
	if len(kinds) == 0 {
		t.Skip("no server is to be tested")
	}
	kind := kinds[0]
	url := testserver.Shared(t, kind).URL()
	noop := activity.New("noop", func(_ context.Context, n int) (int, error) { return n, nil })
	for _, x := range []struct {
		options string
		lease   time.Duration
		warned  bool
	}{
		{"", 10 * time.Second, false},
		{"", 9 * time.Second, true},
		{"?write_timeout=500ms", 5 * time.Second, false},
		{"?write_timeout=2500ms", 10 * time.Second, true},
	} {
		b := enginetest.Open(t, kind, url+x.options, enginetest.NewPrefix())
		worker := enginetest.NewWorker(t, b.Engine, runtime.WorkerConfig{Lease: x.lease})
		require.NoError(t, worker.Register(noop))
		stop := fixture.Started(t, worker.Run)
		eventuallyReady(t, worker.Check)
		stop()
		require.Equal(t, x.warned, strings.Contains(b.Log(), "worker.lease_short"), "%+v", x)
	}
}
