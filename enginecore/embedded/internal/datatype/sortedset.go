package datatype

import (
	"sort"

	"github.com/tidwall/btree"
)

// SortedSet is a sorted set: scores by member, and the members ordered by (score, member). Small ones keep the order in
// a slice, larger ones in a B-tree with ranks.
type SortedSet struct {
	scores OrderedMap[float64]
	flat   []Member
	tree   *btree.BTreeG[Member] // nil while flat is in use
}

// Member is a member of a sorted set with its score.
type Member struct {
	Score float64
	Name  string
}

const smallSortedSet = 256

func memberLess(a, b Member) bool {
	if a.Score != b.Score {
		return a.Score < b.Score
	}
	return a.Name < b.Name
}

// Len returns the number of members.
func (z *SortedSet) Len() int { return z.scores.Len() }

// Set gives member a score and reports whether the member is new.
func (z *SortedSet) Set(member string, score float64) bool {
	old, ok := z.scores.Get(member)
	if ok {
		if old == score {
			return false
		}
		z.remove(Member{old, member})
	}
	z.scores.Set(member, score)
	z.insert(Member{score, member})
	return !ok
}

// Score returns the score of a member.
func (z *SortedSet) Score(member string) (float64, bool) { return z.scores.Get(member) }

// Each calls fn for every member in insertion order until fn returns false. fn must not change the sorted set.
func (z *SortedSet) Each(fn func(member string, score float64) bool) { z.scores.Each(fn) }

// Scan visits up to count members inserted after the cursor and returns the next cursor, 0 at the end.
func (z *SortedSet) Scan(cursor uint64, count int, fn func(member string, score float64)) uint64 {
	return z.scores.Scan(cursor, count, fn)
}

// Clone returns a copy of the sorted set with the members in the same order of insertion.
func (z *SortedSet) Clone() *SortedSet {
	out := &SortedSet{}
	z.Each(func(member string, score float64) bool {
		out.Set(member, score)
		return true
	})
	return out
}

// Del removes member and reports whether it was there.
func (z *SortedSet) Del(member string) bool {
	old, ok := z.scores.Get(member)
	if !ok {
		return false
	}
	z.scores.Del(member)
	z.remove(Member{old, member})
	return true
}

func (z *SortedSet) insert(it Member) {
	if z.tree != nil {
		z.tree.Set(it)
		return
	}
	i := z.Rank(it)
	z.flat = append(z.flat, Member{})
	copy(z.flat[i+1:], z.flat[i:])
	z.flat[i] = it
	if len(z.flat) > smallSortedSet {
		z.tree = btree.NewBTreeGOptions(memberLess, btree.Options{NoLocks: true})
		for _, it := range z.flat {
			z.tree.Load(it)
		}
		z.flat = nil
	}
}

func (z *SortedSet) remove(it Member) {
	if z.tree != nil {
		z.tree.Delete(it)
		return
	}
	i := z.Rank(it)
	copy(z.flat[i:], z.flat[i+1:])
	z.flat[len(z.flat)-1] = Member{}
	z.flat = z.flat[:len(z.flat)-1]
}

// at returns the item of a rank that exists.
func (z *SortedSet) at(rank int) Member {
	if z.tree != nil {
		it, _ := z.tree.GetAt(rank)
		return it
	}
	return z.flat[rank]
}

// Rank returns the number of items before it.
func (z *SortedSet) Rank(it Member) int {
	if z.tree == nil {
		return sort.Search(len(z.flat), func(i int) bool { return !memberLess(z.flat[i], it) })
	}
	return sort.Search(z.tree.Len(), func(i int) bool { return !memberLess(z.at(i), it) })
}

// ScoreBound is one end of a range of scores.
type ScoreBound struct {
	Value float64
	Open  bool // Value itself is outside
}

// ScoreRange returns the half-open range of the ranks whose scores are between lo and hi.
func (z *SortedSet) ScoreRange(lo, hi ScoreBound) (from, to int) {
	from = z.rankScore(lo.Value, lo.Open)
	to = z.rankScore(hi.Value, !hi.Open)
	return from, max(from, to)
}

// rankScore returns how many items have a score below s, or at most s when inclusive.
func (z *SortedSet) rankScore(s float64, inclusive bool) int {
	after := func(it Member) bool { return it.Score > s || !inclusive && it.Score == s }
	if z.tree == nil {
		return sort.Search(len(z.flat), func(i int) bool { return after(z.flat[i]) })
	}
	return sort.Search(z.tree.Len(), func(i int) bool { return after(z.at(i)) })
}

// Slice returns the items of the ranks from lo up to and excluding hi, highest first when rev.
func (z *SortedSet) Slice(lo, hi int, rev bool) []Member {
	if lo >= hi {
		return nil
	}
	out := make([]Member, 0, hi-lo)
	if z.tree == nil {
		out = append(out, z.flat[lo:hi]...)
	} else {
		n := hi - lo
		z.tree.Ascend(z.at(lo), func(it Member) bool {
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
