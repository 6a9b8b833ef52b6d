package embedded

import (
	"math"
	"sort"
	"strconv"
	"strings"
)

// stream is an append-only log of entries in nodes. Nodes are filled by the rules of a server with its default settings
// (100 entries and 4096 bytes of its packed encoding), because approximate trimming removes whole nodes: the same
// insertion pattern then trims the same entries.
type stream struct {
	nodes        []*streamNode
	length       int
	lastID       streamID
	maxDeletedID streamID
	added        uint64
}

type streamNode struct {
	entries []streamEntry
	master  []string // field names of the first entry; entries with the same ones are packed without them
	deleted int      // entries removed one by one; they still fill the node
	bytes   int
	firstMs uint64
	first   uint64
}

type streamEntry struct {
	id     streamID
	fields []string // name, value, name, value …
}

type streamID struct{ ms, seq uint64 }

const (
	streamNodeEntries = 100
	streamNodeBytes   = 4096
	// streamTrimLimit bounds the work of one approximate trim when the caller gives no LIMIT.
	streamTrimLimit = 100 * streamNodeEntries
)

var maxStreamID = streamID{math.MaxUint64, math.MaxUint64}

func (a streamID) less(b streamID) bool {
	return a.ms < b.ms || a.ms == b.ms && a.seq < b.seq
}

// String is the id as commands show it.
func (a streamID) String() string {
	return string(a.append(make([]byte, 0, 24)))
}

func (a streamID) append(b []byte) []byte {
	b = strconv.AppendUint(b, a.ms, 10)
	b = append(b, '-')
	return strconv.AppendUint(b, a.seq, 10)
}

// next returns the smallest greater id; ok is false after the last one.
func (a streamID) next() (streamID, bool) {
	if a.seq < math.MaxUint64 {
		return streamID{a.ms, a.seq + 1}, true
	}
	if a.ms < math.MaxUint64 {
		return streamID{a.ms + 1, 0}, true
	}
	return streamID{}, false
}

// prev returns the greatest smaller id; ok is false before 0-0.
func (a streamID) prev() (streamID, bool) {
	if a.seq > 0 {
		return streamID{a.ms, a.seq - 1}, true
	}
	if a.ms > 0 {
		return streamID{a.ms - 1, math.MaxUint64}, true
	}
	return streamID{}, false
}

// parseStreamID reads "ms" or "ms-seq"; missing is the sequence of the short form.
func parseStreamID(s string, missing uint64) (streamID, bool) {
	ms, seq, full := strings.Cut(s, "-")
	var id streamID
	var err error
	if id.ms, err = strconv.ParseUint(ms, 10, 64); err != nil || ms == "" || ms[0] == '+' {
		return id, false
	}
	if !full {
		id.seq = missing
		return id, true
	}
	if id.seq, err = strconv.ParseUint(seq, 10, 64); err != nil || seq[0] == '+' {
		return id, false
	}
	return id, true
}

// add appends an entry; id must be above lastID. fields is kept.
func (s *stream) add(id streamID, fields []string) {
	total := 0
	for _, f := range fields {
		total += len(f)
	}
	var n *streamNode
	if len(s.nodes) > 0 {
		n = s.nodes[len(s.nodes)-1]
		if n.bytes+total >= streamNodeBytes || len(n.entries)+n.deleted >= streamNodeEntries {
			n = nil
		}
	}
	if n == nil {
		n = &streamNode{firstMs: id.ms, first: id.seq}
		// Header and end byte, then the master entry: counts of live and deleted entries, of fields, the names, and 0.
		n.bytes = 7 + 2 + 2 + packedInt(int64(len(fields)/2)) + 2
		n.master = make([]string, 0, len(fields)/2)
		for i := 0; i+1 < len(fields); i += 2 {
			n.master = append(n.master, fields[i])
			n.bytes += packedLen(fields[i])
		}
		s.nodes = append(s.nodes, n)
	}
	same := len(n.master) == len(fields)/2
	for i := 0; same && i < len(n.master); i++ {
		same = n.master[i] == fields[2*i]
	}
	items := len(fields)/2 + 3
	n.bytes += 2 + packedInt(int64(id.ms-n.firstMs)) + packedInt(int64(id.seq-n.first))
	if !same {
		n.bytes += packedInt(int64(len(fields) / 2))
		items += len(fields)/2 + 1
	}
	for i, f := range fields {
		if i%2 == 1 || !same {
			n.bytes += packedLen(f)
		}
	}
	n.bytes += packedInt(int64(items))
	n.entries = append(n.entries, streamEntry{id, fields})
	s.length++
	s.added++
	s.lastID = id
}

// packedInt is the size of an integer in the server's packed list, its length suffix included.
func packedInt(v int64) int {
	switch {
	case v >= 0 && v <= 127:
		return 2
	case v >= -4096 && v <= 4095:
		return 3
	case v >= math.MinInt16 && v <= math.MaxInt16:
		return 4
	case v >= -1<<23 && v <= 1<<23-1:
		return 5
	case v >= math.MinInt32 && v <= math.MaxInt32:
		return 6
	}
	return 10
}

// packedLen is the size of a string in the server's packed list, which stores plain integers as such.
func packedLen(s string) int {
	if v, ok := parseInt(s); ok {
		return packedInt(v)
	}
	n := len(s)
	switch {
	case n < 64:
		n++
	case n < 4096:
		n += 2
	default:
		n += 5
	}
	switch {
	case n <= 127:
		return n + 1
	case n < 16383:
		return n + 2
	case n < 2097151:
		return n + 3
	case n < 268435455:
		return n + 4
	}
	return n + 5
}

// trim is how XADD and XTRIM shorten a stream.
type trim struct {
	set    bool
	minID  bool // by id instead of by length
	approx bool
	maxLen int
	id     streamID
	limit  int // entries removed at most, 0 = any number
}

// trim removes the oldest entries and returns how many. An approximate trim removes whole nodes only and so never goes
// below the bound.
func (s *stream) trim(t trim) int {
	removed := 0
	for len(s.nodes) > 0 {
		if !t.minID && s.length <= t.maxLen {
			break
		}
		n := s.nodes[0]
		live := len(n.entries)
		if t.limit > 0 && removed+live > t.limit {
			break
		}
		whole := s.length-live >= t.maxLen
		if t.minID {
			whole = n.entries[live-1].id.less(t.id)
		}
		if whole {
			s.nodes[0] = nil
			s.nodes = s.nodes[1:]
			s.length -= live
			removed += live
			continue
		}
		if t.approx {
			break
		}
		k := s.length - t.maxLen
		if t.minID {
			k = sort.Search(live, func(i int) bool { return !n.entries[i].id.less(t.id) })
		}
		n.entries = n.entries[k:]
		n.deleted += k
		s.length -= k
		removed += k
		break
	}
	return removed
}

// delete removes one entry.
func (s *stream) delete(id streamID) bool {
	ni, ei := s.seek(id)
	if ni == len(s.nodes) || s.nodes[ni].entries[ei].id != id {
		return false
	}
	n := s.nodes[ni]
	n.entries = append(n.entries[:ei:ei], n.entries[ei+1:]...)
	n.deleted++
	s.length--
	if len(n.entries) == 0 {
		s.nodes = append(s.nodes[:ni:ni], s.nodes[ni+1:]...)
	}
	if s.maxDeletedID.less(id) {
		s.maxDeletedID = id
	}
	return true
}

// seek finds the first entry at or after id; the node index is len(nodes) when there is none.
func (s *stream) seek(id streamID) (node, entry int) {
	node = sort.Search(len(s.nodes), func(i int) bool {
		e := s.nodes[i].entries
		return !e[len(e)-1].id.less(id)
	})
	if node < len(s.nodes) {
		e := s.nodes[node].entries
		entry = sort.Search(len(e), func(i int) bool { return !e[i].id.less(id) })
	}
	return node, entry
}

// between returns up to count entries with lo <= id <= hi, newest first when rev; count < 0 means all.
func (s *stream) between(lo, hi streamID, count int, rev bool) []streamEntry {
	if hi.less(lo) || count == 0 {
		return nil
	}
	var out []streamEntry
	if !rev {
		for ni, ei := s.seek(lo); ni < len(s.nodes); ni, ei = ni+1, 0 {
			for _, e := range s.nodes[ni].entries[ei:] {
				if hi.less(e.id) || len(out) == count {
					return out
				}
				out = append(out, e)
			}
		}
		return out
	}
	ni, ei := len(s.nodes), 0
	if n, ok := hi.next(); ok {
		ni, ei = s.seek(n)
	}
	for {
		if ei == 0 {
			if ni--; ni < 0 {
				return out
			}
			ei = len(s.nodes[ni].entries)
		}
		ei--
		e := s.nodes[ni].entries[ei]
		if e.id.less(lo) || len(out) == count {
			return out
		}
		out = append(out, e)
	}
}

// firstEntry and lastEntry return the ends of a stream that may be empty.
func (s *stream) firstEntry() *streamEntry {
	if len(s.nodes) == 0 {
		return nil
	}
	return &s.nodes[0].entries[0]
}

func (s *stream) lastEntry() *streamEntry {
	if len(s.nodes) == 0 {
		return nil
	}
	e := s.nodes[len(s.nodes)-1].entries
	return &e[len(e)-1]
}
