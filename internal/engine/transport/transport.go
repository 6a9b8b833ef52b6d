package transport

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// Config holds the addresses and options of a transport.
type Config struct {
	Core     enginerpc.Options
	Client   rueidis.ClientOption
	Embedded bool // the engine is in this process
	Watches  int  // the most connections of watches
	// Held returns how long a watch waits for an entry, given the usual time.
	Held   func(time.Duration) time.Duration
	Logins Logins // in place of the logins of Client
	// Wrap returns the connection to use in place of a new one. Nil means that the new one is used.
	Wrap   func(net.Conn) (net.Conn, error)
	Logger *slog.Logger
}

// Transport contains the connections of a session to an engine: for calls, for watches and for messages. Its methods
// may be called on a nil transport, except Probe.
type Transport struct {
	Client  rueidis.Client
	Watches *Watches
	Hub     *Hub
	// Silence is the time after which a server that does not answer is given up; 0 in this process.
	Silence time.Duration
	dialer  *dialer // nil in this process
	roles   *links  // see pinnedReads
}

// Connect makes the connections. The end of closed ends the checks of the servers' roles.
func Connect(ctx, closed context.Context, c Config) (*Transport, error) {
	option, t := c.Client, &Transport{}
	if !c.Embedded {
		t.Silence = timely(&option)
	}
	connections := connections{option: option, embedded: c.Embedded, wrap: c.Wrap}
	if !c.Embedded {
		connections.links = newLinks()
		connections.handshakes = handshakes{logins: c.Logins, primaries: !isCluster(option)}
	}
	client, dialer, err := connections.awaitClient(ctx, c.Core)
	if err != nil {
		return nil, err
	}
	t.dialer, t.roles = dialer, connections.Roles()
	t.Client = pinnedReads{client, dialer, t.roles}
	t.Watches = newWatches(connections, c.Watches)
	t.Watches.Held = c.Held(tailBlock)
	t.Hub = newHub(t.Client, c.Logger, t.roles, option.AlwaysRESP2)
	if connections.primaries {
		dialer.begin(func() { t.guardRoles(closed) })
	}
	if dialer != nil {
		dialer.connecting.Store(true)
	}
	return t, nil
}

// Connected ends the time in which connections are made for the first time, during which calls are not repeated.
func (t *Transport) Connected() {
	if t.dialer != nil {
		t.dialer.connecting.Store(false)
	}
}

// guardRoles checks until ctx ends that calls, and the held connections of the client, go to a primary.
func (t *Transport) guardRoles(ctx context.Context) {
	ticker := time.NewTicker(roleEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		nodes := t.Client.Nodes()
		t.roles.keepAt(nodes) // sentinels may have named another server
		for _, node := range nodes {
			_ = t.roles.checkRole(ctx, node) // the calls that use the connection report its faults
		}
	}
}

// Probe checks that each server is reachable, and still the primary. It closes connections to servers that do not
// answer in time, so that the calls that wait for them fail and are repeated.
func (t *Transport) Probe(ctx context.Context) {
	var asked sync.WaitGroup
	for _, node := range t.Client.Nodes() {
		asked.Go(func() {
			// The calls that use the connection report its faults.
			_ = t.roles.checkRole(ctx, node)
		})
	}
	asked.Wait()
}

// Stop makes no more connections, and ends messages and watches.
func (t *Transport) Stop() {
	if t != nil {
		t.dialer.end()
		t.Hub.close()
		t.Watches.close()
	}
}

// Close closes the connections.
func (t *Transport) Close() {
	if t != nil {
		closeClient(t.Client, t.dialer)
	}
}
