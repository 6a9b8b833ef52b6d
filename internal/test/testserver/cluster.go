package testserver

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// slots is the number of hash slots of a cluster.
const slots = 16384

// Cluster is a cluster of primaries that share the slots evenly, with replicas or without.
type Cluster struct {
	// Nodes are the primaries at the start, in the order of their slots, followed by the replicas: first one of each
	// primary, in their order, then the second ones.
	Nodes     []*Server
	Primaries int
	kind      Kind
	secure    []string // addresses with TLS of the primaries
}

// ClusterOptions describe a cluster that [NewCluster] runs.
type ClusterOptions struct {
	// Kind is Redis or Valkey.
	Kind Kind
	// Primaries is how many servers share the slots, at least three where a failover is to be agreed on.
	Primaries int
	// Replicas is how many replicas each primary has.
	Replicas int
	// NodeTimeout is how long a server may be silent before the others take it for dead. Defaults to 5 s.
	NodeTimeout time.Duration
	// Persist is as in [Options]: a server that is killed and restarted has its acknowledged writes.
	Persist bool
	// Clock is as in [Options].
	Clock bool
	// TLS gives each server a second address with TLS, and a certificate for this address only.
	TLS *Authority
}

// StartCluster runs a cluster of primaries without replicas.
func StartCluster(tb testing.TB, k Kind, primaries int) *Cluster {
	tb.Helper()
	return NewCluster(tb, ClusterOptions{Kind: k, Primaries: primaries})
}

// NewCluster runs a cluster on free loopback ports and returns once all slots are served and all replicas are in step.
// It stops with the test.
func NewCluster(tb testing.TB, o ClusterOptions) *Cluster {
	tb.Helper()
	c := &Cluster{kind: o.Kind, Primaries: o.Primaries}
	for i := range o.Primaries * (1 + o.Replicas) {
		var secured []string
		if o.TLS != nil {
			secured = c.secureNode(tb, o.TLS, i)
		}
		s, bus := startNode(tb, o, func(args []string) *Server {
			return Start(tb, Options{Kind: o.Kind, Persist: o.Persist, Clock: o.Clock, Args: append(args, secured...)})
		})
		tb.Cleanup(bus.release)
		c.join(tb, s, bus, i)
	}
	c.settle(tb)
	return c
}

// secureNode returns the lines of the configuration by which the i-th server has a second address with TLS.
func (c *Cluster) secureNode(tb testing.TB, a *Authority, i int) []string {
	tb.Helper()
	secure, err := reservePort()
	if err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	tb.Cleanup(secure.release)
	ip := fmt.Sprintf("127.0.0.%d", i+2)
	if i < c.Primaries {
		c.secure = append(c.secure, net.JoinHostPort(ip, strconv.Itoa(secure.number)))
	}
	return append(a.Lines(tb, ip),
		fmt.Sprintf("tls-port %d", secure.number), "bind 127.0.0.1 "+ip, "cluster-announce-ip "+ip)
}

// sharedClusters are the clusters of this process, by name.
var sharedClusters struct {
	sync.Mutex
	byName map[string]*Cluster
}

// SharedCluster returns the one cluster of three primaries that all tests of this process have in common. For its use
// see [Shared].
func SharedCluster(tb testing.TB) *Cluster {
	tb.Helper()
	return NamedCluster(tb, "all", func(*Cluster) {})
}

// NamedCluster is a SharedCluster with a name, which the first caller prepares.
func NamedCluster(tb testing.TB, name string, prepare func(*Cluster)) *Cluster {
	tb.Helper()
	path := require(tb, Valkey)
	sharedClusters.Lock()
	defer sharedClusters.Unlock()
	if c := sharedClusters.byName[name]; c != nil && !c.Nodes[0].exited() {
		return c
	}
	o := ClusterOptions{Kind: Valkey, Primaries: 3}
	c := &Cluster{kind: o.Kind, Primaries: o.Primaries}
	sweepClusterFolders()
	for i := range o.Primaries {
		s, bus := startNode(tb, o, func(args []string) *Server {
			dir := filepath.Join(clusterFolder(os.Getpid()), name, strconv.Itoa(i))
			err := os.MkdirAll(dir, 0o700)
			var in *instance
			if err == nil {
				in, err = newInstance(path, dir, Options{Kind: o.Kind, Args: args})
			}
			if err != nil {
				tb.Fatalf("testserver: %v", err)
			}
			return &Server{tb: tb, shared: true, instance: in}
		})
		c.join(tb, s, bus, i)
	}
	c.settle(tb)
	prepare(c)
	if sharedClusters.byName == nil {
		sharedClusters.byName = make(map[string]*Cluster)
	}
	sharedClusters.byName[name] = c
	return c
}

// stopClusters ends the shared clusters.
func stopClusters() {
	sharedClusters.Lock()
	defer sharedClusters.Unlock()
	for _, c := range sharedClusters.byName {
		for _, s := range c.Nodes {
			s.close()
		}
	}
	clear(sharedClusters.byName)
	_ = os.RemoveAll(clusterFolder(os.Getpid()))
}

// clusterFolder is the folder in which the servers of a process's shared clusters store their views of the cluster.
// They need it as long as they run.
func clusterFolder(pid int) string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("%s%d", clusterFolderPrefix, pid))
}

const clusterFolderPrefix = "flowfabric-cluster-"

// sweepClusterFolders removes the folders of processes that ended without [Stop].
func sweepClusterFolders() {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), clusterFolderPrefix+"*"))
	for _, dir := range left {
		pid, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), clusterFolderPrefix))
		if err != nil || pid == os.Getpid() {
			continue
		}
		if p, err := os.FindProcess(pid); err != nil || p.Signal(syscall.Signal(0)) != nil {
			_ = os.RemoveAll(dir)
		}
	}
}

// startNode runs one server of a cluster that is yet to come together. It returns the port on which it talks to the
// others.
func startNode(tb testing.TB, o ClusterOptions, start func(args []string) *Server) (*Server, *port) {
	tb.Helper()
	bus, err := reservePort()
	if err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	timeout := cmp.Or(o.NodeTimeout, 5*time.Second)
	return start([]string{
		"cluster-enabled yes", "cluster-port " + strconv.Itoa(bus.number), fmt.Sprintf("cluster-node-timeout %d", timeout.Milliseconds()),
		"cluster-replica-validity-factor 0", "repl-diskless-sync-delay 0",
	}), bus
}

// join lets the i-th server get to know the first one, and gives it slots if it is a primary.
func (c *Cluster) join(tb testing.TB, s *Server, bus *port, i int) {
	tb.Helper()
	c.Nodes = append(c.Nodes, s)
	s.Command(tb, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)) // unequal epochs, so that servers agree on owners
	if i < c.Primaries {
		s.Command(tb, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*slots/c.Primaries), strconv.Itoa((i+1)*slots/c.Primaries-1))
	}
	if i > 0 {
		c.meet(tb, s, bus)
	}
}

func (c *Cluster) meet(tb testing.TB, s *Server, bus *port) {
	tb.Helper()
	host, number, err := net.SplitHostPort(s.Addr())
	if err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	for _, known := range c.Nodes {
		if known != s && known.Alive() {
			known.Command(tb, "CLUSTER", "MEET", host, number, strconv.Itoa(bus.number))
		}
	}
}

// settle waits until every server knows all others, and makes replicas of those that have no slots.
func (c *Cluster) settle(tb testing.TB) {
	tb.Helper()
	await(tb, "the cluster does not come together", func() bool {
		whole := true
		for _, s := range c.Nodes {
			whole = whole && s.isWhole(tb, len(c.Nodes))
		}
		if !whole {
			c.nudge(tb)
		}
		return whole
	})
	for i, s := range c.Nodes[c.Primaries:] {
		primary := c.Nodes[i%c.Primaries].Command(tb, "CLUSTER", "MYID")
		s.Command(tb, "CLUSTER", "REPLICATE", primary)
	}
	for _, s := range c.Nodes[c.Primaries:] {
		await(tb, "a replica does not come into step", func() bool {
			return s.says("master_link_status:up", "INFO", "replication")
		})
	}
}

// Add runs another primary, which has no slots and nothing loaded, and returns once all know it.
func (c *Cluster) Add(tb testing.TB) *Server {
	tb.Helper()
	s, bus := startNode(tb, ClusterOptions{}, func(args []string) *Server { return Start(tb, Options{Kind: c.kind, Args: args}) })
	tb.Cleanup(bus.release)
	c.meet(tb, s, bus)
	id := s.Command(tb, "CLUSTER", "MYID")
	for _, other := range c.Nodes {
		await(tb, "the cluster does not take in another server", func() bool {
			return !other.Alive() || other.says(id, "CLUSTER", "NODES")
		})
	}
	await(tb, "another server does not get to know the cluster", func() bool {
		return s.says("cluster_state:ok", "CLUSTER", "INFO")
	})
	c.Nodes = append(c.Nodes, s)
	return s
}

// Announce makes the i-th server announce the i-th address, such as its proxy's, to clients and other servers, and
// returns once all servers report all addresses.
func (c *Cluster) Announce(tb testing.TB, addresses []string) {
	tb.Helper()
	for i, s := range c.Nodes {
		_, number, err := net.SplitHostPort(addresses[i])
		if err != nil {
			tb.Fatalf("testserver: %v", err)
		}
		s.Command(tb, "CONFIG", "SET", "cluster-announce-port", number)
	}
	for _, s := range c.Nodes {
		await(tb, "the servers do not learn the announced addresses", func() bool {
			return !slices.ContainsFunc(addresses, func(a string) bool { return !s.says(a+"@", "CLUSTER", "NODES") })
		})
	}
}

// InStep waits until the replicas have all present data of their primaries.
func (c *Cluster) InStep(tb testing.TB) {
	tb.Helper()
	for i, s := range c.Nodes[c.Primaries:] {
		awaitStep(tb, c.Nodes[i%c.Primaries], s)
	}
}

// awaitStep waits until a replica has all present data of its primary.
func awaitStep(tb testing.TB, primary, replica *Server) {
	tb.Helper()
	want, err := replicationOffset(primary.Query(tb, "INFO", "replication"), "master_repl_offset:")
	if err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	await(tb, "a replica does not come into step", func() bool {
		info, err := replica.send("INFO", "replication")
		if err != nil {
			return false
		}
		offset, err := replicationOffset(info, "slave_repl_offset:")
		return err == nil && offset >= want
	})
}

func replicationOffset(info, field string) (int, error) {
	_, rest, _ := strings.Cut(info, field)
	text, _, _ := strings.Cut(rest, "\r\n")
	offset, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%s%w", field, err)
	}
	return offset, nil
}

// Promoted waits until a replica has taken over from a primary that was killed.
func (c *Cluster) Promoted(tb testing.TB, replica *Server) {
	tb.Helper()
	await(tb, "the replica does not take over", func() bool {
		return replica.says("role:master", "INFO", "replication") && replica.says("cluster_state:ok", "CLUSTER", "INFO")
	})
}

// settledWithin bounds waiting for servers that agree with each other. Only a defect lets it end: on a busy machine they
// lose sight of each other, and begin again, several times.
const settledWithin = 5 * time.Minute

func await(tb testing.TB, fault string, condition func() bool) {
	tb.Helper()
	if !within(settledWithin, condition) {
		tb.Fatalf("testserver: %s", fault)
	}
}

// within reports whether a condition holds before a time has passed.
func within(patience time.Duration, condition func() bool) bool {
	for deadline := time.Now().Add(patience); !condition(); {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // gossip does not report its end
	}
	return true
}

// URL returns the address of the cluster as redis+cluster:// or valkey+cluster:// URL.
func (c *Cluster) URL() string {
	hosts := make([]string, c.Primaries)
	for i, s := range c.Nodes[:c.Primaries] {
		hosts[i] = s.Addr()
	}
	return string(c.kind) + "+cluster://" + strings.Join(hosts, ",")
}

// TLSURL is URL with the ports that speak TLS.
func (c *Cluster) TLSURL() string {
	scheme := "valkeys"
	if c.kind == Redis {
		scheme = "rediss"
	}
	return scheme + "+cluster://" + strings.Join(c.secure, ",")
}

// nudge publishes a message on each server, so that links that are not known yet are closed and made anew. The servers
// would find out by themselves, but take seconds.
func (c *Cluster) nudge(tb testing.TB) {
	tb.Helper()
	for _, s := range c.Nodes {
		s.Command(tb, "PUBLISH", "nobody", "")
	}
}

// isWhole reports whether a server knows all others and who has which slots, and is linked with all of them both ways.
// A message that is published before that does not reach everybody: a server closes a link on which one comes before it
// knows whose link it is.
func (s *Server) isWhole(tb testing.TB, nodes int) bool {
	info := s.Command(tb, "CLUSTER", "INFO")
	if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, fmt.Sprintf("cluster_slots_ok:%d", slots)) ||
		!strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", nodes)) {
		return false
	}
	return s.links(tb) == 2*(nodes-1)
}

// links counts the other servers that a server sends messages to, and those that it knows to be sending it messages.
func (s *Server) links(tb testing.TB) int {
	lines := strings.Fields(s.Command(tb, "CLUSTER", "LINKS"))
	seen := make(map[[2]string]bool)
	for i, line := range lines {
		if line == "direction" && i+3 < len(lines) {
			seen[[2]string{lines[i+1], lines[i+3]}] = true
		}
	}
	return len(seen)
}

// Command sends one command to the server itself, wherever its keys may be, and returns the answer as text, a list as
// lines.
func (s *Server) Command(tb testing.TB, words ...string) string {
	tb.Helper()
	text, err := s.send(words...)
	if err != nil {
		tb.Fatalf("testserver: %s: %v", words, err)
	}
	return text
}

// Try is Command that returns the error, for example a refusal.
func (s *Server) Try(words ...string) error {
	_, err := s.send(words...)
	return err
}

// SetPassword is called after a test has changed the password that clients must give.
func (s *Server) SetPassword(password string) { s.opts.Password = password }

// Query is Command for repeatable commands: it repeats the command when the server closes the connection instead of
// replying, as a server does that is promoted or demoted, and when no reply comes in time.
func (s *Server) Query(tb testing.TB, words ...string) string {
	tb.Helper()
	var text string
	await(tb, "it does not answer "+strings.Join(words, " "), func() bool {
		var err error
		text, err = s.send(words...)
		if err != nil && !isUnanswered(err) {
			tb.Fatalf("testserver: %s: %v", words, err)
		}
		return err == nil
	})
	return text
}

// isUnanswered reports whether an established connection was closed by the other side, or nothing came in time.
func isUnanswered(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// says reports whether the reply to a read-only command contains a text. It is for polled conditions: a server that is
// promoted or demoted, and a sentinel that promotes it, close the connections of their clients, so a missing reply
// means not yet.
func (s *Server) says(text string, words ...string) bool {
	answer, err := s.send(words...)
	return err == nil && strings.Contains(answer, text)
}

func (s *Server) send(words ...string) (string, error) {
	conn, err := net.DialTimeout("tcp", s.Addr(), time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return "", err
	}
	r := bufio.NewReader(conn)
	if s.opts.Password != "" {
		if _, err := call(conn, r, "AUTH", s.opts.Password); err != nil {
			return "", err
		}
	}
	return call(conn, r, words...)
}
