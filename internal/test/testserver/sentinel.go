package testserver

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Watched is a primary with a replica, and a sentinel that promotes the replica when the primary fails.
type Watched struct {
	Primary, Replica, Sentinel *Server
	// announced are addresses that servers announce if they are not their own.
	announced map[*Server]string
}

// watchedName is the name of the primary in sentinels. A sentinel abandons a failover after failoverTimeout, in
// milliseconds.
const (
	watchedName     = "primary"
	failoverTimeout = "10000"
)

// StartSentinel runs a primary, its replica and a sentinel of a kind, and returns once they are in step. They stop with
// the test.
func StartSentinel(tb testing.TB, k Kind) *Watched {
	tb.Helper()
	return StartSentinelOf(tb, k, k)
}

// StartSentinelOf is StartSentinel with a primary of the kind k and a replica, and sentinel, of another kind.
func StartSentinelOf(tb testing.TB, k, replica Kind) *Watched {
	tb.Helper()
	return startSentinel(tb, Options{Kind: k}, Options{Kind: replica})
}

// StartSentinelWith is StartSentinel with options of the primary and the replica.
func StartSentinelWith(tb testing.TB, o Options) *Watched {
	tb.Helper()
	return startSentinel(tb, o, o)
}

func startSentinel(tb testing.TB, primary, replica Options) *Watched {
	tb.Helper()
	primary.Args = append(slices.Clone(primary.Args), "repl-diskless-sync-delay 0")
	w := &Watched{Primary: Start(tb, primary)}
	host, number := split(tb, w.Primary.Addr())
	replica.Args = append(slices.Clone(replica.Args), "replicaof "+host+" "+number)
	w.Replica = Start(tb, replica)
	awaitLink(tb, w.Replica)
	w.Sentinel = Start(tb, Options{Kind: replica.Kind, Sentinel: true})
	w.monitor(tb)
	return w
}

// Announce makes the primary and the replica announce these addresses. From then on the replica and the sentinel reach
// them there, and so do clients that query the sentinel.
func (w *Watched) Announce(tb testing.TB, primary, replica string) {
	tb.Helper()
	w.announced = map[*Server]string{w.Primary: primary, w.Replica: replica}
	for server, addr := range w.announced {
		host, number := split(tb, addr)
		server.Command(tb, "CONFIG", "SET", "replica-announce-ip", host, "replica-announce-port", number)
	}
	host, number := split(tb, primary)
	w.Replica.Command(tb, "REPLICAOF", host, number)
	awaitLink(tb, w.Replica)
	w.Sentinel.Command(tb, "SENTINEL", "REMOVE", watchedName)
	w.monitor(tb)
}

// AddSentinel runs another sentinel and returns once it watches the primary. It stops with the test.
func (w *Watched) AddSentinel(tb testing.TB) *Server {
	tb.Helper()
	s := Start(tb, Options{Kind: w.Sentinel.opts.Kind, Sentinel: true})
	host, number := split(tb, w.addr(w.Primary))
	s.Command(tb, "SENTINEL", "MONITOR", watchedName, host, number, "1")
	s.Command(tb, "SENTINEL", "SET", watchedName, "down-after-milliseconds", "3600000", "failover-timeout", failoverTimeout)
	w.await(tb, s, "the sentinel does not find the replica", func() bool { return s.says("slaves=1", "INFO", "sentinel") })
	return s
}

// Promote makes a sentinel replace the primary, which may be gone, by the replica.
func (w *Watched) Promote(tb testing.TB, by *Server) {
	tb.Helper()
	w.await(tb, by, "the replica does not take over", func() bool { return w.asked(by) })
}

// URLOf returns the URL of a primary that several sentinels watch.
func (w *Watched) URLOf(sentinels ...*Server) string {
	addresses := make([]string, len(sentinels))
	for i, s := range sentinels {
		addresses[i] = s.Addr()
	}
	return string(w.Sentinel.opts.Kind) + "+sentinel://" + strings.Join(addresses, ",") + "/" + watchedName
}

// addr is where others reach a server.
func (w *Watched) addr(s *Server) string { return cmp.Or(w.announced[s], s.Addr()) }

// monitor makes the sentinel watch the primary, and waits until it has found the replica.
func (w *Watched) monitor(tb testing.TB) {
	tb.Helper()
	host, number := split(tb, w.addr(w.Primary))
	w.Sentinel.Command(tb, "SENTINEL", "MONITOR", watchedName, host, number, "1")
	w.suspectAfter(tb, time.Hour)
	w.Sentinel.Command(tb, "SENTINEL", "SET", watchedName, "failover-timeout", failoverTimeout)
	w.await(tb, w.Sentinel, "the sentinel does not find the replica", func() bool {
		return w.Sentinel.says("slaves=1", "INFO", "sentinel")
	})
}

func awaitLink(tb testing.TB, replica *Server) {
	tb.Helper()
	await(tb, "the replica does not come into step", func() bool {
		return replica.says("master_link_status:up", "INFO", "replication")
	})
}

func split(tb testing.TB, addr string) (host, number string) {
	tb.Helper()
	host, number, err := net.SplitHostPort(addr)
	if err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	return host, number
}

// URL returns the address as redis+sentinel:// or valkey+sentinel:// URL.
func (w *Watched) URL() string {
	return string(w.Sentinel.opts.Kind) + "+sentinel://" + w.Sentinel.Addr() + "/" + watchedName
}

// InStep waits until the replica has all data that the primary has now.
func (w *Watched) InStep(tb testing.TB) {
	tb.Helper()
	awaitStep(tb, w.Primary, w.Replica)
}

// suspectAfter sets for how long the primary may be silent before the sentinel replaces it. Until KillPrimary that is
// an hour: on a busy machine, a server that is well may be silent for a while.
func (w *Watched) suspectAfter(tb testing.TB, silence time.Duration) {
	tb.Helper()
	w.Sentinel.Query(tb, "SENTINEL", "SET", watchedName, "down-after-milliseconds", strconv.FormatInt(silence.Milliseconds(), 10))
}

// pause is the time in milliseconds for which a primary accepts no writes: longer than any event that a test awaits in
// this time.
var pause = strconv.FormatInt((2 * settledWithin).Milliseconds(), 10)

// HandOver lets the replica take the place of the primary, without a loss: the primary pauses writes until the replica
// has all of them.
func (w *Watched) HandOver(tb testing.TB) {
	tb.Helper()
	w.Primary.Query(tb, "CLIENT", "PAUSE", pause, "WRITE")
	w.InStep(tb)
	w.await(tb, w.Sentinel, "the replica does not take over", func() bool { return w.asked(w.Sentinel) })
}

// asked reports whether the replica has taken over, and requests a failover from a sentinel unless it is at work on
// one. On a busy machine a sentinel abandons a failover: it lost sight of the replica, or the replica was slow. It also
// does nothing for half a minute whenever it was itself delayed.
func (w *Watched) asked(sentinel *Server) bool {
	if w.tookOver(sentinel) {
		return true
	}
	if !sentinel.says("failover_in_progress", "SENTINEL", "MASTER", watchedName) {
		_, _ = sentinel.send("SENTINEL", "FAILOVER", watchedName) // it answers an error while it sees no replica
	}
	return false
}

// tookOver reports whether the replica is the primary, for itself and for a sentinel. A sentinel that has abandoned its
// failover makes it a replica again.
func (w *Watched) tookOver(sentinel *Server) bool {
	return w.Replica.says("role:master", "INFO", "replication") && w.directsTo(sentinel, w.Replica)
}

// directsTo reports whether a sentinel names a server as the primary.
func (w *Watched) directsTo(sentinel, server *Server) bool {
	_, number, err := net.SplitHostPort(w.addr(server))
	return err == nil && sentinel.says(number, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", watchedName)
}

// await is the function await that adds to a failure how a sentinel and the two servers see each other.
func (w *Watched) await(tb testing.TB, sentinel *Server, fault string, condition func() bool) {
	tb.Helper()
	if within(settledWithin, condition) {
		return
	}
	var state strings.Builder
	for _, ask := range []struct {
		of    string
		from  *Server
		words []string
	}{
		{"sentinel", sentinel, []string{"INFO", "sentinel"}},
		{"sentinel", sentinel, []string{"SENTINEL", "MASTER", watchedName}},
		{"sentinel", sentinel, []string{"SENTINEL", "REPLICAS", watchedName}},
		{"primary", w.Primary, []string{"INFO", "replication"}},
		{"replica", w.Replica, []string{"INFO", "replication"}},
	} {
		text, err := ask.from.send(ask.words...)
		if err != nil {
			text = err.Error()
		}
		fmt.Fprintf(&state, "\n%s of the %s:\n%s", strings.Join(ask.words, " "), ask.of, text)
	}
	tb.Fatalf("testserver: %s%s", fault, state.String())
}

// KillPrimary kills the primary and lets the sentinel notice.
func (w *Watched) KillPrimary(tb testing.TB) {
	tb.Helper()
	w.Primary.Kill()
	w.suspectAfter(tb, 500*time.Millisecond)
}

// Promoted waits until the replica has taken over from a primary that was killed.
func (w *Watched) Promoted(tb testing.TB) {
	tb.Helper()
	w.await(tb, w.Sentinel, "the replica does not take over", func() bool { return w.tookOver(w.Sentinel) })
}

// KillInStep kills the primary at a moment at which the replica has all that it has answered, and waits until the
// replica has taken over.
func (w *Watched) KillInStep(tb testing.TB) {
	tb.Helper()
	w.Primary.Query(tb, "CLIENT", "PAUSE", pause, "WRITE")
	w.InStep(tb)
	w.KillPrimary(tb)
	w.Promoted(tb)
}

// Return makes the former primary the replica of the one that took over, after HandOver or KillInStep, and returns once
// it is in step: the two have changed places. It does not wait for the sentinel, which would take ten seconds: in that
// time a restarted primary would accept writes of clients that do not know the new primary yet.
func (w *Watched) Return(tb testing.TB) {
	tb.Helper()
	w.suspectAfter(tb, time.Hour)
	host, number := split(tb, w.addr(w.Replica))
	if w.Primary.Alive() {
		w.Primary.Query(tb, "REPLICAOF", host, number)
	} else {
		w.Primary.opts.Args = []string{"repl-diskless-sync-delay 0", "replicaof " + host + " " + number}
		if addr := w.announced[w.Primary]; addr != "" {
			host, number := split(tb, addr)
			w.Primary.opts.Args = append(w.Primary.opts.Args, "replica-announce-ip "+host, "replica-announce-port "+number)
		}
		w.Primary.Restart()
	}
	awaitLink(tb, w.Primary)
	w.Primary.Query(tb, "CLIENT", "UNPAUSE")
	w.Primary, w.Replica = w.Replica, w.Primary
	w.await(tb, w.Sentinel, "the sentinel does not know the new primary", func() bool {
		return w.directsTo(w.Sentinel, w.Primary) && w.Sentinel.says("slaves=1", "INFO", "sentinel")
	})
}
