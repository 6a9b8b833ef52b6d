package keyspace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestExpiry sets deadlines and moves the clock: a key exists through the millisecond of its deadline, and the removals
// of all others are noted.
func TestExpiry(t *testing.T) {
	var s Store
	s.SetClock(time.UnixMilli(1000))
	s.SetExpiry("k", s.Put("k", "v"), 1100)
	h := s.Put("h", "v")
	for range 2000 { // renewals do not pile up
		s.SetExpiry("h", h, 1300)
		s.SetExpiry("h", h, 1301)
	}
	require.Less(t, len(s.expires), 2048)
	s.SetClock(time.UnixMilli(1100))
	require.NotNil(t, s.Lookup("k"))
	s.SetClock(time.UnixMilli(1101))
	require.Nil(t, s.Lookup("k"))
	require.Equal(t, []string{"k"}, s.Expired)
	s.SetExpiry("h", h, 0)
	s.SetClock(time.UnixMilli(5000))
	require.NotNil(t, s.Lookup("h"), "it no longer has a deadline")
}

// TestReplay sees that no key expires while the commands of a log run.
func TestReplay(t *testing.T) {
	var s Store
	s.BeginReplay()
	s.SetExpiry("k", s.Put("k", "v"), 1)
	s.SetClock(time.UnixMilli(1000))
	require.NotNil(t, s.Lookup("k"))
	s.EndReplay()
	require.Zero(t, s.Dirty)
	s.SetClock(time.UnixMilli(1001))
	require.Nil(t, s.Lookup("k"))
}
