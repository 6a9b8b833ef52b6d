package embedded

func listCommands() []command {
	push := func(front, onlyIfPresent bool) func(c *call) Reply {
		return func(c *call) Reply { return c.push(front, onlyIfPresent) }
	}
	pop := func(front bool) func(c *call) Reply {
		return func(c *call) Reply { return c.pop(front) }
	}
	return []command{
		{"lpush", -3, cmdWrite, push(true, false)},
		{"rpush", -3, cmdWrite, push(false, false)},
		{"lpushx", -3, cmdWrite, push(true, true)},
		{"rpushx", -3, cmdWrite, push(false, true)},
		{"lpop", -2, cmdWrite, pop(true)},
		{"rpop", -2, cmdWrite, pop(false)},
		{"llen", 2, 0, cmdLLen},
		{"lrange", 4, 0, cmdLRange},
		{"lrem", 4, cmdWrite, cmdLRem},
		{"lindex", 3, 0, cmdLIndex},
		{"ltrim", 4, cmdWrite, cmdLTrim},
		{"lmove", 5, cmdWrite, cmdLMove},
	}
}

func (c *call) list() (*list, bool) { return typed[list](c.store, c.args[1]) }

func (c *call) push(front, onlyIfPresent bool) Reply {
	l, ok := c.list()
	if !ok {
		return wrongTypeReply()
	}
	if l == nil {
		if onlyIfPresent {
			return replyZero
		}
		l, _ = typedOrNew[list](c.store, c.args[1])
	}
	for _, v := range c.args[2:] {
		if front {
			l.pushFront(v)
		} else {
			l.pushBack(v)
		}
	}
	c.dirty++
	return intReply(l.len())
}

func (c *call) pop(front bool) Reply {
	if len(c.args) > 3 {
		return errf("wrong number of arguments for '" + c.e.command(c.args[0]).name + "' command")
	}
	count := int64(-1)
	if len(c.args) == 3 {
		var ok bool
		if count, ok = intArg(c.args[2]); !ok || count < 0 {
			return errf("value is out of range, must be positive")
		}
	}
	l, ok := c.list()
	if !ok {
		return wrongTypeReply()
	}
	if l == nil {
		if count >= 0 {
			return Reply{Kind: KindNilArray}
		}
		return replyNil
	}
	if count == 0 {
		return arrayReply(nil)
	}
	var out []Reply
	for n := min(max(count, 1), int64(l.len())); n > 0; n-- {
		if front {
			out = append(out, bulkReply(l.popFront()))
		} else {
			out = append(out, bulkReply(l.popBack()))
		}
	}
	c.dirty++
	c.dropIfEmpty(c.args[1], l)
	if count < 0 {
		return out[0]
	}
	return arrayReply(out)
}

func (c *call) dropIfEmpty(key string, l *list) {
	if l.len() == 0 {
		c.remove(key)
	}
}

func cmdLLen(c *call) Reply {
	l, ok := c.list()
	if !ok {
		return wrongTypeReply()
	}
	if l == nil {
		return replyZero
	}
	return intReply(l.len())
}

func cmdLRange(c *call) Reply {
	start, ok1 := intArg(c.args[2])
	stop, ok2 := intArg(c.args[3])
	if !ok1 || !ok2 {
		return errf(textNotInt)
	}
	l, ok := c.list()
	if !ok {
		return wrongTypeReply()
	}
	if l == nil {
		return arrayReply(nil)
	}
	lo, hi := rangeBounds(start, stop, l.len())
	return arrayReply(bulks(l.items()[lo:hi]))
}

func cmdLRem(c *call) Reply {
	count, ok := intArg(c.args[2])
	if !ok {
		return errf(textNotInt)
	}
	l, ok := c.list()
	if !ok {
		return wrongTypeReply()
	}
	if l == nil {
		return replyZero
	}
	items := l.items()
	drop := make([]bool, len(items))
	removed := 0
	for i := range items {
		j := i
		if count < 0 {
			j = len(items) - 1 - i
		}
		if items[j] == c.args[3] && (count == 0 || int64(removed) < max(count, -count)) {
			drop[j] = true
			removed++
		}
	}
	if removed == 0 {
		return replyZero
	}
	kept := make([]string, 0, len(items)-removed)
	for i, v := range items {
		if !drop[i] {
			kept = append(kept, v)
		}
	}
	l.replace(kept)
	c.dirty++
	c.dropIfEmpty(c.args[1], l)
	return intReply(removed)
}

func cmdLIndex(c *call) Reply {
	i, ok := intArg(c.args[2])
	if !ok {
		return errf(textNotInt)
	}
	l, ok := c.list()
	if !ok {
		return wrongTypeReply()
	}
	if l == nil {
		return replyNil
	}
	if i < 0 {
		i += int64(l.len())
	}
	if i < 0 || i >= int64(l.len()) {
		return replyNil
	}
	return bulkReply(l.items()[i])
}

func cmdLTrim(c *call) Reply {
	start, ok1 := intArg(c.args[2])
	stop, ok2 := intArg(c.args[3])
	if !ok1 || !ok2 {
		return errf(textNotInt)
	}
	l, ok := c.list()
	if !ok {
		return wrongTypeReply()
	}
	if l == nil {
		return replyOK
	}
	lo, hi := rangeBounds(start, stop, l.len())
	l.replace(append([]string(nil), l.items()[lo:hi]...))
	c.dirty++
	c.dropIfEmpty(c.args[1], l)
	return replyOK
}

func cmdLMove(c *call) Reply {
	var sides [2]bool
	for i, word := range c.args[3:5] {
		switch {
		case is(word, "LEFT"):
			sides[i] = true
		case !is(word, "RIGHT"):
			return errf(textSyntax)
		}
	}
	src, ok := c.list()
	if !ok {
		return wrongTypeReply()
	}
	if src == nil {
		return replyNil
	}
	if _, ok := typed[list](c.store, c.args[2]); !ok {
		return wrongTypeReply()
	}
	var v string
	if sides[0] {
		v = src.popFront()
	} else {
		v = src.popBack()
	}
	dst, _ := typedOrNew[list](c.store, c.args[2])
	if sides[1] {
		dst.pushFront(v)
	} else {
		dst.pushBack(v)
	}
	c.dirty++
	c.dropIfEmpty(c.args[1], src)
	return bulkReply(v)
}
