package command

import (
	"math"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/datatype"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/glob"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/numfmt"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/resp"
)

func zsetCommands() []Command {
	return []Command{
		{"zadd", -4, Write, cmdZAdd},
		{"zrem", -3, Write, cmdZRem},
		{"zscore", 3, 0, cmdZScore},
		{"zmscore", -3, 0, cmdZMScore},
		{"zcard", 2, 0, cmdZCard},
		{"zcount", 4, 0, cmdZCount},
		{"zrange", -4, 0, cmdZRange},
		{"zrevrange", -4, 0, cmdZRevRange},
		{"zrangebyscore", -4, 0, func(c *Call) resp.Reply { return c.rangeByScoreOld(false) }},
		{"zrevrangebyscore", -4, 0, func(c *Call) resp.Reply { return c.rangeByScoreOld(true) }},
		{"zrank", 3, 0, func(c *Call) resp.Reply { return c.zrank(false) }},
		{"zrevrank", 3, 0, func(c *Call) resp.Reply { return c.zrank(true) }},
		{"zpopmin", -2, Write, func(c *Call) resp.Reply { return c.zpop(false) }},
		{"zpopmax", -2, Write, func(c *Call) resp.Reply { return c.zpop(true) }},
		{"zincrby", 4, Write, cmdZIncrBy},
		{"zremrangebyscore", 4, Write, cmdZRemRangeByScore},
		{"zremrangebyrank", 4, Write, cmdZRemRangeByRank},
		{"zscan", -3, 0, cmdZScan},
	}
}

const (
	textScoreNaN  = "resulting score is not a number (NaN)"
	textMinMax    = "min or max is not a float"
	textNotFloat  = "value is not a valid float"
	textPositives = "value is out of range, must be positive"
)

func (c *Call) zset() (*datatype.SortedSet, bool) {
	return keyspace.Get[datatype.SortedSet](c.Store, c.Args[1])
}

type zaddFlags struct{ nx, xx, gt, lt, ch, incr bool }

func cmdZAdd(c *Call) resp.Reply {
	var f zaddFlags
	i := 2
options:
	for ; i < len(c.Args); i++ {
		switch strings.ToUpper(c.Args[i]) {
		case "NX":
			f.nx = true
		case "XX":
			f.xx = true
		case "GT":
			f.gt = true
		case "LT":
			f.lt = true
		case "CH":
			f.ch = true
		case "INCR":
			f.incr = true
		default:
			break options
		}
	}
	pairs := c.Args[i:]
	switch {
	case len(pairs) == 0 || len(pairs)%2 != 0:
		return resp.Err(TextSyntax)
	case f.nx && f.xx:
		return resp.Err("XX and NX options at the same time are not compatible")
	case f.gt && f.nx || f.lt && f.nx || f.gt && f.lt:
		return resp.Err("GT, LT, and/or NX options at the same time are not compatible")
	case f.incr && len(pairs) > 2:
		return resp.Err("INCR option supports a single increment-element pair")
	}
	var buf [8]float64
	scores := buf[:0]
	for j := 0; j < len(pairs); j += 2 {
		v, ok := numfmt.ParseFloat(pairs[j])
		if !ok {
			return resp.Err(textNotFloat)
		}
		scores = append(scores, v)
	}
	return c.zadd(f, pairs, scores)
}

func (c *Call) zadd(f zaddFlags, pairs []string, scores []float64) resp.Reply {
	z, ok := c.zset()
	if !ok {
		return wrongTypeReply()
	}
	if z == nil {
		if f.xx {
			if f.incr {
				return resp.Nil
			}
			return resp.Zero
		}
		z = &datatype.SortedSet{}
	}
	added, changed, processed := 0, 0, false
	var last float64
	for j, score := range scores {
		member := pairs[2*j+1]
		old, present := z.Score(member)
		if f.nx && present || f.xx && !present {
			continue
		}
		if f.incr && present {
			score += old
			if math.IsNaN(score) {
				return resp.Err(textScoreNaN)
			}
		}
		if present && (f.gt && score <= old || f.lt && score >= old) {
			continue
		}
		processed, last = true, score
		if !present {
			added++
		} else if score != old {
			changed++
		}
		z.Set(member, score)
	}
	if added+changed > 0 {
		c.Dirty++
		if !c.Keys.Has(c.Args[1]) {
			c.Put(c.Args[1], z)
		}
	}
	switch {
	case f.incr && !processed:
		return resp.Nil
	case f.incr:
		return resp.Double(last)
	case f.ch:
		return resp.Int(added + changed)
	}
	return resp.Int(added)
}

func cmdZIncrBy(c *Call) resp.Reply {
	by, ok := numfmt.ParseFloat(c.Args[2])
	if !ok {
		return resp.Err(textNotFloat)
	}
	return c.zadd(zaddFlags{incr: true}, c.Args[2:4], []float64{by})
}

func cmdZRem(c *Call) resp.Reply {
	z, ok := c.zset()
	if !ok {
		return wrongTypeReply()
	}
	if z == nil {
		return resp.Zero
	}
	n := 0
	for _, m := range c.Args[2:] {
		if z.Del(m) {
			n++
		}
	}
	c.removed(z, n)
	return resp.Int(n)
}

// removed notes that n members left z and drops the key with the last one.
func (c *Call) removed(z *datatype.SortedSet, n int) {
	if n > 0 {
		c.Dirty++
		if z.Len() == 0 {
			c.Remove(c.Args[1])
		}
	}
}

func cmdZScore(c *Call) resp.Reply {
	z, ok := c.zset()
	if !ok {
		return wrongTypeReply()
	}
	if z != nil {
		if score, present := z.Score(c.Args[2]); present {
			return resp.Double(score)
		}
	}
	return resp.Nil
}

func cmdZMScore(c *Call) resp.Reply {
	z, ok := c.zset()
	if !ok {
		return wrongTypeReply()
	}
	out := make([]resp.Reply, len(c.Args)-2)
	if z != nil {
		for i, m := range c.Args[2:] {
			if score, present := z.Score(m); present {
				out[i] = resp.Double(score)
			}
		}
	}
	return resp.Array(out)
}

func cmdZCard(c *Call) resp.Reply {
	z, ok := c.zset()
	if !ok {
		return wrongTypeReply()
	}
	if z == nil {
		return resp.Zero
	}
	return resp.Int(z.Len())
}

func parseBound(s string) (datatype.ScoreBound, bool) {
	var b datatype.ScoreBound
	if strings.HasPrefix(s, "(") {
		b.Open = true
		s = s[1:]
	}
	v, n := numfmt.Strtod(s)
	b.Value = v
	return b, n == len(s) && !math.IsNaN(v)
}

func cmdZCount(c *Call) resp.Reply {
	lo, ok1 := parseBound(c.Args[2])
	hi, ok2 := parseBound(c.Args[3])
	if !ok1 || !ok2 {
		return resp.Err(textMinMax)
	}
	z, ok := c.zset()
	if !ok {
		return wrongTypeReply()
	}
	if z == nil {
		return resp.Zero
	}
	from, to := z.ScoreRange(lo, hi)
	return resp.Int(to - from)
}

type zrange struct {
	byScore, rev, withScores, limited bool
	offset, count                     int64
}

func cmdZRange(c *Call) resp.Reply {
	var r zrange
	r.count = -1
	for i := 4; i < len(c.Args); i++ {
		switch strings.ToUpper(c.Args[i]) {
		case "BYSCORE":
			r.byScore = true
		case "REV":
			r.rev = true
		case "WITHSCORES":
			r.withScores = true
		case "LIMIT":
			if bad, ok := r.limit(c.Args[i+1:]); !ok {
				return bad
			}
			i += 2
		default:
			return resp.Err(TextSyntax)
		}
	}
	if r.limited && !r.byScore {
		return resp.Err("syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX")
	}
	return c.zrange(r)
}

// limit reads the two numbers after LIMIT.
func (r *zrange) limit(words []string) (resp.Reply, bool) {
	if len(words) < 2 {
		return resp.Err(TextSyntax), false
	}
	var ok1, ok2 bool
	r.offset, ok1 = numfmt.ParseInt(words[0])
	r.count, ok2 = numfmt.ParseInt(words[1])
	if !ok1 || !ok2 {
		return resp.Err(TextNotInt), false
	}
	r.limited = true
	return resp.Reply{}, true
}

func cmdZRevRange(c *Call) resp.Reply {
	r := zrange{rev: true, count: -1}
	if len(c.Args) == 5 && Is(c.Args[4], "WITHSCORES") {
		r.withScores = true
	} else if len(c.Args) > 4 {
		return resp.Err(TextSyntax)
	}
	return c.zrange(r)
}

func (c *Call) rangeByScoreOld(rev bool) resp.Reply {
	r := zrange{byScore: true, rev: rev, count: -1}
	for i := 4; i < len(c.Args); i++ {
		switch {
		case Is(c.Args[i], "WITHSCORES"):
			r.withScores = true
		case Is(c.Args[i], "LIMIT"):
			if bad, ok := r.limit(c.Args[i+1:]); !ok {
				return bad
			}
			i += 2
		default:
			return resp.Err(TextSyntax)
		}
	}
	return c.zrange(r)
}

func (c *Call) zrange(r zrange) resp.Reply {
	var lo, hi datatype.ScoreBound
	var start, stop int64
	var ok1, ok2 bool
	if r.byScore {
		first, last := c.Args[2], c.Args[3]
		if r.rev {
			first, last = last, first
		}
		lo, ok1 = parseBound(first)
		hi, ok2 = parseBound(last)
		if !ok1 || !ok2 {
			return resp.Err(textMinMax)
		}
	} else {
		start, ok1 = numfmt.ParseInt(c.Args[2])
		stop, ok2 = numfmt.ParseInt(c.Args[3])
		if !ok1 || !ok2 {
			return resp.Err(TextNotInt)
		}
	}
	z, ok := c.zset()
	if !ok {
		return wrongTypeReply()
	}
	if z == nil {
		return zitemsReply(nil, r.withScores)
	}
	var from, to int
	if r.byScore {
		from, to = z.ScoreRange(lo, hi)
		from, to = r.window(from, to)
	} else {
		from, to = rangeBounds(start, stop, z.Len())
		if r.rev && from < to {
			from, to = z.Len()-to, z.Len()-from
		}
	}
	return zitemsReply(z.Slice(from, to, r.rev), r.withScores)
}

// window applies LIMIT, which counts from the end the reading begins at.
func (r *zrange) window(from, to int) (int, int) {
	if r.offset < 0 || r.offset > int64(to-from) {
		return from, from
	}
	if r.rev {
		to -= int(r.offset)
		if r.count >= 0 && int64(to-from) > r.count {
			from = to - int(r.count)
		}
		return from, to
	}
	from += int(r.offset)
	if r.count >= 0 && int64(to-from) > r.count {
		to = from + int(r.count)
	}
	return from, to
}

func zitemsReply(items []datatype.Member, withScores bool) resp.Reply {
	if !withScores {
		out := make([]resp.Reply, len(items))
		for i, it := range items {
			out[i] = resp.Bulk(it.Name)
		}
		return resp.Array(out)
	}
	out := make([]resp.Reply, 0, 2*len(items))
	for _, it := range items {
		out = append(out, resp.Bulk(it.Name), resp.Double(it.Score))
	}
	return resp.Reply{Kind: resp.KindPairs, Elems: out}
}

func (c *Call) zrank(rev bool) resp.Reply {
	z, ok := c.zset()
	if !ok {
		return wrongTypeReply()
	}
	if z == nil {
		return resp.Nil
	}
	score, present := z.Score(c.Args[2])
	if !present {
		return resp.Nil
	}
	rank := z.Rank(datatype.Member{Score: score, Name: c.Args[2]})
	if rev {
		rank = z.Len() - 1 - rank
	}
	return resp.Int(rank)
}

func (c *Call) zpop(maxFirst bool) resp.Reply {
	if len(c.Args) > 3 {
		return resp.Err(TextSyntax)
	}
	count := int64(-1)
	if len(c.Args) == 3 {
		var ok bool
		if count, ok = numfmt.ParseInt(c.Args[2]); !ok || count < 0 {
			return resp.Err(textPositives)
		}
	}
	z, ok := c.zset()
	if !ok {
		return wrongTypeReply()
	}
	if z == nil || count == 0 {
		return resp.Array(nil)
	}
	n := int(min(max(count, 1), int64(z.Len())))
	from := 0
	if maxFirst {
		from = z.Len() - n
	}
	items := z.Slice(from, from+n, maxFirst)
	for _, it := range items {
		z.Del(it.Name)
	}
	c.removed(z, n)
	reply := zitemsReply(items, true)
	if count < 0 {
		reply.Kind = resp.KindArray // a single pair is flat in both protocols
	}
	return reply
}

func cmdZRemRangeByScore(c *Call) resp.Reply {
	lo, ok1 := parseBound(c.Args[2])
	hi, ok2 := parseBound(c.Args[3])
	if !ok1 || !ok2 {
		return resp.Err(textMinMax)
	}
	z, ok := c.zset()
	if !ok {
		return wrongTypeReply()
	}
	if z == nil {
		return resp.Zero
	}
	from, to := z.ScoreRange(lo, hi)
	return c.zremRange(z, from, to)
}

func cmdZRemRangeByRank(c *Call) resp.Reply {
	start, ok1 := numfmt.ParseInt(c.Args[2])
	stop, ok2 := numfmt.ParseInt(c.Args[3])
	if !ok1 || !ok2 {
		return resp.Err(TextNotInt)
	}
	z, ok := c.zset()
	if !ok {
		return wrongTypeReply()
	}
	if z == nil {
		return resp.Zero
	}
	from, to := rangeBounds(start, stop, z.Len())
	return c.zremRange(z, from, to)
}

func (c *Call) zremRange(z *datatype.SortedSet, from, to int) resp.Reply {
	items := z.Slice(from, to, false)
	for _, it := range items {
		z.Del(it.Name)
	}
	c.removed(z, len(items))
	return resp.Int(len(items))
}

func cmdZScan(c *Call) resp.Reply {
	cursor, count, match, _, bad, ok := scanArgs(c.Args[2:], false)
	if !ok {
		return bad
	}
	z, ok := c.zset()
	if !ok {
		return wrongTypeReply()
	}
	if z == nil {
		return scanReply(0, nil)
	}
	var out []resp.Reply
	next := z.Scan(cursor, count, func(m string, score float64) {
		if match == "" || glob.Match(match, m) {
			out = append(out, resp.Bulk(m), resp.Bulk(numfmt.FormatScore(score)))
		}
	})
	return scanReply(next, out)
}
