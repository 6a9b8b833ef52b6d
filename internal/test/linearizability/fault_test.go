package linearizability

import (
	"context"
	"math/rand/v2"
	"net/url"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver/proxy"
)

// network is the connection between the clients and the servers of an engine.
type network struct {
	servers []*testserver.Server
	proxies []*proxy.Proxy
	bench   *enginetest.Bench // of the clients
}

// newNetwork runs servers of a kind, which lose nothing when they are killed if they persist, behind proxies.
func newNetwork(t *testing.T, kind testserver.Kind, persist bool) *network {
	t.Helper()
	n := &network{}
	far := ""
	if kind == testserver.OnCluster {
		cluster := testserver.NewCluster(t, testserver.ClusterOptions{Kind: testserver.Valkey, Primaries: 3, Persist: persist})
		n.servers, far = cluster.Nodes, cluster.URL()
		n.intercept(t)
		var addresses []string
		for _, p := range n.proxies {
			addresses = append(addresses, p.Addr())
		}
		cluster.Announce(t, addresses)
	} else {
		server := testserver.Start(t, testserver.Options{Kind: kind, Persist: persist})
		n.servers = []*testserver.Server{server}
		n.intercept(t)
		address, err := url.Parse(server.URL())
		require.NoError(t, err)
		address.Host = n.proxies[0].Addr()
		far = address.String()
	}
	n.bench = enginetest.Open(t, kind, far, enginetest.NewPrefix())
	return n
}

func (n *network) intercept(t *testing.T) {
	t.Helper()
	for _, s := range n.servers {
		n.proxies = append(n.proxies, proxy.Start(t, s.Addr()))
	}
}

// cut disturbs the connections of one server: it closes them, or loses replies until the next fault. In half of the
// cases no call that is under way is answered.
func (n *network) cut(r *rand.Rand, calls *contexts) {
	p := n.proxies[r.IntN(len(n.proxies))]
	for _, other := range n.proxies {
		other.Intercept(nil)
	}
	switch r.IntN(4) {
	case 0:
		p.Break()
	case 1:
		p.Reset()
	case 2:
		p.Silence()
		p.Break()
	default:
		p.Intercept(proxy.CutCalls(3))
	}
	if r.IntN(2) == 0 {
		calls.end()
	}
}

// Concurrent clients whose connections break see one order of calls.
func TestCutConnections(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, withServers(t), func(t *testing.T, kind testserver.Kind) {
		n := newNetwork(t, kind, false)
		n.bench.Keeper(t)
		each(t, func(seed uint64) *History {
			calls := newContexts(t)
			return record(newClients(t, n.bench, calls), seed, func(r *rand.Rand) { n.cut(r, calls) })
		})
	})
}

// withServers are the kinds of engines that are tested, but for the one of this process.
func withServers(t *testing.T) []testserver.Kind {
	t.Helper()
	return slices.DeleteFunc(testserver.Kinds(t), func(k testserver.Kind) bool { return k == testserver.Embedded })
}

// Concurrent clients of servers that are killed and restarted from their logs see one order of calls: nothing that was
// acknowledged is lost, and nothing happens twice.
func TestKilledServers(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, withServers(t), func(t *testing.T, kind testserver.Kind) {
		n := newNetwork(t, kind, true)
		n.bench.Keeper(t)
		each(t, func(seed uint64) *History {
			calls := newContexts(t)
			return record(newClients(t, n.bench, calls), seed, func(r *rand.Rand) { n.kill(r, calls) })
		})
	})
}

// kill kills one of the servers and runs it again, or disturbs connections.
func (n *network) kill(r *rand.Rand, calls *contexts) {
	if r.IntN(3) > 0 {
		n.cut(r, calls)
		return
	}
	s := n.servers[r.IntN(len(n.servers))]
	s.Kill()
	if r.IntN(2) == 0 {
		calls.end()
	}
	s.Restart()
}

// A server without a log loses acknowledged calls when it is killed, which the check finds.
func TestChecker_FindsLostAcknowledgedCalls(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, testserver.Servers(t), func(t *testing.T, kind testserver.Kind) {
		n := newNetwork(t, kind, false)
		client, err := NewClient(n.bench.Client, context.Background)
		require.NoError(t, err)
		h := NewHistory(true)
		require.Equal(t, Done, h.do(0, client, Call{Kind: Start, Run: "one", Input: 1}).Code)
		require.Equal(t, Accepted, h.do(0, client, Call{Kind: Signal, Run: "one", Key: "a", Payload: 1}).Code)
		require.Empty(t, h.Faults())
		n.servers[0].Kill()
		n.servers[0].Restart()
		o := h.do(0, client, Call{Kind: StartOrSignal, Run: "one", Input: 1, Key: "b", Payload: 2})
		require.Equal(t, Accepted, o.Code, o.Why)
		require.Len(t, h.Faults(), 1)
	})
}

// losing acknowledges signals that it does not deliver.
type losing struct {
	Performer
	key string
}

// Perform implements Performer.
func (l losing) Perform(c Call) Outcome {
	if c.Kind == Signal && c.Key == l.key {
		return Outcome{Code: Accepted}
	}
	return l.Performer.Perform(c)
}

// A client that acknowledges a signal that the engine does not get is caught, on every engine.
func TestChecker_FindsLostSignal(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		client, err := NewClient(b.Client, context.Background)
		require.NoError(t, err)
		for _, key := range []string{"b", "none"} {
			p := losing{client, key}
			h := NewHistory(true)
			run := "loses-" + key
			require.Equal(t, Done, h.do(0, p, Call{Kind: Start, Run: run, Input: 1}).Code)
			for i, k := range []string{"a", "b", "c"} {
				h.do(0, p, Call{Kind: Signal, Run: run, Key: k, Payload: i})
			}
			h.do(0, p, Call{Kind: Describe, Run: run})
			require.Equal(t, key == "b", len(h.Faults()) > 0, h.Faults())
		}
	})
}
