package storm

import (
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver/proxy"
)

// soakEngine is an engine with the faults that it can have.
type soakEngine interface {
	kind() testserver.Kind
	// urls are where the test reaches the engine, and where everybody else does.
	urls() (near, far string)
	// strike makes one fault, and returns when it is over.
	strike(t *testing.T, s *storm, r *rand.Rand)
	// setsClock reports whether strike sets clocks of the engine, in rounds in which it may.
	setsClock() bool
	// calm ends faults that would hide the results of the round.
	calm(t *testing.T)
	// memory is the memory use of the servers, and slack the difference that has other reasons than their data.
	memory(t *testing.T) int
	slack() int
	disk() int
}

// soakEngines are those to be tested.
func soakEngines(t *testing.T) map[string]func(*testing.T) soakEngine {
	kinds, list := testserverKinds(t), make(map[string]func(*testing.T) soakEngine)
	if kinds[testserver.Embedded] {
		list["embedded"] = newSoakedEmbedded
	}
	for _, kind := range []testserver.Kind{testserver.Redis, testserver.Valkey} {
		if kinds[kind] {
			list[string(kind)] = func(t *testing.T) soakEngine { return newSoakedServer(t, kind) }
		}
	}
	if kinds[testserver.Valkey] || kinds[testserver.OnCluster] {
		list["cluster"] = newSoakedCluster
	}
	if kinds[testserver.Redis] {
		list["sentinel"] = newSoakedSentinel
	}
	return list
}

// soakedEmbedded is an embedded engine with a directory, in a process of its own.
type soakedEmbedded struct {
	process *embeddedProcess
	network *proxy.Proxy
}

func newSoakedEmbedded(t *testing.T) soakEngine {
	e := &soakedEmbedded{process: startEmbedded(t)}
	e.network = proxy.Start(t, e.process.addr)
	return e
}

func (e *soakedEmbedded) kind() testserver.Kind { return testserver.Embedded }
func (e *soakedEmbedded) setsClock() bool       { return true }
func (e *soakedEmbedded) memory(*testing.T) int { return residentOf(e.process.cmd.Process.Pid) }
func (e *soakedEmbedded) disk() int             { return sizeOf(e.process.dir) }

// slack is the variation of memory in a process with a garbage collector.
func (e *soakedEmbedded) slack() int { return 24 * mebi }

func (e *soakedEmbedded) urls() (near, far string) {
	return "valkey://" + e.process.addr, "valkey://" + e.network.Addr()
}

// clockStep is the offset by which the engine's clock is set ahead of the machine's clock, or back.
const clockStep = 30 * time.Second

// aStep returns an offset for a clock: ahead of the machine's clock, equal to it, or back.
func aStep(r *rand.Rand) time.Duration { return time.Duration(r.IntN(3)-1) * clockStep }

// setClock sets the clock of a server, if clocks are set in this round, and reports whether it did.
func (s *storm) setClock(t *testing.T, server *testserver.Server, r *rand.Rand) bool {
	t.Helper()
	if !s.jumps {
		return false
	}
	s.tallies["engine's clock set"]++
	server.SetClock(t, aStep(r))
	return true
}

// latestClocks sets clocks to the latest time that they have shown.
func latestClocks(t *testing.T, servers ...*testserver.Server) {
	t.Helper()
	if testserver.CanSetClocks() {
		for _, s := range servers {
			s.SetClock(t, clockStep)
		}
	}
}

// calm sets the clock to the latest time that it has shown: a bulk job leaves out runs with a later start.
func (e *soakedEmbedded) calm(t *testing.T) { e.process.setClock(t, clockStep) }

func (e *soakedEmbedded) strike(t *testing.T, s *storm, r *rand.Rand) {
	choices := 3
	if s.jumps {
		choices = 4
	}
	switch r.IntN(choices) {
	case 0:
		s.tallies["engine killed"]++
		e.process.kill()
		e.process.start(t)
	case 1:
		s.tallies["power cut"]++
		e.process.kill()
		e.process.tear(t, r)
		e.process.start(t)
	case 2:
		s.breakNetwork(e.network, r)
	default:
		s.tallies["engine's clock set"]++
		e.process.setClock(t, aStep(r))
	}
}

// soakedServer is one server.
type soakedServer struct {
	server  *testserver.Server
	name    testserver.Kind
	network *proxy.Proxy
}

func newSoakedServer(t *testing.T, kind testserver.Kind) soakEngine {
	e := &soakedServer{server: testserver.Start(t, testserver.Options{
		Kind: kind, Persist: true, Clock: testserver.CanSetClocks(),
	}), name: kind}
	keepOnFailure(t, e.server)
	e.network = proxy.Start(t, e.server.Addr())
	return e
}

func (e *soakedServer) kind() testserver.Kind   { return e.name }
func (e *soakedServer) calm(t *testing.T)       { latestClocks(t, e.server) }
func (e *soakedServer) setsClock() bool         { return testserver.CanSetClocks() }
func (e *soakedServer) memory(t *testing.T) int { return usedMemory(t, e.server) }
func (e *soakedServer) slack() int              { return 4 * mebi }
func (e *soakedServer) disk() int               { return sizeOf(e.server.Dir()) }

func (e *soakedServer) urls() (near, far string) {
	return e.server.URL(), string(e.name) + "://" + e.network.Addr()
}

func (e *soakedServer) strike(t *testing.T, s *storm, r *rand.Rand) {
	t.Helper()
	if r.IntN(4) == 0 && s.setClock(t, e.server, r) {
		return
	}
	if r.IntN(3) == 0 {
		s.tallies["server killed"]++
		e.server.Kill()
		time.Sleep(time.Duration(r.Int64N(int64(time.Second)))) //nolint:forbidigo // how long the server is away
		e.server.Restart()
		return
	}
	s.breakNetwork(e.network, r)
}

// soakedCluster is a cluster of three with a replica of each.
type soakedCluster struct {
	cluster  *testserver.Cluster
	networks []*proxy.Proxy // by server
}

func newSoakedCluster(t *testing.T) soakEngine {
	e := &soakedCluster{cluster: testserver.NewCluster(t, testserver.ClusterOptions{
		Kind: testserver.Valkey, Primaries: 3, Replicas: 1, NodeTimeout: time.Second, Clock: testserver.CanSetClocks(),
	})}
	var addresses []string
	for _, s := range e.cluster.Nodes {
		p := proxy.Start(t, s.Addr())
		e.networks, addresses = append(e.networks, p), append(addresses, p.Addr())
	}
	e.cluster.Announce(t, addresses)
	return e
}

func (e *soakedCluster) kind() testserver.Kind    { return testserver.OnCluster }
func (e *soakedCluster) calm(t *testing.T)        { latestClocks(t, e.cluster.Nodes...) }
func (e *soakedCluster) setsClock() bool          { return testserver.CanSetClocks() }
func (e *soakedCluster) slack() int               { return 12 * mebi }
func (e *soakedCluster) disk() int                { return -1 }
func (e *soakedCluster) urls() (near, far string) { return e.cluster.URL(), e.cluster.URL() }

func (e *soakedCluster) memory(t *testing.T) int {
	e.cluster.AllInStep(t)
	total := 0
	for _, s := range e.cluster.Nodes {
		total += usedMemory(t, s)
	}
	return total
}

func (e *soakedCluster) strike(t *testing.T, s *storm, r *rand.Rand) {
	primaries := e.cluster.PrimariesNow(t)
	primary := primaries[r.IntN(len(primaries))]
	if r.IntN(6) == 0 && s.setClock(t, primary, r) {
		return
	}
	switch r.IntN(5) {
	case 0:
		s.tallies["fail-over by hand"]++
		e.cluster.AllInStep(t)
		e.cluster.HandOver(t, primary)
	case 1:
		s.tallies["primary killed"]++
		e.cluster.KillInStep(t, primary)
		e.cluster.Return(t, primary)
		e.announce(t, primary)
	case 2, 3:
		s.tallies["slots moved"]++
		for range 3 {
			e.cluster.Move(t, randomTag(s, r), primary, 30, nil)
		}
	default:
		s.breakNetwork(e.networks[r.IntN(len(e.networks))], r)
		e.cluster.AllInStep(t) // the connections of replicas break as well
	}
}

// announce makes a restarted server announce the address of its proxy.
func (e *soakedCluster) announce(t *testing.T, server *testserver.Server) {
	t.Helper()
	for i, s := range e.cluster.Nodes {
		if s == server {
			_, number, err := net.SplitHostPort(e.networks[i].Addr())
			require.NoError(t, err)
			s.Command(t, "CONFIG", "SET", "cluster-announce-port", number)
		}
	}
}

// randomTag is the hash tag of one of the partitions.
func randomTag(s *storm, r *rand.Rand) string {
	counts := engine.ConnOf(s.bench.Engine.Internal()).Partitioning()
	p := keyspace.Partition{Family: keyspace.FlowFamily, Index: uint16(r.IntN(counts.Flow))}
	switch r.IntN(4) {
	case 0:
		p = keyspace.Partition{Family: keyspace.BudgetFamily, Index: uint16(r.IntN(counts.Budget))}
	case 1:
		p = keyspace.Partition{Family: keyspace.QuotaFamily, Index: uint16(r.IntN(counts.Quota))}
	}
	return p.Tag()
}

// soakedSentinel is a primary with a replica, watched by a sentinel.
type soakedSentinel struct {
	watched  *testserver.Watched
	networks []*proxy.Proxy // of the two servers
}

func newSoakedSentinel(t *testing.T) soakEngine {
	w := testserver.StartSentinelWith(t, testserver.Options{Kind: testserver.Redis, Clock: testserver.CanSetClocks()})
	e := &soakedSentinel{w, []*proxy.Proxy{proxy.Start(t, w.Primary.Addr()), proxy.Start(t, w.Replica.Addr())}}
	w.Announce(t, e.networks[0].Addr(), e.networks[1].Addr())
	return e
}

func (e *soakedSentinel) kind() testserver.Kind    { return testserver.Redis }
func (e *soakedSentinel) calm(t *testing.T)        { latestClocks(t, e.watched.Primary, e.watched.Replica) }
func (e *soakedSentinel) setsClock() bool          { return testserver.CanSetClocks() }
func (e *soakedSentinel) slack() int               { return 8 * mebi }
func (e *soakedSentinel) disk() int                { return -1 }
func (e *soakedSentinel) urls() (near, far string) { return e.watched.URL(), e.watched.URL() }

func (e *soakedSentinel) memory(t *testing.T) int {
	return usedMemory(t, e.watched.Primary) + usedMemory(t, e.watched.Replica)
}

func (e *soakedSentinel) strike(t *testing.T, s *storm, r *rand.Rand) {
	if r.IntN(4) == 0 && s.setClock(t, e.watched.Primary, r) {
		return
	}
	switch r.IntN(3) {
	case 0:
		s.breakNetwork(e.networks[r.IntN(len(e.networks))], r)
		e.watched.InStep(t) // the connections of the replica break as well
		return
	case 1:
		s.tallies["fail-over by hand"]++
		e.watched.HandOver(t)
	default:
		s.tallies["primary killed"]++
		e.watched.KillInStep(t)
	}
	e.watched.Return(t)
}

// usedMemory is the memory in bytes that a server reports as used.
func usedMemory(t *testing.T, s *testserver.Server) int {
	t.Helper()
	_, rest, _ := strings.Cut(s.Command(t, "INFO", "memory"), "used_memory:")
	text, _, _ := strings.Cut(rest, "\r\n")
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}
