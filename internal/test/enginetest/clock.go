package enginetest

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/lualib"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Clock is the clock of an engine, which a test sets.
type Clock struct{ ahead atomic.Int64 }

// Jump sets the clock forward, or back by a negative duration. The clock continues from there.
func (c *Clock) Jump(by time.Duration) { c.ahead.Add(int64(by)) }

// Now returns the time of the clock.
func (c *Clock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// Pass waits until the engine's clock has advanced by a duration and shows a later millisecond, so that whatever was
// due within that duration is due. It reads the clock that the library decides by, however this process is scheduled.
func Pass(tb testing.TB, core *enginerpc.Conn, by time.Duration) {
	tb.Helper()
	ctx := Context(tb)
	begun, err := core.Now(ctx)
	require.NoError(tb, err)
	EventuallyWithin(tb, by+Patience, func() string {
		now, err := core.Now(ctx)
		require.NoError(tb, err)
		if now.Sub(begun) <= by {
			return "the engine's clock does not advance"
		}
		return ""
	})
}

// WithClock serves an embedded engine whose clock the test sets. It shows a quarter past an hour at the beginning.
func WithClock(tb testing.TB, config ...runtime.OpenConfig) (*Bench, *Clock) {
	tb.Helper()
	clock := new(Clock)
	clock.Jump(clock.Now().Truncate(time.Hour).Add(75 * time.Minute).Sub(clock.Now()))
	return withClock(tb, clock.Now, config), clock
}

// WithStoppedClock serves an embedded engine in which everything happens in one millisecond.
func WithStoppedClock(tb testing.TB, config ...runtime.OpenConfig) *Bench {
	tb.Helper()
	now := time.Now()
	return withClock(tb, func() time.Time { return now }, config)
}

func withClock(tb testing.TB, now func() time.Time, config []runtime.OpenConfig) *Bench {
	tb.Helper()
	engine, err := embedded.Open(Context(tb), embedded.Options{Library: lualib.Source(), Clock: now})
	require.NoError(tb, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- engine.Serve(ctx, listener) }()
	tb.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			tb.Errorf("serve: %v", err)
		}
		if err := engine.Close(); err != nil {
			tb.Errorf("close engine: %v", err)
		}
	})
	return Open(tb, testserver.Embedded, "valkey://"+listener.Addr().String(), prefixFor(atMostOne(tb, config)), config...)
}
