package transport

import (
	"net"
	"sync"
	"time"
)

// promptConn is a connection that fails when the server does not begin to answer within a time. It measures only while
// a caller waits for an answer. It is not for reads that the server holds.
type promptConn struct {
	net.Conn
	within time.Duration

	mu sync.Mutex
	// waiting is set from the first write since the last answer; bounded while the client library has set its own
	// deadline.
	waiting, bounded bool
}

// withPromptAnswers returns a function that makes connections as wrap does, which may be nil, and bounds their answers.
func withPromptAnswers(wrap func(net.Conn) (net.Conn, error), within time.Duration) func(net.Conn) (net.Conn, error) {
	return func(conn net.Conn) (net.Conn, error) {
		if wrap != nil {
			var err error
			if conn, err = wrap(conn); err != nil {
				return nil, err
			}
		}
		return &promptConn{Conn: conn, within: within}, nil
	}
}

// Write implements net.Conn.
func (c *promptConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	if !c.waiting && !c.bounded {
		c.waiting = c.Conn.SetReadDeadline(time.Now().Add(c.within)) == nil
	}
	c.mu.Unlock()
	return c.Conn.Write(b)
}

// Read implements net.Conn.
func (c *promptConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.mu.Lock()
		if c.waiting {
			c.waiting = false
			_ = c.Conn.SetReadDeadline(time.Time{}) // a connection that cannot do that fails by itself
		}
		c.mu.Unlock()
	}
	return n, err
}

// SetDeadline implements net.Conn.
func (c *promptConn) SetDeadline(t time.Time) error { return c.bound(t, c.Conn.SetDeadline) }

// SetReadDeadline implements net.Conn.
func (c *promptConn) SetReadDeadline(t time.Time) error { return c.bound(t, c.Conn.SetReadDeadline) }

// bound leaves the deadline of reads to the caller until it removes its own.
func (c *promptConn) bound(t time.Time, set func(time.Time) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting, c.bounded = false, !t.IsZero()
	return set(t)
}
