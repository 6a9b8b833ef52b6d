package command

import (
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/numfmt"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/resp"
)

func stringCommands() []Command {
	return []Command{
		{"get", 2, 0, cmdGet},
		{"set", -3, Write, cmdSet},
		{"setnx", 3, Write, cmdSetNX},
		{"setex", 4, Write, func(c *Call) resp.Reply { return c.setEx(1000) }},
		{"psetex", 4, Write, func(c *Call) resp.Reply { return c.setEx(1) }},
		{"getset", 3, Write, cmdGetSet},
		{"mget", -2, 0, cmdMGet},
		{"mset", -3, Write, cmdMSet},
		{"incr", 2, Write, func(c *Call) resp.Reply { return c.incrBy(1) }},
		{"decr", 2, Write, func(c *Call) resp.Reply { return c.incrBy(-1) }},
		{"incrby", 3, Write, cmdIncrBy},
		{"decrby", 3, Write, cmdDecrBy},
		{"strlen", 2, 0, cmdStrlen},
		{"append", 3, Write, cmdAppend},
		{"getrange", 4, 0, cmdGetRange},
		{"setrange", 4, Write, cmdSetRange},
		{"getdel", 2, Write, cmdGetDel},
	}
}

func cmdGet(c *Call) resp.Reply {
	v, present, ok := c.GetString(c.Args[1])
	if !ok {
		return wrongTypeReply()
	}
	if !present {
		return resp.Nil
	}
	return resp.Bulk(v)
}

// setOptions are the words after SET key value.
type setOptions struct {
	nx, xx, keep, get bool
	expiry            string // the argument, empty = none
	unit              int64
	relative          bool
}

func (o *setOptions) parse(words []string) bool {
	for i := 0; i < len(words); i++ {
		unit, relative := int64(0), false
		switch strings.ToUpper(words[i]) {
		case "NX":
			o.nx = true
		case "XX":
			o.xx = true
		case "GET":
			o.get = true
		case "KEEPTTL":
			o.keep = true
		case "EX":
			unit, relative = 1000, true
		case "PX":
			unit, relative = 1, true
		case "EXAT":
			unit = 1000
		case "PXAT":
			unit = 1
		default:
			return false
		}
		if unit != 0 {
			if i++; i >= len(words) || o.unit != 0 {
				return false
			}
			o.expiry, o.unit, o.relative = words[i], unit, relative
		}
	}
	return !(o.nx && o.xx) && !(o.keep && o.unit != 0)
}

func cmdSet(c *Call) resp.Reply {
	var o setOptions
	if !o.parse(c.Args[3:]) {
		return resp.Err(TextSyntax)
	}
	var at int64
	if o.unit != 0 {
		var bad resp.Reply
		v, ok := numfmt.ParseInt(o.expiry)
		switch {
		case !ok:
			return resp.Err(TextNotInt)
		case v <= 0:
			return resp.Err("invalid expire time in 'set' command")
		}
		if at, bad, ok = c.deadline(o.expiry, o.unit, o.relative); !ok {
			return bad
		}
	}
	key, val := c.Args[1], c.Args[2]
	old := c.Lookup(key)
	reply := resp.OK
	if o.get {
		reply = resp.Nil
		if old != nil {
			text, _, ok := c.GetString(key)
			if !ok {
				return wrongTypeReply()
			}
			reply = resp.Bulk(text)
		}
	}
	if o.nx && old != nil || o.xx && old == nil {
		if !o.get {
			return resp.Nil
		}
		return reply
	}
	ent := c.Put(key, val)
	switch {
	case o.keep && old != nil && old.ExpireAt != 0:
		c.SetExpiry(key, ent, old.ExpireAt)
	case o.unit != 0:
		c.SetExpiry(key, ent, at)
		c.Rewrite("SET", key, val, "PXAT", itoa(at))
		c.dropIfPast(key, at)
	}
	return reply
}

// dropIfPast removes a key whose new deadline has passed, so that no later command of the same function sees it.
func (c *Call) dropIfPast(key string, at int64) {
	if !c.Replaying() && at < c.NowMs {
		c.Remove(key)
		c.Rewrite("DEL", key)
	}
}

func cmdSetNX(c *Call) resp.Reply {
	if c.Lookup(c.Args[1]) != nil {
		return resp.Zero
	}
	c.Put(c.Args[1], c.Args[2])
	return resp.One
}

func (c *Call) setEx(unit int64) resp.Reply {
	v, ok := numfmt.ParseInt(c.Args[2])
	if !ok {
		return resp.Err(TextNotInt)
	}
	if v <= 0 {
		return resp.Err("invalid expire time in '" + strings.ToLower(c.Args[0]) + "' command")
	}
	at, bad, ok := c.deadline(c.Args[2], unit, true)
	if !ok {
		return bad
	}
	c.SetExpiry(c.Args[1], c.Put(c.Args[1], c.Args[3]), at)
	c.Rewrite("SET", c.Args[1], c.Args[3], "PXAT", itoa(at))
	return resp.OK
}

func cmdGetSet(c *Call) resp.Reply {
	old := cmdGet(c)
	if old.Kind != resp.KindError {
		c.Put(c.Args[1], c.Args[2])
	}
	return old
}

func cmdMGet(c *Call) resp.Reply {
	out := make([]resp.Reply, len(c.Args)-1)
	for i, key := range c.Args[1:] {
		if v, present, ok := c.GetString(key); ok && present {
			out[i] = resp.Bulk(v)
		}
	}
	return resp.Array(out)
}

func cmdMSet(c *Call) resp.Reply {
	if len(c.Args)%2 == 0 {
		return resp.Err("wrong number of arguments for 'mset' command")
	}
	for i := 1; i < len(c.Args); i += 2 {
		c.Put(c.Args[i], c.Args[i+1])
	}
	return resp.OK
}

func cmdIncrBy(c *Call) resp.Reply {
	by, ok := numfmt.ParseInt(c.Args[2])
	if !ok {
		return resp.Err(TextNotInt)
	}
	return c.incrBy(by)
}

func cmdDecrBy(c *Call) resp.Reply {
	by, ok := numfmt.ParseInt(c.Args[2])
	if !ok {
		return resp.Err(TextNotInt)
	}
	if -by == by && by != 0 {
		return resp.Err("decrement would overflow")
	}
	return c.incrBy(-by)
}

func (c *Call) incrBy(by int64) resp.Reply {
	text, present, ok := c.GetString(c.Args[1])
	if !ok {
		return wrongTypeReply()
	}
	old := int64(0)
	if present {
		if old, ok = numfmt.ParseInt(text); !ok {
			return resp.Err(TextNotInt)
		}
	}
	sum, ok := addInt(old, by)
	if !ok {
		return resp.Err(textOverflow)
	}
	c.edit(c.Args[1], itoa(sum))
	return resp.Int64(sum)
}

// edit changes a string in place: the deadline stays.
func (c *Call) edit(key, val string) {
	if ent := c.Lookup(key); ent != nil {
		ent.Val = val
		c.Dirty++
		return
	}
	c.Put(key, val)
}

func cmdStrlen(c *Call) resp.Reply {
	n, ok := c.StringLen(c.Args[1])
	if !ok {
		return wrongTypeReply()
	}
	return resp.Int(n)
}

// fits reports whether a string value of size bytes may be extended by more bytes.
func fits(size int64, more int) bool { return size <= resp.MaxBulkBytes-int64(more) }

func tooLong() resp.Reply {
	return resp.Err("string exceeds maximum allowed size (proto-max-bulk-len)")
}

func cmdAppend(c *Call) resp.Reply {
	n, ok := c.StringLen(c.Args[1])
	if !ok {
		return wrongTypeReply()
	}
	if !fits(int64(n), len(c.Args[2])) {
		return tooLong()
	}
	return resp.Int(c.WriteString(c.Args[1], n, c.Args[2]))
}

func cmdGetRange(c *Call) resp.Reply {
	start, ok1 := numfmt.ParseInt(c.Args[2])
	end, ok2 := numfmt.ParseInt(c.Args[3])
	if !ok1 || !ok2 {
		return resp.Err(TextNotInt)
	}
	n, ok := c.StringLen(c.Args[1])
	if !ok {
		return wrongTypeReply()
	}
	if start < 0 && end < 0 && start > end {
		return resp.Bulk("")
	}
	// Unlike ranges of lists, one that ends before the first byte contains that byte.
	if end < 0 {
		end = max(end+int64(n), 0)
	}
	lo, hi := rangeBounds(start, end, n)
	if lo == hi {
		return resp.Bulk("")
	}
	return resp.Bulk(c.StringRange(c.Args[1], lo, hi))
}

func cmdSetRange(c *Call) resp.Reply {
	at, ok := numfmt.ParseInt(c.Args[2])
	if !ok {
		return resp.Err(TextNotInt)
	}
	if at < 0 {
		return resp.Err("offset is out of range")
	}
	n, ok := c.StringLen(c.Args[1])
	if !ok {
		return wrongTypeReply()
	}
	if c.Args[3] == "" {
		return resp.Int(n)
	}
	if !fits(at, len(c.Args[3])) {
		return tooLong()
	}
	return resp.Int(c.WriteString(c.Args[1], int(at), c.Args[3]))
}

func cmdGetDel(c *Call) resp.Reply {
	v := cmdGet(c)
	if v.Kind == resp.KindBulk {
		c.Remove(c.Args[1])
	}
	return v
}
