package datatype

import (
	"math"
	"sort"
	"strconv"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/numfmt"
)

// Stream is an append-only log of entries in nodes. Nodes are filled by the rules of a server with its default settings
// (100 entries and 4096 bytes of its packed encoding), because approximate trimming removes whole nodes: the same
// insertion pattern then trims the same entries.
type Stream struct {
	Nodes        []*StreamNode
	Length       int
	LastID       StreamID
	MaxDeletedID StreamID
	Added        uint64 // entries ever added
}

// StreamNode is a part of a stream: entries that a server keeps in one packed list.
type StreamNode struct {
	Entries []StreamEntry
	Master  []string // field names of the first entry; entries with the same ones are packed without them
	Deleted int      // entries removed one by one; they still fill the node
	Bytes   int      // in the encoding of a server
	FirstMs uint64   // time of the id of the first entry
	First   uint64   // sequence number of the id of the first entry
}

// StreamEntry is an entry of a stream.
type StreamEntry struct {
	ID     StreamID
	Fields []string // name, value, name, value …
}

// StreamID is the id of an entry: Unix time in ms and a sequence number.
type StreamID struct{ Ms, Seq uint64 }

// Limits of a server with default settings: of the entries and of the bytes of one node.
const (
	StreamNodeEntries = 100
	StreamNodeBytes   = 4096
	// StreamTrimLimit bounds the work of one approximate trim when the caller gives no LIMIT.
	StreamTrimLimit = 100 * StreamNodeEntries
)

// MaxStreamID is the greatest id.
var MaxStreamID = StreamID{math.MaxUint64, math.MaxUint64}

// Less reports whether a comes before b.
func (a StreamID) Less(b StreamID) bool {
	return a.Ms < b.Ms || a.Ms == b.Ms && a.Seq < b.Seq
}

// String is the id as commands show it.
func (a StreamID) String() string {
	return string(a.append(make([]byte, 0, 24)))
}

func (a StreamID) append(b []byte) []byte {
	b = strconv.AppendUint(b, a.Ms, 10)
	b = append(b, '-')
	return strconv.AppendUint(b, a.Seq, 10)
}

// Next returns the smallest greater id; ok is false after the last one.
func (a StreamID) Next() (StreamID, bool) {
	if a.Seq < math.MaxUint64 {
		return StreamID{a.Ms, a.Seq + 1}, true
	}
	if a.Ms < math.MaxUint64 {
		return StreamID{a.Ms + 1, 0}, true
	}
	return StreamID{}, false
}

// Prev returns the greatest smaller id; ok is false before 0-0.
func (a StreamID) Prev() (StreamID, bool) {
	if a.Seq > 0 {
		return StreamID{a.Ms, a.Seq - 1}, true
	}
	if a.Ms > 0 {
		return StreamID{a.Ms - 1, math.MaxUint64}, true
	}
	return StreamID{}, false
}

// ParseStreamID reads "ms" or "ms-seq"; missing is the sequence of the short form.
func ParseStreamID(s string, missing uint64) (StreamID, bool) {
	ms, seq, full := strings.Cut(s, "-")
	var id StreamID
	var err error
	if id.Ms, err = strconv.ParseUint(ms, 10, 64); err != nil || ms == "" || ms[0] == '+' {
		return id, false
	}
	if !full {
		id.Seq = missing
		return id, true
	}
	if id.Seq, err = strconv.ParseUint(seq, 10, 64); err != nil || seq[0] == '+' {
		return id, false
	}
	return id, true
}

// Add appends an entry; id must be greater than the ids of all entries before. The stream keeps fields.
func (s *Stream) Add(id StreamID, fields []string) {
	total := 0
	for _, f := range fields {
		total += len(f)
	}
	var n *StreamNode
	if len(s.Nodes) > 0 {
		n = s.Nodes[len(s.Nodes)-1]
		if n.Bytes+total >= StreamNodeBytes || len(n.Entries)+n.Deleted >= StreamNodeEntries {
			n = nil
		}
	}
	if n == nil {
		n = &StreamNode{FirstMs: id.Ms, First: id.Seq}
		// Header and end byte, then the master entry: counts of live and deleted entries, of fields, the names, and 0.
		n.Bytes = 7 + 2 + 2 + packedInt(int64(len(fields)/2)) + 2
		n.Master = make([]string, 0, len(fields)/2)
		for i := 0; i+1 < len(fields); i += 2 {
			n.Master = append(n.Master, fields[i])
			n.Bytes += packedLen(fields[i])
		}
		s.Nodes = append(s.Nodes, n)
	}
	same := len(n.Master) == len(fields)/2
	for i := 0; same && i < len(n.Master); i++ {
		same = n.Master[i] == fields[2*i]
	}
	items := len(fields)/2 + 3
	n.Bytes += 2 + packedInt(int64(id.Ms-n.FirstMs)) + packedInt(int64(id.Seq-n.First))
	if !same {
		n.Bytes += packedInt(int64(len(fields) / 2))
		items += len(fields)/2 + 1
	}
	for i, f := range fields {
		if i%2 == 1 || !same {
			n.Bytes += packedLen(f)
		}
	}
	n.Bytes += packedInt(int64(items))
	n.Entries = append(n.Entries, StreamEntry{id, fields})
	s.Length++
	s.Added++
	s.LastID = id
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
	if v, ok := numfmt.ParseInt(s); ok {
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

// Trim is how XADD and XTRIM shorten a stream.
type Trim struct {
	Set    bool // whether there is anything to trim
	MinID  bool // by id instead of by length
	Approx bool
	MaxLen int
	ID     StreamID
	Limit  int // entries removed at most, 0 = any number
}

// Trim removes the oldest entries and returns how many. An approximate trim removes whole nodes only and so never goes
// below the bound.
func (s *Stream) Trim(t Trim) int {
	removed := 0
	for len(s.Nodes) > 0 {
		if !t.MinID && s.Length <= t.MaxLen {
			break
		}
		n := s.Nodes[0]
		live := len(n.Entries)
		if t.Limit > 0 && removed+live > t.Limit {
			break
		}
		whole := s.Length-live >= t.MaxLen
		if t.MinID {
			whole = n.Entries[live-1].ID.Less(t.ID)
		}
		if whole {
			s.Nodes[0] = nil
			s.Nodes = s.Nodes[1:]
			s.Length -= live
			removed += live
			continue
		}
		if t.Approx {
			break
		}
		k := s.Length - t.MaxLen
		if t.MinID {
			k = sort.Search(live, func(i int) bool { return !n.Entries[i].ID.Less(t.ID) })
		}
		n.Entries = n.Entries[k:]
		n.Deleted += k
		s.Length -= k
		removed += k
		break
	}
	return removed
}

// Delete removes one entry.
func (s *Stream) Delete(id StreamID) bool {
	ni, ei := s.seek(id)
	if ni == len(s.Nodes) || s.Nodes[ni].Entries[ei].ID != id {
		return false
	}
	n := s.Nodes[ni]
	n.Entries = append(n.Entries[:ei:ei], n.Entries[ei+1:]...)
	n.Deleted++
	s.Length--
	if len(n.Entries) == 0 {
		s.Nodes = append(s.Nodes[:ni:ni], s.Nodes[ni+1:]...)
	}
	if s.MaxDeletedID.Less(id) {
		s.MaxDeletedID = id
	}
	return true
}

// seek finds the first entry at or after id; the node index is len(nodes) when there is none.
func (s *Stream) seek(id StreamID) (node, entry int) {
	node = sort.Search(len(s.Nodes), func(i int) bool {
		e := s.Nodes[i].Entries
		return !e[len(e)-1].ID.Less(id)
	})
	if node < len(s.Nodes) {
		e := s.Nodes[node].Entries
		entry = sort.Search(len(e), func(i int) bool { return !e[i].ID.Less(id) })
	}
	return node, entry
}

// Between returns up to count entries with lo <= id <= hi, newest first when rev; count < 0 means all.
func (s *Stream) Between(lo, hi StreamID, count int, rev bool) []StreamEntry {
	if hi.Less(lo) || count == 0 {
		return nil
	}
	var out []StreamEntry
	if !rev {
		for ni, ei := s.seek(lo); ni < len(s.Nodes); ni, ei = ni+1, 0 {
			for _, e := range s.Nodes[ni].Entries[ei:] {
				if hi.Less(e.ID) || len(out) == count {
					return out
				}
				out = append(out, e)
			}
		}
		return out
	}
	ni, ei := len(s.Nodes), 0
	if n, ok := hi.Next(); ok {
		ni, ei = s.seek(n)
	}
	for {
		if ei == 0 {
			if ni--; ni < 0 {
				return out
			}
			ei = len(s.Nodes[ni].Entries)
		}
		ei--
		e := s.Nodes[ni].Entries[ei]
		if e.ID.Less(lo) || len(out) == count {
			return out
		}
		out = append(out, e)
	}
}

// FirstEntry returns the oldest entry, nil when the stream is empty.
func (s *Stream) FirstEntry() *StreamEntry {
	if len(s.Nodes) == 0 {
		return nil
	}
	return &s.Nodes[0].Entries[0]
}

// LastEntry returns the newest entry, nil when the stream is empty.
func (s *Stream) LastEntry() *StreamEntry {
	if len(s.Nodes) == 0 {
		return nil
	}
	e := s.Nodes[len(s.Nodes)-1].Entries
	return &e[len(e)-1]
}

// Clone returns a copy of the stream with the same nodes. Both share the fields of entries, which never change.
func (s *Stream) Clone() *Stream {
	out := *s
	out.Nodes = make([]*StreamNode, len(s.Nodes))
	for i, n := range s.Nodes {
		cp := *n
		cp.Entries = append([]StreamEntry(nil), n.Entries...)
		out.Nodes[i] = &cp
	}
	return &out
}

// SizeInBytes returns the size that the stream has in the encoding of a server.
func (s *Stream) SizeInBytes() int {
	n := 0
	for _, node := range s.Nodes {
		n += node.Bytes
	}
	return n
}
