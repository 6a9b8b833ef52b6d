package testserver

import (
	"net"
	"strconv"
	"strings"
	"testing"
)

// Watched is a primary with a replica, and a sentinel that promotes the replica when the primary is gone.
type Watched struct {
	Primary, Replica, Sentinel *Server
}

// watchedName is what sentinels call the primary.
const watchedName = "primary"

// StartSentinel runs a primary, its replica and a sentinel of a kind, and returns once they are in step. They stop with
// the test.
func StartSentinel(tb testing.TB, k Kind) *Watched {
	tb.Helper()
	w := &Watched{Primary: Start(tb, Options{Kind: k, Args: []string{"repl-diskless-sync-delay 0"}})}
	host, number, err := net.SplitHostPort(w.Primary.Addr())
	if err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	w.Replica = Start(tb, Options{Kind: k, Args: []string{"replicaof " + host + " " + number}})
	await(tb, "the replica does not come into step", func() bool {
		return strings.Contains(w.Replica.Command(tb, "INFO", "replication"), "master_link_status:up")
	})
	w.Sentinel = Start(tb, Options{Kind: k, Sentinel: true})
	w.Sentinel.Command(tb, "SENTINEL", "MONITOR", watchedName, host, number, "1")
	w.Sentinel.Command(tb, "SENTINEL", "SET", watchedName, "down-after-milliseconds", strconv.Itoa(500))
	w.Sentinel.Command(tb, "SENTINEL", "SET", watchedName, "failover-timeout", strconv.Itoa(3000))
	await(tb, "the sentinel does not find the replica", func() bool {
		return strings.Contains(w.Sentinel.Command(tb, "INFO", "sentinel"), "slaves=1")
	})
	return w
}

// URL returns the address as redis+sentinel:// or valkey+sentinel:// URL.
func (w *Watched) URL() string {
	return string(w.Sentinel.opts.Kind) + "+sentinel://" + w.Sentinel.Addr() + "/" + watchedName
}

// InStep waits until the replica has what the primary has by now.
func (w *Watched) InStep(tb testing.TB) {
	tb.Helper()
	want := replicationOffset(tb, w.Primary, "master_repl_offset:")
	await(tb, "the replica does not come into step", func() bool { return replicationOffset(tb, w.Replica, "slave_repl_offset:") >= want })
}

// Promoted waits until the replica has taken over.
func (w *Watched) Promoted(tb testing.TB) {
	tb.Helper()
	await(tb, "the replica does not take over", func() bool {
		return strings.Contains(w.Replica.Command(tb, "INFO", "replication"), "role:master")
	})
}
