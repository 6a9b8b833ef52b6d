package embedded

import "strings"

func stringCommands() []command {
	return []command{
		{"get", 2, 0, cmdGet},
		{"set", -3, cmdWrite, cmdSet},
		{"setnx", 3, cmdWrite, cmdSetNX},
		{"setex", 4, cmdWrite, func(c *call) Reply { return c.setEx(1000) }},
		{"psetex", 4, cmdWrite, func(c *call) Reply { return c.setEx(1) }},
		{"getset", 3, cmdWrite, cmdGetSet},
		{"mget", -2, 0, cmdMGet},
		{"mset", -3, cmdWrite, cmdMSet},
		{"incr", 2, cmdWrite, func(c *call) Reply { return c.incrBy(1) }},
		{"decr", 2, cmdWrite, func(c *call) Reply { return c.incrBy(-1) }},
		{"incrby", 3, cmdWrite, cmdIncrBy},
		{"decrby", 3, cmdWrite, cmdDecrBy},
		{"strlen", 2, 0, cmdStrlen},
		{"append", 3, cmdWrite, cmdAppend},
		{"getdel", 2, cmdWrite, cmdGetDel},
	}
}

func cmdGet(c *call) Reply {
	v, present, ok := c.stringAt(c.args[1])
	if !ok {
		return wrongTypeReply()
	}
	if !present {
		return replyNil
	}
	return bulkReply(v)
}

// setOptions are the words behind SET key value.
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

func cmdSet(c *call) Reply {
	var o setOptions
	if !o.parse(c.args[3:]) {
		return errf(textSyntax)
	}
	var at int64
	if o.unit != 0 {
		var bad Reply
		v, ok := intArg(o.expiry)
		switch {
		case !ok:
			return errf(textNotInt)
		case v <= 0:
			return errf("invalid expire time in 'set' command")
		}
		if at, bad, ok = c.deadline(o.expiry, o.unit, o.relative); !ok {
			return bad
		}
	}
	key, val := c.args[1], c.args[2]
	old := c.lookup(key)
	reply := replyOK
	if o.get {
		reply = replyNil
		if old != nil {
			text, ok := old.val.(string)
			if !ok {
				return wrongTypeReply()
			}
			reply = bulkReply(text)
		}
	}
	if o.nx && old != nil || o.xx && old == nil {
		if !o.get {
			return replyNil
		}
		return reply
	}
	ent := c.put(key, val)
	switch {
	case o.keep && old != nil && old.expireAt != 0:
		c.setExpiry(key, ent, old.expireAt)
	case o.unit != 0:
		c.setExpiry(key, ent, at)
		c.rewrite("SET", key, val, "PXAT", itoa(at))
		c.dropIfPast(key, at)
	}
	return reply
}

// dropIfPast removes a key whose new deadline has passed, so that no later command of the same function sees it.
func (c *call) dropIfPast(key string, at int64) {
	if !c.frozen && at < c.nowMs {
		c.remove(key)
		c.rewrite("DEL", key)
	}
}

func cmdSetNX(c *call) Reply {
	if c.lookup(c.args[1]) != nil {
		return replyZero
	}
	c.put(c.args[1], c.args[2])
	return replyOne
}

func (c *call) setEx(unit int64) Reply {
	v, ok := intArg(c.args[2])
	if !ok {
		return errf(textNotInt)
	}
	if v <= 0 {
		return errf("invalid expire time in '" + strings.ToLower(c.args[0]) + "' command")
	}
	at, bad, ok := c.deadline(c.args[2], unit, true)
	if !ok {
		return bad
	}
	c.setExpiry(c.args[1], c.put(c.args[1], c.args[3]), at)
	c.rewrite("SET", c.args[1], c.args[3], "PXAT", itoa(at))
	return replyOK
}

func cmdGetSet(c *call) Reply {
	old := cmdGet(c)
	if old.Kind != KindError {
		c.put(c.args[1], c.args[2])
	}
	return old
}

func cmdMGet(c *call) Reply {
	out := make([]Reply, len(c.args)-1)
	for i, key := range c.args[1:] {
		if v, present, ok := c.stringAt(key); ok && present {
			out[i] = bulkReply(v)
		}
	}
	return arrayReply(out)
}

func cmdMSet(c *call) Reply {
	if len(c.args)%2 == 0 {
		return errf("wrong number of arguments for 'mset' command")
	}
	for i := 1; i < len(c.args); i += 2 {
		c.put(c.args[i], c.args[i+1])
	}
	return replyOK
}

func cmdIncrBy(c *call) Reply {
	by, ok := intArg(c.args[2])
	if !ok {
		return errf(textNotInt)
	}
	return c.incrBy(by)
}

func cmdDecrBy(c *call) Reply {
	by, ok := intArg(c.args[2])
	if !ok {
		return errf(textNotInt)
	}
	if -by == by && by != 0 {
		return errf("decrement would overflow")
	}
	return c.incrBy(-by)
}

func (c *call) incrBy(by int64) Reply {
	text, present, ok := c.stringAt(c.args[1])
	if !ok {
		return wrongTypeReply()
	}
	old := int64(0)
	if present {
		if old, ok = intArg(text); !ok {
			return errf(textNotInt)
		}
	}
	sum, ok := addInt(old, by)
	if !ok {
		return errf(textOverflow)
	}
	c.edit(c.args[1], itoa(sum))
	return int64Reply(sum)
}

// edit changes a string in place: the deadline stays.
func (c *call) edit(key, val string) {
	if ent := c.lookup(key); ent != nil {
		ent.val = val
		c.dirty++
		return
	}
	c.put(key, val)
}

func cmdStrlen(c *call) Reply {
	v, _, ok := c.stringAt(c.args[1])
	if !ok {
		return wrongTypeReply()
	}
	return intReply(len(v))
}

func cmdAppend(c *call) Reply {
	v, _, ok := c.stringAt(c.args[1])
	if !ok {
		return wrongTypeReply()
	}
	v += c.args[2]
	c.edit(c.args[1], v)
	return intReply(len(v))
}

func cmdGetDel(c *call) Reply {
	v := cmdGet(c)
	if v.Kind == KindBulk {
		c.remove(c.args[1])
	}
	return v
}
