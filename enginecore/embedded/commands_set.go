package embedded

func setCommands() []command {
	return []command{
		{"sadd", -3, cmdWrite, cmdSAdd},
		{"srem", -3, cmdWrite, cmdSRem},
		{"sismember", 3, 0, cmdSIsMember},
		{"smismember", -3, 0, cmdSMIsMember},
		{"smembers", 2, 0, cmdSMembers},
		{"scard", 2, 0, cmdSCard},
		{"spop", -2, cmdWrite, cmdSPop},
		{"srandmember", -2, 0, cmdSRandMember},
		{"sscan", -3, 0, cmdSScan},
		{"smove", 4, cmdWrite, cmdSMove},
		{"sinter", -2, 0, cmdSetOp("inter")},
		{"sunion", -2, 0, cmdSetOp("union")},
		{"sdiff", -2, 0, cmdSetOp("diff")},
		{"sinterstore", -3, cmdWrite, cmdSetOpStore("inter")},
		{"sunionstore", -3, cmdWrite, cmdSetOpStore("union")},
		{"sdiffstore", -3, cmdWrite, cmdSetOpStore("diff")},
	}
}

func (c *call) set() (*set, bool) { return typed[set](c.store, c.args[1]) }

func cmdSAdd(c *call) Reply {
	s, ok := typedOrNew[set](c.store, c.args[1])
	if !ok {
		return wrongTypeReply()
	}
	n := 0
	for _, m := range c.args[2:] {
		if s.set(m, struct{}{}) {
			n++
		}
	}
	c.dirty += int64(n)
	return intReply(n)
}

func cmdSRem(c *call) Reply {
	s, ok := c.set()
	if !ok {
		return wrongTypeReply()
	}
	if s == nil {
		return replyZero
	}
	n := 0
	for _, m := range c.args[2:] {
		if s.del(m) {
			n++
		}
	}
	if n > 0 {
		c.dirty++
		if s.len() == 0 {
			c.remove(c.args[1])
		}
	}
	return intReply(n)
}

func cmdSIsMember(c *call) Reply {
	s, ok := c.set()
	if !ok {
		return wrongTypeReply()
	}
	return boolInt(s != nil && s.has(c.args[2]))
}

func cmdSMIsMember(c *call) Reply {
	s, ok := c.set()
	if !ok {
		return wrongTypeReply()
	}
	out := make([]Reply, len(c.args)-2)
	for i, m := range c.args[2:] {
		out[i] = boolInt(s != nil && s.has(m))
	}
	return arrayReply(out)
}

func cmdSMembers(c *call) Reply {
	s, ok := c.set()
	if !ok {
		return wrongTypeReply()
	}
	if s == nil {
		return Reply{Kind: KindSet}
	}
	return Reply{Kind: KindSet, Elems: bulks(s.keys())}
}

func cmdSCard(c *call) Reply {
	s, ok := c.set()
	if !ok {
		return wrongTypeReply()
	}
	if s == nil {
		return replyZero
	}
	return intReply(s.len())
}

// pick returns a random member of a set that is not empty.
func (c *call) pick(s *set) string {
	for {
		if it := s.at(c.random(len(s.items))); it != nil {
			return it.key
		}
	}
}

func cmdSPop(c *call) Reply {
	if len(c.args) > 3 {
		return errf(textSyntax)
	}
	count := int64(-1)
	if len(c.args) == 3 {
		var ok bool
		if count, ok = intArg(c.args[2]); !ok || count < 0 {
			return errf("value is out of range, must be positive")
		}
	}
	s, ok := c.set()
	if !ok {
		return wrongTypeReply()
	}
	if s == nil || count == 0 {
		if count < 0 {
			return replyNil
		}
		return Reply{Kind: KindSet}
	}
	words := []string{"SREM", c.args[1]}
	n := min(max(count, 1), int64(s.len()))
	for i := int64(0); i < n; i++ {
		m := c.pick(s)
		s.del(m)
		words = append(words, m)
	}
	c.dirty++
	c.rewrite(words...)
	if s.len() == 0 {
		c.remove(c.args[1])
	}
	if count < 0 {
		return bulkReply(words[2])
	}
	return Reply{Kind: KindSet, Elems: bulks(words[2:])}
}

func cmdSRandMember(c *call) Reply {
	if len(c.args) > 3 {
		return errf(textSyntax)
	}
	s, ok := c.set()
	if !ok {
		return wrongTypeReply()
	}
	if len(c.args) == 2 {
		if s == nil {
			return replyNil
		}
		return bulkReply(c.pick(s))
	}
	count, ok := intArg(c.args[2])
	if !ok {
		return errf(textNotInt)
	}
	if s == nil || count == 0 {
		return arrayReply(nil)
	}
	if count < 0 {
		if count < -1<<24 {
			return errf("value is out of range")
		}
		out := make([]Reply, -count)
		for i := range out {
			out[i] = bulkReply(c.pick(s))
		}
		return arrayReply(out)
	}
	members := s.keys()
	n := int(min(count, int64(len(members))))
	for i := 0; i < n && n < len(members); i++ {
		j := i + c.random(len(members)-i)
		members[i], members[j] = members[j], members[i]
	}
	return arrayReply(bulks(members[:n]))
}

func cmdSScan(c *call) Reply {
	cursor, count, match, _, bad, ok := scanArgs(c.args[2:], false)
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
	var out []Reply
	next := s.scan(cursor, count, func(m string, _ struct{}) {
		if match == "" || globMatch(match, m) {
			out = append(out, bulkReply(m))
		}
	})
	return scanReply(next, out)
}

func cmdSMove(c *call) Reply {
	src, ok := c.set()
	dst, ok2 := typed[set](c.store, c.args[2])
	if src == nil && ok {
		return replyZero
	}
	if !ok || !ok2 {
		return wrongTypeReply()
	}
	if c.args[1] == c.args[2] {
		return boolInt(src.has(c.args[3]))
	}
	if !src.del(c.args[3]) {
		return replyZero
	}
	if src.len() == 0 {
		c.remove(c.args[1])
	}
	if dst == nil {
		dst, _ = typedOrNew[set](c.store, c.args[2])
	}
	dst.set(c.args[3], struct{}{})
	c.dirty++
	return replyOne
}

// combine computes a set operation in the order of the first set's members.
func (c *call) combine(op string, keys []string) (*set, bool) {
	sets := make([]*set, len(keys))
	for i, key := range keys {
		s, ok := typed[set](c.store, key)
		if !ok {
			return nil, false
		}
		if s == nil {
			s = &set{}
		}
		sets[i] = s
	}
	out := &set{}
	if op == "union" {
		for _, s := range sets {
			s.each(func(m string, _ struct{}) bool {
				out.set(m, struct{}{})
				return true
			})
		}
		return out, true
	}
	sets[0].each(func(m string, _ struct{}) bool {
		for _, s := range sets[1:] {
			if s.has(m) == (op == "diff") {
				return true
			}
		}
		out.set(m, struct{}{})
		return true
	})
	return out, true
}

func cmdSetOp(op string) func(c *call) Reply {
	return func(c *call) Reply {
		out, ok := c.combine(op, c.args[1:])
		if !ok {
			return wrongTypeReply()
		}
		return Reply{Kind: KindSet, Elems: bulks(out.keys())}
	}
}

func cmdSetOpStore(op string) func(c *call) Reply {
	return func(c *call) Reply {
		out, ok := c.combine(op, c.args[2:])
		if !ok {
			return wrongTypeReply()
		}
		if out.len() == 0 {
			c.remove(c.args[1])
			return replyZero
		}
		c.put(c.args[1], out)
		return intReply(out.len())
	}
}
