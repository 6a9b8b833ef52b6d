package transport

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// Intervals of the checks that a connection still leads to a primary. A refused write (READONLY) reveals at once that
// it does not; the checks are for connections without writes.
const (
	// roleEvery is for the connection that calls use. A program that holds leases checks it with every probe.
	roleEvery = 5 * time.Second
	// heldRoleEvery is for each connection on which messages or held reads arrive.
	heldRoleEvery = 15 * time.Second
	// askSentinels is how often a client requests the address of the primary from a sentinel. A message about a new
	// primary can be lost, and a sentinel can die together with the old one.
	askSentinels = 5 * time.Second
)

// links are the open connections of a session. When the server at the other end turns out to be a replica, all of them
// are closed, since after a failover an address leads to another server, and only new connections reach that one.
type links struct {
	// generation counts how often the connections were closed.
	generation atomic.Uint64

	mu   sync.Mutex
	open map[*link]struct{}
}

func newLinks() *links { return &links{open: make(map[*link]struct{})} }

// link is a connection on which a server has answered.
type link struct {
	net.Conn
	of         *links
	address    string
	generation uint64
	sentinel   bool
	// said is sent unasked before the first answer; Read returns it first.
	said []byte
	// login is with which user and password the client library logs in.
	login login
}

// login has the user and the password of one connection. It is the remote address of a link, since that is all that the
// client library passes to the function from which it gets the credentials of a connection.
type login struct {
	net.Addr
	user, password string
}

// RemoteAddr implements net.Conn. The address is a login.
func (l *link) RemoteAddr() net.Addr {
	return login{l.Conn.RemoteAddr(), l.login.user, l.login.password}
}

// loginOf returns the credentials with which a connection logs in, for the client library.
func loginOf(c rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
	l, _ := c.Address.(login)
	return rueidis.AuthCredentials{Username: l.user, Password: l.password}, nil
}

// Read implements net.Conn.
func (l *link) Read(into []byte) (int, error) {
	if len(l.said) > 0 {
		n := copy(into, l.said)
		l.said = l.said[n:]
		return n, nil
	}
	return l.Conn.Read(into)
}

// Close implements net.Conn.
func (l *link) Close() error {
	l.of.mu.Lock()
	delete(l.of.open, l)
	l.of.mu.Unlock()
	return l.Conn.Close()
}

func (s *links) add(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[l] = struct{}{}
}

// renew closes the connections of a generation and of earlier ones, unless that was done already.
func (s *links) renew(generation uint64) {
	if s.generation.CompareAndSwap(generation, generation+1) {
		s.closeIf(func(l *link) bool { return l.generation <= generation && !l.sentinel })
	}
}

// keepAt closes the connections to servers at other addresses than the given ones.
func (s *links) keepAt(addresses map[string]rueidis.Client) {
	s.closeIf(func(l *link) bool { return !l.sentinel && addresses[l.address] == nil })
}

func (s *links) closeIf(match func(*link) bool) {
	s.mu.Lock()
	var matching []*link
	for l := range s.open {
		if match(l) {
			matching = append(matching, l)
		}
	}
	s.mu.Unlock()
	for _, l := range matching {
		_ = l.Close() // its user notices
	}
}

// now is the present generation. The links may be nil.
func (s *links) now() uint64 {
	if s == nil {
		return 0
	}
	return s.generation.Load()
}

// judged returns the result of a command that was sent in a generation, and renews the connections if it is a
// replica's. The links may be nil.
func (s *links) judged(generation uint64, result rueidis.RedisResult) rueidis.RedisResult {
	if s != nil {
		if err := result.Error(); err != nil && replica(err) {
			s.renew(generation)
		}
	}
	return result
}

// allJudged is judged for several results.
func (s *links) allJudged(generation uint64, results []rueidis.RedisResult) []rueidis.RedisResult {
	if s != nil {
		for _, result := range results {
			s.judged(generation, result)
		}
	}
	return results
}

// replica reports whether an error is one that only a server gives that is not, or no longer, a primary.
func replica(err error) bool {
	server, ok := rueidis.IsRedisErr(err)
	return ok && enginerpc.IsReplicaError(server.Error())
}

// checkRole requests the role of a server, and renews the connections if it is a replica. asker sends the command on
// the connection in question. The error is an error of the connection, or enginerpc.ErrReplica. The links may be nil;
// any server is accepted then.
func (s *links) checkRole(ctx context.Context, asker rueidis.CommandClient) error {
	generation := s.now()
	properties, err := asker.Do(ctx, asker.B().Hello().Build()).AsMap()
	if err != nil || s == nil {
		return err
	}
	field := properties["role"]
	if role, err := field.ToString(); err != nil || !isReplica(role) {
		return nil
	}
	s.renew(generation)
	return enginerpc.ErrReplica
}

// HeldCheck checks the role of the server of a connection on which reads are held, before a read and not too often.
type HeldCheck struct{ Last time.Time }

func (c *HeldCheck) Before(ctx context.Context, roles *links, wire rueidis.DedicatedClient) error {
	if roles == nil || time.Since(c.Last) < heldRoleEvery {
		return nil
	}
	c.Last = time.Now()
	return roles.checkRole(ctx, wire)
}

// isCluster reports whether a client makes connections to the servers of a cluster, each of which names the primary of
// a key.
func isCluster(option rueidis.ClientOption) bool {
	return !option.ForceSingleClient && option.Sentinel.MasterSet == ""
}

// Roles are the links whose servers must be primaries; nil if there are none.
func (c connections) Roles() *links {
	if c.primaries {
		return c.links
	}
	return nil
}

// awaitClient makes a client, and waits while the servers are not ready.
func (c connections) awaitClient(
	ctx context.Context, o enginerpc.Options,
) (client rueidis.Client, d *dialer, err error) {
	err = enginerpc.WhileUnready(ctx, o, func() error {
		client, d, err = c.client(ctx)
		return enginerpc.ConnectError(err)
	})
	return client, d, err
}

// isReplica reports whether HELLO describes a replica.
func isReplica(role string) bool { return role == "replica" || role == "slave" }
