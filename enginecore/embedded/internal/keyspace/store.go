// Package keyspace holds the values of all keys, with their deadlines and the clock of the command that runs. It notes
// the changes of a command, which decide whether and how the command is logged.
package keyspace

import (
	"container/heap"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/datatype"
)

// Entry is the value of one key: a string, or a pointer to a type of package datatype. A string value is a string or,
// after a command has written a part of it, a *datatype.Bytes.
type Entry struct {
	Val      any
	ExpireAt int64 // Unix ms, 0 = never
}

// Store holds the data and the effects of the running command. It has no lock: its owner admits one command at
// a time.
type Store struct {
	Keys    datatype.OrderedMap[*Entry]
	expires expiryHeap
	// expiresLimit is the size at which the heap is rid of stale entries.
	expiresLimit int

	// The clock of the running command, fixed until the next one.
	NowUs int64
	NowMs int64

	// frozen turns expiry off while the log is replayed: the log holds the removals that happened.
	frozen bool

	// Dirty counts changes; a command that leaves it alone is not logged.
	Dirty int64
	// Effects replaces the words of the running command in the log, because they would not replay to the same state.
	Effects [][]string
	// Expired holds the DELs of keys that ran out since the last record.
	Expired []string

	// OnStreamAdd is called with the key of a stream that grew; may be nil.
	OnStreamAdd func(key string)
	// Random returns a number in [0, n).
	Random func(n int) int
}

type expiry struct {
	at  int64
	key string
	ent *Entry
}

type expiryHeap []expiry

// Len implements heap.Interface.
func (h expiryHeap) Len() int { return len(h) }

// Less implements heap.Interface.
func (h expiryHeap) Less(i, j int) bool { return h[i].at < h[j].at }

// Swap implements heap.Interface.
func (h expiryHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *expiryHeap) Push(x any) { *h = append(*h, x.(expiry)) }

// Pop implements heap.Interface.
func (h *expiryHeap) Pop() any {
	old := *h
	n := len(old) - 1
	x := old[n]
	old[n] = expiry{}
	*h = old[:n]
	return x
}

// BeginReplay prepares an empty store for the commands of a log: no key expires until EndReplay.
func (s *Store) BeginReplay() { s.frozen = true }

// EndReplay returns to normal after the commands of a log.
func (s *Store) EndReplay() { s.frozen, s.Dirty, s.Effects = false, 0, nil }

// Replaying reports whether the commands of a log run.
func (s *Store) Replaying() bool { return s.frozen }

// SetClock fixes the time for the next command and removes keys that have expired by then. A key exists through the
// millisecond of its deadline, as on a server.
func (s *Store) SetClock(t time.Time) {
	s.NowUs = t.UnixMicro()
	s.NowMs = s.NowUs / 1000
	if s.frozen {
		return
	}
	for len(s.expires) > 0 && s.expires[0].at < s.NowMs {
		x := heap.Pop(&s.expires).(expiry)
		if x.ent.ExpireAt != x.at {
			continue
		}
		if ent, ok := s.Keys.Get(x.key); ok && ent == x.ent {
			s.Keys.Del(x.key)
			s.Expired = append(s.Expired, x.key)
		}
	}
}

// SetExpiry sets the deadline of a present key; 0 removes it.
func (s *Store) SetExpiry(key string, ent *Entry, at int64) {
	if at == ent.ExpireAt {
		return
	}
	ent.ExpireAt = at
	if at == 0 {
		return
	}
	heap.Push(&s.expires, expiry{at, key, ent})
	if len(s.expires) > s.expiresLimit {
		s.pruneExpiries()
	}
}

// pruneExpiries drops the heap entries of deadlines that were renewed and of keys that were removed.
func (s *Store) pruneExpiries() {
	kept := s.expires[:0]
	seen := make(map[*Entry]struct{}, s.Keys.Len())
	for _, x := range s.expires {
		if ent, ok := s.Keys.Get(x.key); !ok || ent != x.ent || ent.ExpireAt != x.at {
			continue
		}
		if _, twice := seen[x.ent]; twice {
			continue
		}
		seen[x.ent] = struct{}{}
		kept = append(kept, x)
	}
	clear(s.expires[len(kept):])
	s.expires = kept
	heap.Init(&s.expires)
	s.expiresLimit = 2*len(kept) + 1024
}

// Lookup returns the entry of a key, nil when there is none.
func (s *Store) Lookup(key string) *Entry {
	ent, _ := s.Keys.Get(key)
	return ent
}

// Put replaces the whole value of key; it removes the deadline unless the caller keeps it.
func (s *Store) Put(key string, val any) *Entry {
	ent := &Entry{Val: val}
	s.Keys.Set(key, ent)
	s.Dirty++
	return ent
}

// Remove deletes key and reports whether it was there.
func (s *Store) Remove(key string) bool {
	if s.Keys.Del(key) {
		s.Dirty++
		return true
	}
	return false
}

// Flush removes all keys.
func (s *Store) Flush() {
	s.Keys.Clear()
	s.expires = nil
	s.Dirty++
}

// Rewrite makes the log hold words instead of the command as it was given.
func (s *Store) Rewrite(words ...string) { s.Effects = append(s.Effects, words) }

// Get returns the value of key as T. It is nil when the key is absent; ok is false when it holds another type.
func Get[T any](s *Store, key string) (val *T, ok bool) {
	ent := s.Lookup(key)
	if ent == nil {
		return nil, true
	}
	val, ok = ent.Val.(*T)
	return val, ok
}

// GetOrNew is typed, with an empty value stored when the key is absent.
func GetOrNew[T any](s *Store, key string) (val *T, ok bool) {
	val, ok = Get[T](s, key)
	if ok && val == nil {
		val = new(T)
		s.Keys.Set(key, &Entry{Val: val})
	}
	return val, ok
}

// GetString returns the string stored at key. It does not copy the string, but the next command that writes a part of
// it does: use StringLen and StringRange where they suffice.
func (s *Store) GetString(key string) (val string, present, ok bool) {
	ent := s.Lookup(key)
	if ent == nil {
		return "", false, true
	}
	val, ok = ent.text()
	return val, ok, ok
}

// text returns a string value whole. Nothing changes it from now on.
func (ent *Entry) text() (val string, ok bool) {
	if v, changing := ent.Val.(*datatype.Bytes); changing {
		ent.Val = v.Freeze()
	}
	val, ok = ent.Val.(string)
	return val, ok
}

// StringLen returns the length of the string stored at key in bytes, 0 when it is absent. ok is false when the key
// holds another type.
func (s *Store) StringLen(key string) (n int, ok bool) {
	ent := s.Lookup(key)
	if ent == nil {
		return 0, true
	}
	switch v := ent.Val.(type) {
	case string:
		return len(v), true
	case *datatype.Bytes:
		return v.Len(), true
	}
	return 0, false
}

// StringRange returns a copy of the bytes from lo up to hi of the string stored at key, which has that many.
func (s *Store) StringRange(key string, lo, hi int) string {
	switch v := s.Lookup(key).Val.(type) {
	case string:
		if hi-lo == len(v) {
			return v
		}
		return strings.Clone(v[lo:hi]) // a part does not keep the memory of the whole
	case *datatype.Bytes:
		return v.Slice(lo, hi)
	}
	return ""
}

// WriteString overwrites the bytes from at on of the string stored at key, padded with zero bytes up to there, and
// returns its new length. The key is absent or holds a string; its deadline stays. The cost does not depend on the
// length of the string, except for the first such write after the string was read whole.
func (s *Store) WriteString(key string, at int, data string) int {
	ent := s.Lookup(key)
	if ent == nil {
		ent = &Entry{Val: datatype.NewBytes("", at+len(data))}
		s.Keys.Set(key, ent)
	}
	v, ok := ent.Val.(*datatype.Bytes)
	if !ok {
		old, _ := ent.Val.(string)
		v = datatype.NewBytes(old, at+len(data))
		ent.Val = v
	}
	v.WriteAt(at, data)
	s.Dirty++
	return v.Len()
}

// TypeName returns the answer of TYPE for a value.
func TypeName(val any) string {
	switch val.(type) {
	case string, *datatype.Bytes:
		return "string"
	case *datatype.Hash:
		return "hash"
	case *datatype.Set:
		return "set"
	case *datatype.List:
		return "list"
	case *datatype.SortedSet:
		return "zset"
	case *datatype.Stream:
		return "stream"
	}
	return "none"
}

// CopyValue returns a copy of a value.
func CopyValue(val any) any {
	switch v := val.(type) {
	case *datatype.Bytes:
		return v.Clone()
	case *datatype.Hash:
		return v.Clone()
	case *datatype.Set:
		return v.Clone()
	case *datatype.List:
		return v.Clone()
	case *datatype.SortedSet:
		return v.Clone()
	case *datatype.Stream:
		return v.Clone()
	}
	return val
}

// SizeOf estimates the bytes of memory that a value takes.
func SizeOf(val any) int {
	n := 64
	switch v := val.(type) {
	case string:
		n += len(v)
	case *datatype.Bytes:
		n += v.Cap()
	case *datatype.Hash:
		v.Each(func(f, s string) bool { n += len(f) + len(s) + 56; return true })
	case *datatype.Set:
		v.Each(func(m string, _ struct{}) bool { n += len(m) + 40; return true })
	case *datatype.List:
		for _, s := range v.Items() {
			n += len(s) + 16
		}
	case *datatype.SortedSet:
		v.Each(func(m string, _ float64) bool { n += len(m) + 72; return true })
	case *datatype.Stream:
		n += v.SizeInBytes()
	}
	return n
}
