package embedded

import (
	"bufio"
	"context"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// lacking is a listener on a machine that lacks descriptors for some time.
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

// The port continues to serve after the machine had no descriptors for a while.
func TestServeSurvivesALackOfDescriptors(t *testing.T) {
	t.Parallel()
	e := open(t, Options{})
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := &lacking{Listener: inner}
	l.left.Store(3)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- e.Serve(ctx, l) }()
	conn, err := net.Dial("tcp", inner.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "PING\r\n")
	require.NoError(t, err)
	reply, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "+PONG\r\n", reply)
	cancel()
	require.NoError(t, <-served)
}
