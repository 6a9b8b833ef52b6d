package testserver

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"bufio"
	"net"
)

// slots is the number of hash slots of a cluster.
const slots = 16384

// Cluster is a cluster of primaries that share the slots evenly.
type Cluster struct {
	// Nodes are the servers, in the order of their slots.
	Nodes []*Server
	kind  Kind
}

// StartCluster runs a cluster of primaries of a kind on free loopback ports and returns once all slots are served. It
// stops with the test.
func StartCluster(tb testing.TB, k Kind, primaries int) *Cluster {
	tb.Helper()
	c := &Cluster{kind: k}
	buses := make([]*port, primaries)
	for i := range primaries {
		bus, err := reservePort()
		if err != nil {
			tb.Fatalf("testserver: %v", err)
		}
		tb.Cleanup(bus.release)
		buses[i] = bus
		s := Start(tb, Options{Kind: k, Args: []string{
			"cluster-enabled yes", "cluster-port " + strconv.Itoa(bus.number), "cluster-node-timeout 5000",
		}})
		c.Nodes = append(c.Nodes, s)
		s.Command(tb, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*slots/primaries), strconv.Itoa((i+1)*slots/primaries-1))
	}
	for i, s := range c.Nodes[1:] {
		host, number, err := net.SplitHostPort(s.Addr())
		if err != nil {
			tb.Fatalf("testserver: %v", err)
		}
		c.Nodes[0].Command(tb, "CLUSTER", "MEET", host, number, strconv.Itoa(buses[i+1].number))
	}
	deadline := time.Now().Add(readyWithin)
	for _, s := range c.Nodes {
		for !s.isWhole(tb, primaries) {
			if time.Now().After(deadline) {
				tb.Fatal("testserver: the cluster does not come together")
			}
			time.Sleep(20 * time.Millisecond) // gossip tells nobody when it is done
		}
	}
	return c
}

// URL returns the address of the cluster as redis+cluster:// or valkey+cluster:// URL.
func (c *Cluster) URL() string {
	hosts := make([]string, len(c.Nodes))
	for i, s := range c.Nodes {
		hosts[i] = s.Addr()
	}
	return string(c.kind) + "+cluster://" + strings.Join(hosts, ",")
}

func (s *Server) isWhole(tb testing.TB, nodes int) bool {
	info := s.Command(tb, "CLUSTER", "INFO")
	return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_slots_ok:%d", slots)) &&
		strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", nodes))
}

// Command sends one command to the server itself, wherever its keys may be, and returns the answer as text.
func (s *Server) Command(tb testing.TB, words ...string) string {
	tb.Helper()
	text, err := s.send(words...)
	if err != nil {
		tb.Fatalf("testserver: %s: %v", words, err)
	}
	return text
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
	return call(conn, bufio.NewReader(conn), words...)
}
