package embedded

import (
	"sort"

	"github.com/tidwall/btree"
)

// zset is a sorted set: scores by member, and the members ordered by (score, member). Small ones keep the order in a
// slice, larger ones in a B-tree with ranks.
type zset struct {
	scores omap[float64]
	flat   []zitem
	tree   *btree.BTreeG[zitem] // nil while flat is in use
}

type zitem struct {
	score  float64
	member string
}

const zsetFlat = 256

func zless(a, b zitem) bool {
	if a.score != b.score {
		return a.score < b.score
	}
	return a.member < b.member
}

func (z *zset) len() int { return z.scores.len() }

// set gives member a score and reports whether the member is new.
func (z *zset) set(member string, score float64) bool {
	old, ok := z.scores.get(member)
	if ok {
		if old == score {
			return false
		}
		z.remove(zitem{old, member})
	}
	z.scores.set(member, score)
	z.insert(zitem{score, member})
	return !ok
}

func (z *zset) del(member string) bool {
	old, ok := z.scores.get(member)
	if !ok {
		return false
	}
	z.scores.del(member)
	z.remove(zitem{old, member})
	return true
}

func (z *zset) insert(it zitem) {
	if z.tree != nil {
		z.tree.Set(it)
		return
	}
	i := z.rank(it)
	z.flat = append(z.flat, zitem{})
	copy(z.flat[i+1:], z.flat[i:])
	z.flat[i] = it
	if len(z.flat) > zsetFlat {
		z.tree = btree.NewBTreeGOptions(zless, btree.Options{NoLocks: true})
		for _, it := range z.flat {
			z.tree.Load(it)
		}
		z.flat = nil
	}
}

func (z *zset) remove(it zitem) {
	if z.tree != nil {
		z.tree.Delete(it)
		return
	}
	i := z.rank(it)
	copy(z.flat[i:], z.flat[i+1:])
	z.flat[len(z.flat)-1] = zitem{}
	z.flat = z.flat[:len(z.flat)-1]
}

// at returns the item of a rank that exists.
func (z *zset) at(rank int) zitem {
	if z.tree != nil {
		it, _ := z.tree.GetAt(rank)
		return it
	}
	return z.flat[rank]
}

// rank returns the number of items before it.
func (z *zset) rank(it zitem) int {
	if z.tree == nil {
		return sort.Search(len(z.flat), func(i int) bool { return !zless(z.flat[i], it) })
	}
	return sort.Search(z.tree.Len(), func(i int) bool { return !zless(z.at(i), it) })
}

// rankScore returns how many items have a score below s, or at most s when inclusive.
func (z *zset) rankScore(s float64, inclusive bool) int {
	after := func(it zitem) bool { return it.score > s || !inclusive && it.score == s }
	if z.tree == nil {
		return sort.Search(len(z.flat), func(i int) bool { return after(z.flat[i]) })
	}
	return sort.Search(z.tree.Len(), func(i int) bool { return after(z.at(i)) })
}

// slice returns the items of the ranks from lo up to and excluding hi, highest first when rev.
func (z *zset) slice(lo, hi int, rev bool) []zitem {
	if lo >= hi {
		return nil
	}
	out := make([]zitem, 0, hi-lo)
	if z.tree == nil {
		out = append(out, z.flat[lo:hi]...)
	} else {
		n := hi - lo
		z.tree.Ascend(z.at(lo), func(it zitem) bool {
			out = append(out, it)
			n--
			return n > 0
		})
	}
	if rev {
		for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
			out[i], out[j] = out[j], out[i]
		}
	}
	return out
}
