package embedded

import "sort"

// omap is a map that iterates in insertion order. Sets, hashes, the members of sorted sets and the key space itself are
// omaps, so every reply is a function of the commands that ran, which replay and tests rely on.
//
// Every item carries a sequence number that only grows. A scan cursor is the last number it has seen, so it survives any
// change in between: an item that stays for the whole scan is returned exactly once.
type omap[V any] struct {
	items []oitem[V]
	index map[string]int32 // nil while there are at most omapSmall items
	live  int
	seq   uint64
}

type oitem[V any] struct {
	key string
	val V
	seq uint64 // the top bit marks a removed item
}

const (
	omapSmall = 12
	omapDead  = uint64(1) << 63
)

func (it *oitem[V]) dead() bool { return it.seq&omapDead != 0 }

// len returns the number of items present.
func (m *omap[V]) len() int { return m.live }

func (m *omap[V]) find(key string) int {
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

// get returns the value of key.
func (m *omap[V]) get(key string) (V, bool) {
	if i := m.find(key); i >= 0 {
		return m.items[i].val, true
	}
	var zero V
	return zero, false
}

func (m *omap[V]) has(key string) bool { return m.find(key) >= 0 }

// set stores val under key and reports whether the key is new. An existing key keeps its place.
func (m *omap[V]) set(key string, val V) bool {
	if i := m.find(key); i >= 0 {
		m.items[i].val = val
		return false
	}
	m.seq++
	m.items = append(m.items, oitem[V]{key: key, val: val, seq: m.seq})
	m.live++
	if m.index != nil {
		m.index[key] = int32(len(m.items) - 1)
	} else if len(m.items) > omapSmall {
		m.reindex()
	}
	return true
}

func (m *omap[V]) reindex() {
	m.index = make(map[string]int32, 2*len(m.items))
	for i := range m.items {
		m.index[m.items[i].key] = int32(i)
	}
}

// del removes key and reports whether it was there.
func (m *omap[V]) del(key string) bool {
	i := m.find(key)
	if i < 0 {
		return false
	}
	m.live--
	if m.index == nil {
		copy(m.items[i:], m.items[i+1:])
		m.items[len(m.items)-1] = oitem[V]{}
		m.items = m.items[:len(m.items)-1]
		return true
	}
	delete(m.index, key)
	m.items[i] = oitem[V]{seq: m.items[i].seq | omapDead}
	for n := len(m.items); n > 0 && m.items[n-1].dead(); n = len(m.items) {
		m.items = m.items[:n-1]
	}
	if len(m.items) > 2*m.live+omapSmall {
		m.compact()
	}
	return true
}

func (m *omap[V]) compact() {
	kept := make([]oitem[V], 0, m.live+m.live/4)
	for i := range m.items {
		if !m.items[i].dead() {
			kept = append(kept, m.items[i])
		}
	}
	m.items = kept
	if len(kept) > omapSmall {
		m.reindex()
	} else {
		m.index = nil
	}
}

// each calls fn for every item in insertion order until fn returns false. fn must not change the map.
func (m *omap[V]) each(fn func(key string, val V) bool) {
	for i := range m.items {
		if it := &m.items[i]; !it.dead() && !fn(it.key, it.val) {
			return
		}
	}
}

// keys returns all keys in insertion order.
func (m *omap[V]) keys() []string {
	out := make([]string, 0, m.live)
	for i := range m.items {
		if !m.items[i].dead() {
			out = append(out, m.items[i].key)
		}
	}
	return out
}

// scan visits up to count items inserted after the cursor and returns the next cursor, 0 at the end.
func (m *omap[V]) scan(cursor uint64, count int, fn func(key string, val V)) uint64 {
	i := sort.Search(len(m.items), func(i int) bool { return m.items[i].seq&^omapDead > cursor })
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

// at returns a live item near position i, for random choices; i must be below len(m.items) and the map not empty.
func (m *omap[V]) at(i int) *oitem[V] {
	if it := &m.items[i]; !it.dead() {
		return it
	}
	return nil
}
