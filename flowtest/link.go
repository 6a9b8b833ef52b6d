package flowtest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// link is the network of one worker. It can be cut for good, and it can lose replies.
type link struct {
	mu    sync.Mutex
	isCut bool
	conns map[*linkConn]struct{}
	// losing are the executions of which the next report has its reply lost, with the function that is called then.
	losing map[string]func()
}

var errCut = errors.New("the worker is cut off by the test")

// wrap implements enginelink.Link.
func (l *link) wrap(conn net.Conn) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isCut {
		_ = conn.Close()
		return nil, errCut
	}
	if l.conns == nil {
		l.conns = make(map[*linkConn]struct{})
	}
	c := &linkConn{Conn: conn, link: l}
	l.conns[c] = struct{}{}
	return c, nil
}

// cut breaks all connections, and refuses new ones.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = true
	for c := range l.conns {
		c.deaf.Store(true)
		_ = c.Conn.Close()
	}
	clear(l.conns)
}

// loseReply loses the reply to the next report of how an attempt of the execution ended, and calls happened then.
func (l *link) loseReply(execution string, happened func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.losing == nil {
		l.losing = make(map[string]func())
	}
	l.losing[execution] = happened
}

// loses reports whether the reply to a request is to be lost.
func (l *link) loses(request []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.losing) == 0 || !reports(request) {
		return false
	}
	for id, happened := range l.losing {
		if bytes.Contains(request, []byte(id)) {
			delete(l.losing, id)
			happened()
			return true
		}
	}
	return false
}

// reports reports whether a request reports the end of an attempt.
func reports(request []byte) bool {
	for _, call := range []string{"_complete", "_work\r\n", "_fail", "_suspend", "_await_child"} {
		if bytes.Contains(request, []byte(call)) {
			return true
		}
	}
	return false
}

// linkConn is a connection of a link.
type linkConn struct {
	net.Conn
	link *link
	deaf atomic.Bool // replies are lost
}

// Write implements net.Conn. A request whose reply is to be lost is executed; Read drops the reply.
func (c *linkConn) Write(p []byte) (int, error) {
	if c.link.loses(p) {
		c.deaf.Store(true)
	}
	return c.Conn.Write(p)
}

// Read implements net.Conn. It breaks the connection instead of returning a reply that is to be lost.
func (c *linkConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.deaf.Load() {
		return 0, io.EOF
	}
	return n, err
}

// Close implements net.Conn.
func (c *linkConn) Close() error {
	c.link.mu.Lock()
	delete(c.link.conns, c)
	c.link.mu.Unlock()
	return c.Conn.Close()
}
