package embedded

import (
	"bufio"
	"bytes"
	"strconv"
	"strings"
)

func keyCommands() []command {
	expire := func(unit int64, relative bool) func(c *call) Reply {
		return func(c *call) Reply { return c.expire(unit, relative) }
	}
	ttl := func(unit int64, relative bool) func(c *call) Reply {
		return func(c *call) Reply { return c.ttl(unit, relative) }
	}
	return []command{
		{"del", -2, cmdWrite, cmdDel},
		{"unlink", -2, cmdWrite, cmdDel},
		{"exists", -2, 0, cmdExists},
		{"touch", -2, 0, cmdExists},
		{"type", 2, 0, cmdType},
		{"expire", -3, cmdWrite, expire(1000, true)},
		{"pexpire", -3, cmdWrite, expire(1, true)},
		{"expireat", -3, cmdWrite, expire(1000, false)},
		{"pexpireat", -3, cmdWrite, expire(1, false)},
		{"ttl", 2, 0, ttl(1000, true)},
		{"pttl", 2, 0, ttl(1, true)},
		{"expiretime", 2, 0, ttl(1000, false)},
		{"pexpiretime", 2, 0, ttl(1, false)},
		{"persist", 2, cmdWrite, cmdPersist},
		{"keys", 2, 0, cmdKeys},
		{"scan", -2, 0, cmdScan},
		{"copy", -3, cmdWrite, cmdCopy},
		{"rename", 3, cmdWrite, cmdRename},
		{"object", -2, 0, cmdObject},
		{"dump", 2, 0, cmdDump},
		{"dbsize", 1, 0, func(c *call) Reply { return intReply(c.keys.len()) }},
		{"flushall", -1, cmdWrite, cmdFlush},
		{"flushdb", -1, cmdWrite, cmdFlush},
	}
}

func cmdDel(c *call) Reply {
	n := 0
	for _, key := range c.args[1:] {
		if c.remove(key) {
			n++
		}
	}
	return intReply(n)
}

func cmdExists(c *call) Reply {
	n := 0
	for _, key := range c.args[1:] {
		if c.keys.has(key) {
			n++
		}
	}
	return intReply(n)
}

func cmdType(c *call) Reply {
	if ent := c.lookup(c.args[1]); ent != nil {
		return statusReply(typeName(ent.val))
	}
	return statusReply("none")
}

func (c *call) expire(unit int64, relative bool) Reply {
	var nx, xx, gt, lt bool
	for _, word := range c.args[3:] {
		switch strings.ToUpper(word) {
		case "NX":
			nx = true
		case "XX":
			xx = true
		case "GT":
			gt = true
		case "LT":
			lt = true
		default:
			return errf("Unsupported option " + word)
		}
	}
	if nx && (xx || gt || lt) {
		return errf("NX and XX, GT or LT options at the same time are not compatible")
	}
	if gt && lt {
		return errf("GT and LT options at the same time are not compatible")
	}
	at, bad, ok := c.deadline(c.args[2], unit, relative)
	if !ok {
		return bad
	}
	key := c.args[1]
	ent := c.lookup(key)
	if ent == nil {
		return replyZero
	}
	old := ent.expireAt
	if nx && old != 0 || xx && old == 0 || gt && (old == 0 || at <= old) || lt && old != 0 && at >= old {
		return replyZero
	}
	if at <= c.nowMs && !c.frozen {
		c.remove(key)
		c.rewrite("DEL", key)
		return replyOne
	}
	c.setExpiry(key, ent, at)
	c.dirty++
	c.rewrite("PEXPIREAT", key, itoa(at))
	return replyOne
}

func (c *call) ttl(unit int64, relative bool) Reply {
	ent := c.lookup(c.args[1])
	if ent == nil {
		return intReply(-2)
	}
	if ent.expireAt == 0 {
		return intReply(-1)
	}
	v := ent.expireAt
	if relative {
		v = max(v-c.nowMs, 0)
	}
	if unit == 1000 {
		v = v/1000 + (v%1000+500)/1000
	}
	return int64Reply(v)
}

func cmdPersist(c *call) Reply {
	ent := c.lookup(c.args[1])
	if ent == nil || ent.expireAt == 0 {
		return replyZero
	}
	c.setExpiry(c.args[1], ent, 0)
	c.dirty++
	return replyOne
}

func cmdKeys(c *call) Reply {
	var out []Reply
	c.keys.each(func(key string, _ *entry) bool {
		if globMatch(c.args[1], key) {
			out = append(out, bulkReply(key))
		}
		return true
	})
	return arrayReply(out)
}

// scanArgs reads "cursor [MATCH p] [COUNT n] [TYPE t]" beginning at words.
func scanArgs(words []string, allowType bool) (cursor uint64, count int, match, typ string, bad Reply, ok bool) {
	cursor, err := strconv.ParseUint(words[0], 10, 64)
	if err != nil {
		return 0, 0, "", "", errf("invalid cursor"), false
	}
	count = 10
	for i := 1; i < len(words); i += 2 {
		if i+1 >= len(words) {
			return 0, 0, "", "", errf(textSyntax), false
		}
		switch {
		case is(words[i], "MATCH"):
			match = words[i+1]
		case is(words[i], "COUNT"):
			n, isInt := intArg(words[i+1])
			if !isInt {
				return 0, 0, "", "", errf(textNotInt), false
			}
			if n < 1 {
				return 0, 0, "", "", errf(textSyntax), false
			}
			count = int(n)
		case allowType && is(words[i], "TYPE"):
			typ = strings.ToLower(words[i+1])
		default:
			return 0, 0, "", "", errf(textSyntax), false
		}
	}
	return cursor, count, match, typ, Reply{}, true
}

func scanReply(next uint64, items []Reply) Reply {
	return arrayReply([]Reply{bulkReply(strconv.FormatUint(next, 10)), arrayReply(items)})
}

func cmdScan(c *call) Reply {
	cursor, count, match, typ, bad, ok := scanArgs(c.args[1:], true)
	if !ok {
		return bad
	}
	var out []Reply
	next := c.keys.scan(cursor, count, func(key string, ent *entry) {
		if (match == "" || globMatch(match, key)) && (typ == "" || typ == typeName(ent.val)) {
			out = append(out, bulkReply(key))
		}
	})
	return scanReply(next, out)
}

func cmdCopy(c *call) Reply {
	replace := false
	for i := 3; i < len(c.args); i++ {
		switch {
		case is(c.args[i], "REPLACE"):
			replace = true
		case is(c.args[i], "DB") && i+1 < len(c.args):
			i++
			if c.args[i] != "0" {
				return errf("DB index is out of range")
			}
		default:
			return errf(textSyntax)
		}
	}
	src, dst := c.args[1], c.args[2]
	if src == dst {
		return errf("source and destination objects are the same")
	}
	from := c.lookup(src)
	if from == nil || !replace && c.keys.has(dst) {
		return replyZero
	}
	to := c.put(dst, copyValue(from.val))
	if from.expireAt != 0 {
		c.setExpiry(dst, to, from.expireAt)
	}
	return replyOne
}

func copyOmap[V any](m *omap[V]) *omap[V] {
	out := &omap[V]{}
	m.each(func(k string, v V) bool {
		out.set(k, v)
		return true
	})
	return out
}

func copyValue(val any) any {
	switch v := val.(type) {
	case *hash:
		return copyOmap(v)
	case *set:
		return copyOmap(v)
	case *list:
		return &list{buf: append([]string(nil), v.items()...)}
	case *zset:
		out := &zset{}
		v.scores.each(func(m string, s float64) bool {
			out.set(m, s)
			return true
		})
		return out
	case *stream:
		out := *v
		out.nodes = make([]*streamNode, len(v.nodes))
		for i, n := range v.nodes {
			cp := *n
			cp.entries = append([]streamEntry(nil), n.entries...)
			out.nodes[i] = &cp
		}
		return &out
	}
	return val
}

func cmdRename(c *call) Reply {
	ent := c.lookup(c.args[1])
	if ent == nil {
		return errf("no such key")
	}
	if c.args[1] == c.args[2] {
		return replyOK
	}
	c.remove(c.args[1])
	at := ent.expireAt
	ent = c.put(c.args[2], ent.val)
	if at != 0 {
		c.setExpiry(c.args[2], ent, at)
	}
	return replyOK
}

// cmdObject answers ENCODING with the name a server would most likely give.
func cmdObject(c *call) Reply {
	if len(c.args) != 3 {
		return errf("unknown subcommand or wrong number of arguments for '" + c.args[1] + "'. Try OBJECT HELP.")
	}
	ent := c.lookup(c.args[2])
	if ent == nil {
		return replyNil
	}
	switch strings.ToUpper(c.args[1]) {
	case "REFCOUNT":
		return replyOne
	case "IDLETIME", "FREQ":
		return replyZero
	case "ENCODING":
	default:
		return errf("unknown subcommand '" + c.args[1] + "'. Try OBJECT HELP.")
	}
	small := func(n int, yes, no string) Reply {
		if n <= 128 {
			return bulkReply(yes)
		}
		return bulkReply(no)
	}
	switch v := ent.val.(type) {
	case string:
		if _, ok := parseInt(v); ok {
			return bulkReply("int")
		}
		if len(v) <= 44 {
			return bulkReply("embstr")
		}
		return bulkReply("raw")
	case *hash:
		return small(v.len(), "listpack", "hashtable")
	case *set:
		return bulkReply("hashtable")
	case *list:
		return bulkReply("quicklist")
	case *zset:
		return small(v.len(), "listpack", "skiplist")
	}
	return bulkReply("stream")
}

// cmdDump describes a value in bytes that are equal for equal values with the same history. They are no server's format
// and cannot be restored.
func cmdDump(c *call) Reply {
	ent := c.lookup(c.args[1])
	if ent == nil {
		return replyNil
	}
	var b bytes.Buffer
	w := &snapshotWriter{w: bufio.NewWriter(&b), record: startRecord(nil)}
	w.value("", &entry{val: ent.val})
	w.flush()
	_ = w.w.Flush() // into memory
	return bulkReply(b.String())
}

func cmdFlush(c *call) Reply {
	if len(c.args) > 2 || len(c.args) == 2 && !is(c.args[1], "SYNC") && !is(c.args[1], "ASYNC") {
		return errf(textSyntax)
	}
	c.flush()
	return replyOK
}

// globMatch matches the server's patterns: * ? [a-c] [^a] and backslash escapes.
func globMatch(pattern, s string) bool {
	if pattern == "*" {
		return true
	}
	if !strings.ContainsAny(pattern, "*?[\\") {
		return pattern == s
	}
	return glob(pattern, s)
}

func glob(p, s string) bool {
	for len(p) > 0 {
		switch p[0] {
		case '*':
			for len(p) > 1 && p[1] == '*' {
				p = p[1:]
			}
			if len(p) == 1 {
				return true
			}
			for i := 0; i <= len(s); i++ {
				if glob(p[1:], s[i:]) {
					return true
				}
			}
			return false
		case '?':
			if s == "" {
				return false
			}
		case '[':
			if s == "" {
				return false
			}
			ok, rest := globClass(p[1:], s[0])
			if !ok {
				return false
			}
			p, s = rest, s[1:]
			continue
		default:
			if p[0] == '\\' && len(p) > 1 {
				p = p[1:]
			}
			if s == "" || s[0] != p[0] {
				return false
			}
		}
		p, s = p[1:], s[1:]
	}
	return s == ""
}

// globClass matches c against a bracket class whose '[' has been read and returns the pattern behind it.
func globClass(p string, c byte) (bool, string) {
	not := len(p) > 0 && p[0] == '^'
	if not {
		p = p[1:]
	}
	match := false
	for len(p) > 0 && p[0] != ']' {
		switch {
		case p[0] == '\\' && len(p) > 1:
			p = p[1:]
			match = match || p[0] == c
		case len(p) >= 3 && p[1] == '-':
			lo, hi := p[0], p[2]
			if lo > hi {
				lo, hi = hi, lo
			}
			match = match || c >= lo && c <= hi
			p = p[2:]
		default:
			match = match || p[0] == c
		}
		p = p[1:]
	}
	if len(p) > 0 {
		p = p[1:]
	}
	return match != not, p
}
