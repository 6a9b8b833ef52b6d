package datatype

import "sort"

type (
	// Hash has a value for each field.
	Hash = OrderedMap[string]
	// Set has members.
	Set = OrderedMap[struct{}]
)

// OrderedMap is a map that iterates in insertion order. Sets, hashes, the members of sorted sets and the key space
// itself are ordered maps, so every reply is a function of the commands that ran, which replay and tests rely on.
//
// Every item carries a sequence number that only grows. A scan cursor is the last number it has seen, so it survives
// any change in between: an item that stays for the whole scan is returned exactly once.
type OrderedMap[V any] struct {
	items []mapItem[V]
	index map[string]int32 // nil while there are at most smallMap items
	live  int
	seq   uint64
}

type mapItem[V any] struct {
	key string
	val V
	seq uint64 // the top bit marks a removed item
}

const (
	smallMap = 12
	deadItem = uint64(1) << 63
)

func (it *mapItem[V]) dead() bool { return it.seq&deadItem != 0 }

// Len returns the number of items present.
func (m *OrderedMap[V]) Len() int { return m.live }

func (m *OrderedMap[V]) find(key string) int {
	if m.index != nil {
		if i, ok := m.index[key]; ok {
			return int(i)
		}
		return -1
	}
	for i := range m.items {
		if m.items[i].key == key {
			return i
		}
	}
	return -1
}

// Get returns the value of key.
func (m *OrderedMap[V]) Get(key string) (V, bool) {
	if i := m.find(key); i >= 0 {
		return m.items[i].val, true
	}
	var zero V
	return zero, false
}

// Has reports whether key is present.
func (m *OrderedMap[V]) Has(key string) bool { return m.find(key) >= 0 }

// Set stores val under key and reports whether the key is new. An existing key keeps its place.
func (m *OrderedMap[V]) Set(key string, val V) bool {
	if i := m.find(key); i >= 0 {
		m.items[i].val = val
		return false
	}
	m.seq++
	m.items = append(m.items, mapItem[V]{key: key, val: val, seq: m.seq})
	m.live++
	if m.index != nil {
		m.index[key] = int32(len(m.items) - 1)
	} else if len(m.items) > smallMap {
		m.reindex()
	}
	return true
}

func (m *OrderedMap[V]) reindex() {
	m.index = make(map[string]int32, 2*len(m.items))
	for i := range m.items {
		m.index[m.items[i].key] = int32(i)
	}
}

// Del removes key and reports whether it was there.
func (m *OrderedMap[V]) Del(key string) bool {
	i := m.find(key)
	if i < 0 {
		return false
	}
	m.live--
	if m.index == nil {
		copy(m.items[i:], m.items[i+1:])
		m.items[len(m.items)-1] = mapItem[V]{}
		m.items = m.items[:len(m.items)-1]
		return true
	}
	delete(m.index, key)
	m.items[i] = mapItem[V]{seq: m.items[i].seq | deadItem}
	for n := len(m.items); n > 0 && m.items[n-1].dead(); n = len(m.items) {
		m.items = m.items[:n-1]
	}
	if len(m.items) > 2*m.live+smallMap {
		m.compact()
	}
	return true
}

func (m *OrderedMap[V]) compact() {
	kept := make([]mapItem[V], 0, m.live+m.live/4)
	for i := range m.items {
		if !m.items[i].dead() {
			kept = append(kept, m.items[i])
		}
	}
	m.items = kept
	if len(kept) > smallMap {
		m.reindex()
	} else {
		m.index = nil
	}
}

// Each calls fn for every item in insertion order until fn returns false. fn must not change the map.
func (m *OrderedMap[V]) Each(fn func(key string, val V) bool) {
	for i := range m.items {
		if it := &m.items[i]; !it.dead() && !fn(it.key, it.val) {
			return
		}
	}
}

// Keys returns all keys in insertion order.
func (m *OrderedMap[V]) Keys() []string {
	out := make([]string, 0, m.live)
	for i := range m.items {
		if !m.items[i].dead() {
			out = append(out, m.items[i].key)
		}
	}
	return out
}

// Scan visits up to count items inserted after the cursor and returns the next cursor, 0 at the end.
func (m *OrderedMap[V]) Scan(cursor uint64, count int, fn func(key string, val V)) uint64 {
	i := sort.Search(len(m.items), func(i int) bool { return m.items[i].seq&^deadItem > cursor })
	for ; i < len(m.items); i++ {
		it := &m.items[i]
		if it.dead() {
			continue
		}
		if count == 0 {
			return cursor
		}
		count--
		cursor = it.seq
		fn(it.key, it.val)
	}
	return 0
}

// RandomKey returns the key of a random item. random returns a number in [0, n). The map must not be empty.
func (m *OrderedMap[V]) RandomKey(random func(n int) int) string {
	for {
		if it := &m.items[random(len(m.items))]; !it.dead() {
			return it.key
		}
	}
}

// Clear removes all items. Cursors of scans that are under way stay valid.
func (m *OrderedMap[V]) Clear() { *m = OrderedMap[V]{seq: m.seq} }

// Clone returns a copy of the map with the items in the same order.
func (m *OrderedMap[V]) Clone() *OrderedMap[V] {
	out := &OrderedMap[V]{}
	m.Each(func(k string, v V) bool {
		out.Set(k, v)
		return true
	})
	return out
}
