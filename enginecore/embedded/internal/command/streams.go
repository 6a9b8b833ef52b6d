package command

import (
	"math"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/datatype"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/numfmt"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/resp"
)

func streamCommands() []Command {
	return []Command{
		{"xadd", -5, Write, cmdXAdd},
		{"xlen", 2, 0, cmdXLen},
		{"xrange", -4, 0, func(c *Call) resp.Reply { return c.xrange(false) }},
		{"xrevrange", -4, 0, func(c *Call) resp.Reply { return c.xrange(true) }},
		{"xread", -4, 0, cmdXRead},
		{"xtrim", -4, Write, cmdXTrim},
		{"xdel", -3, Write, cmdXDel},
		{"xinfo", -2, 0, cmdXInfo},
		{"xsetid", -3, Write, cmdXSetID},
	}
}

const textStreamID = "Invalid stream ID specified as stream command argument"

func (c *Call) stream() (*datatype.Stream, bool) {
	return keyspace.Get[datatype.Stream](c.Store, c.Args[1])
}

// parseTrim reads "MAXLEN|MINID [~|=] threshold [LIMIT n]" at words[i] and returns the index behind it.
func parseTrim(t *datatype.Trim, words []string, i int) (int, resp.Reply, bool) {
	if t.Set {
		return 0, resp.Err("syntax error, MAXLEN and MINID options at the same time are not compatible"), false
	}
	t.Set = true
	t.MinID = Is(words[i], "MINID")
	i++
	if i < len(words) && (words[i] == "~" || words[i] == "=") {
		t.Approx = words[i] == "~"
		i++
	}
	if i >= len(words) {
		return 0, resp.Err(TextSyntax), false
	}
	if t.MinID {
		var ok bool
		if t.ID, ok = datatype.ParseStreamID(words[i], 0); !ok {
			return 0, resp.Err(textStreamID), false
		}
	} else {
		n, ok := numfmt.ParseInt(words[i])
		if !ok {
			return 0, resp.Err(TextNotInt), false
		}
		if n < 0 {
			return 0, resp.Err("The MAXLEN argument must be >= 0."), false
		}
		t.MaxLen = int(n)
	}
	i++
	if t.Approx {
		t.Limit = datatype.StreamTrimLimit
	}
	if i < len(words) && Is(words[i], "LIMIT") {
		if i+1 >= len(words) {
			return 0, resp.Err(TextSyntax), false
		}
		n, ok := numfmt.ParseInt(words[i+1])
		if !ok {
			return 0, resp.Err(TextNotInt), false
		}
		if n < 0 {
			return 0, resp.Err("The LIMIT argument must be >= 0."), false
		}
		if !t.Approx {
			return 0, resp.Err("syntax error, LIMIT cannot be used without the special ~ option"), false
		}
		t.Limit = int(n)
		i += 2
	}
	return i, resp.Reply{}, true
}

func cmdXAdd(c *Call) resp.Reply {
	var t datatype.Trim
	noMake := false
	i := 2
	for i < len(c.Args) {
		if Is(c.Args[i], "NOMKSTREAM") {
			noMake = true
			i++
			continue
		}
		if Is(c.Args[i], "MAXLEN") || Is(c.Args[i], "MINID") {
			next, bad, ok := parseTrim(&t, c.Args, i)
			if !ok {
				return bad
			}
			i = next
			continue
		}
		break
	}
	idAt := i
	fields := c.Args[min(idAt+1, len(c.Args)):]
	if len(fields) < 2 || len(fields)%2 != 0 {
		return resp.Err("wrong number of arguments for 'xadd' command")
	}
	want := c.Args[idAt]
	auto := want == "*"
	autoSeq := false
	var id datatype.StreamID
	if !auto {
		text := want
		if strings.HasSuffix(want, "-*") {
			autoSeq = true
			text = strings.TrimSuffix(want, "-*")
		}
		var ok bool
		if id, ok = datatype.ParseStreamID(text, 0); !ok || autoSeq && strings.Contains(text, "-") {
			return resp.Err(textStreamID)
		}
		if !autoSeq && id == (datatype.StreamID{}) {
			return resp.Err("The ID specified in XADD must be greater than 0-0")
		}
	}
	s, ok := c.stream()
	if !ok {
		return wrongTypeReply()
	}
	if s == nil {
		if noMake {
			return resp.Nil
		}
		s = &datatype.Stream{}
	}
	if s.LastID == datatype.MaxStreamID {
		return resp.Err("The stream has exhausted the last possible ID, unable to add more items")
	}
	const tooSmall = "The ID specified in XADD is equal or smaller than the target stream top item"
	switch {
	case auto:
		id = datatype.StreamID{Ms: uint64(c.NowMs)}
		if !s.LastID.Less(id) {
			id, _ = s.LastID.Next()
		}
	case autoSeq && id.Ms < s.LastID.Ms, autoSeq && id.Ms == s.LastID.Ms && s.LastID.Seq == math.MaxUint64:
		return resp.Err(tooSmall)
	case autoSeq:
		if id.Seq = 0; id.Ms == s.LastID.Ms {
			id.Seq = s.LastID.Seq + 1
		}
		if id == (datatype.StreamID{}) {
			id.Seq = 1
		}
	case !s.LastID.Less(id):
		return resp.Err(tooSmall)
	}
	if !c.Keys.Has(c.Args[1]) {
		c.Put(c.Args[1], s)
	}
	s.Add(id, append([]string(nil), fields...))
	if t.Set {
		s.Trim(t)
	}
	c.Dirty++
	text := id.String()
	if auto || autoSeq {
		words := append([]string(nil), c.Args...)
		words[idAt] = text
		c.Rewrite(words...)
	}
	if c.OnStreamAdd != nil {
		c.OnStreamAdd(c.Args[1])
	}
	return resp.Bulk(text)
}

func cmdXLen(c *Call) resp.Reply {
	s, ok := c.stream()
	if !ok {
		return wrongTypeReply()
	}
	if s == nil {
		return resp.Zero
	}
	return resp.Int(s.Length)
}

func entryReply(e *datatype.StreamEntry) resp.Reply {
	return resp.Array([]resp.Reply{resp.Bulk(e.ID.String()), resp.Array(resp.Bulks(e.Fields))})
}

func entriesReply(entries []datatype.StreamEntry) resp.Reply {
	out := make([]resp.Reply, len(entries))
	for i := range entries {
		out[i] = entryReply(&entries[i])
	}
	return resp.Array(out)
}

// intervalID reads one end of XRANGE.
func intervalID(s string, end bool) (datatype.StreamID, resp.Reply, bool) {
	open := strings.HasPrefix(s, "(")
	if open {
		s = s[1:]
	}
	var id datatype.StreamID
	var ok bool
	switch {
	case s == "-" && !open:
		return id, resp.Reply{}, true
	case s == "+" && !open:
		return datatype.MaxStreamID, resp.Reply{}, true
	case end:
		id, ok = datatype.ParseStreamID(s, math.MaxUint64)
	default:
		id, ok = datatype.ParseStreamID(s, 0)
	}
	if !ok {
		return id, resp.Err(textStreamID), false
	}
	if open && end {
		if id, ok = id.Prev(); !ok {
			return id, resp.Err("invalid end ID for the interval"), false
		}
	} else if open {
		if id, ok = id.Next(); !ok {
			return id, resp.Err("invalid start ID for the interval"), false
		}
	}
	return id, resp.Reply{}, true
}

func (c *Call) xrange(rev bool) resp.Reply {
	first, last := c.Args[2], c.Args[3]
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
	if len(c.Args) > 4 {
		if len(c.Args) != 6 || !Is(c.Args[4], "COUNT") {
			return resp.Err(TextSyntax)
		}
		n, ok := numfmt.ParseInt(c.Args[5])
		if !ok {
			return resp.Err(TextNotInt)
		}
		count = int(max(n, 0))
	}
	s, ok := c.stream()
	if !ok {
		return wrongTypeReply()
	}
	if s == nil {
		return resp.Array(nil)
	}
	if count == 0 {
		return resp.Reply{Kind: resp.KindNilArray}
	}
	return entriesReply(s.Between(lo, hi, count, rev))
}

// StreamRead is an XREAD that may wait for its streams to grow.
type StreamRead struct {
	Keys    []string
	after   []datatype.StreamID
	count   int   // < 0 = all
	BlockMs int64 // < 0 = do not wait, 0 = wait forever
}

// parseXRead parses the options and resolves every "$" to the last id of its stream.
func (c *Call) parseXRead() (*StreamRead, resp.Reply, bool) {
	x := &StreamRead{count: -1, BlockMs: -1}
	i := 1
	for ; i < len(c.Args); i++ {
		word := c.Args[i]
		if Is(word, "STREAMS") {
			break
		}
		if i+1 >= len(c.Args) || !Is(word, "COUNT") && !Is(word, "BLOCK") {
			return nil, resp.Err(TextSyntax), false
		}
		i++
		n, ok := numfmt.ParseInt(c.Args[i])
		if Is(word, "COUNT") {
			if !ok {
				return nil, resp.Err(TextNotInt), false
			}
			if n > 0 {
				x.count = int(n)
			}
			continue
		}
		if !ok {
			return nil, resp.Err("timeout is not an integer or out of range"), false
		}
		if n < 0 {
			return nil, resp.Err("timeout is negative"), false
		}
		x.BlockMs = n
	}
	rest := c.Args[min(i+1, len(c.Args)):]
	if i >= len(c.Args) || len(rest) == 0 {
		return nil, resp.Err(TextSyntax), false
	}
	if len(rest)%2 != 0 {
		return nil, resp.Err("Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified."), false
	}
	n := len(rest) / 2
	x.Keys = append(x.Keys, rest[:n]...)
	for j, text := range rest[n:] {
		s, ok := keyspace.Get[datatype.Stream](c.Store, x.Keys[j])
		if !ok {
			return nil, wrongTypeReply(), false
		}
		var id datatype.StreamID
		if text == "$" {
			if s != nil {
				id = s.LastID
			}
		} else if id, ok = datatype.ParseStreamID(text, 0); !ok {
			return nil, resp.Err(textStreamID), false
		}
		x.after = append(x.after, id)
	}
	return x, resp.Reply{}, true
}

// Read returns the present entries; found is false if there are none.
func (x *StreamRead) Read(s *keyspace.Store) (reply resp.Reply, found bool) {
	out := make([]resp.Reply, 0, 2*len(x.Keys))
	for i, key := range x.Keys {
		st, ok := keyspace.Get[datatype.Stream](s, key)
		if !ok {
			return wrongTypeReply(), true
		}
		if st == nil || !x.after[i].Less(st.LastID) {
			continue
		}
		from, ok := x.after[i].Next()
		if !ok {
			continue
		}
		if entries := st.Between(from, datatype.MaxStreamID, x.count, false); len(entries) > 0 {
			out = append(out, resp.Bulk(key), entriesReply(entries))
		}
	}
	if len(out) == 0 {
		return resp.Reply{Kind: resp.KindNilArray}, false
	}
	return resp.Reply{Kind: resp.KindMap, Elems: out, Int: resp.MapOfLists}, true
}

func cmdXRead(c *Call) resp.Reply {
	x, bad, ok := c.parseXRead()
	if !ok {
		return bad
	}
	if c.Script && x.BlockMs >= 0 {
		return resp.Err("xread command is not allowed with BLOCK option from scripts")
	}
	reply, found := x.Read(c.Store)
	if !found && x.BlockMs >= 0 && c.CanWait {
		c.Waits = x
	}
	return reply
}

func cmdXTrim(c *Call) resp.Reply {
	var t datatype.Trim
	if !Is(c.Args[2], "MAXLEN") && !Is(c.Args[2], "MINID") {
		return resp.Err(TextSyntax)
	}
	next, bad, ok := parseTrim(&t, c.Args, 2)
	if !ok {
		return bad
	}
	if next != len(c.Args) {
		return resp.Err(TextSyntax)
	}
	s, ok := c.stream()
	if !ok {
		return wrongTypeReply()
	}
	if s == nil {
		return resp.Zero
	}
	n := s.Trim(t)
	c.Dirty += int64(n)
	return resp.Int(n)
}

func cmdXDel(c *Call) resp.Reply {
	ids := make([]datatype.StreamID, 0, len(c.Args)-2)
	s, ok := c.stream()
	if !ok {
		return wrongTypeReply()
	}
	if s == nil {
		return resp.Zero
	}
	for _, text := range c.Args[2:] {
		id, ok := datatype.ParseStreamID(text, 0)
		if !ok {
			return resp.Err(textStreamID)
		}
		ids = append(ids, id)
	}
	n := 0
	for _, id := range ids {
		if s.Delete(id) {
			n++
		}
	}
	c.Dirty += int64(n)
	return resp.Int(n)
}

// cmdXInfo answers XINFO STREAM; the figures of a server's radix tree have no counterpart here and count nodes.
func cmdXInfo(c *Call) resp.Reply {
	if !Is(c.Args[1], "STREAM") || len(c.Args) != 3 {
		return resp.Err("unknown subcommand or wrong number of arguments for '" + c.Args[1] + "'. Try XINFO HELP.")
	}
	s, ok := keyspace.Get[datatype.Stream](c.Store, c.Args[2])
	if !ok {
		return wrongTypeReply()
	}
	if s == nil {
		return resp.Err("no such key")
	}
	first, last := resp.Nil, resp.Nil
	var firstID datatype.StreamID
	if e := s.FirstEntry(); e != nil {
		first, last = entryReply(e), entryReply(s.LastEntry())
		firstID = e.ID
	}
	return resp.Reply{Kind: resp.KindMap, Elems: []resp.Reply{
		resp.Bulk("length"), resp.Int(s.Length),
		resp.Bulk("radix-tree-keys"), resp.Int(len(s.Nodes)),
		resp.Bulk("radix-tree-nodes"), resp.Int(len(s.Nodes) + 1),
		resp.Bulk("last-generated-id"), resp.Bulk(s.LastID.String()),
		resp.Bulk("max-deleted-entry-id"), resp.Bulk(s.MaxDeletedID.String()),
		resp.Bulk("entries-added"), resp.Int64(int64(s.Added)),
		resp.Bulk("recorded-first-entry-id"), resp.Bulk(firstID.String()),
		resp.Bulk("groups"), resp.Zero,
		resp.Bulk("first-entry"), first,
		resp.Bulk("last-entry"), last,
	}}
}

// cmdXSetID sets what a stream remembers beside its entries, which is how a stream is copied.
func cmdXSetID(c *Call) resp.Reply {
	last, ok := datatype.ParseStreamID(c.Args[2], 0)
	if !ok {
		return resp.Err(textStreamID)
	}
	added, deleted := int64(-1), datatype.StreamID{}
	for i := 3; i < len(c.Args); i += 2 {
		if i+1 == len(c.Args) {
			return resp.Err(TextSyntax)
		}
		switch {
		case Is(c.Args[i], "ENTRIESADDED"):
			if added, ok = numfmt.ParseInt(c.Args[i+1]); !ok {
				return resp.Err(TextNotInt)
			}
			if added < 0 {
				return resp.Err("entries_added must be positive")
			}
		case Is(c.Args[i], "MAXDELETEDID"):
			if deleted, ok = datatype.ParseStreamID(c.Args[i+1], 0); !ok {
				return resp.Err(textStreamID)
			}
			if last.Less(deleted) {
				return resp.Err("The ID specified in XSETID is smaller than the provided max_deleted_entry_id")
			}
		default:
			return resp.Err(TextSyntax)
		}
	}
	s, ok := c.stream()
	if !ok {
		return wrongTypeReply()
	}
	if s == nil {
		return resp.Err("no such key")
	}
	if e := s.LastEntry(); e != nil && last.Less(e.ID) {
		return resp.Err("The ID specified in XSETID is smaller than the target stream top item")
	}
	if added >= 0 && int64(s.Length) > added {
		return resp.Err("The entries_added specified in XSETID is smaller than the target stream length")
	}
	s.LastID = last
	if added >= 0 {
		s.Added = uint64(added)
	}
	if deleted != (datatype.StreamID{}) {
		s.MaxDeletedID = deleted
	}
	c.Dirty++
	return resp.OK
}
