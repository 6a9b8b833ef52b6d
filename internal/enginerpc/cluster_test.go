package enginerpc

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

const clusterSlots = 16384

// startCluster makes two primaries that share the slots, and returns a client of the whole and one of each.
func startCluster(t *testing.T) (cluster rueidis.Client, nodes [2]rueidis.Client) {
	t.Helper()
	var addresses, buses [2]string
	for i := range nodes {
		buses[i] = freePort(t)
		s := testserver.Start(t, testserver.Options{Kind: testserver.Redis, Args: []string{
			"cluster-enabled yes", "cluster-port " + buses[i], "cluster-node-timeout 2000",
		}})
		addresses[i] = s.Addr()
		nodes[i] = clientFor(t, s.Addr(), func(o *rueidis.ClientOption) { o.ForceSingleClient = true })
		command(t, nodes[i], "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*clusterSlots/2), strconv.Itoa((i+1)*clusterSlots/2-1))
	}
	host, port, err := net.SplitHostPort(addresses[1])
	if err != nil {
		t.Fatal(err)
	}
	command(t, nodes[0], "CLUSTER", "MEET", host, port, buses[1])
	deadline := time.Now().Add(5 * time.Minute)
	for _, n := range nodes {
		for !whole(t, n) {
			if time.Now().After(deadline) {
				t.Fatal("the cluster does not come together")
			}
			time.Sleep(20 * time.Millisecond) //nolint:forbidigo // the cluster does not report the end of gossip
		}
	}
	return clientFor(t, addresses[0]), nodes
}

func whole(t *testing.T, node rueidis.Client) bool {
	t.Helper()
	info := command(t, node, "CLUSTER", "INFO")
	return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_slots_ok:16384") &&
		strings.Contains(info, "cluster_known_nodes:2")
}

func command(t *testing.T, node rueidis.Client, words ...string) string {
	t.Helper()
	reply, err := node.Do(t.Context(), node.B().Arbitrary(words...).Build()).ToString()
	if err != nil {
		t.Fatalf("%s: %v", words, err)
	}
	return reply
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

func TestCluster(t *testing.T) {
	t.Parallel()
	client, nodes := startCluster(t)
	conn, err := Connect(t.Context(), client, Options{Prefix: newPrefix()})
	if err != nil {
		t.Fatal(err)
	}
	tickAll := func(when string) {
		t.Helper()
		p := conn.Pipeline()
		for _, partition := range conn.Partitioning().FlowPartitions() {
			if _, err := conn.Tick(t.Context(), TickCall{Partition: partition, Limit: 10}); err != nil {
				t.Fatalf("%s: %s: %v", when, partition, err)
			}
			Add(p, TickCall{Partition: partition, Limit: 10})
		}
		if err := p.Run(t.Context()); err != nil {
			t.Fatalf("%s: pipeline: %v", when, err)
		}
	}
	tickAll("after connecting")

	command(t, nodes[1], "FUNCTION", "FLUSH", "SYNC")
	tickAll("after one primary lost the library")

	// A slot on the move: absent keys are requested from the importing side, undeclared ones fail. Such a call waits
	// until the slot has arrived.
	moving := 0
	for _, p := range conn.Partitioning().FlowPartitions() {
		if slot(p.Tag()) < clusterSlots/2 {
			moving = slot(p.Tag())
			break
		}
	}
	ids := [2]string{command(t, nodes[0], "CLUSTER", "MYID"), command(t, nodes[1], "CLUSTER", "MYID")}
	command(t, nodes[1], "CLUSTER", "SETSLOT", fmt.Sprint(moving), "IMPORTING", ids[0])
	command(t, nodes[0], "CLUSTER", "SETSLOT", fmt.Sprint(moving), "MIGRATING", ids[1])
	arrived := make(chan error, 1)
	go func() {
		time.Sleep(200 * time.Millisecond) //nolint:forbidigo // for so long, calls meet the moving slot
		var errs []error
		for _, n := range []int{1, 0} {
			b := nodes[n].B()
			errs = append(errs, nodes[n].Do(t.Context(), b.Arbitrary("CLUSTER", "SETSLOT", fmt.Sprint(moving), "NODE", ids[1]).Build()).Error())
		}
		arrived <- errors.Join(errs...)
	}()
	tickAll("while a slot moves")
	if err := <-arrived; err != nil {
		t.Fatal(err)
	}
	tickAll("after a slot has moved")
}
