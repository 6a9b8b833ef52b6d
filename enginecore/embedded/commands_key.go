package embedded

import (
	"bufio"
	"bytes"
	"strconv"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/datatype"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/dump"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/glob"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/numfmt"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/record"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/resp"
)

func keyCommands() []command {
	expire := func(unit int64, relative bool) func(c *call) resp.Reply {
		return func(c *call) resp.Reply { return c.expire(unit, relative) }
	}
	ttl := func(unit int64, relative bool) func(c *call) resp.Reply {
		return func(c *call) resp.Reply { return c.ttl(unit, relative) }
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
		{"dbsize", 1, 0, func(c *call) resp.Reply { return resp.Int(c.Keys.Len()) }},
		{"flushall", -1, cmdWrite, cmdFlush},
		{"flushdb", -1, cmdWrite, cmdFlush},
	}
}

func cmdDel(c *call) resp.Reply {
	n := 0
	for _, key := range c.args[1:] {
		if c.Remove(key) {
			n++
		}
	}
	return resp.Int(n)
}

func cmdExists(c *call) resp.Reply {
	n := 0
	for _, key := range c.args[1:] {
		if c.Keys.Has(key) {
			n++
		}
	}
	return resp.Int(n)
}

func cmdType(c *call) resp.Reply {
	if ent := c.Lookup(c.args[1]); ent != nil {
		return resp.Status(keyspace.TypeName(ent.Val))
	}
	return resp.Status("none")
}

func (c *call) expire(unit int64, relative bool) resp.Reply {
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
			return resp.Err("Unsupported option " + word)
		}
	}
	if nx && (xx || gt || lt) {
		return resp.Err("NX and XX, GT or LT options at the same time are not compatible")
	}
	if gt && lt {
		return resp.Err("GT and LT options at the same time are not compatible")
	}
	at, bad, ok := c.deadline(c.args[2], unit, relative)
	if !ok {
		return bad
	}
	key := c.args[1]
	ent := c.Lookup(key)
	if ent == nil {
		return resp.Zero
	}
	old := ent.ExpireAt
	if nx && old != 0 || xx && old == 0 || gt && (old == 0 || at <= old) || lt && old != 0 && at >= old {
		return resp.Zero
	}
	if at <= c.NowMs && !c.Replaying() {
		c.Remove(key)
		c.Rewrite("DEL", key)
		return resp.One
	}
	c.SetExpiry(key, ent, at)
	c.Dirty++
	c.Rewrite("PEXPIREAT", key, itoa(at))
	return resp.One
}

func (c *call) ttl(unit int64, relative bool) resp.Reply {
	ent := c.Lookup(c.args[1])
	if ent == nil {
		return resp.Int(-2)
	}
	if ent.ExpireAt == 0 {
		return resp.Int(-1)
	}
	v := ent.ExpireAt
	if relative {
		v = max(v-c.NowMs, 0)
	}
	if unit == 1000 {
		v = v/1000 + (v%1000+500)/1000
	}
	return resp.Int64(v)
}

func cmdPersist(c *call) resp.Reply {
	ent := c.Lookup(c.args[1])
	if ent == nil || ent.ExpireAt == 0 {
		return resp.Zero
	}
	c.SetExpiry(c.args[1], ent, 0)
	c.Dirty++
	return resp.One
}

func cmdKeys(c *call) resp.Reply {
	var out []resp.Reply
	c.Keys.Each(func(key string, _ *keyspace.Entry) bool {
		if glob.Match(c.args[1], key) {
			out = append(out, resp.Bulk(key))
		}
		return true
	})
	return resp.Array(out)
}

// scanArgs reads "cursor [MATCH p] [COUNT n] [TYPE t]" beginning at words.
func scanArgs(words []string, allowType bool) (cursor uint64, count int, match, typ string, bad resp.Reply, ok bool) {
	cursor, err := strconv.ParseUint(words[0], 10, 64)
	if err != nil {
		return 0, 0, "", "", resp.Err("invalid cursor"), false
	}
	count = 10
	for i := 1; i < len(words); i += 2 {
		if i+1 >= len(words) {
			return 0, 0, "", "", resp.Err(textSyntax), false
		}
		switch {
		case is(words[i], "MATCH"):
			match = words[i+1]
		case is(words[i], "COUNT"):
			n, isInt := intArg(words[i+1])
			if !isInt {
				return 0, 0, "", "", resp.Err(textNotInt), false
			}
			if n < 1 {
				return 0, 0, "", "", resp.Err(textSyntax), false
			}
			count = int(n)
		case allowType && is(words[i], "TYPE"):
			typ = strings.ToLower(words[i+1])
		default:
			return 0, 0, "", "", resp.Err(textSyntax), false
		}
	}
	return cursor, count, match, typ, resp.Reply{}, true
}

func scanReply(next uint64, items []resp.Reply) resp.Reply {
	return resp.Array([]resp.Reply{resp.Bulk(strconv.FormatUint(next, 10)), resp.Array(items)})
}

func cmdScan(c *call) resp.Reply {
	cursor, count, match, typ, bad, ok := scanArgs(c.args[1:], true)
	if !ok {
		return bad
	}
	var out []resp.Reply
	next := c.Keys.Scan(cursor, count, func(key string, ent *keyspace.Entry) {
		if (match == "" || glob.Match(match, key)) && (typ == "" || typ == keyspace.TypeName(ent.Val)) {
			out = append(out, resp.Bulk(key))
		}
	})
	return scanReply(next, out)
}

func cmdCopy(c *call) resp.Reply {
	replace := false
	for i := 3; i < len(c.args); i++ {
		switch {
		case is(c.args[i], "REPLACE"):
			replace = true
		case is(c.args[i], "DB") && i+1 < len(c.args):
			i++
			if c.args[i] != "0" {
				return resp.Err("DB index is out of range")
			}
		default:
			return resp.Err(textSyntax)
		}
	}
	src, dst := c.args[1], c.args[2]
	if src == dst {
		return resp.Err("source and destination objects are the same")
	}
	from := c.Lookup(src)
	if from == nil || !replace && c.Keys.Has(dst) {
		return resp.Zero
	}
	to := c.Put(dst, keyspace.CopyValue(from.Val))
	if from.ExpireAt != 0 {
		c.SetExpiry(dst, to, from.ExpireAt)
	}
	return resp.One
}

func cmdRename(c *call) resp.Reply {
	ent := c.Lookup(c.args[1])
	if ent == nil {
		return resp.Err("no such key")
	}
	if c.args[1] == c.args[2] {
		return resp.OK
	}
	c.Remove(c.args[1])
	at := ent.ExpireAt
	ent = c.Put(c.args[2], ent.Val)
	if at != 0 {
		c.SetExpiry(c.args[2], ent, at)
	}
	return resp.OK
}

// cmdObject answers ENCODING with the name a server would most likely give.
func cmdObject(c *call) resp.Reply {
	if len(c.args) != 3 {
		return resp.Err("unknown subcommand or wrong number of arguments for '" + c.args[1] + "'. Try OBJECT HELP.")
	}
	ent := c.Lookup(c.args[2])
	if ent == nil {
		return resp.Nil
	}
	switch strings.ToUpper(c.args[1]) {
	case "REFCOUNT":
		return resp.One
	case "IDLETIME", "FREQ":
		return resp.Zero
	case "ENCODING":
	default:
		return resp.Err("unknown subcommand '" + c.args[1] + "'. Try OBJECT HELP.")
	}
	small := func(n int, yes, no string) resp.Reply {
		if n <= 128 {
			return resp.Bulk(yes)
		}
		return resp.Bulk(no)
	}
	switch v := ent.Val.(type) {
	case string:
		if _, ok := numfmt.ParseInt(v); ok {
			return resp.Bulk("int")
		}
		if len(v) <= 44 {
			return resp.Bulk("embstr")
		}
		return resp.Bulk("raw")
	case *datatype.Hash:
		return small(v.Len(), "listpack", "hashtable")
	case *datatype.Set:
		return resp.Bulk("hashtable")
	case *datatype.List:
		return resp.Bulk("quicklist")
	case *datatype.SortedSet:
		return small(v.Len(), "listpack", "skiplist")
	}
	return resp.Bulk("stream")
}

// cmdDump describes a value in bytes that are equal for equal values with the same history. They are no server's format
// and cannot be restored.
func cmdDump(c *call) resp.Reply {
	ent := c.Lookup(c.args[1])
	if ent == nil {
		return resp.Nil
	}
	var b bytes.Buffer
	w := record.NewWriter(bufio.NewWriter(&b), 0)
	dump.Value(w, "", &keyspace.Entry{Val: ent.Val})
	_ = w.Flush() // into memory
	return resp.Bulk(b.String())
}

func cmdFlush(c *call) resp.Reply {
	if len(c.args) > 2 || len(c.args) == 2 && !is(c.args[1], "SYNC") && !is(c.args[1], "ASYNC") {
		return resp.Err(textSyntax)
	}
	c.Flush()
	return resp.OK
}
