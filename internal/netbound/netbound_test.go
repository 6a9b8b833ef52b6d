package netbound_test

import (
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/netbound"
)

const patience = 2 * time.Minute

func listen(t *testing.T, config netbound.Config) *netbound.Listener {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := netbound.Bound(inner, config)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func dial(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func accept(t *testing.T, l net.Listener) *netbound.Conn {
	t.Helper()
	c, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c.(*netbound.Conn)
}

// ended waits until the other side has closed a connection, and returns the bytes that it sent.
func ended(t *testing.T, c net.Conn) string {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
	text, err := io.ReadAll(c)
	require.NoError(t, err)
	return string(text)
}

// At a bound, the connection that has waited longest for its client gives way.
func TestIdleConnectionIsClosedAtBound(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]netbound.Config{
		"of an address": {Most: 10, PerAddress: 2}, "in sum": {Most: 2, PerAddress: 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := listen(t, config)
			first, _ := dial(t, l), accept(t, l)
			second := dial(t, l)
			done := accept(t, l).Serve()
			dial(t, l)
			accept(t, l)
			require.Empty(t, ended(t, first))
			done()
			third := dial(t, l) // the third one that waits: the other has waited for longer than the second
			served := accept(t, l)
			served.Serve()
			fourth := dial(t, l)
			accept(t, l)
			require.Empty(t, ended(t, second))
			_, err := io.WriteString(third, "x")
			require.NoError(t, err)
			_, err = served.Read(make([]byte, 1))
			require.NoError(t, err)
			require.NoError(t, fourth.Close())
		})
	}
}

// While all connections serve requests, a new one is refused; when one is closed, the next is accepted.
func TestBusyConnectionsAreNotClosed(t *testing.T) {
	t.Parallel()
	l := listen(t, netbound.Config{Most: 2, PerAddress: 2, Refusal: "full"})
	var served []*netbound.Conn
	for range 2 {
		dial(t, l)
		c := accept(t, l)
		c.Serve()
		served = append(served, c)
	}
	refused := dial(t, l)
	accepted := make(chan net.Conn)
	go func() {
		c, _ := l.Accept()
		accepted <- c
	}()
	require.Equal(t, "full", ended(t, refused))
	require.NoError(t, served[0].Close())
	dial(t, l)
	c := <-accepted
	require.NotNil(t, c)
	require.NoError(t, c.Close())
}

// lacking is a listener that lacks descriptors for the first connections.
type lacking struct {
	net.Listener
	left atomic.Int32
}

// Accept implements net.Listener.
func (l *lacking) Accept() (net.Conn, error) {
	if l.left.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return l.Listener.Accept()
}

func TestAcceptRecoversFromLackOfDescriptors(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	source := &lacking{Listener: inner}
	source.left.Store(3)
	l := netbound.Bound(source, netbound.Config{})
	dial(t, l)
	accept(t, l)
	source.left.Store(1 << 30)
	ended := make(chan error)
	go func() {
		_, err := l.Accept()
		ended <- err
	}()
	require.NoError(t, l.Close())
	require.ErrorIs(t, <-ended, net.ErrClosed)
}
