package embedded

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipeConn is the client's end of a connection through memory. Write runs the commands before it returns, so a client
// that writes and then reads finds the reply waiting and no goroutine has to be woken.
type pipeConn struct {
	s *session

	mu       sync.Mutex
	deadline time.Time
	moved    chan struct{} // closed when the deadline changes
	once     sync.Once
}

func (e *Engine) dial(ctx context.Context, _ string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, err := e.newSession()
	if err != nil {
		return nil, err
	}
	return &pipeConn{s: s, moved: make(chan struct{})}, nil
}

// Write runs the commands that p completes.
func (c *pipeConn) Write(p []byte) (int, error) {
	if !c.s.feed(p) {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

// Read waits for replies until the deadline.
func (c *pipeConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	var timer *time.Timer
	for {
		synced := c.s.replies.Synced()
		n, over, held := c.s.replies.Take(p)
		if n > 0 {
			return n, nil
		}
		if over {
			return 0, io.EOF
		}
		c.mu.Lock()
		deadline, moved := c.deadline, c.moved
		c.mu.Unlock()
		var expired <-chan time.Time
		if !deadline.IsZero() {
			left := time.Until(deadline)
			if left <= 0 {
				return 0, os.ErrDeadlineExceeded
			}
			if timer == nil {
				timer = time.NewTimer(left)
				defer timer.Stop()
			} else {
				timer.Reset(left)
			}
			expired = timer.C
		}
		if !held {
			synced = nil
		}
		select {
		case <-c.s.replies.Ready():
		case <-synced:
		case <-expired:
		case <-moved:
		}
	}
}

// Close ends the connection; a Read in progress returns io.EOF.
func (c *pipeConn) Close() error {
	c.once.Do(c.s.close)
	return nil
}

// LocalAddr implements net.Conn.
func (c *pipeConn) LocalAddr() net.Addr { return pipeAddr{} }

// RemoteAddr implements net.Conn.
func (c *pipeConn) RemoteAddr() net.Addr { return pipeAddr{} }

// SetDeadline sets the deadline of reads: writes do not wait.
func (c *pipeConn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetReadDeadline implements net.Conn; a read that waits takes notice.
func (c *pipeConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	if c.deadline != t {
		c.deadline = t
		close(c.moved)
		c.moved = make(chan struct{})
	}
	c.mu.Unlock()
	return nil
}

// SetWriteDeadline has nothing to do: Write never waits for the other side.
func (c *pipeConn) SetWriteDeadline(time.Time) error { return nil }

type pipeAddr struct{}

// Network implements net.Addr.
func (pipeAddr) Network() string { return "memory" }

// String implements net.Addr.
func (pipeAddr) String() string { return "embedded" }
