package testserver

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// A newly formed cluster forwards messages that are published on any of its servers to all of them, from the first
// message on.
func TestClusterPassesMessagesOn(t *testing.T) {
	t.Parallel()
	for _, kind := range Servers(t) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			c := StartCluster(t, kind, 3)
			var ears []*bufio.Reader
			for _, s := range c.Nodes {
				ears = append(ears, subscribe(t, s, "all"))
			}
			for i, s := range c.Nodes {
				s.Command(t, "PUBLISH", "all", fmt.Sprintf("from %d", i))
			}
			for i, ear := range ears {
				missing := map[string]bool{"from 0": true, "from 1": true, "from 2": true}
				for len(missing) > 0 {
					line, err := ear.ReadString('\n')
					if err != nil {
						t.Fatalf("server %d does not get %v: %v", i, missing, err)
					}
					delete(missing, strings.TrimSpace(line))
				}
			}
		})
	}
}

// subscribe subscribes to a channel at a server, and returns the messages after the confirmation.
func subscribe(t *testing.T, s *Server, channel string) *bufio.Reader {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "SUBSCRIBE %s\r\n", channel)
	r := bufio.NewReader(conn)
	for line := ""; line != ":1\r\n"; {
		if line, err = r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// A server that changes its role closes the connections of its clients. Read-only queries are repeated.
func TestQueryOutlivesClosedConnections(t *testing.T) {
	SideBySide(t, Servers(t), func(t *testing.T, kind Kind) {
		server := Start(t, Options{Kind: kind})
		done := make(chan struct{})
		var killing sync.WaitGroup
		killing.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					_, _ = server.send("CLIENT", "KILL", "TYPE", "normal") // another one may end this one
				}
			}
		})
		for range 20 {
			if !strings.Contains(server.Query(t, "INFO", "server"), "process_id:") {
				t.Error("the answer is not whole")
			}
		}
		close(done)
		killing.Wait()
	})
}
