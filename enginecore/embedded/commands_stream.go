package embedded

import (
	"math"
	"strings"
)

func streamCommands() []command {
	return []command{
		{"xadd", -5, cmdWrite, cmdXAdd},
		{"xlen", 2, 0, cmdXLen},
		{"xrange", -4, 0, func(c *call) Reply { return c.xrange(false) }},
		{"xrevrange", -4, 0, func(c *call) Reply { return c.xrange(true) }},
		{"xread", -4, 0, cmdXRead},
		{"xtrim", -4, cmdWrite, cmdXTrim},
		{"xdel", -3, cmdWrite, cmdXDel},
		{"xinfo", -2, 0, cmdXInfo},
	}
}

const textStreamID = "Invalid stream ID specified as stream command argument"

func (c *call) stream() (*stream, bool) { return typed[stream](c.store, c.args[1]) }

// parseTrim reads "MAXLEN|MINID [~|=] threshold [LIMIT n]" at words[i] and returns the index behind it.
func (t *trim) parse(words []string, i int) (int, Reply, bool) {
	if t.set {
		return 0, errf("syntax error, MAXLEN and MINID options at the same time are not compatible"), false
	}
	t.set = true
	t.minID = is(words[i], "MINID")
	i++
	if i < len(words) && (words[i] == "~" || words[i] == "=") {
		t.approx = words[i] == "~"
		i++
	}
	if i >= len(words) {
		return 0, errf(textSyntax), false
	}
	if t.minID {
		var ok bool
		if t.id, ok = parseStreamID(words[i], 0); !ok {
			return 0, errf(textStreamID), false
		}
	} else {
		n, ok := intArg(words[i])
		if !ok {
			return 0, errf(textNotInt), false
		}
		if n < 0 {
			return 0, errf("The MAXLEN argument must be >= 0."), false
		}
		t.maxLen = int(n)
	}
	i++
	if t.approx {
		t.limit = streamTrimLimit
	}
	if i < len(words) && is(words[i], "LIMIT") {
		if i+1 >= len(words) {
			return 0, errf(textSyntax), false
		}
		n, ok := intArg(words[i+1])
		if !ok {
			return 0, errf(textNotInt), false
		}
		if n < 0 {
			return 0, errf("The LIMIT argument must be >= 0."), false
		}
		if !t.approx {
			return 0, errf("syntax error, LIMIT cannot be used without the special ~ option"), false
		}
		t.limit = int(n)
		i += 2
	}
	return i, Reply{}, true
}

func cmdXAdd(c *call) Reply {
	var t trim
	noMake := false
	i := 2
	for i < len(c.args) {
		if is(c.args[i], "NOMKSTREAM") {
			noMake = true
			i++
			continue
		}
		if is(c.args[i], "MAXLEN") || is(c.args[i], "MINID") {
			next, bad, ok := t.parse(c.args, i)
			if !ok {
				return bad
			}
			i = next
			continue
		}
		break
	}
	idAt := i
	fields := c.args[min(idAt+1, len(c.args)):]
	if len(fields) < 2 || len(fields)%2 != 0 {
		return errf("wrong number of arguments for 'xadd' command")
	}
	want := c.args[idAt]
	auto := want == "*"
	autoSeq := false
	var id streamID
	if !auto {
		text := want
		if strings.HasSuffix(want, "-*") {
			autoSeq = true
			text = strings.TrimSuffix(want, "-*")
		}
		var ok bool
		if id, ok = parseStreamID(text, 0); !ok || autoSeq && strings.Contains(text, "-") {
			return errf(textStreamID)
		}
		if !autoSeq && id == (streamID{}) {
			return errf("The ID specified in XADD must be greater than 0-0")
		}
	}
	s, ok := c.stream()
	if !ok {
		return wrongTypeReply()
	}
	if s == nil {
		if noMake {
			return replyNil
		}
		s = &stream{}
	}
	if s.lastID == maxStreamID {
		return errf("The stream has exhausted the last possible ID, unable to add more items")
	}
	const tooSmall = "The ID specified in XADD is equal or smaller than the target stream top item"
	switch {
	case auto:
		id = streamID{uint64(c.nowMs), 0}
		if !s.lastID.less(id) {
			id, _ = s.lastID.next()
		}
	case autoSeq && id.ms < s.lastID.ms, autoSeq && id.ms == s.lastID.ms && s.lastID.seq == math.MaxUint64:
		return errf(tooSmall)
	case autoSeq:
		if id.seq = 0; id.ms == s.lastID.ms {
			id.seq = s.lastID.seq + 1
		}
		if id == (streamID{}) {
			id.seq = 1
		}
	case !s.lastID.less(id):
		return errf(tooSmall)
	}
	if !c.keys.has(c.args[1]) {
		c.put(c.args[1], s)
	}
	s.add(id, append([]string(nil), fields...))
	if t.set {
		s.trim(t)
	}
	c.dirty++
	text := id.String()
	if auto || autoSeq {
		words := append([]string(nil), c.args...)
		words[idAt] = text
		c.rewrite(words...)
	}
	if c.streamAdded != nil {
		c.streamAdded(c.args[1])
	}
	return bulkReply(text)
}

func cmdXLen(c *call) Reply {
	s, ok := c.stream()
	if !ok {
		return wrongTypeReply()
	}
	if s == nil {
		return replyZero
	}
	return intReply(s.length)
}

func entryReply(e *streamEntry) Reply {
	return arrayReply([]Reply{bulkReply(e.id.String()), arrayReply(bulks(e.fields))})
}

func entriesReply(entries []streamEntry) Reply {
	out := make([]Reply, len(entries))
	for i := range entries {
		out[i] = entryReply(&entries[i])
	}
	return arrayReply(out)
}

// intervalID reads one end of XRANGE.
func intervalID(s string, end bool) (streamID, Reply, bool) {
	open := strings.HasPrefix(s, "(")
	if open {
		s = s[1:]
	}
	var id streamID
	ok := true
	switch {
	case s == "-" && !open:
		return id, Reply{}, true
	case s == "+" && !open:
		return maxStreamID, Reply{}, true
	case end:
		id, ok = parseStreamID(s, math.MaxUint64)
	default:
		id, ok = parseStreamID(s, 0)
	}
	if !ok {
		return id, errf(textStreamID), false
	}
	if open && end {
		if id, ok = id.prev(); !ok {
			return id, errf("invalid end ID for the interval"), false
		}
	} else if open {
		if id, ok = id.next(); !ok {
			return id, errf("invalid start ID for the interval"), false
		}
	}
	return id, Reply{}, true
}

func (c *call) xrange(rev bool) Reply {
	first, last := c.args[2], c.args[3]
	if rev {
		first, last = last, first
	}
	lo, bad, ok := intervalID(first, false)
	if !ok {
		return bad
	}
	hi, bad, ok := intervalID(last, true)
	if !ok {
		return bad
	}
	count := -1
	if len(c.args) > 4 {
		if len(c.args) != 6 || !is(c.args[4], "COUNT") {
			return errf(textSyntax)
		}
		n, ok := intArg(c.args[5])
		if !ok {
			return errf(textNotInt)
		}
		count = int(max(n, 0))
	}
	s, ok := c.stream()
	if !ok {
		return wrongTypeReply()
	}
	if s == nil {
		return arrayReply(nil)
	}
	if count == 0 {
		return Reply{Kind: KindNilArray}
	}
	return entriesReply(s.between(lo, hi, count, rev))
}

// xread is a parsed XREAD.
type xread struct {
	keys    []string
	after   []streamID
	count   int   // < 0 = all
	blockMs int64 // < 0 = do not wait, 0 = wait forever
}

// parseXRead parses the options and resolves every "$" to the last id of its stream.
func (c *call) parseXRead() (*xread, Reply, bool) {
	x := &xread{count: -1, blockMs: -1}
	i := 1
	for ; i < len(c.args); i++ {
		word := c.args[i]
		if is(word, "STREAMS") {
			break
		}
		if i+1 >= len(c.args) || !is(word, "COUNT") && !is(word, "BLOCK") {
			return nil, errf(textSyntax), false
		}
		i++
		n, ok := intArg(c.args[i])
		if is(word, "COUNT") {
			if !ok {
				return nil, errf(textNotInt), false
			}
			if n > 0 {
				x.count = int(n)
			}
			continue
		}
		if !ok {
			return nil, errf("timeout is not an integer or out of range"), false
		}
		if n < 0 {
			return nil, errf("timeout is negative"), false
		}
		x.blockMs = n
	}
	rest := c.args[min(i+1, len(c.args)):]
	if i >= len(c.args) || len(rest) == 0 {
		return nil, errf(textSyntax), false
	}
	if len(rest)%2 != 0 {
		return nil, errf("Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified."), false
	}
	n := len(rest) / 2
	x.keys = append(x.keys, rest[:n]...)
	for j, text := range rest[n:] {
		s, ok := typed[stream](c.store, x.keys[j])
		if !ok {
			return nil, wrongTypeReply(), false
		}
		var id streamID
		if text == "$" {
			if s != nil {
				id = s.lastID
			}
		} else if id, ok = parseStreamID(text, 0); !ok {
			return nil, errf(textStreamID), false
		}
		x.after = append(x.after, id)
	}
	return x, Reply{}, true
}

// read returns the present entries; found is false if there are none.
func (x *xread) read(s *store) (reply Reply, found bool) {
	out := make([]Reply, 0, 2*len(x.keys))
	for i, key := range x.keys {
		st, ok := typed[stream](s, key)
		if !ok {
			return wrongTypeReply(), true
		}
		if st == nil || !x.after[i].less(st.lastID) {
			continue
		}
		from, ok := x.after[i].next()
		if !ok {
			continue
		}
		if entries := st.between(from, maxStreamID, x.count, false); len(entries) > 0 {
			out = append(out, bulkReply(key), entriesReply(entries))
		}
	}
	if len(out) == 0 {
		return Reply{Kind: KindNilArray}, false
	}
	return Reply{Kind: KindMap, Elems: out, Int: mapOfLists}, true
}

// mapOfLists marks a map that RESP2 and scripts see as a list of [key, value] pairs rather than flat.
const mapOfLists = 1

func cmdXRead(c *call) Reply {
	x, bad, ok := c.parseXRead()
	if !ok {
		return bad
	}
	if c.script && x.blockMs >= 0 {
		return errf("xread command is not allowed with BLOCK option from scripts")
	}
	reply, found := x.read(c.store)
	if !found && x.blockMs >= 0 && c.sess != nil {
		c.sess.waiting = x
	}
	return reply
}

func cmdXTrim(c *call) Reply {
	var t trim
	if !is(c.args[2], "MAXLEN") && !is(c.args[2], "MINID") {
		return errf(textSyntax)
	}
	next, bad, ok := t.parse(c.args, 2)
	if !ok {
		return bad
	}
	if next != len(c.args) {
		return errf(textSyntax)
	}
	s, ok := c.stream()
	if !ok {
		return wrongTypeReply()
	}
	if s == nil {
		return replyZero
	}
	n := s.trim(t)
	c.dirty += int64(n)
	return intReply(n)
}

func cmdXDel(c *call) Reply {
	ids := make([]streamID, 0, len(c.args)-2)
	s, ok := c.stream()
	if !ok {
		return wrongTypeReply()
	}
	if s == nil {
		return replyZero
	}
	for _, text := range c.args[2:] {
		id, ok := parseStreamID(text, 0)
		if !ok {
			return errf(textStreamID)
		}
		ids = append(ids, id)
	}
	n := 0
	for _, id := range ids {
		if s.delete(id) {
			n++
		}
	}
	c.dirty += int64(n)
	return intReply(n)
}

// cmdXInfo answers XINFO STREAM; the figures of a server's radix tree have no counterpart here and count nodes.
func cmdXInfo(c *call) Reply {
	if !is(c.args[1], "STREAM") || len(c.args) != 3 {
		return errf("unknown subcommand or wrong number of arguments for '" + c.args[1] + "'. Try XINFO HELP.")
	}
	s, ok := typed[stream](c.store, c.args[2])
	if !ok {
		return wrongTypeReply()
	}
	if s == nil {
		return errf("no such key")
	}
	first, last := replyNil, replyNil
	var firstID streamID
	if e := s.firstEntry(); e != nil {
		first, last = entryReply(e), entryReply(s.lastEntry())
		firstID = e.id
	}
	return Reply{Kind: KindMap, Elems: []Reply{
		bulkReply("length"), intReply(s.length),
		bulkReply("radix-tree-keys"), intReply(len(s.nodes)),
		bulkReply("radix-tree-nodes"), intReply(len(s.nodes) + 1),
		bulkReply("last-generated-id"), bulkReply(s.lastID.String()),
		bulkReply("max-deleted-entry-id"), bulkReply(s.maxDeletedID.String()),
		bulkReply("entries-added"), int64Reply(int64(s.added)),
		bulkReply("recorded-first-entry-id"), bulkReply(firstID.String()),
		bulkReply("groups"), replyZero,
		bulkReply("first-entry"), first,
		bulkReply("last-entry"), last,
	}}
}
