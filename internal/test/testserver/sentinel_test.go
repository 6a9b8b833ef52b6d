package testserver

import (
	"strings"
	"testing"
)

// After a hand-over, the sentinel directs clients to the server that took over, each time that the two change places.
func TestHandOverIsKnownToTheSentinel(t *testing.T) {
	t.Parallel()
	SideBySide(t, Servers(t), func(t *testing.T, kind Kind) {
		w := StartSentinel(t, kind)
		for range 2 {
			replica := w.Replica
			w.HandOver(t)
			if !replica.says("role:master", "INFO", "replication") {
				t.Error("the replica has not taken over")
			}
			_, number := split(t, replica.Addr())
			if named := w.Sentinel.Command(t, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", watchedName); !strings.Contains(named, number) {
				t.Errorf("the sentinel names %q, the server that took over has the port %s", named, number)
			}
			w.Return(t)
		}
	})
}
