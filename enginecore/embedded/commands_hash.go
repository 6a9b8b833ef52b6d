package embedded

func hashCommands() []command {
	return []command{
		{"hset", -4, cmdWrite, cmdHSet},
		{"hmset", -4, cmdWrite, cmdHMSet},
		{"hsetnx", 4, cmdWrite, cmdHSetNX},
		{"hget", 3, 0, cmdHGet},
		{"hmget", -3, 0, cmdHMGet},
		{"hgetall", 2, 0, cmdHGetAll},
		{"hdel", -3, cmdWrite, cmdHDel},
		{"hexists", 3, 0, cmdHExists},
		{"hlen", 2, 0, cmdHLen},
		{"hkeys", 2, 0, cmdHKeys},
		{"hvals", 2, 0, cmdHVals},
		{"hincrby", 4, cmdWrite, cmdHIncrBy},
		{"hincrbyfloat", 4, cmdWrite, cmdHIncrByFloat},
		{"hscan", -3, 0, cmdHScan},
		{"hstrlen", 3, 0, cmdHStrlen},
	}
}

func (c *call) hset() (int, Reply, bool) {
	if len(c.args)%2 != 0 {
		return 0, errf("wrong number of arguments for '" + c.e.command(c.args[0]).name + "' command"), false
	}
	h, ok := typedOrNew[hash](c.store, c.args[1])
	if !ok {
		return 0, wrongTypeReply(), false
	}
	n := 0
	for i := 2; i < len(c.args); i += 2 {
		if h.set(c.args[i], c.args[i+1]) {
			n++
		}
	}
	c.dirty++
	return n, Reply{}, true
}

func cmdHSet(c *call) Reply {
	n, bad, ok := c.hset()
	if !ok {
		return bad
	}
	return intReply(n)
}

func cmdHMSet(c *call) Reply {
	if _, bad, ok := c.hset(); !ok {
		return bad
	}
	return replyOK
}

func cmdHSetNX(c *call) Reply {
	h, ok := typedOrNew[hash](c.store, c.args[1])
	if !ok {
		return wrongTypeReply()
	}
	if h.has(c.args[2]) {
		return replyZero
	}
	h.set(c.args[2], c.args[3])
	c.dirty++
	return replyOne
}

func (c *call) hash() (*hash, bool) { return typed[hash](c.store, c.args[1]) }

func cmdHGet(c *call) Reply {
	h, ok := c.hash()
	if !ok {
		return wrongTypeReply()
	}
	if h != nil {
		if v, present := h.get(c.args[2]); present {
			return bulkReply(v)
		}
	}
	return replyNil
}

func cmdHMGet(c *call) Reply {
	h, ok := c.hash()
	if !ok {
		return wrongTypeReply()
	}
	out := make([]Reply, len(c.args)-2)
	if h != nil {
		for i, f := range c.args[2:] {
			if v, present := h.get(f); present {
				out[i] = bulkReply(v)
			}
		}
	}
	return arrayReply(out)
}

func cmdHGetAll(c *call) Reply {
	h, ok := c.hash()
	if !ok {
		return wrongTypeReply()
	}
	var out []Reply
	if h != nil {
		out = make([]Reply, 0, 2*h.len())
		h.each(func(f, v string) bool {
			out = append(out, bulkReply(f), bulkReply(v))
			return true
		})
	}
	return Reply{Kind: KindMap, Elems: out}
}

func cmdHDel(c *call) Reply {
	h, ok := c.hash()
	if !ok {
		return wrongTypeReply()
	}
	if h == nil {
		return replyZero
	}
	n := 0
	for _, f := range c.args[2:] {
		if h.del(f) {
			n++
		}
	}
	if n > 0 {
		c.dirty++
		if h.len() == 0 {
			c.remove(c.args[1])
		}
	}
	return intReply(n)
}

func cmdHExists(c *call) Reply {
	h, ok := c.hash()
	if !ok {
		return wrongTypeReply()
	}
	return boolInt(h != nil && h.has(c.args[2]))
}

func cmdHLen(c *call) Reply {
	h, ok := c.hash()
	if !ok {
		return wrongTypeReply()
	}
	if h == nil {
		return replyZero
	}
	return intReply(h.len())
}

func cmdHKeys(c *call) Reply {
	h, ok := c.hash()
	if !ok {
		return wrongTypeReply()
	}
	if h == nil {
		return arrayReply(nil)
	}
	return arrayReply(bulks(h.keys()))
}

func cmdHVals(c *call) Reply {
	h, ok := c.hash()
	if !ok {
		return wrongTypeReply()
	}
	var out []Reply
	if h != nil {
		h.each(func(_, v string) bool {
			out = append(out, bulkReply(v))
			return true
		})
	}
	return arrayReply(out)
}

func cmdHIncrBy(c *call) Reply {
	by, ok := intArg(c.args[3])
	if !ok {
		return errf(textNotInt)
	}
	h, ok := c.hash()
	if !ok {
		return wrongTypeReply()
	}
	old := int64(0)
	if h != nil {
		if text, present := h.get(c.args[2]); present {
			if old, ok = intArg(text); !ok {
				return errf("hash value is not an integer")
			}
		}
	}
	sum, ok := addInt(old, by)
	if !ok {
		return errf(textOverflow)
	}
	h, _ = typedOrNew[hash](c.store, c.args[1])
	h.set(c.args[2], itoa(sum))
	c.dirty++
	return int64Reply(sum)
}

func cmdHIncrByFloat(c *call) Reply {
	if _, ok := parseFloat(c.args[3]); !ok {
		return errf(errNotFloat.Error())
	}
	h, ok := c.hash()
	if !ok {
		return wrongTypeReply()
	}
	old := "0"
	if h != nil {
		if text, present := h.get(c.args[2]); present {
			if old = text; old == "" {
				return errf("hash value is not a float")
			}
		}
	}
	if _, ok := parseFloat(old); !ok {
		return errf("hash value is not a float")
	}
	sum, err := incrFloat(old, c.args[3])
	if err != nil {
		return errf(err.Error())
	}
	h, _ = typedOrNew[hash](c.store, c.args[1])
	h.set(c.args[2], sum)
	c.dirty++
	c.rewrite("HSET", c.args[1], c.args[2], sum)
	return bulkReply(sum)
}

func cmdHScan(c *call) Reply {
	cursor, count, match, _, bad, ok := scanArgs(c.args[2:], false)
	if !ok {
		return bad
	}
	h, ok := c.hash()
	if !ok {
		return wrongTypeReply()
	}
	if h == nil {
		return scanReply(0, nil)
	}
	var out []Reply
	next := h.scan(cursor, count, func(f, v string) {
		if match == "" || globMatch(match, f) {
			out = append(out, bulkReply(f), bulkReply(v))
		}
	})
	return scanReply(next, out)
}

func cmdHStrlen(c *call) Reply {
	h, ok := c.hash()
	if !ok {
		return wrongTypeReply()
	}
	if h == nil {
		return replyZero
	}
	v, _ := h.get(c.args[2])
	return intReply(len(v))
}
