package payload

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func key(id string) Key { return Key{ID: id, Secret: bytes.Repeat([]byte(id[:1]), KeyBytes)} }

func ring(t testing.TB, ids ...string) *Ring {
	t.Helper()
	keys := make([]Key, len(ids))
	for i, id := range ids {
		keys[i] = key(id)
	}
	r, err := NewRing(keys...)
	require.NoError(t, err)
	return r
}

const execution = "{fp:3}:1f0e9a30-0000-8000-9000-aabbccdd0002"

func TestPlaces(t *testing.T) {
	require.Equal(t, Place{Result, "1f0e9a30-0000-8000-9000-aabbccdd", 2}, OfNode(Result, execution))
	require.Equal(t, Place{Input, "1f0e9a30-0000-8000-9000-aabbccdd", 0}, OfRun(Input, execution))
	require.Equal(t, OfRun(Input, execution), OfRun(Input, "1f0e9a30-0000-8000-9000-aabbccdd0000"))
	require.Equal(t, OfNode(Result, execution), OfNode(Result, "{fp:7}"+execution[6:]), "a run may move to another partition")
	for i, s := range Slots() {
		require.EqualValues(t, i+1, s.Slot, "the order of the numbers")
		require.Equal(t, s.Name, s.Slot.String())
	}
}

// A value of any pipeline is read by each pipeline with the same keys.
func TestRoundTrip(t *testing.T) {
	random := make([]byte, 5000)
	_, _ = rand.Read(random)
	values := [][]byte{
		nil, []byte("1"), []byte(`{"a":1}`), {mark}, {mark, version}, {mark, version, 0, 0, 0}, {0, 1, 2}, random,
		bytes.Repeat([]byte("text "), 1000), {mark, version, 4, 'x'}, {mark, version, 8, 'x'}, {mark, version, 16, 'x'},
	}
	both := ring(t, "new", "old")
	pipelines := map[string]*Pipeline{
		"none": nil, "empty": {}, "compress": {Compress: true}, "seal": {Keys: both}, "both": {Compress: true, Keys: both},
		"old key": {Keys: ring(t, "old")},
	}
	reader := &Pipeline{Keys: both}
	place := OfNode(Result, execution)
	for name, p := range pipelines {
		for i, value := range values {
			before := bytes.Clone(value)
			kept, err := p.Seal(place, value)
			require.NoError(t, err)
			require.Equal(t, before, value)
			require.LessOrEqual(t, len(kept), len(value)+MaxOverhead)
			got, err := reader.Open(place, kept)
			require.NoError(t, err, "%s, value %d", name, i)
			require.Equal(t, string(value), string(got))
			about, err := Read(kept)
			require.NoError(t, err)
			require.Equal(t, len(value), about.Size)
			if p != nil && p.Keys != nil && len(value) > 0 {
				require.NotEmpty(t, about.Key)
				require.False(t, len(value) > 2 && bytes.Contains(kept, value), "the value is in the clear")
			} else {
				require.Empty(t, about.Key)
			}
			if name == "none" && !IsEnvelope(value) {
				require.Equal(t, value, kept, "a value stays as it is")
			}
		}
	}
	small, err := pipelines["compress"].Seal(place, values[8])
	require.NoError(t, err)
	require.Less(t, len(small), 200)
	same, err := pipelines["compress"].Seal(place, random)
	require.NoError(t, err)
	require.Equal(t, random, same)
}

// Seal refuses a value that could not be opened, and leaves an exempt one in the clear.
func TestMarks(t *testing.T) {
	p, place := &Pipeline{Keys: ring(t, "k")}, OfNode(Result, execution)
	kept, err := p.Seal(place, []byte("1"))
	require.NoError(t, err)
	for none, want := range map[*Pipeline]error{nil: ErrKeyMissing, {Keys: ring(t, "l")}: ErrKeyMissing} {
		marked := none.OpenOrMark(place, kept)
		require.ErrorIs(t, Check(marked), want)
		_, err = p.Seal(place, marked)
		require.ErrorIs(t, err, want)
	}
	require.ErrorIs(t, Check(p.OpenOrMark(OfRun(Input, execution), kept)), ErrAltered)
	require.NoError(t, Check(p.OpenOrMark(place, kept)))
	for _, p := range []*Pipeline{nil, p} {
		kept, err := p.Seal(place, Exempt([]byte("1")))
		require.NoError(t, err)
		require.Equal(t, "1", string(kept))
	}
	require.Equal(t, "1", string(Value(Exempt([]byte("1")))))
	require.Equal(t, "1", string(Value([]byte("1"))))
}

// A value opens in its own place alone, and only unchanged.
func TestMovedAndAltered(t *testing.T) {
	p := &Pipeline{Keys: ring(t, "k")}
	place := OfNode(Details, execution)
	kept, err := p.Seal(OfNode(Details, execution), []byte(`{"card":"4111"}`))
	require.NoError(t, err)
	other := []Place{
		OfNode(Step, execution), OfNode(Result, execution[:len(execution)-1]+"3"), OfRun(Result, execution),
		OfNode(Result, "{fp:3}:1f0e9a30-0000-8000-9000-aabbccdc0002"),
	}
	for i := range 10_000 {
		moved := other[i%len(other)]
		if i >= len(other) {
			moved = OfNode(Result, fmt.Sprintf("{fp:3}:1f0e9a30-0000-8000-9000-%08x%04x", i, i%7))
		}
		_, err := p.Open(moved, kept)
		require.ErrorIs(t, err, ErrAltered)
	}
	for i := range kept {
		for _, bit := range []byte{1, 128} {
			changed := bytes.Clone(kept)
			changed[i] ^= bit
			got, err := p.Open(place, changed)
			if i < 2 { // these are other bytes now
				require.Equal(t, changed, got)
				continue
			}
			require.True(t, errors.Is(err, ErrAltered) || errors.Is(err, ErrKeyMissing), "byte %d: %v", i, err)
		}
		if i > 2 {
			_, err := p.Open(place, kept[:i])
			require.Error(t, err)
		}
	}
	for from, to := range map[Slot][]Slot{Signal: {Result, Step}, Result: {Step}} {
		kept, err := p.Seal(At(from, execution), []byte("1"))
		require.NoError(t, err)
		for _, slot := range to {
			_, err = p.Open(At(slot, execution), kept)
			require.NoError(t, err, "the library copies a %s to a %s", from, slot)
		}
		_, err = p.Open(At(Input, execution), kept)
		require.ErrorIs(t, err, ErrAltered)
	}
	kept, err = p.Seal(OfNode(State, execution), []byte(`{"card":"4111"}`))
	require.NoError(t, err)
	require.ErrorContains(t, errOf(p.Open(OfNode(Step, execution), kept)),
		"the step of node 2 of 1f0e9a30-0000-8000-9000-aabbccdd cannot be read: payload altered: it was the state of node 2")
}

func errOf(_ []byte, err error) error { return err }

func TestKeys(t *testing.T) {
	place := OfRun(Input, execution)
	r := ring(t, "k1")
	p := &Pipeline{Keys: r}
	first, err := p.Seal(place, []byte("1"))
	require.NoError(t, err)
	require.NoError(t, r.Replace(key("k2"), key("k1")))
	second, err := p.Seal(place, []byte("2"))
	require.NoError(t, err)
	for _, kept := range [][]byte{first, second} {
		_, err = p.Open(place, kept)
		require.NoError(t, err)
	}
	require.NoError(t, r.Replace(key("k2")))
	_, err = p.Open(place, first)
	require.ErrorIs(t, err, ErrKeyMissing)
	require.ErrorContains(t, err, `"k1"`)
	for _, none := range []*Pipeline{nil, {}} {
		_, err = none.Open(place, second)
		require.ErrorIs(t, err, ErrKeyMissing)
	}
	for text, keys := range map[string][]Key{
		"there is none":    {},
		"two keys":         {key("a"), key("a")},
		"has 3 bytes":      {{ID: "a", Secret: []byte("abc")}},
		"must have 1 to":   {{ID: "", Secret: make([]byte, KeyBytes)}},
		"the character":    {{ID: "a b", Secret: make([]byte, KeyBytes)}},
		"it must have 1 t": {{ID: string(make([]byte, 33)), Secret: make([]byte, KeyBytes)}},
	} {
		err := r.Replace(keys...)
		require.ErrorIs(t, err, ErrBadKey)
		require.ErrorContains(t, err, text)
	}
	_, err = p.Open(place, second)
	require.NoError(t, err, "the keys are as before")
}

func FuzzOpen(f *testing.F) {
	p := &Pipeline{Keys: ring(f, "k"), Compress: true}
	place := OfRun(Input, execution)
	for _, value := range [][]byte{[]byte("x"), bytes.Repeat([]byte("y"), 5000)} {
		kept, err := p.Seal(place, value)
		require.NoError(f, err)
		f.Add(kept)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = p.Open(place, b)
	})
}

func BenchmarkSeal(b *testing.B) {
	place := OfNode(Result, execution)
	for _, size := range []int{100, 1 << 10, 64 << 10} {
		value := bytes.Repeat([]byte("abcdefgh"), size/8)
		for name, p := range map[string]*Pipeline{"off": nil, "sealed": {Keys: ring(b, "k")}} {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					_, _ = p.Seal(place, value)
				}
			})
		}
		p := &Pipeline{Keys: ring(b, "k")}
		kept, _ := p.Seal(place, value)
		b.Run(fmt.Sprintf("open/%d", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = p.Open(place, kept)
			}
		})
	}
}
