package embedded

import (
	"container/heap"
	"time"
)

// hash and set are the two plain collections.
type (
	hash = omap[string]
	set  = omap[struct{}]
)

// entry is the value of one key: string, *hash, *set, *list, *zset or *stream.
type entry struct {
	val      any
	expireAt int64 // Unix ms, 0 = never
}

// store holds the data and the effects of the running command. It has no lock: the engine's gate admits one command at
// a time.
type store struct {
	keys    omap[*entry]
	expires expiryHeap
	// expiresLimit is the size at which the heap is rid of stale entries.
	expiresLimit int

	// The clock of the running command, fixed until the next one.
	nowUs int64
	nowMs int64

	// frozen turns expiry off while the log is replayed: the log holds the removals that happened.
	frozen bool

	// dirty counts changes; a command that leaves it alone is not logged.
	dirty int64
	// effects replaces the words of the running command in the log, because they would not replay to the same state.
	effects [][]string
	// expired holds the DELs of keys that ran out since the last record.
	expired []string

	// streamAdded is called with the key of a stream that grew; may be nil.
	streamAdded func(key string)
	// random returns a number in [0, n).
	random func(n int) int
}

type expiry struct {
	at  int64
	key string
	ent *entry
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

// setClock fixes the time for the next command and removes keys that have expired by then. A key exists through the
// millisecond of its deadline, as on a server.
func (s *store) setClock(t time.Time) {
	s.nowUs = t.UnixMicro()
	s.nowMs = s.nowUs / 1000
	if s.frozen {
		return
	}
	for len(s.expires) > 0 && s.expires[0].at < s.nowMs {
		x := heap.Pop(&s.expires).(expiry)
		if x.ent.expireAt != x.at {
			continue
		}
		if ent, ok := s.keys.get(x.key); ok && ent == x.ent {
			s.keys.del(x.key)
			s.expired = append(s.expired, x.key)
		}
	}
}

// setExpiry sets the deadline of a present key; 0 removes it.
func (s *store) setExpiry(key string, ent *entry, at int64) {
	if at == ent.expireAt {
		return
	}
	ent.expireAt = at
	if at == 0 {
		return
	}
	heap.Push(&s.expires, expiry{at, key, ent})
	if len(s.expires) > s.expiresLimit {
		s.pruneExpiries()
	}
}

// pruneExpiries drops the heap entries that renewed deadlines and removed keys have left behind.
func (s *store) pruneExpiries() {
	kept := s.expires[:0]
	seen := make(map[*entry]struct{}, s.keys.len())
	for _, x := range s.expires {
		if ent, ok := s.keys.get(x.key); !ok || ent != x.ent || ent.expireAt != x.at {
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

func (s *store) lookup(key string) *entry {
	ent, _ := s.keys.get(key)
	return ent
}

// put replaces the whole value of key; it removes the deadline unless the caller keeps it.
func (s *store) put(key string, val any) *entry {
	ent := &entry{val: val}
	s.keys.set(key, ent)
	s.dirty++
	return ent
}

// remove deletes key and reports whether it was there.
func (s *store) remove(key string) bool {
	if s.keys.del(key) {
		s.dirty++
		return true
	}
	return false
}

func (s *store) flush() {
	s.keys = omap[*entry]{seq: s.keys.seq}
	s.expires = nil
	s.dirty++
}

// rewrite makes the log hold words instead of the command as it was given.
func (s *store) rewrite(words ...string) { s.effects = append(s.effects, words) }

const wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"

// typed returns the value of key as T. It is nil when the key is absent; ok is false when it holds another type.
func typed[T any](s *store, key string) (val *T, ok bool) {
	ent := s.lookup(key)
	if ent == nil {
		return nil, true
	}
	val, ok = ent.val.(*T)
	return val, ok
}

// typedOrNew is typed, with an empty value stored when the key is absent.
func typedOrNew[T any](s *store, key string) (val *T, ok bool) {
	val, ok = typed[T](s, key)
	if ok && val == nil {
		val = new(T)
		s.keys.set(key, &entry{val: val})
	}
	return val, ok
}

// stringAt returns the string stored at key.
func (s *store) stringAt(key string) (val string, present, ok bool) {
	ent := s.lookup(key)
	if ent == nil {
		return "", false, true
	}
	val, ok = ent.val.(string)
	return val, ok, ok
}

// typeName is what TYPE answers for a value.
func typeName(val any) string {
	switch val.(type) {
	case string:
		return "string"
	case *hash:
		return "hash"
	case *set:
		return "set"
	case *list:
		return "list"
	case *zset:
		return "zset"
	case *stream:
		return "stream"
	}
	return "none"
}
