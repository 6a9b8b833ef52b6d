package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// connections contains the settings with which the connections of a session are made.
type connections struct {
	option   rueidis.ClientOption
	embedded bool
	wrap     func(net.Conn) (net.Conn, error) // see Connection.Wrap
	held     bool                             // the server may hold reads, so that answers have no bound
	handshakes
	links *links // nil in this process
}

// client makes a client and the dialer of its connections; the client of an engine in this process has no dialer. It
// returns early when ctx ends. Both are closed by closeClient.
func (c connections) client(ctx context.Context) (rueidis.Client, *dialer, error) {
	option := c.option
	if c.embedded {
		option.Dialer.KeepAlive = -1 // nothing between the two can fall silent, so no PING is needed
		option.DialCtxFn = c.wrapped(option.DialCtxFn)
		client, err := rueidis.NewClient(option)
		return client, nil, err
	}
	d := &dialer{
		endpoints: make(map[string]*endpoint), wrap: c.wrap, handshakes: c.handshakes, links: c.links,
	}
	option.AuthCredentialsFn = loginOf
	// Sentinels take as long to fall silent as servers do.
	option.Sentinel.Dialer = option.Dialer
	option.Sentinel.Dialer.ControlContext = toSentinel
	option.Sentinel.TopologyRefreshInterval = askSentinels
	if !c.held {
		d.wrap = withPromptAnswers(c.wrap, option.ConnWriteTimeout)
	}
	d.ctx, d.stop = context.WithCancel(context.Background())
	var drop []func() bool
	d.opening = func(conn net.Conn) {
		drop = append(drop, context.AfterFunc(d.ctx, func() { _ = conn.Close() }))
	}
	leave := context.AfterFunc(ctx, d.stop)
	option.DialCtxFn = d.dial
	option.RetryDelay = d.retryDelay
	client, err := rueidis.NewClient(option)
	d.mu.Lock()
	d.opening = nil
	for _, keep := range drop {
		keep()
	}
	d.mu.Unlock()
	if !leave() {
		err = ctx.Err()
	}
	if err != nil {
		closeClient(client, d)
		return nil, nil, err
	}
	return client, d, nil
}

// NewClient makes a client of servers without a session, whose connections may also lead to replicas, and whose answers
// have no bound. It waits while the servers are not ready. The caller calls end.
func NewClient(
	ctx context.Context, option rueidis.ClientOption, logins Logins,
) (c rueidis.Client, end func(), err error) {
	made := connections{option: option, held: true, links: newLinks(), handshakes: handshakes{logins: logins}}
	client, d, err := made.awaitClient(ctx, enginerpc.Options{})
	if err != nil {
		return nil, nil, err
	}
	return pinnedReads{client, d, nil}, func() { closeClient(client, d) }, nil
}

// dialFunc makes a connection, for the client library.
type dialFunc = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error)

// wrapped returns a function that makes connections as dial does and wraps them.
func (c connections) wrapped(dial dialFunc) dialFunc {
	if c.wrap == nil {
		return dial
	}
	return func(ctx context.Context, address string, by *net.Dialer, secure *tls.Config) (net.Conn, error) {
		conn, err := dial(ctx, address, by, secure)
		if err != nil {
			return nil, err
		}
		return c.wrap(conn)
	}
}

// timely sets the timeouts of connections that the URL leaves open, and returns the time within which a program that
// holds leases notices that a server has fallen silent.
func timely(option *rueidis.ClientOption) time.Duration {
	if option.ConnWriteTimeout <= 0 {
		option.ConnWriteTimeout = noticeWithin - 2*ProbeEvery
	}
	option.Dialer.KeepAlive, option.Dialer.KeepAliveConfig = pingAfter, tcpProbes
	if option.Dialer.Timeout <= 0 {
		option.Dialer.Timeout = connectTimeout
	}
	return option.ConnWriteTimeout + 2*ProbeEvery
}

// toSentinel does nothing: as the ControlContext of a dialer it marks connections to sentinels (see isSentinel). The
// client library passes only the dialer to the function that connects.
func toSentinel(context.Context, string, string, syscall.RawConn) error { return nil }

// isSentinel reports whether a dialer of the client library connects to sentinels.
func isSentinel(by *net.Dialer) bool { return by.ControlContext != nil }

// maxRetries is how often the client library repeats a read that a server answers with "not now" (CLUSTERDOWN, LOADING,
// TRYAGAIN), or for which the connection breaks: for about 15 s, as calls are repeated. It would repeat it until its
// context ends.
const maxRetries = 33

// retryDelay is the client library's delay between tries. It is negative, which ends the tries, for a connection that
// is being made, so that the caller waits and can leave, and for a server that has not been ready for long.
func (d *dialer) retryDelay(attempts int, _ rueidis.Completed, err error) time.Duration {
	_, notNow := errors.AsType[*rueidis.RedisError](err)
	if errors.Is(err, ErrConnecting) || attempts > maxRetries || notNow && d.connecting.Load() {
		return -1
	}
	base := time.Duration(1) << min(20, attempts) * time.Microsecond
	return min(time.Second, base+rand.N(base))
}
