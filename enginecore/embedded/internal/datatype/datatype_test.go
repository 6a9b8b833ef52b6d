package datatype

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestScan changes a map while it is scanned: an item that stays for the whole scan is returned exactly once.
func TestScan(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var m OrderedMap[int]
	for i := range 200 {
		m.Set("stays"+strconv.Itoa(i), i)
		m.Set("goes"+strconv.Itoa(i), i)
	}
	seen := map[string]int{}
	for cursor := uint64(0); ; {
		cursor = m.Scan(cursor, 7, func(key string, _ int) { seen[key]++ })
		if cursor == 0 {
			break
		}
		m.Del("goes" + strconv.Itoa(r.IntN(200)))
		m.Set("new"+strconv.Itoa(r.IntN(1000)), 0)
	}
	for i := range 200 {
		require.Equal(t, 1, seen["stays"+strconv.Itoa(i)])
	}
}

// TestSortedSet compares a sorted set with a sorted slice, below and above the size at which it changes its form.
func TestSortedSet(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var z SortedSet
	model := map[string]float64{}
	for range 3000 {
		name, score := "m"+strconv.Itoa(r.IntN(600)), float64(r.IntN(50))
		if r.IntN(3) == 0 {
			delete(model, name)
			z.Del(name)
		} else {
			model[name] = score
			z.Set(name, score)
		}
	}
	var want []Member
	for name, score := range model {
		want = append(want, Member{score, name})
	}
	slices.SortFunc(want, func(a, b Member) int {
		if memberLess(a, b) {
			return -1
		}
		return 1
	})
	require.Equal(t, want, z.Slice(0, z.Len(), false))
	for i, m := range want {
		require.Equal(t, i, z.Rank(m))
	}
	from, to := z.ScoreRange(ScoreBound{Value: 10}, ScoreBound{Value: 20, Open: true})
	for i, m := range want {
		require.Equal(t, m.Score >= 10 && m.Score < 20, i >= from && i < to)
	}
	require.Equal(t, want, z.Clone().Slice(0, z.Len(), false))
}

// TestStream adds, removes and trims entries.
func TestStream(t *testing.T) {
	var s Stream
	for i := range uint64(250) {
		s.Add(StreamID{Ms: i + 1}, []string{"f", "v"})
	}
	require.Len(t, s.Nodes, 3)
	require.True(t, s.Delete(StreamID{Ms: 2}))
	require.False(t, s.Delete(StreamID{Ms: 2}))
	require.Equal(t, 99, s.Trim(Trim{Approx: true, MaxLen: 100}), "whole nodes only")
	require.Equal(t, StreamID{Ms: 101}, s.FirstEntry().ID)
	require.Equal(t, 50, s.Trim(Trim{MaxLen: 100}))
	require.Equal(t, 100, s.Length)
	newest := s.Between(StreamID{}, MaxStreamID, 2, true)
	require.Equal(t, []StreamID{{Ms: 250}, {Ms: 249}}, []StreamID{newest[0].ID, newest[1].ID})
}

// TestBytes writes at random offsets, also after the end, and checks that no earlier copy changes.
func TestBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	v := NewBytes("begin", 0)
	model := "begin"
	taken := map[string]string{}
	for i := range 3000 {
		at, data := r.IntN(len(model)+20), strings.Repeat(strconv.Itoa(i), r.IntN(4))
		if at > 300 {
			at %= 300
		}
		if data == "" {
			at = min(at, len(model))
		}
		padded := model + strings.Repeat("\x00", max(at-len(model), 0))
		model = padded[:at] + data + padded[min(at+len(data), len(padded)):]
		v.WriteAt(at, data)
		require.Equal(t, len(model), v.Len())
		require.Equal(t, model, v.View())
		lo := r.IntN(len(model) + 1)
		taken[v.Slice(lo, len(model))] = strings.Clone(model[lo:])
		switch r.IntN(50) {
		case 0:
			s := v.Freeze()
			taken[s] = strings.Clone(model)
			v = NewBytes(s, 0)
		case 1:
			other := v.Clone()
			other.WriteAt(0, "#")
		}
	}
	for got, want := range taken {
		require.Equal(t, want, got)
	}
}

// TestList pushes and pops at both ends, and trims.
func TestList(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var l List
	var model []string
	for i := range 2000 {
		v := strconv.Itoa(i)
		switch op := r.IntN(20); {
		case op == 19:
			lo := min(r.IntN(40), len(model))
			hi := max(lo, len(model)-r.IntN(40))
			l.Trim(lo, hi)
			model = model[lo:hi]
		case op%4 == 0:
			l.PushBack(v)
			model = append(model, v)
		case op < 10 || op%4 == 1:
			l.PushFront(v)
			model = append([]string{v}, model...)
		case len(model) == 0:
		case op%4 == 2:
			require.Equal(t, model[0], l.PopFront())
			model = model[1:]
		default:
			require.Equal(t, model[len(model)-1], l.PopBack())
			model = model[:len(model)-1]
		}
		require.Equal(t, len(model), l.Len())
	}
	require.Equal(t, append([]string{}, model...), append([]string{}, l.Items()...))
}
