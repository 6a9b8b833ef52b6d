package embedded

import (
	"slices"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/command"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/glob"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/pubsub"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/resp"
)

func pubsubCommands() []engineCommand {
	sub := func(kind pubsub.Kind) func(c *call) resp.Reply {
		return func(c *call) resp.Reply { return c.subscribe(kind) }
	}
	unsub := func(kind pubsub.Kind) func(c *call) resp.Reply {
		return func(c *call) resp.Reply { return c.unsubscribe(kind) }
	}
	const flags = command.NoScript | command.Session | command.PubSub | command.AnyTime
	return []engineCommand{
		{"subscribe", -2, flags, sub(pubsub.Channel)},
		{"psubscribe", -2, flags, sub(pubsub.Pattern)},
		{"ssubscribe", -2, flags, sub(pubsub.Shard)},
		{"unsubscribe", -1, flags, unsub(pubsub.Channel)},
		{"punsubscribe", -1, flags, unsub(pubsub.Pattern)},
		{"sunsubscribe", -1, flags, unsub(pubsub.Shard)},
		{"publish", 3, 0, func(c *call) resp.Reply { return c.publish(false) }},
		{"spublish", 3, 0, func(c *call) resp.Reply { return c.publish(true) }},
		{"pubsub", -2, command.AnyTime, cmdPubSub},
	}
}

// verbPrefix is how the commands of a kind begin.
func verbPrefix(kind pubsub.Kind) string { return [pubsub.NumKinds]string{"", "p", "s"}[kind] }

func (c *call) publish(shard bool) resp.Reply {
	p := pubsub.Message{Channel: c.Args[1], Text: c.Args[2], Shard: shard}
	n := c.e.broker.Receivers(p)
	if n > 0 {
		c.e.published = append(c.e.published, p)
	}
	return resp.Int(n)
}

// subCount is the figure in every acknowledgement: shard channels are counted on their own.
func (s *session) subCount(kind pubsub.Kind) int {
	if kind == pubsub.Shard {
		return len(s.subs[pubsub.Shard])
	}
	return len(s.subs[pubsub.Channel]) + len(s.subs[pubsub.Pattern])
}

func (c *call) acknowledge(verb string, channel resp.Reply, n int) {
	c.sess.emit(&resp.Reply{Kind: resp.KindPush, Elems: []resp.Reply{resp.Bulk(verb), channel, resp.Int(n)}},
		c.e.position())
}

func (c *call) subscribe(kind pubsub.Kind) resp.Reply {
	s := c.sess
	verb := verbPrefix(kind) + "subscribe"
	for _, name := range c.Args[1:] {
		if !slices.Contains(s.subs[kind], name) {
			s.subs[kind] = append(s.subs[kind], name)
			if !s.replies.Dead() {
				c.e.broker.Add(kind, name, s)
			}
		}
		c.acknowledge(verb, resp.Bulk(name), s.subCount(kind))
	}
	return resp.Reply{Kind: kindNone}
}

func (c *call) unsubscribe(kind pubsub.Kind) resp.Reply {
	s := c.sess
	verb := verbPrefix(kind) + "unsubscribe"
	names := c.Args[1:]
	if len(names) == 0 {
		names = slices.Clone(s.subs[kind])
		if len(names) == 0 {
			c.acknowledge(verb, resp.Nil, s.subCount(kind))
		}
	}
	for _, name := range names {
		if i := slices.Index(s.subs[kind], name); i >= 0 {
			s.subs[kind] = slices.Delete(s.subs[kind], i, i+1)
			c.e.broker.Remove(kind, name, s)
		}
		c.acknowledge(verb, resp.Bulk(name), s.subCount(kind))
	}
	return resp.Reply{Kind: kindNone}
}

// cmdPubSub answers PUBSUB CHANNELS, NUMSUB and NUMPAT.
func cmdPubSub(c *call) resp.Reply {
	b := c.e.broker
	switch {
	case command.Is(c.Args[1], "CHANNELS") || command.Is(c.Args[1], "SHARDCHANNELS"):
		kind := pubsub.Channel
		if command.Is(c.Args[1], "SHARDCHANNELS") {
			kind = pubsub.Shard
		}
		var names []string
		for _, name := range b.Names(kind) {
			if len(c.Args) < 3 || glob.Match(c.Args[2], name) {
				names = append(names, name)
			}
		}
		return resp.Array(resp.Bulks(names))
	case command.Is(c.Args[1], "NUMSUB"):
		var out []resp.Reply
		for _, name := range c.Args[2:] {
			out = append(out, resp.Bulk(name), resp.Int(b.Subscribers(pubsub.Channel, name)))
		}
		return resp.Array(out)
	case command.Is(c.Args[1], "NUMPAT"):
		return resp.Int(len(b.Names(pubsub.Pattern)))
	}
	return resp.Err("unknown subcommand '" + c.Args[1] + "'. Try PUBSUB HELP.")
}
