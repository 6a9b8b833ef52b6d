package command

import (
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/datatype"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/numfmt"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/resp"
)

func listCommands() []Command {
	push := func(front, onlyIfPresent bool) func(c *Call) resp.Reply {
		return func(c *Call) resp.Reply { return c.push(front, onlyIfPresent) }
	}
	pop := func(front bool) func(c *Call) resp.Reply {
		return func(c *Call) resp.Reply { return c.pop(front) }
	}
	return []Command{
		{"lpush", -3, Write, push(true, false)},
		{"rpush", -3, Write, push(false, false)},
		{"lpushx", -3, Write, push(true, true)},
		{"rpushx", -3, Write, push(false, true)},
		{"lpop", -2, Write, pop(true)},
		{"rpop", -2, Write, pop(false)},
		{"llen", 2, 0, cmdLLen},
		{"lrange", 4, 0, cmdLRange},
		{"lrem", 4, Write, cmdLRem},
		{"lindex", 3, 0, cmdLIndex},
		{"lpos", 3, 0, cmdLPos},
		{"linsert", 5, Write, cmdLInsert},
		{"lset", 4, Write, cmdLSet},
		{"ltrim", 4, Write, cmdLTrim},
		{"lmove", 5, Write, cmdLMove},
	}
}

func (c *Call) list() (*datatype.List, bool) { return keyspace.Get[datatype.List](c.Store, c.Args[1]) }

func (c *Call) push(front, onlyIfPresent bool) resp.Reply {
	l, ok := c.list()
	if !ok {
		return wrongTypeReply()
	}
	if l == nil {
		if onlyIfPresent {
			return resp.Zero
		}
		l, _ = keyspace.GetOrNew[datatype.List](c.Store, c.Args[1])
	}
	for _, v := range c.Args[2:] {
		if front {
			l.PushFront(v)
		} else {
			l.PushBack(v)
		}
	}
	c.Dirty++
	return resp.Int(l.Len())
}

func (c *Call) pop(front bool) resp.Reply {
	if len(c.Args) > 3 {
		return resp.Err("wrong number of arguments for '" + strings.ToLower(c.Args[0]) + "' command")
	}
	count := int64(-1)
	if len(c.Args) == 3 {
		var ok bool
		if count, ok = numfmt.ParseInt(c.Args[2]); !ok || count < 0 {
			return resp.Err("value is out of range, must be positive")
		}
	}
	l, ok := c.list()
	if !ok {
		return wrongTypeReply()
	}
	if l == nil {
		if count >= 0 {
			return resp.Reply{Kind: resp.KindNilArray}
		}
		return resp.Nil
	}
	if count == 0 {
		return resp.Array(nil)
	}
	var out []resp.Reply
	for n := min(max(count, 1), int64(l.Len())); n > 0; n-- {
		if front {
			out = append(out, resp.Bulk(l.PopFront()))
		} else {
			out = append(out, resp.Bulk(l.PopBack()))
		}
	}
	c.Dirty++
	c.dropIfEmpty(c.Args[1], l)
	if count < 0 {
		return out[0]
	}
	return resp.Array(out)
}

func (c *Call) dropIfEmpty(key string, l *datatype.List) {
	if l.Len() == 0 {
		c.Remove(key)
	}
}

func cmdLLen(c *Call) resp.Reply {
	l, ok := c.list()
	if !ok {
		return wrongTypeReply()
	}
	if l == nil {
		return resp.Zero
	}
	return resp.Int(l.Len())
}

func cmdLRange(c *Call) resp.Reply {
	start, ok1 := numfmt.ParseInt(c.Args[2])
	stop, ok2 := numfmt.ParseInt(c.Args[3])
	if !ok1 || !ok2 {
		return resp.Err(TextNotInt)
	}
	l, ok := c.list()
	if !ok {
		return wrongTypeReply()
	}
	if l == nil {
		return resp.Array(nil)
	}
	lo, hi := rangeBounds(start, stop, l.Len())
	return resp.Array(resp.Bulks(l.Items()[lo:hi]))
}

func cmdLRem(c *Call) resp.Reply {
	count, ok := numfmt.ParseInt(c.Args[2])
	if !ok {
		return resp.Err(TextNotInt)
	}
	l, ok := c.list()
	if !ok {
		return wrongTypeReply()
	}
	if l == nil {
		return resp.Zero
	}
	items := l.Items()
	drop := make([]bool, len(items))
	removed := 0
	for i := range items {
		j := i
		if count < 0 {
			j = len(items) - 1 - i
		}
		if items[j] == c.Args[3] && (count == 0 || int64(removed) < max(count, -count)) {
			drop[j] = true
			removed++
		}
	}
	if removed == 0 {
		return resp.Zero
	}
	kept := make([]string, 0, len(items)-removed)
	for i, v := range items {
		if !drop[i] {
			kept = append(kept, v)
		}
	}
	l.Replace(kept)
	c.Dirty++
	c.dropIfEmpty(c.Args[1], l)
	return resp.Int(removed)
}

func cmdLIndex(c *Call) resp.Reply {
	i, ok := numfmt.ParseInt(c.Args[2])
	if !ok {
		return resp.Err(TextNotInt)
	}
	l, ok := c.list()
	if !ok {
		return wrongTypeReply()
	}
	if l == nil {
		return resp.Nil
	}
	if i < 0 {
		i += int64(l.Len())
	}
	if i < 0 || i >= int64(l.Len()) {
		return resp.Nil
	}
	return resp.Bulk(l.Items()[i])
}

func cmdLInsert(c *Call) resp.Reply {
	var behind int
	switch word := c.Args[2]; {
	case Is(word, "AFTER"):
		behind = 1
	case !Is(word, "BEFORE"):
		return resp.Err(TextSyntax)
	}
	l, ok := c.list()
	if !ok {
		return wrongTypeReply()
	}
	if l == nil {
		return resp.Zero
	}
	i := slices.Index(l.Items(), c.Args[3])
	if i < 0 {
		return resp.Int(-1)
	}
	l.Replace(slices.Insert(slices.Clone(l.Items()), i+behind, c.Args[4]))
	c.Dirty++
	return resp.Int(l.Len())
}

func cmdLSet(c *Call) resp.Reply {
	l, ok := c.list()
	if !ok {
		return wrongTypeReply()
	}
	if l == nil {
		return resp.Err("no such key")
	}
	i, ok := numfmt.ParseInt(c.Args[2])
	if !ok {
		return resp.Err(TextNotInt)
	}
	if i < 0 {
		i += int64(l.Len())
	}
	if i < 0 || i >= int64(l.Len()) {
		return resp.Err("index out of range")
	}
	l.Set(int(i), c.Args[3])
	c.Dirty++
	return resp.OK
}

// cmdLPos takes no options.
func cmdLPos(c *Call) resp.Reply {
	l, ok := c.list()
	if !ok {
		return wrongTypeReply()
	}
	if l != nil {
		if i := slices.Index(l.Items(), c.Args[2]); i >= 0 {
			return resp.Int(i)
		}
	}
	return resp.Nil
}

func cmdLTrim(c *Call) resp.Reply {
	start, ok1 := numfmt.ParseInt(c.Args[2])
	stop, ok2 := numfmt.ParseInt(c.Args[3])
	if !ok1 || !ok2 {
		return resp.Err(TextNotInt)
	}
	l, ok := c.list()
	if !ok {
		return wrongTypeReply()
	}
	if l == nil {
		return resp.OK
	}
	lo, hi := rangeBounds(start, stop, l.Len())
	l.Trim(lo, hi)
	c.Dirty++
	c.dropIfEmpty(c.Args[1], l)
	return resp.OK
}

func cmdLMove(c *Call) resp.Reply {
	var sides [2]bool
	for i, word := range c.Args[3:5] {
		switch {
		case Is(word, "LEFT"):
			sides[i] = true
		case !Is(word, "RIGHT"):
			return resp.Err(TextSyntax)
		}
	}
	src, ok := c.list()
	if !ok {
		return wrongTypeReply()
	}
	if src == nil {
		return resp.Nil
	}
	if _, ok := keyspace.Get[datatype.List](c.Store, c.Args[2]); !ok {
		return wrongTypeReply()
	}
	var v string
	if sides[0] {
		v = src.PopFront()
	} else {
		v = src.PopBack()
	}
	dst, _ := keyspace.GetOrNew[datatype.List](c.Store, c.Args[2])
	if sides[1] {
		dst.PushFront(v)
	} else {
		dst.PushBack(v)
	}
	c.Dirty++
	c.dropIfEmpty(c.Args[1], src)
	return resp.Bulk(v)
}
