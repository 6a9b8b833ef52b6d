package command

import (
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/datatype"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/glob"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/numfmt"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/resp"
)

func setCommands() []Command {
	return []Command{
		{"sadd", -3, Write, cmdSAdd},
		{"srem", -3, Write, cmdSRem},
		{"sismember", 3, 0, cmdSIsMember},
		{"smismember", -3, 0, cmdSMIsMember},
		{"smembers", 2, 0, cmdSMembers},
		{"scard", 2, 0, cmdSCard},
		{"spop", -2, Write, cmdSPop},
		{"srandmember", -2, 0, cmdSRandMember},
		{"sscan", -3, 0, cmdSScan},
		{"smove", 4, Write, cmdSMove},
		{"sinter", -2, 0, cmdSetOp("inter")},
		{"sunion", -2, 0, cmdSetOp("union")},
		{"sdiff", -2, 0, cmdSetOp("diff")},
		{"sinterstore", -3, Write, cmdSetOpStore("inter")},
		{"sunionstore", -3, Write, cmdSetOpStore("union")},
		{"sdiffstore", -3, Write, cmdSetOpStore("diff")},
	}
}

func (c *Call) set() (*datatype.Set, bool) { return keyspace.Get[datatype.Set](c.Store, c.Args[1]) }

func cmdSAdd(c *Call) resp.Reply {
	s, ok := keyspace.GetOrNew[datatype.Set](c.Store, c.Args[1])
	if !ok {
		return wrongTypeReply()
	}
	n := 0
	for _, m := range c.Args[2:] {
		if s.Set(m, struct{}{}) {
			n++
		}
	}
	c.Dirty += int64(n)
	return resp.Int(n)
}

func cmdSRem(c *Call) resp.Reply {
	s, ok := c.set()
	if !ok {
		return wrongTypeReply()
	}
	if s == nil {
		return resp.Zero
	}
	n := 0
	for _, m := range c.Args[2:] {
		if s.Del(m) {
			n++
		}
	}
	if n > 0 {
		c.Dirty++
		if s.Len() == 0 {
			c.Remove(c.Args[1])
		}
	}
	return resp.Int(n)
}

func cmdSIsMember(c *Call) resp.Reply {
	s, ok := c.set()
	if !ok {
		return wrongTypeReply()
	}
	return resp.BoolInt(s != nil && s.Has(c.Args[2]))
}

func cmdSMIsMember(c *Call) resp.Reply {
	s, ok := c.set()
	if !ok {
		return wrongTypeReply()
	}
	out := make([]resp.Reply, len(c.Args)-2)
	for i, m := range c.Args[2:] {
		out[i] = resp.BoolInt(s != nil && s.Has(m))
	}
	return resp.Array(out)
}

func cmdSMembers(c *Call) resp.Reply {
	s, ok := c.set()
	if !ok {
		return wrongTypeReply()
	}
	if s == nil {
		return resp.Reply{Kind: resp.KindSet}
	}
	return resp.Reply{Kind: resp.KindSet, Elems: resp.Bulks(s.Keys())}
}

func cmdSCard(c *Call) resp.Reply {
	s, ok := c.set()
	if !ok {
		return wrongTypeReply()
	}
	if s == nil {
		return resp.Zero
	}
	return resp.Int(s.Len())
}

func cmdSPop(c *Call) resp.Reply {
	if len(c.Args) > 3 {
		return resp.Err(TextSyntax)
	}
	count := int64(-1)
	if len(c.Args) == 3 {
		var ok bool
		if count, ok = numfmt.ParseInt(c.Args[2]); !ok || count < 0 {
			return resp.Err("value is out of range, must be positive")
		}
	}
	s, ok := c.set()
	if !ok {
		return wrongTypeReply()
	}
	if s == nil || count == 0 {
		if count < 0 {
			return resp.Nil
		}
		return resp.Reply{Kind: resp.KindSet}
	}
	words := []string{"SREM", c.Args[1]}
	n := min(max(count, 1), int64(s.Len()))
	for i := int64(0); i < n; i++ {
		m := s.RandomKey(c.Random)
		s.Del(m)
		words = append(words, m)
	}
	c.Dirty++
	c.Rewrite(words...)
	if s.Len() == 0 {
		c.Remove(c.Args[1])
	}
	if count < 0 {
		return resp.Bulk(words[2])
	}
	return resp.Reply{Kind: resp.KindSet, Elems: resp.Bulks(words[2:])}
}

func cmdSRandMember(c *Call) resp.Reply {
	if len(c.Args) > 3 {
		return resp.Err(TextSyntax)
	}
	s, ok := c.set()
	if !ok {
		return wrongTypeReply()
	}
	if len(c.Args) == 2 {
		if s == nil {
			return resp.Nil
		}
		return resp.Bulk(s.RandomKey(c.Random))
	}
	count, ok := numfmt.ParseInt(c.Args[2])
	if !ok {
		return resp.Err(TextNotInt)
	}
	if s == nil || count == 0 {
		return resp.Array(nil)
	}
	if count < 0 {
		if count < -1<<24 {
			return resp.Err("value is out of range")
		}
		out := make([]resp.Reply, -count)
		for i := range out {
			out[i] = resp.Bulk(s.RandomKey(c.Random))
		}
		return resp.Array(out)
	}
	members := s.Keys()
	n := int(min(count, int64(len(members))))
	for i := 0; i < n && n < len(members); i++ {
		j := i + c.Random(len(members)-i)
		members[i], members[j] = members[j], members[i]
	}
	return resp.Array(resp.Bulks(members[:n]))
}

func cmdSScan(c *Call) resp.Reply {
	cursor, count, match, _, bad, ok := scanArgs(c.Args[2:], false)
	if !ok {
		return bad
	}
	s, ok := c.set()
	if !ok {
		return wrongTypeReply()
	}
	if s == nil {
		return scanReply(0, nil)
	}
	var out []resp.Reply
	next := s.Scan(cursor, count, func(m string, _ struct{}) {
		if match == "" || glob.Match(match, m) {
			out = append(out, resp.Bulk(m))
		}
	})
	return scanReply(next, out)
}

func cmdSMove(c *Call) resp.Reply {
	src, ok := c.set()
	dst, ok2 := keyspace.Get[datatype.Set](c.Store, c.Args[2])
	if src == nil && ok {
		return resp.Zero
	}
	if !ok || !ok2 {
		return wrongTypeReply()
	}
	if c.Args[1] == c.Args[2] {
		return resp.BoolInt(src.Has(c.Args[3]))
	}
	if !src.Del(c.Args[3]) {
		return resp.Zero
	}
	if src.Len() == 0 {
		c.Remove(c.Args[1])
	}
	if dst == nil {
		dst, _ = keyspace.GetOrNew[datatype.Set](c.Store, c.Args[2])
	}
	dst.Set(c.Args[3], struct{}{})
	c.Dirty++
	return resp.One
}

// combine computes a set operation in the order of the first set's members.
func (c *Call) combine(op string, keys []string) (*datatype.Set, bool) {
	sets := make([]*datatype.Set, len(keys))
	for i, key := range keys {
		s, ok := keyspace.Get[datatype.Set](c.Store, key)
		if !ok {
			return nil, false
		}
		if s == nil {
			s = &datatype.Set{}
		}
		sets[i] = s
	}
	out := &datatype.Set{}
	if op == "union" {
		for _, s := range sets {
			s.Each(func(m string, _ struct{}) bool {
				out.Set(m, struct{}{})
				return true
			})
		}
		return out, true
	}
	sets[0].Each(func(m string, _ struct{}) bool {
		for _, s := range sets[1:] {
			if s.Has(m) == (op == "diff") {
				return true
			}
		}
		out.Set(m, struct{}{})
		return true
	})
	return out, true
}

func cmdSetOp(op string) func(c *Call) resp.Reply {
	return func(c *Call) resp.Reply {
		out, ok := c.combine(op, c.Args[1:])
		if !ok {
			return wrongTypeReply()
		}
		return resp.Reply{Kind: resp.KindSet, Elems: resp.Bulks(out.Keys())}
	}
}

func cmdSetOpStore(op string) func(c *Call) resp.Reply {
	return func(c *Call) resp.Reply {
		out, ok := c.combine(op, c.Args[2:])
		if !ok {
			return wrongTypeReply()
		}
		if out.Len() == 0 {
			c.Remove(c.Args[1])
			return resp.Zero
		}
		c.Put(c.Args[1], out)
		return resp.Int(out.Len())
	}
}
