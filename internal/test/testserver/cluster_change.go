package testserver

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Owner returns the primary that has a slot, or none while no server claims it.
func (c *Cluster) Owner(tb testing.TB, slot int) *Server {
	tb.Helper()
	for _, s := range c.Nodes {
		if s.Alive() && s.holder(tb, slot) == s.Command(tb, "CLUSTER", "MYID") {
			return s
		}
	}
	return nil
}

// SlotOf is the slot of a key or a hash tag.
func (c *Cluster) SlotOf(tb testing.TB, key string) int {
	tb.Helper()
	for _, s := range c.Nodes {
		if !s.Alive() {
			continue
		}
		slot, err := strconv.Atoi(s.Command(tb, "CLUSTER", "KEYSLOT", key))
		if err != nil {
			tb.Fatalf("testserver: slot of %s: %v", key, err)
		}
		return slot
	}
	tb.Fatalf("testserver: slot of %s: no server is alive", key)
	return 0
}

// Move migrates the slot of a hash tag with its keys to another primary, in batches of keys. After each time, and
// before the first and after the last, the slot is on two servers, and the function is called; nil does nothing. A slot
// that the target has already stays there.
func (c *Cluster) Move(tb testing.TB, tag string, target *Server, atATime int, meanwhile func()) {
	tb.Helper()
	number := c.SlotOf(tb, tag)
	source := c.Owner(tb, number)
	if source == nil {
		tb.Fatalf("testserver: no server has slot %d", number)
	}
	if source == target {
		return
	}
	slot := strconv.Itoa(number)
	ids := []string{source.Command(tb, "CLUSTER", "MYID"), target.Command(tb, "CLUSTER", "MYID")}
	target.Command(tb, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
	source.Command(tb, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
	host, port, err := net.SplitHostPort(target.Addr())
	if err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	for {
		if meanwhile != nil {
			meanwhile()
		}
		keys := source.Command(tb, "CLUSTER", "GETKEYSINSLOT", slot, strconv.Itoa(atATime))
		if keys == "" {
			break
		}
		source.Command(tb, append([]string{"MIGRATE", host, port, "", "0", "5000", "REPLACE", "KEYS"}, strings.Split(keys, "\n")...)...)
	}
	others := slices.DeleteFunc(c.PrimariesNow(tb), func(s *Server) bool { return s == target || s == source })
	for _, s := range append([]*Server{target, source}, others...) {
		s.Command(tb, "CLUSTER", "SETSLOT", slot, "NODE", ids[1])
	}
	await(tb, "a slot that was moved is not known to all", func() bool {
		return !slices.ContainsFunc(c.Nodes, func(s *Server) bool { return s.Alive() && s.holder(tb, number) != ids[1] })
	})
}

// holder is the id of the server which this one takes for the owner of a slot, "" when it knows none.
func (s *Server) holder(tb testing.TB, slot int) string {
	tb.Helper()
	for line := range strings.Lines(s.Query(tb, "CLUSTER", "NODES")) {
		words := strings.Fields(line)
		if len(words) < 9 {
			continue
		}
		for _, slots := range words[8:] { // a moving slot is listed again in brackets
			first, last, isRange := strings.Cut(slots, "-")
			if !isRange {
				last = first
			}
			from, err1 := strconv.Atoi(first)
			to, err2 := strconv.Atoi(last)
			if err1 == nil && err2 == nil && from <= slot && slot <= to {
				return words[0]
			}
		}
	}
	return ""
}

// Replica returns a replica of a primary that is in step with it or about to be.
func (c *Cluster) Replica(tb testing.TB, primary *Server) *Server {
	tb.Helper()
	id := primary.Command(tb, "CLUSTER", "MYID")
	for _, s := range c.Nodes {
		if s == primary || !s.Alive() {
			continue
		}
		for line := range strings.Lines(s.Query(tb, "CLUSTER", "NODES")) {
			if words := strings.Fields(line); len(words) > 3 && strings.Contains(words[2], "myself") && words[3] == id {
				return s
			}
		}
	}
	tb.Fatalf("testserver: %s has no replica", primary.Addr())
	return nil
}

// KillInStep kills a primary at a moment at which its replica has all that it has answered: it takes in no writes until
// the replica has caught up, and dies then. It returns the replica, which has taken over.
func (c *Cluster) KillInStep(tb testing.TB, primary *Server) *Server {
	tb.Helper()
	replica := c.Replica(tb, primary)
	primary.Command(tb, "CLIENT", "PAUSE", "60000", "WRITE")
	awaitStep(tb, primary, replica)
	primary.Kill()
	c.Promoted(tb, replica)
	return replica
}

// KillLagging kills a primary whose replica lacks the writes of the last moments: of the given duration, or, for 0,
// whatever it lacks. It returns the replica, which has taken over.
func (c *Cluster) KillLagging(tb testing.TB, primary *Server, behind time.Duration) *Server {
	tb.Helper()
	replica := c.Replica(tb, primary)
	if behind > 0 {
		primary.DetachReplicas(tb)
		time.Sleep(behind) //nolint:forbidigo // writes of so long reach the primary alone
	}
	primary.Kill()
	c.Promoted(tb, replica)
	return replica
}

// HandOver lets the replica of a primary take over in agreement with it, and returns the replica. The primary is its
// replica then.
func (c *Cluster) HandOver(tb testing.TB, primary *Server) *Server {
	tb.Helper()
	replica := c.Replica(tb, primary)
	var asked time.Time
	await(tb, "the replica does not take over", func() bool {
		if replica.says("role:master", "INFO", "replication") {
			return true
		}
		if time.Since(asked) > handOverWithin {
			asked = time.Now()
			_, _ = replica.send("CLUSTER", "FAILOVER") // it may have taken over just now
		}
		return false
	})
	c.Promoted(tb, replica)
	return replica
}

// handOverWithin is the time after which a server has abandoned a hand-over that the others did not agree to in time.
const handOverWithin = 6 * time.Second

// Return starts a server again that was killed, as a replica of the one that took over, and returns once it is in step.
func (c *Cluster) Return(tb testing.TB, killed *Server) {
	tb.Helper()
	killed.Restart()
	await(tb, "a server does not come back as a replica", func() bool {
		return killed.says("master_link_status:up", "INFO", "replication")
	})
}

// PrimariesNow are the servers that are primaries by now and have slots.
func (c *Cluster) PrimariesNow(tb testing.TB) []*Server {
	tb.Helper()
	var list []*Server
	for _, s := range c.Nodes {
		if !s.Alive() {
			continue
		}
		for line := range strings.Lines(s.Query(tb, "CLUSTER", "NODES")) {
			if words := strings.Fields(line); len(words) > 8 && strings.Contains(words[2], "myself") && strings.Contains(words[2], "master") {
				list = append(list, s)
			}
		}
	}
	return list
}

// AllInStep waits until every replica has all present data of its primary.
func (c *Cluster) AllInStep(tb testing.TB) {
	tb.Helper()
	for _, primary := range c.PrimariesNow(tb) {
		replica := c.Replica(tb, primary)
		awaitStep(tb, primary, replica)
	}
}

// KeysInSlot is how many keys the server has in a slot.
func (s *Server) KeysInSlot(tb testing.TB, slot int) int {
	tb.Helper()
	n, err := strconv.Atoi(s.Command(tb, "CLUSTER", "COUNTKEYSINSLOT", strconv.Itoa(slot)))
	if err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	return n
}

// DetachReplicas ends the replication to all replicas of the server, which cannot return until AttachReplicas. Later
// writes reach this server only.
func (s *Server) DetachReplicas(tb testing.TB) {
	tb.Helper()
	s.Command(tb, "ACL", "SETUSER", "default", "-psync", "-sync")
	s.Command(tb, "CLIENT", "KILL", "TYPE", "replica")
}

// AttachReplicas lets the replicas come back after DetachReplicas.
func (s *Server) AttachReplicas(tb testing.TB) {
	tb.Helper()
	s.Command(tb, "ACL", "SETUSER", "default", "+psync", "+sync")
}
