package command

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

func keyCommands() []Command {
	expire := func(unit int64, relative bool) func(c *Call) resp.Reply {
		return func(c *Call) resp.Reply { return c.expire(unit, relative) }
	}
	ttl := func(unit int64, relative bool) func(c *Call) resp.Reply {
		return func(c *Call) resp.Reply { return c.ttl(unit, relative) }
	}
	return []Command{
		{"del", -2, Write, cmdDel},
		{"unlink", -2, Write, cmdDel},
		{"exists", -2, 0, cmdExists},
		{"touch", -2, 0, cmdExists},
		{"type", 2, 0, cmdType},
		{"expire", -3, Write, expire(1000, true)},
		{"pexpire", -3, Write, expire(1, true)},
		{"expireat", -3, Write, expire(1000, false)},
		{"pexpireat", -3, Write, expire(1, false)},
		{"ttl", 2, 0, ttl(1000, true)},
		{"pttl", 2, 0, ttl(1, true)},
		{"expiretime", 2, 0, ttl(1000, false)},
		{"pexpiretime", 2, 0, ttl(1, false)},
		{"persist", 2, Write, cmdPersist},
		{"keys", 2, 0, cmdKeys},
		{"scan", -2, 0, cmdScan},
		{"copy", -3, Write, cmdCopy},
		{"rename", 3, Write, cmdRename},
		{"object", -2, 0, cmdObject},
		{"dump", 2, 0, cmdDump},
		{"memory", -2, NoScript, cmdMemory},
		{"dbsize", 1, 0, func(c *Call) resp.Reply { return resp.Int(c.Keys.Len()) }},
		{"flushall", -1, Write, cmdFlush},
		{"flushdb", -1, Write, cmdFlush},
	}
}

func cmdDel(c *Call) resp.Reply {
	n := 0
	for _, key := range c.Args[1:] {
		if c.Remove(key) {
			n++
		}
	}
	return resp.Int(n)
}

func cmdExists(c *Call) resp.Reply {
	n := 0
	for _, key := range c.Args[1:] {
		if c.Keys.Has(key) {
			n++
		}
	}
	return resp.Int(n)
}

func cmdType(c *Call) resp.Reply {
	if ent := c.Lookup(c.Args[1]); ent != nil {
		return resp.Status(keyspace.TypeName(ent.Val))
	}
	return resp.Status("none")
}

func (c *Call) expire(unit int64, relative bool) resp.Reply {
	var nx, xx, gt, lt bool
	for _, word := range c.Args[3:] {
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
	at, bad, ok := c.deadline(c.Args[2], unit, relative)
	if !ok {
		return bad
	}
	key := c.Args[1]
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

func (c *Call) ttl(unit int64, relative bool) resp.Reply {
	ent := c.Lookup(c.Args[1])
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

func cmdPersist(c *Call) resp.Reply {
	ent := c.Lookup(c.Args[1])
	if ent == nil || ent.ExpireAt == 0 {
		return resp.Zero
	}
	c.SetExpiry(c.Args[1], ent, 0)
	c.Dirty++
	return resp.One
}

func cmdKeys(c *Call) resp.Reply {
	var out []resp.Reply
	c.Keys.Each(func(key string, _ *keyspace.Entry) bool {
		if glob.Match(c.Args[1], key) {
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
			return 0, 0, "", "", resp.Err(TextSyntax), false
		}
		switch {
		case Is(words[i], "MATCH"):
			match = words[i+1]
		case Is(words[i], "COUNT"):
			n, isInt := numfmt.ParseInt(words[i+1])
			if !isInt {
				return 0, 0, "", "", resp.Err(TextNotInt), false
			}
			if n < 1 {
				return 0, 0, "", "", resp.Err(TextSyntax), false
			}
			count = int(n)
		case allowType && Is(words[i], "TYPE"):
			typ = strings.ToLower(words[i+1])
		default:
			return 0, 0, "", "", resp.Err(TextSyntax), false
		}
	}
	return cursor, count, match, typ, resp.Reply{}, true
}

func scanReply(next uint64, items []resp.Reply) resp.Reply {
	return resp.Array([]resp.Reply{resp.Bulk(strconv.FormatUint(next, 10)), resp.Array(items)})
}

func cmdScan(c *Call) resp.Reply {
	cursor, count, match, typ, bad, ok := scanArgs(c.Args[1:], true)
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

func cmdCopy(c *Call) resp.Reply {
	replace := false
	for i := 3; i < len(c.Args); i++ {
		switch {
		case Is(c.Args[i], "REPLACE"):
			replace = true
		case Is(c.Args[i], "DB") && i+1 < len(c.Args):
			i++
			if c.Args[i] != "0" {
				return resp.Err("DB index is out of range")
			}
		default:
			return resp.Err(TextSyntax)
		}
	}
	src, dst := c.Args[1], c.Args[2]
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

func cmdRename(c *Call) resp.Reply {
	ent := c.Lookup(c.Args[1])
	if ent == nil {
		return resp.Err("no such key")
	}
	if c.Args[1] == c.Args[2] {
		return resp.OK
	}
	c.Remove(c.Args[1])
	at := ent.ExpireAt
	ent = c.Put(c.Args[2], ent.Val)
	if at != 0 {
		c.SetExpiry(c.Args[2], ent, at)
	}
	return resp.OK
}

// cmdObject answers ENCODING with the name a server would most likely give.
func cmdObject(c *Call) resp.Reply {
	if len(c.Args) != 3 {
		return resp.Err("unknown subcommand or wrong number of arguments for '" + c.Args[1] + "'. Try OBJECT HELP.")
	}
	ent := c.Lookup(c.Args[2])
	if ent == nil {
		return resp.Nil
	}
	switch strings.ToUpper(c.Args[1]) {
	case "REFCOUNT":
		return resp.One
	case "IDLETIME", "FREQ":
		return resp.Zero
	case "ENCODING":
	default:
		return resp.Err("unknown subcommand '" + c.Args[1] + "'. Try OBJECT HELP.")
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
	case *datatype.Bytes:
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

// cmdDump describes a value in bytes that are equal for equal values with the same history. They do not have a server's
// format and cannot be restored.
func cmdDump(c *Call) resp.Reply {
	ent := c.Lookup(c.Args[1])
	if ent == nil {
		return resp.Nil
	}
	var b bytes.Buffer
	w := record.NewWriter(bufio.NewWriter(&b), 0)
	dump.Value(w, "", &keyspace.Entry{Val: ent.Val})
	_ = w.Flush() // into memory
	return resp.Bulk(b.String())
}

// cmdMemory estimates: the engine does not count the bytes of a value.
func cmdMemory(c *Call) resp.Reply {
	if !Is(c.Args[1], "USAGE") || len(c.Args) < 3 {
		return resp.Err("unknown subcommand '" + c.Args[1] + "'. Try MEMORY HELP.")
	}
	ent := c.Lookup(c.Args[2])
	if ent == nil {
		return resp.Nil
	}
	return resp.Int(len(c.Args[2]) + keyspace.SizeOf(ent.Val))
}

func cmdFlush(c *Call) resp.Reply {
	if len(c.Args) > 2 || len(c.Args) == 2 && !Is(c.Args[1], "SYNC") && !Is(c.Args[1], "ASYNC") {
		return resp.Err(TextSyntax)
	}
	c.Flush()
	return resp.OK
}
