package netbound

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"
)

// Config configures a listener.
type Config struct {
	// Most is how many connections there are at a time. Defaults to MostConnections.
	Most int
	// PerAddress is how many of them one address has. Defaults to half of Most.
	PerAddress int
	// Refusal is sent to a connection that is refused; empty for nothing.
	Refusal string
	// Logger receives that a bound is reached, and that no connection can be accepted; nil logs nothing.
	Logger *slog.Logger
}

const (
	// firstPause and longestPause bound the time between two tries to accept while the machine lacks something.
	firstPause   = 5 * time.Millisecond
	longestPause = time.Second
	// logPause is the time between two lines about a bound.
	logPause = 10 * time.Second
	// refusalTimeout bounds the sending of a refusal.
	refusalTimeout = 100 * time.Millisecond
)

// Listener is a listener with bounds. It is safe for concurrent use.
type Listener struct {
	net.Listener
	config Config
	closed chan struct{}
	close  sync.Once

	mu sync.Mutex
	// open are the connections, waiting those that wait for their clients, the longest first.
	open      int
	waiting   *list.List
	addresses map[string]*address
	// loggedAt is when a line about a bound was written.
	loggedAt time.Time
}

// address has the state of the connections of one address.
type address struct {
	open    int
	waiting *list.List
}

// Bound returns a listener that bounds the connections of l, and closes l when it is closed.
func Bound(l net.Listener, config Config) *Listener {
	config.Most = cmp.Or(config.Most, MostConnections())
	config.PerAddress = cmp.Or(config.PerAddress, max(1, config.Most/2))
	return &Listener{
		Listener: l, config: config, closed: make(chan struct{}), waiting: list.New(),
		addresses: map[string]*address{},
	}
}

// Accept implements net.Listener. The connection is a *Conn. Errors that pass, such as a lack of descriptors, are not
// returned: it tries again after a pause.
func (l *Listener) Accept() (net.Conn, error) {
	pause := time.Duration(0)
	for {
		conn, err := l.Listener.Accept()
		if err == nil {
			pause = 0
			if admitted := l.admit(conn); admitted != nil {
				return admitted, nil
			}
			continue
		}
		if !passes(err) {
			return nil, err
		}
		pause = min(max(firstPause, 2*pause), longestPause)
		l.warn("connections cannot be accepted at present", "error", err)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-l.closed:
			timer.Stop()
			return nil, net.ErrClosed
		}
	}
}

// passes reports whether accepting may succeed later.
func passes(err error) bool {
	var temporary interface{ Temporary() bool }
	return errors.As(err, &temporary) && temporary.Temporary()
}

// Close implements net.Listener.
func (l *Listener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// admit returns the connection with its bookkeeping, or nil if it was refused.
func (l *Listener) admit(conn net.Conn) *Conn {
	name := addressOf(conn)
	l.mu.Lock()
	of := l.addresses[name]
	if of == nil {
		of = &address{waiting: list.New()}
		l.addresses[name] = of
	}
	var yields *Conn
	bound := ""
	switch {
	case of.open >= l.config.PerAddress:
		bound, yields = "address", first(of.waiting)
	case l.open >= l.config.Most:
		bound, yields = "sum", first(l.waiting)
	}
	if bound != "" && yields == nil {
		l.drop(name, of)
		l.mu.Unlock()
		l.refuse(conn, bound, name)
		return nil
	}
	if yields != nil {
		l.leave(yields)
	}
	c := &Conn{Conn: conn, listener: l, address: name}
	l.open++
	of.open++
	l.addresses[name] = of
	l.wait(c)
	l.mu.Unlock()
	if yields != nil {
		_ = yields.Conn.Close()
		l.warn("a bound of connections is reached: the one that waited longest gives way", "bound", bound,
			"address", name)
	}
	return c
}

func first(of *list.List) *Conn {
	if of.Len() == 0 {
		return nil
	}
	return of.Front().Value.(*Conn)
}

func (l *Listener) refuse(conn net.Conn, bound, name string) {
	if l.config.Refusal != "" {
		_ = conn.SetWriteDeadline(time.Now().Add(refusalTimeout))
		_, _ = conn.Write([]byte(l.config.Refusal))
	}
	_ = conn.Close()
	l.warn("a connection is refused: a bound is reached", "bound", bound, "address", name)
}

// warn logs, but not for each connection.
func (l *Listener) warn(message string, args ...any) {
	if l.config.Logger == nil {
		return
	}
	l.mu.Lock()
	now := time.Now()
	due := now.Sub(l.loggedAt) >= logPause
	if due {
		l.loggedAt = now
	}
	l.mu.Unlock()
	if due {
		l.config.Logger.Warn(message, append([]any{
			"event", "server.connections", "most", l.config.Most, "per_address", l.config.PerAddress,
		}, args...)...)
	}
}

// wait notes that a connection waits for its client. The caller holds the lock.
func (l *Listener) wait(c *Conn) {
	c.inAll, c.inAddress = l.waiting.PushBack(c), l.addresses[c.address].waiting.PushBack(c)
}

// serve notes that a connection no longer waits. The caller holds the lock.
func (l *Listener) serve(c *Conn) {
	if c.inAll != nil {
		l.waiting.Remove(c.inAll)
		l.addresses[c.address].waiting.Remove(c.inAddress)
		c.inAll, c.inAddress = nil, nil
	}
}

// leave forgets a connection. The caller holds the lock.
func (l *Listener) leave(c *Conn) {
	if c.left {
		return
	}
	l.serve(c)
	c.left = true
	of := l.addresses[c.address]
	l.open--
	of.open--
	l.drop(c.address, of)
}

// drop forgets an address without connections. The caller holds the lock.
func (l *Listener) drop(name string, of *address) {
	if of.open == 0 {
		delete(l.addresses, name)
	}
}

func addressOf(conn net.Conn) string {
	text := conn.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(text); err == nil {
		return host
	}
	return text
}

// Conn is a connection of a Listener.
type Conn struct {
	net.Conn
	listener *Listener
	address  string

	// The lock of the listener guards the rest.
	inAll, inAddress *list.Element
	busy             int
	left             bool
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.listener.mu.Lock()
	c.listener.leave(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// Serve notes that a request of the connection has arrived, so that it gives way to no other one until the returned
// function is called.
func (c *Conn) Serve() (done func()) {
	l := c.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.busy++; c.busy == 1 && !c.left {
		l.serve(c)
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if c.busy--; c.busy == 0 && !c.left {
			l.wait(c)
		}
	}
}

type connKey struct{}

// Context returns a context with the connection, for http.Server.ConnContext. A connection of TLS is that below it.
func Context(ctx context.Context, conn net.Conn) context.Context {
	if below, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = below.NetConn()
	}
	if c, ok := conn.(*Conn); ok {
		return context.WithValue(ctx, connKey{}, c)
	}
	return ctx
}

// Serve notes that a request of the connection of the context has arrived, as Conn.Serve does.
func Serve(ctx context.Context) (done func()) {
	if c, ok := ctx.Value(connKey{}).(*Conn); ok {
		return c.Serve()
	}
	return func() {}
}

// mostConnections is the bound of a listener where descriptors do not matter.
const mostConnections = 10_000

// MostConnections is how many connections a listener has by default: 10,000, but at most half of the descriptors that
// the process may open, so that the other half is there for the engine and for files.
func MostConnections() int { return max(1, min(mostConnections, descriptors()/2)) }
