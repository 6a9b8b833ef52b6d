package embedded

import (
	"math"
	"strings"
)

func zsetCommands() []command {
	return []command{
		{"zadd", -4, cmdWrite, cmdZAdd},
		{"zrem", -3, cmdWrite, cmdZRem},
		{"zscore", 3, 0, cmdZScore},
		{"zmscore", -3, 0, cmdZMScore},
		{"zcard", 2, 0, cmdZCard},
		{"zcount", 4, 0, cmdZCount},
		{"zrange", -4, 0, cmdZRange},
		{"zrevrange", -4, 0, cmdZRevRange},
		{"zrangebyscore", -4, 0, func(c *call) Reply { return c.rangeByScoreOld(false) }},
		{"zrevrangebyscore", -4, 0, func(c *call) Reply { return c.rangeByScoreOld(true) }},
		{"zrank", 3, 0, func(c *call) Reply { return c.zrank(false) }},
		{"zrevrank", 3, 0, func(c *call) Reply { return c.zrank(true) }},
		{"zpopmin", -2, cmdWrite, func(c *call) Reply { return c.zpop(false) }},
		{"zpopmax", -2, cmdWrite, func(c *call) Reply { return c.zpop(true) }},
		{"zincrby", 4, cmdWrite, cmdZIncrBy},
		{"zremrangebyscore", 4, cmdWrite, cmdZRemRangeByScore},
		{"zremrangebyrank", 4, cmdWrite, cmdZRemRangeByRank},
		{"zscan", -3, 0, cmdZScan},
	}
}

const (
	textScoreNaN  = "resulting score is not a number (NaN)"
	textMinMax    = "min or max is not a float"
	textNotFloat  = "value is not a valid float"
	textPositives = "value is out of range, must be positive"
)

func (c *call) zset() (*zset, bool) { return typed[zset](c.store, c.args[1]) }

type zaddFlags struct{ nx, xx, gt, lt, ch, incr bool }

func cmdZAdd(c *call) Reply {
	var f zaddFlags
	i := 2
options:
	for ; i < len(c.args); i++ {
		switch strings.ToUpper(c.args[i]) {
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
	pairs := c.args[i:]
	switch {
	case len(pairs) == 0 || len(pairs)%2 != 0:
		return errf(textSyntax)
	case f.nx && f.xx:
		return errf("XX and NX options at the same time are not compatible")
	case f.gt && f.nx || f.lt && f.nx || f.gt && f.lt:
		return errf("GT, LT, and/or NX options at the same time are not compatible")
	case f.incr && len(pairs) > 2:
		return errf("INCR option supports a single increment-element pair")
	}
	var buf [8]float64
	scores := buf[:0]
	for j := 0; j < len(pairs); j += 2 {
		v, ok := parseFloat(pairs[j])
		if !ok {
			return errf(textNotFloat)
		}
		scores = append(scores, v)
	}
	return c.zadd(f, pairs, scores)
}

func (c *call) zadd(f zaddFlags, pairs []string, scores []float64) Reply {
	z, ok := c.zset()
	if !ok {
		return wrongTypeReply()
	}
	if z == nil {
		if f.xx {
			if f.incr {
				return replyNil
			}
			return replyZero
		}
		z = &zset{}
	}
	added, changed, processed := 0, 0, false
	var last float64
	for j, score := range scores {
		member := pairs[2*j+1]
		old, present := z.scores.get(member)
		if f.nx && present || f.xx && !present {
			continue
		}
		if f.incr && present {
			score += old
			if math.IsNaN(score) {
				return errf(textScoreNaN)
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
		z.set(member, score)
	}
	if added+changed > 0 {
		c.dirty++
		if !c.keys.has(c.args[1]) {
			c.put(c.args[1], z)
		}
	}
	switch {
	case f.incr && !processed:
		return replyNil
	case f.incr:
		return doubleReply(last)
	case f.ch:
		return intReply(added + changed)
	}
	return intReply(added)
}

func cmdZIncrBy(c *call) Reply {
	by, ok := parseFloat(c.args[2])
	if !ok {
		return errf(textNotFloat)
	}
	return c.zadd(zaddFlags{incr: true}, c.args[2:4], []float64{by})
}

func cmdZRem(c *call) Reply {
	z, ok := c.zset()
	if !ok {
		return wrongTypeReply()
	}
	if z == nil {
		return replyZero
	}
	n := 0
	for _, m := range c.args[2:] {
		if z.del(m) {
			n++
		}
	}
	c.removed(z, n)
	return intReply(n)
}

// removed notes that n members left z and drops the key with the last one.
func (c *call) removed(z *zset, n int) {
	if n > 0 {
		c.dirty++
		if z.len() == 0 {
			c.remove(c.args[1])
		}
	}
}

func cmdZScore(c *call) Reply {
	z, ok := c.zset()
	if !ok {
		return wrongTypeReply()
	}
	if z != nil {
		if score, present := z.scores.get(c.args[2]); present {
			return doubleReply(score)
		}
	}
	return replyNil
}

func cmdZMScore(c *call) Reply {
	z, ok := c.zset()
	if !ok {
		return wrongTypeReply()
	}
	out := make([]Reply, len(c.args)-2)
	if z != nil {
		for i, m := range c.args[2:] {
			if score, present := z.scores.get(m); present {
				out[i] = doubleReply(score)
			}
		}
	}
	return arrayReply(out)
}

func cmdZCard(c *call) Reply {
	z, ok := c.zset()
	if !ok {
		return wrongTypeReply()
	}
	if z == nil {
		return replyZero
	}
	return intReply(z.len())
}

// scoreBound is one end of a score range.
type scoreBound struct {
	v    float64
	open bool
}

func parseBound(s string) (scoreBound, bool) {
	var b scoreBound
	if strings.HasPrefix(s, "(") {
		b.open = true
		s = s[1:]
	}
	v, n := strtod(s)
	b.v = v
	return b, n == len(s) && !math.IsNaN(v)
}

// scoreRange returns the half-open rank range of the scores between lo and hi.
func (z *zset) scoreRange(lo, hi scoreBound) (from, to int) {
	from = z.rankScore(lo.v, lo.open)
	to = z.rankScore(hi.v, !hi.open)
	return from, max(from, to)
}

func cmdZCount(c *call) Reply {
	lo, ok1 := parseBound(c.args[2])
	hi, ok2 := parseBound(c.args[3])
	if !ok1 || !ok2 {
		return errf(textMinMax)
	}
	z, ok := c.zset()
	if !ok {
		return wrongTypeReply()
	}
	if z == nil {
		return replyZero
	}
	from, to := z.scoreRange(lo, hi)
	return intReply(to - from)
}

type zrange struct {
	byScore, rev, withScores, limited bool
	offset, count                     int64
}

func cmdZRange(c *call) Reply {
	var r zrange
	r.count = -1
	for i := 4; i < len(c.args); i++ {
		switch strings.ToUpper(c.args[i]) {
		case "BYSCORE":
			r.byScore = true
		case "REV":
			r.rev = true
		case "WITHSCORES":
			r.withScores = true
		case "LIMIT":
			if bad, ok := r.limit(c.args[i+1:]); !ok {
				return bad
			}
			i += 2
		default:
			return errf(textSyntax)
		}
	}
	if r.limited && !r.byScore {
		return errf("syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX")
	}
	return c.zrange(r)
}

// limit reads the two numbers behind LIMIT.
func (r *zrange) limit(words []string) (Reply, bool) {
	if len(words) < 2 {
		return errf(textSyntax), false
	}
	var ok1, ok2 bool
	r.offset, ok1 = intArg(words[0])
	r.count, ok2 = intArg(words[1])
	if !ok1 || !ok2 {
		return errf(textNotInt), false
	}
	r.limited = true
	return Reply{}, true
}

func cmdZRevRange(c *call) Reply {
	r := zrange{rev: true, count: -1}
	if len(c.args) == 5 && is(c.args[4], "WITHSCORES") {
		r.withScores = true
	} else if len(c.args) > 4 {
		return errf(textSyntax)
	}
	return c.zrange(r)
}

func (c *call) rangeByScoreOld(rev bool) Reply {
	r := zrange{byScore: true, rev: rev, count: -1}
	for i := 4; i < len(c.args); i++ {
		switch {
		case is(c.args[i], "WITHSCORES"):
			r.withScores = true
		case is(c.args[i], "LIMIT"):
			if bad, ok := r.limit(c.args[i+1:]); !ok {
				return bad
			}
			i += 2
		default:
			return errf(textSyntax)
		}
	}
	return c.zrange(r)
}

func (c *call) zrange(r zrange) Reply {
	var lo, hi scoreBound
	var start, stop int64
	var ok1, ok2 bool
	if r.byScore {
		first, last := c.args[2], c.args[3]
		if r.rev {
			first, last = last, first
		}
		lo, ok1 = parseBound(first)
		hi, ok2 = parseBound(last)
		if !ok1 || !ok2 {
			return errf(textMinMax)
		}
	} else {
		start, ok1 = intArg(c.args[2])
		stop, ok2 = intArg(c.args[3])
		if !ok1 || !ok2 {
			return errf(textNotInt)
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
		from, to = z.scoreRange(lo, hi)
		from, to = r.window(from, to)
	} else {
		from, to = rangeBounds(start, stop, z.len())
		if r.rev && from < to {
			from, to = z.len()-to, z.len()-from
		}
	}
	return zitemsReply(z.slice(from, to, r.rev), r.withScores)
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

func zitemsReply(items []zitem, withScores bool) Reply {
	if !withScores {
		out := make([]Reply, len(items))
		for i, it := range items {
			out[i] = bulkReply(it.member)
		}
		return arrayReply(out)
	}
	out := make([]Reply, 0, 2*len(items))
	for _, it := range items {
		out = append(out, bulkReply(it.member), doubleReply(it.score))
	}
	return Reply{Kind: KindPairs, Elems: out}
}

func (c *call) zrank(rev bool) Reply {
	z, ok := c.zset()
	if !ok {
		return wrongTypeReply()
	}
	if z == nil {
		return replyNil
	}
	score, present := z.scores.get(c.args[2])
	if !present {
		return replyNil
	}
	rank := z.rank(zitem{score, c.args[2]})
	if rev {
		rank = z.len() - 1 - rank
	}
	return intReply(rank)
}

func (c *call) zpop(maxFirst bool) Reply {
	if len(c.args) > 3 {
		return errf(textSyntax)
	}
	count := int64(-1)
	if len(c.args) == 3 {
		var ok bool
		if count, ok = intArg(c.args[2]); !ok || count < 0 {
			return errf(textPositives)
		}
	}
	z, ok := c.zset()
	if !ok {
		return wrongTypeReply()
	}
	if z == nil || count == 0 {
		return arrayReply(nil)
	}
	n := int(min(max(count, 1), int64(z.len())))
	from := 0
	if maxFirst {
		from = z.len() - n
	}
	items := z.slice(from, from+n, maxFirst)
	for _, it := range items {
		z.del(it.member)
	}
	c.removed(z, n)
	reply := zitemsReply(items, true)
	if count < 0 {
		reply.Kind = KindArray // a single pair is flat in both protocols
	}
	return reply
}

func cmdZRemRangeByScore(c *call) Reply {
	lo, ok1 := parseBound(c.args[2])
	hi, ok2 := parseBound(c.args[3])
	if !ok1 || !ok2 {
		return errf(textMinMax)
	}
	z, ok := c.zset()
	if !ok {
		return wrongTypeReply()
	}
	if z == nil {
		return replyZero
	}
	from, to := z.scoreRange(lo, hi)
	return c.zremRange(z, from, to)
}

func cmdZRemRangeByRank(c *call) Reply {
	start, ok1 := intArg(c.args[2])
	stop, ok2 := intArg(c.args[3])
	if !ok1 || !ok2 {
		return errf(textNotInt)
	}
	z, ok := c.zset()
	if !ok {
		return wrongTypeReply()
	}
	if z == nil {
		return replyZero
	}
	from, to := rangeBounds(start, stop, z.len())
	return c.zremRange(z, from, to)
}

func (c *call) zremRange(z *zset, from, to int) Reply {
	items := z.slice(from, to, false)
	for _, it := range items {
		z.del(it.member)
	}
	c.removed(z, len(items))
	return intReply(len(items))
}

func cmdZScan(c *call) Reply {
	cursor, count, match, _, bad, ok := scanArgs(c.args[2:], false)
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
	var out []Reply
	next := z.scores.scan(cursor, count, func(m string, score float64) {
		if match == "" || globMatch(match, m) {
			out = append(out, bulkReply(m), bulkReply(formatScore(score)))
		}
	})
	return scanReply(next, out)
}
