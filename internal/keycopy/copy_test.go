package keycopy_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keycopy"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

// random writes keys of all types: binary, empty, large and small ones, with and without expiry.
func random(t *testing.T, c rueidis.Client, prefix string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	text := func(most int) string {
		b := make([]byte, rng.IntN(most))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return string(b)
	}
	score := func() string {
		return []string{
			"-inf", "inf", "0", "-0.1", "1763806400000", "9007199254740993",
			strconv.FormatFloat(rng.NormFloat64()*1e10, 'g', -1, 64), fmt.Sprint(math.SmallestNonzeroFloat64),
		}[rng.IntN(8)]
	}
	do := func(words ...string) {
		t.Helper()
		command := c.B().Arbitrary(words[0]).Keys(words[1]).Args(words[2:]...).Build()
		require.NoError(t, c.Do(t.Context(), command).Error(), "%.80q", words)
	}
	for i := range 300 {
		key := fmt.Sprintf("%s:k:{fp:%d}:%d:%x", prefix, rng.IntN(9), i, text(6))
		n := []int{1, 2, 5, 130, 1025, 2100}[min(rng.IntN(12), 5)]
		if i > 40 {
			n = 1 + n%7
		}
		switch i % 6 {
		case 0:
			do("SET", key, text(3000))
		case 1:
			for j := range n {
				do("HSET", key, text(20)+strconv.Itoa(j), text(90))
			}
		case 2:
			for range n {
				do("RPUSH", key, text(90))
			}
		case 3:
			for range n {
				do("SADD", key, text(90), strconv.Itoa(rng.IntN(1000)))
			}
		case 4:
			for j := range n {
				do("ZADD", key, score(), text(20)+strconv.Itoa(j))
			}
		case 5:
			for j := range n {
				do("XADD", key, fmt.Sprintf("%d-%d", 1000+j, rng.IntN(5)), text(9), text(90), "b", text(5))
			}
			if n > 2 {
				do("XDEL", key, "1001-0", "1001-1", "1001-2", "1001-3", "1001-4")
			}
			if i%12 == 5 {
				do("XTRIM", key, "MAXLEN", strconv.Itoa(rng.IntN(2)))
			}
		}
		if rng.IntN(4) == 0 {
			at := time.Now().Add(time.Hour + time.Duration(i)*time.Millisecond)
			do("PEXPIREAT", key, strconv.FormatInt(at.UnixMilli(), 10))
		}
	}
	do("SET", prefix+"x:other", "of another prefix")
}

func client(t *testing.T, b *enginetest.Bench) rueidis.Client {
	t.Helper()
	return engine.ConnOf(b.Engine.Internal()).Client()
}

func store(t *testing.T, c rueidis.Client, prefix string) *keycopy.Store {
	t.Helper()
	keys, err := enginerpc.NewKeys(prefix)
	require.NoError(t, err)
	return keycopy.NewStore(c, keys)
}

// cut is a source that ends with an error after some pieces.
type cut struct {
	keycopy.Source
	after int
}

var errCut = errors.New("cut off")

func (s cut) Pieces(ctx context.Context) iter.Seq2[keycopy.Piece, error] {
	return func(yield func(keycopy.Piece, error) bool) {
		n := 0
		for p, err := range s.Source.Pieces(ctx) {
			if n++; n > s.after {
				yield(keycopy.Piece{}, errCut)
				return
			}
			if !yield(p, err) {
				return
			}
		}
	}
}

// A copy from the embedded engine to any engine and back is the same, byte for byte, also after interruptions.
func TestCopy(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, testserver.Kinds(t), func(t *testing.T, kind testserver.Kind) {
		ctx := enginetest.Context(t)
		from, to := client(t, enginetest.New(t, testserver.Embedded)), client(t, enginetest.New(t, kind))
		back := client(t, enginetest.New(t, testserver.Embedded))
		prefix := enginetest.NewPrefix()
		random(t, from, prefix)
		source, target := store(t, from, prefix), store(t, to, prefix)
		t.Cleanup(func() {
			_, err := target.Clear(context.WithoutCancel(ctx))
			require.NoError(t, err)
		})
		fresh := true
		for _, after := range []int{0, 50, 310} {
			_, err := keycopy.Copy(ctx, cut{source, after}, target, fresh, nil)
			require.ErrorIs(t, err, errCut)
		}
		report, err := keycopy.Copy(ctx, source, target, false, nil)
		require.NoError(t, err)
		require.Equal(t, 300, report.Keys)
		again, err := keycopy.Copy(ctx, source, target, false, nil)
		require.NoError(t, err)
		require.Zero(t, again.Written+again.Removed)
		require.Equal(t, report.Digest, again.Digest)

		backed, err := keycopy.Copy(ctx, target, store(t, back, prefix), true, nil)
		require.NoError(t, err)
		require.Equal(t, []any{300, report.Bytes, report.Digest}, []any{backed.Keys, backed.Bytes, backed.Digest})
		for keys, err := range source.Keys(ctx) {
			require.NoError(t, err)
			for _, key := range keys {
				require.Equal(t, dump(t, from, key), dump(t, back, key), "%q", key)
			}
		}
		require.False(t, strings.Contains(fmt.Sprint(names(t, target)), "other"))
	})
}

// The copy finds and corrects differences: values, members, order, expiry, and surplus keys.
func TestCopyRepairs(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	from, to := client(t, enginetest.New(t, testserver.Embedded)), client(t, enginetest.New(t, testserver.Embedded))
	do := func(c rueidis.Client, line string) {
		require.NoError(t, c.Do(ctx, c.B().Arbitrary(strings.Fields(line)...).Build()).Error(), line)
	}
	source, target := store(t, from, "p"), store(t, to, "p")
	lines := []string{
		"SET p:s v", "HSET p:h a 1 b 2", "RPUSH p:l a b", "SADD p:m a b", "ZADD p:z 1 a 2 b", "XADD p:x 1-1 a b", "SET p:e v",
	}
	for _, line := range lines {
		do(from, line)
	}
	_, err := keycopy.Copy(ctx, source, target, true, nil)
	require.NoError(t, err)
	for i, line := range []string{
		"SET p:s w", "HSET p:h b 3", "HDEL p:h b", "LSET p:l 0 b", "SADD p:m c", "ZADD p:z 1.5 a", "XADD p:x 1-2 a b",
		"XSETID p:x 9-9", "PEXPIRE p:e 3600000", "DEL p:s", "SET p:more v",
	} {
		do(to, line)
		report, err := keycopy.Copy(ctx, source, target, false, nil)
		require.NoError(t, err)
		require.Equal(t, 1, report.Written+report.Removed, "%d: %s", i, line)
	}
	do(from, "SET p:gone v PX 1")
	do(from, "SETRANGE p:s 5 z")
	report, err := keycopy.Copy(ctx, source, target, false, nil)
	require.NoError(t, err)
	require.Equal(t, 7, len(names(t, target)), report)
}

func names(t *testing.T, s *keycopy.Store) (all []string) {
	t.Helper()
	for keys, err := range s.Keys(t.Context()) {
		require.NoError(t, err)
		all = append(all, keys...)
	}
	return all
}

// dump is a key as the embedded engine writes it.
func dump(t *testing.T, c rueidis.Client, key string) string {
	t.Helper()
	text := ""
	for _, words := range [][]string{{"PEXPIRETIME"}, {"TYPE"}} {
		m, err := c.Do(t.Context(), c.B().Arbitrary(words[0]).Keys(key).Build()).ToAny()
		require.NoError(t, err)
		text += fmt.Sprint(m)
		switch m {
		case "stream":
			m, err = c.Do(t.Context(), c.B().XinfoStream().Key(key).Build()).ToAny()
			require.NoError(t, err)
			info := m.(map[string]any)
			text += fmt.Sprint(info["length"], info["last-generated-id"], info["entries-added"], info["first-entry"])
		case "list":
			m, err = c.Do(t.Context(), c.B().Lrange().Key(key).Start(0).Stop(-1).Build()).ToAny()
			require.NoError(t, err)
			text += fmt.Sprintf("%q", m)
		case "string":
			m, err = c.Do(t.Context(), c.B().Get().Key(key).Build()).ToAny()
			require.NoError(t, err)
			text += fmt.Sprintf("%q", m)
		}
	}
	return text
}

func TestMain(m *testing.M) { enginetest.Main(m) }
