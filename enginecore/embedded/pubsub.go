package embedded

import (
	"slices"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/command"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/glob"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/resp"
)

// subscriptions maps channels to their subscribers. The gate guards it.
type subscriptions struct {
	channels map[string][]*session
	patterns map[string][]*session
	shards   map[string][]*session
}

func newSubscriptions() subscriptions {
	return subscriptions{map[string][]*session{}, map[string][]*session{}, map[string][]*session{}}
}

// publication is a message on its way.
type publication struct {
	channel, message string
	shard            bool
}

// receivers counts the subscriptions that p reaches.
func (b *subscriptions) receivers(p publication) int {
	if p.shard {
		return len(b.shards[p.channel])
	}
	n := len(b.channels[p.channel])
	for pattern, list := range b.patterns {
		if glob.Match(pattern, p.channel) {
			n += len(list)
		}
	}
	return n
}

// deliver queues a message that may be sent once the log is durable up to pos. It disconnects subscribers that lag too
// far behind instead of waiting for them.
func (b *subscriptions) deliver(p publication, pos int64) {
	var slow []*session
	send := func(list []*session, words ...string) {
		if len(list) == 0 {
			return
		}
		r := resp.Reply{Kind: resp.KindPush, Elems: resp.Bulks(words)}
		for _, s := range list {
			if !s.push(&r, pos) {
				slow = append(slow, s)
			}
		}
	}
	if p.shard {
		send(b.shards[p.channel], "smessage", p.channel, p.message)
	} else {
		send(b.channels[p.channel], "message", p.channel, p.message)
		for pattern, list := range b.patterns {
			if glob.Match(pattern, p.channel) {
				send(list, "pmessage", pattern, p.channel, p.message)
			}
		}
	}
	for _, s := range slow {
		b.drop(s)
	}
}

// drop removes all subscriptions of a session that is dead or resets. It leaves the session's own lists alone, which
// belong to its feeder.
func (b *subscriptions) drop(s *session) {
	for _, m := range []map[string][]*session{b.channels, b.patterns, b.shards} {
		for name, list := range m {
			if i := slices.Index(list, s); i >= 0 {
				leave(m, name, i)
			}
		}
	}
}

func leave(m map[string][]*session, name string, i int) {
	if m[name] = slices.Delete(m[name], i, i+1); len(m[name]) == 0 {
		delete(m, name)
	}
}

// kindOfSub is one of the three families of subscriptions.
type kindOfSub struct {
	verb string
	all  func(b *subscriptions) map[string][]*session
	own  func(s *session) *[]string
}

func kindsOfSub() map[string]kindOfSub {
	return map[string]kindOfSub{
		"": {"subscribe", func(b *subscriptions) map[string][]*session { return b.channels },
			func(s *session) *[]string { return &s.channels }},
		"p": {"psubscribe", func(b *subscriptions) map[string][]*session { return b.patterns },
			func(s *session) *[]string { return &s.patterns }},
		"s": {"ssubscribe", func(b *subscriptions) map[string][]*session { return b.shards },
			func(s *session) *[]string { return &s.shards }},
	}
}

func pubsubCommands() []engineCommand {
	k := kindsOfSub()
	sub := func(kind kindOfSub) func(c *call) resp.Reply {
		return func(c *call) resp.Reply { return c.subscribe(kind) }
	}
	unsub := func(kind kindOfSub) func(c *call) resp.Reply {
		return func(c *call) resp.Reply { return c.unsubscribe(kind) }
	}
	const flags = command.NoScript | command.Session | command.PubSub | command.AnyTime
	return []engineCommand{
		{"subscribe", -2, flags, sub(k[""])},
		{"psubscribe", -2, flags, sub(k["p"])},
		{"ssubscribe", -2, flags, sub(k["s"])},
		{"unsubscribe", -1, flags, unsub(k[""])},
		{"punsubscribe", -1, flags, unsub(k["p"])},
		{"sunsubscribe", -1, flags, unsub(k["s"])},
		{"publish", 3, 0, func(c *call) resp.Reply { return c.publish(false) }},
		{"spublish", 3, 0, func(c *call) resp.Reply { return c.publish(true) }},
		{"pubsub", -2, command.AnyTime, cmdPubSubInfo},
	}
}

func (c *call) publish(shard bool) resp.Reply {
	p := publication{c.Args[1], c.Args[2], shard}
	n := c.e.subs.receivers(p)
	if n > 0 {
		c.e.published = append(c.e.published, p)
	}
	return resp.Int(n)
}

// subCount is the figure in every acknowledgement: shard channels are counted on their own.
func (s *session) subCount(kind kindOfSub) int {
	if kind.verb == "ssubscribe" {
		return len(s.shards)
	}
	return len(s.channels) + len(s.patterns)
}

func (c *call) acknowledge(verb string, channel resp.Reply, n int) {
	c.sess.emit(&resp.Reply{Kind: resp.KindPush, Elems: []resp.Reply{resp.Bulk(verb), channel, resp.Int(n)}}, c.e.position())
}

func (c *call) subscribe(kind kindOfSub) resp.Reply {
	s := c.sess
	own, all := kind.own(s), kind.all(&c.e.subs)
	for _, name := range c.Args[1:] {
		if !slices.Contains(*own, name) {
			*own = append(*own, name)
			if !s.isDead() {
				all[name] = append(all[name], s)
			}
		}
		c.acknowledge(kind.verb, resp.Bulk(name), s.subCount(kind))
	}
	return resp.Reply{Kind: kindNone}
}

func (c *call) unsubscribe(kind kindOfSub) resp.Reply {
	s := c.sess
	own, all := kind.own(s), kind.all(&c.e.subs)
	verb := kind.verb[:len(kind.verb)-len("subscribe")] + "unsubscribe"
	names := c.Args[1:]
	if len(names) == 0 {
		names = slices.Clone(*own)
		if len(names) == 0 {
			c.acknowledge(verb, resp.Nil, s.subCount(kind))
		}
	}
	for _, name := range names {
		if i := slices.Index(*own, name); i >= 0 {
			*own = slices.Delete(*own, i, i+1)
			if j := slices.Index(all[name], s); j >= 0 {
				leave(all, name, j)
			}
		}
		c.acknowledge(verb, resp.Bulk(name), s.subCount(kind))
	}
	return resp.Reply{Kind: kindNone}
}

// cmdPubSubInfo answers PUBSUB CHANNELS, NUMSUB and NUMPAT.
func cmdPubSubInfo(c *call) resp.Reply {
	b := &c.e.subs
	switch {
	case command.Is(c.Args[1], "CHANNELS") || command.Is(c.Args[1], "SHARDCHANNELS"):
		all := b.channels
		if command.Is(c.Args[1], "SHARDCHANNELS") {
			all = b.shards
		}
		var names []string
		for name := range all {
			if len(c.Args) < 3 || glob.Match(c.Args[2], name) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return resp.Array(resp.Bulks(names))
	case command.Is(c.Args[1], "NUMSUB"):
		var out []resp.Reply
		for _, name := range c.Args[2:] {
			out = append(out, resp.Bulk(name), resp.Int(len(b.channels[name])))
		}
		return resp.Array(out)
	case command.Is(c.Args[1], "NUMPAT"):
		return resp.Int(len(b.patterns))
	}
	return resp.Err("unknown subcommand '" + c.Args[1] + "'. Try PUBSUB HELP.")
}
