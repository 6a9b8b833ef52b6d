package command

import (
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/datatype"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/glob"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/numfmt"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/resp"
)

func hashCommands() []Command {
	return []Command{
		{"hset", -4, Write, cmdHSet},
		{"hmset", -4, Write, cmdHMSet},
		{"hsetnx", 4, Write, cmdHSetNX},
		{"hget", 3, 0, cmdHGet},
		{"hmget", -3, 0, cmdHMGet},
		{"hgetall", 2, 0, cmdHGetAll},
		{"hdel", -3, Write, cmdHDel},
		{"hexists", 3, 0, cmdHExists},
		{"hlen", 2, 0, cmdHLen},
		{"hkeys", 2, 0, cmdHKeys},
		{"hvals", 2, 0, cmdHVals},
		{"hincrby", 4, Write, cmdHIncrBy},
		{"hincrbyfloat", 4, Write, cmdHIncrByFloat},
		{"hscan", -3, 0, cmdHScan},
		{"hstrlen", 3, 0, cmdHStrlen},
	}
}

func (c *Call) hset() (int, resp.Reply, bool) {
	if len(c.Args)%2 != 0 {
		return 0, resp.Err("wrong number of arguments for '" + strings.ToLower(c.Args[0]) + "' command"), false
	}
	h, ok := keyspace.GetOrNew[datatype.Hash](c.Store, c.Args[1])
	if !ok {
		return 0, wrongTypeReply(), false
	}
	n := 0
	for i := 2; i < len(c.Args); i += 2 {
		if h.Set(c.Args[i], c.Args[i+1]) {
			n++
		}
	}
	c.Dirty++
	return n, resp.Reply{}, true
}

func cmdHSet(c *Call) resp.Reply {
	n, bad, ok := c.hset()
	if !ok {
		return bad
	}
	return resp.Int(n)
}

func cmdHMSet(c *Call) resp.Reply {
	if _, bad, ok := c.hset(); !ok {
		return bad
	}
	return resp.OK
}

func cmdHSetNX(c *Call) resp.Reply {
	h, ok := keyspace.GetOrNew[datatype.Hash](c.Store, c.Args[1])
	if !ok {
		return wrongTypeReply()
	}
	if h.Has(c.Args[2]) {
		return resp.Zero
	}
	h.Set(c.Args[2], c.Args[3])
	c.Dirty++
	return resp.One
}

func (c *Call) hash() (*datatype.Hash, bool) { return keyspace.Get[datatype.Hash](c.Store, c.Args[1]) }

func cmdHGet(c *Call) resp.Reply {
	h, ok := c.hash()
	if !ok {
		return wrongTypeReply()
	}
	if h != nil {
		if v, present := h.Get(c.Args[2]); present {
			return resp.Bulk(v)
		}
	}
	return resp.Nil
}

func cmdHMGet(c *Call) resp.Reply {
	h, ok := c.hash()
	if !ok {
		return wrongTypeReply()
	}
	out := make([]resp.Reply, len(c.Args)-2)
	if h != nil {
		for i, f := range c.Args[2:] {
			if v, present := h.Get(f); present {
				out[i] = resp.Bulk(v)
			}
		}
	}
	return resp.Array(out)
}

func cmdHGetAll(c *Call) resp.Reply {
	h, ok := c.hash()
	if !ok {
		return wrongTypeReply()
	}
	var out []resp.Reply
	if h != nil {
		out = make([]resp.Reply, 0, 2*h.Len())
		h.Each(func(f, v string) bool {
			out = append(out, resp.Bulk(f), resp.Bulk(v))
			return true
		})
	}
	return resp.Reply{Kind: resp.KindMap, Elems: out}
}

func cmdHDel(c *Call) resp.Reply {
	h, ok := c.hash()
	if !ok {
		return wrongTypeReply()
	}
	if h == nil {
		return resp.Zero
	}
	n := 0
	for _, f := range c.Args[2:] {
		if h.Del(f) {
			n++
		}
	}
	if n > 0 {
		c.Dirty++
		if h.Len() == 0 {
			c.Remove(c.Args[1])
		}
	}
	return resp.Int(n)
}

func cmdHExists(c *Call) resp.Reply {
	h, ok := c.hash()
	if !ok {
		return wrongTypeReply()
	}
	return resp.BoolInt(h != nil && h.Has(c.Args[2]))
}

func cmdHLen(c *Call) resp.Reply {
	h, ok := c.hash()
	if !ok {
		return wrongTypeReply()
	}
	if h == nil {
		return resp.Zero
	}
	return resp.Int(h.Len())
}

func cmdHKeys(c *Call) resp.Reply {
	h, ok := c.hash()
	if !ok {
		return wrongTypeReply()
	}
	if h == nil {
		return resp.Array(nil)
	}
	return resp.Array(resp.Bulks(h.Keys()))
}

func cmdHVals(c *Call) resp.Reply {
	h, ok := c.hash()
	if !ok {
		return wrongTypeReply()
	}
	var out []resp.Reply
	if h != nil {
		h.Each(func(_, v string) bool {
			out = append(out, resp.Bulk(v))
			return true
		})
	}
	return resp.Array(out)
}

func cmdHIncrBy(c *Call) resp.Reply {
	by, ok := numfmt.ParseInt(c.Args[3])
	if !ok {
		return resp.Err(TextNotInt)
	}
	h, ok := c.hash()
	if !ok {
		return wrongTypeReply()
	}
	old := int64(0)
	if h != nil {
		if text, present := h.Get(c.Args[2]); present {
			if old, ok = numfmt.ParseInt(text); !ok {
				return resp.Err("hash value is not an integer")
			}
		}
	}
	sum, ok := addInt(old, by)
	if !ok {
		return resp.Err(textOverflow)
	}
	h, _ = keyspace.GetOrNew[datatype.Hash](c.Store, c.Args[1])
	h.Set(c.Args[2], itoa(sum))
	c.Dirty++
	return resp.Int64(sum)
}

func cmdHIncrByFloat(c *Call) resp.Reply {
	if _, ok := numfmt.ParseFloat(c.Args[3]); !ok {
		return resp.Err(numfmt.ErrNotFloat.Error())
	}
	h, ok := c.hash()
	if !ok {
		return wrongTypeReply()
	}
	old := "0"
	if h != nil {
		if text, present := h.Get(c.Args[2]); present {
			if old = text; old == "" {
				return resp.Err("hash value is not a float")
			}
		}
	}
	if _, ok := numfmt.ParseFloat(old); !ok {
		return resp.Err("hash value is not a float")
	}
	sum, err := numfmt.AddDecimals(old, c.Args[3])
	if err != nil {
		return resp.Err(err.Error())
	}
	h, _ = keyspace.GetOrNew[datatype.Hash](c.Store, c.Args[1])
	h.Set(c.Args[2], sum)
	c.Dirty++
	c.Rewrite("HSET", c.Args[1], c.Args[2], sum)
	return resp.Bulk(sum)
}

func cmdHScan(c *Call) resp.Reply {
	cursor, count, match, _, bad, ok := scanArgs(c.Args[2:], false)
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
	var out []resp.Reply
	next := h.Scan(cursor, count, func(f, v string) {
		if match == "" || glob.Match(match, f) {
			out = append(out, resp.Bulk(f), resp.Bulk(v))
		}
	})
	return scanReply(next, out)
}

func cmdHStrlen(c *Call) resp.Reply {
	h, ok := c.hash()
	if !ok {
		return wrongTypeReply()
	}
	if h == nil {
		return resp.Zero
	}
	v, _ := h.Get(c.Args[2])
	return resp.Int(len(v))
}
