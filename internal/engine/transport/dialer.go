package transport

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// DefaultLease is the duration of leases for which no other is configured.
const DefaultLease = 10 * time.Second

const (
	// pingAfter is how long a connection is idle before the client library sends a PING. It detects failures of
	// devices between the two, such as a proxy; the kernel detects a server that is gone (tcpProbes). With 50 idle
	// processes, these PINGs are most of the commands that the server receives.
	pingAfter = 30 * time.Second
	// ProbeEvery is how often a program that holds leases checks that the servers are reachable.
	ProbeEvery = 500 * time.Millisecond
	// noticeWithin bounds the time after which a server that has fallen silent is noticed.
	noticeWithin = DefaultLease / 3

	// connectTimeout bounds one attempt to connect, up to the first answer of the server.
	connectTimeout = 5 * time.Second
	// connectAgain is the time after which another attempt is made in parallel to unanswered ones: they may never be
	// answered.
	connectAgain = time.Second
	// maxConnects bounds the attempts beyond those that callers wait for, and the connections that no caller has
	// fetched.
	maxConnects = 4
	// keepConnected is how long a connection is kept that no caller has fetched.
	keepConnected = 5 * time.Second

	// callWait and plainWait bound how long a call, or a command without a context, delays others when it is the first
	// to need a connection.
	callWait  = 20 * time.Millisecond
	plainWait = 100 * time.Millisecond
)

// tcpProbes are the kernel's probes of idle connections. They cost the server's process nothing.
var tcpProbes = net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 2}

// ErrConnecting means that nothing has been sent, because the connection is still being made.
var ErrConnecting = errors.New("the connection is being made")

// ErrNoAnswer means that nothing has been sent, because a server could not be reached or has not answered.
var ErrNoAnswer = errors.New("no answer in time")

// dialer makes the connections of a client of the client library.
//
// The library makes a connection in the call that needs it first. All other calls that need it wait for that one, even
// when their contexts end. The dialer therefore makes connections in separate goroutines, up to the first answer of
// the server, and the first call that needs one returns with ErrConnecting unless the connection is ready at once.
// While busy is positive, calls have to be made in a way that lets the caller leave: see pinnedReads.
type dialer struct {
	ctx  context.Context // ends with the dialer
	stop context.CancelFunc
	wrap func(net.Conn) (net.Conn, error) // nil for connections as they are
	handshakes
	links *links
	// connecting is set while enginerpc.Connect waits for a server that answers "not now", and logs that.
	connecting atomic.Bool
	// busy counts the attempts to connect and those who wait for one.
	busy  atomic.Int32
	tasks sync.WaitGroup

	mu        sync.Mutex
	opening   func(net.Conn) // set until the client is made
	endpoints map[string]*endpoint
}

// endpoint is a server, by its address.
type endpoint struct {
	waiting, running int
	begun            time.Time // the last attempt
	ready            []readyConn
	failed           int // attempts
	err              error
	changed          chan struct{} // closed, and replaced, when an attempt is over
}

// readyConn is a connection on which the server has answered.
type readyConn struct {
	conn   net.Conn
	expiry *time.Timer
}

// closeClient closes a client and its dialer. Either may be nil.
func closeClient(client rueidis.Client, d *dialer) {
	d.end()
	if client != nil {
		client.Close()
	}
	if d != nil {
		d.tasks.Wait()
		d.drop()
	}
}

// end ends the attempts to connect and prevents new ones. The dialer may be nil.
func (d *dialer) end() {
	if d != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.stop()
	}
}

// drop closes the connections that no caller has fetched.
func (d *dialer) drop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.endpoints {
		for _, r := range p.ready {
			r.expiry.Stop()
			_ = r.conn.Close()
		}
		p.ready = nil
	}
}

// begin runs a task that the end of the dialer waits for, and reports whether it does.
func (d *dialer) begin(task func()) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil {
		return false
	}
	d.tasks.Go(task)
	return true
}

// dial hands over a connection on which the server has answered.
func (d *dialer) dial(ctx context.Context, address string, by *net.Dialer, secure *tls.Config) (net.Conn, error) {
	first := d.busy.Add(1) == 1
	defer d.busy.Add(-1)
	p, failed, opening := d.join(address)
	limit, err := cmp.Or(by.Timeout, connectTimeout), ErrNoAnswer
	if first && !opening {
		// Others may already wait for this connection where they cannot leave.
		limit, err = callWait, ErrConnecting
		if ctx == context.Background() {
			limit = plainWait
		}
	}
	over := time.NewTimer(limit)
	defer over.Stop()
	again := time.NewTicker(connectAgain)
	defer again.Stop()
	for {
		conn, changed, failure := d.take(p, failed, address, by, secure)
		if changed == nil {
			return conn, failure
		}
		select {
		case <-changed:
			continue
		case <-again.C:
			continue
		case <-over.C:
		case <-ctx.Done():
			err = ErrConnecting // others may wait for it with contexts that have not ended
		case <-d.ctx.Done():
			return nil, rueidis.ErrClosing
		}
		d.leave(p)
		return nil, dialError(err)
	}
}

// join registers a caller that waits for a connection to a server, and returns how many attempts have failed so far.
// opening is set until the client is made. The caller ends with take or leave.
func (d *dialer) join(address string) (p *endpoint, failed int, opening bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p = d.endpoints[address]
	if p == nil {
		p = &endpoint{changed: make(chan struct{})}
		d.endpoints[address] = p
	}
	p.waiting++
	return p, p.failed, d.opening != nil
}

func (d *dialer) leave(p *endpoint) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p.waiting--
}

// take returns a connection that is ready, or the error of attempts that have ended, or a channel to wait for.
func (d *dialer) take(
	p *endpoint, failed int, address string, by *net.Dialer, secure *tls.Config,
) (net.Conn, <-chan struct{}, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.ctx.Err() != nil:
		return nil, nil, rueidis.ErrClosing
	case len(p.ready) > 0:
		newest := len(p.ready) - 1
		r := p.ready[newest]
		p.ready = p.ready[:newest]
		r.expiry.Stop()
		p.waiting--
		if d.opening != nil {
			d.opening(r.conn)
		}
		return r.conn, nil, nil
	case p.failed > failed && p.running == 0:
		p.waiting--
		return nil, nil, p.err
	}
	stuck := time.Since(p.begun) >= connectAgain && p.running < p.waiting+maxConnects
	if p.running < p.waiting && p.failed == failed || stuck {
		p.running++
		p.begun = time.Now()
		d.busy.Add(1)
		d.tasks.Go(func() {
			defer d.busy.Add(-1)
			conn, err := d.make(address, by, secure)
			d.connected(p, conn, err)
		})
	}
	return nil, p.changed, nil
}

// make makes a connection.
func (d *dialer) make(address string, by *net.Dialer, secure *tls.Config) (net.Conn, error) {
	generation := d.links.generation.Load()
	made, err := d.connect(d.ctx, address, by, secure)
	if err != nil {
		return nil, err
	}
	made.of, made.generation = d.links, generation
	d.links.add(made)
	if d.wrap == nil {
		return made, nil
	}
	return d.wrap(made)
}

// connected records how an attempt ended and wakes the callers that wait.
func (d *dialer) connected(p *endpoint, conn net.Conn, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p.running--
	switch {
	case err != nil:
		p.failed++
		p.err = err
	case d.ctx.Err() != nil || len(p.ready) >= maxConnects:
		_ = conn.Close()
	default:
		p.ready = append(p.ready, readyConn{conn, time.AfterFunc(keepConnected, func() { d.expire(p, conn) })})
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

func (d *dialer) expire(p *endpoint, conn net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, r := range p.ready {
		if r.conn == conn {
			p.ready = append(p.ready[:i:i], p.ready[i+1:]...)
			_ = conn.Close()
			return
		}
	}
}

// dialError marks an error as one before which nothing was sent.
func dialError(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }

// asDialError is dialError unless the error is marked already.
func asDialError(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return err
	}
	return dialError(err)
}
