// Package pubsub has the subscriptions of connections to channels, patterns and shard channels, and delivers messages
// to them.
package pubsub

import (
	"maps"
	"slices"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/glob"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/resp"
)

// Kind is one of the three kinds of subscriptions.
type Kind uint8

// The kinds of subscriptions.
const (
	Channel  Kind = iota
	Pattern       // all channels whose names match
	Shard         // a shard channel, which is another one than the channel of the same name
	NumKinds = iota
)

// Subscriber receives messages.
type Subscriber interface {
	// Push queues a message that may be sent once the log is durable up to pos. It returns false if the subscriber gets
	// no more messages: its subscriptions are dropped.
	Push(message *resp.Reply, pos int64) bool
}

// Message is a message on its way.
type Message struct {
	Channel, Text string
	Shard         bool
}

// Broker maps names to their subscribers. Only one goroutine may use it at a time.
type Broker struct {
	subscribers [NumKinds]map[string][]Subscriber
}

// NewBroker returns a Broker without subscribers.
func NewBroker() *Broker {
	b := &Broker{}
	for kind := range b.subscribers {
		b.subscribers[kind] = map[string][]Subscriber{}
	}
	return b
}

// Add subscribes s to a name. It must not be subscribed yet.
func (b *Broker) Add(kind Kind, name string, s Subscriber) {
	b.subscribers[kind][name] = append(b.subscribers[kind][name], s)
}

// Remove ends a subscription, if there is one.
func (b *Broker) Remove(kind Kind, name string, s Subscriber) {
	all := b.subscribers[kind]
	i := slices.Index(all[name], s)
	if i < 0 {
		return
	}
	if all[name] = slices.Delete(all[name], i, i+1); len(all[name]) == 0 {
		delete(all, name)
	}
}

// Drop ends all subscriptions of s.
func (b *Broker) Drop(s Subscriber) {
	for kind, all := range b.subscribers {
		for name := range all {
			b.Remove(Kind(kind), name, s)
		}
	}
}

// Names returns the names that have subscribers, in order.
func (b *Broker) Names(kind Kind) []string { return slices.Sorted(maps.Keys(b.subscribers[kind])) }

// Subscribers returns the number of subscribers of a name.
func (b *Broker) Subscribers(kind Kind, name string) int { return len(b.subscribers[kind][name]) }

// Receivers counts the subscriptions that m reaches.
func (b *Broker) Receivers(m Message) int {
	if m.Shard {
		return len(b.subscribers[Shard][m.Channel])
	}
	n := len(b.subscribers[Channel][m.Channel])
	for pattern, list := range b.subscribers[Pattern] {
		if glob.Match(pattern, m.Channel) {
			n += len(list)
		}
	}
	return n
}

// Deliver queues a message that may be sent once the log is durable up to pos. It never waits for a subscriber: one
// with too many messages that it has not read is dropped.
func (b *Broker) Deliver(m Message, pos int64) {
	var slow []Subscriber
	send := func(list []Subscriber, words ...string) {
		if len(list) == 0 {
			return
		}
		r := resp.Reply{Kind: resp.KindPush, Elems: resp.Bulks(words)}
		for _, s := range list {
			if !s.Push(&r, pos) {
				slow = append(slow, s)
			}
		}
	}
	if m.Shard {
		send(b.subscribers[Shard][m.Channel], "smessage", m.Channel, m.Text)
	} else {
		send(b.subscribers[Channel][m.Channel], "message", m.Channel, m.Text)
		for pattern, list := range b.subscribers[Pattern] {
			if glob.Match(pattern, m.Channel) {
				send(list, "pmessage", pattern, m.Channel, m.Text)
			}
		}
	}
	for _, s := range slow {
		b.Drop(s)
	}
}
