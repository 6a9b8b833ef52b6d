package pubsub

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/resp"
)

// inbox keeps the texts of messages until it is full.
type inbox struct {
	room  int
	texts []string
}

func (s *inbox) Push(m *resp.Reply, _ int64) bool {
	if len(s.texts) == s.room {
		return false
	}
	s.texts = append(s.texts, m.Elems[len(m.Elems)-1].Str)
	return true
}

// TestDeliver sends messages to channels, patterns and shard channels of the same name.
func TestDeliver(t *testing.T) {
	b := NewBroker()
	channel, pattern, shard := &inbox{room: 9}, &inbox{room: 9}, &inbox{room: 9}
	b.Add(Channel, "ch", channel)
	b.Add(Pattern, "c*", pattern)
	b.Add(Shard, "ch", shard)
	require.Equal(t, 2, b.Receivers(Message{Channel: "ch"}))
	b.Deliver(Message{Channel: "ch", Text: "one"}, 0)
	b.Deliver(Message{Channel: "cx", Text: "two"}, 0)
	b.Deliver(Message{Channel: "ch", Text: "three", Shard: true}, 0)
	require.Equal(t, []string{"one"}, channel.texts)
	require.Equal(t, []string{"one", "two"}, pattern.texts)
	require.Equal(t, []string{"three"}, shard.texts)
	b.Remove(Channel, "ch", channel)
	b.Remove(Channel, "ch", channel)
	require.Empty(t, b.Names(Channel))
	require.Equal(t, []string{"ch"}, b.Names(Shard))
}

// TestDropSlow drops a subscriber that takes no more messages, with all of its subscriptions.
func TestDropSlow(t *testing.T) {
	b := NewBroker()
	slow := &inbox{room: 1}
	b.Add(Channel, "ch", slow)
	b.Add(Pattern, "*", slow)
	b.Deliver(Message{Channel: "ch"}, 0)
	require.Empty(t, b.Names(Channel))
	require.Empty(t, b.Names(Pattern))
	require.Zero(t, b.Subscribers(Channel, "ch"))
}
