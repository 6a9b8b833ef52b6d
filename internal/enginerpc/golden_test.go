package enginerpc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/keyprefix"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// goldenCall is one call with the KEYS and ARGV that it must be sent with.
type goldenCall struct {
	function string
	wire     func(Keys) (string, []string, []string, error)
	keys     []string
	args     []string
}

// goldenReply is one reply and the value that it must decode to.
type goldenReply struct {
	name   string
	reply  any
	decode func(message) (any, error)
	want   any
}

// bytesCall encodes a payload into one argument of a call.
type bytesCall struct {
	name string
	arg  int
	args func(Keys, []byte) ([]string, error)
}

// replyDecoder decodes any message as a reply of one function.
type replyDecoder struct {
	function string
	decode   func(message) error
}

// reply builds a server reply: a string, an int, nil, an error text of type errorReply, or a []any of them.
func reply(t testing.TB, v any) message {
	t.Helper()
	var m message
	if err := m.CacheUnmarshalView(appendReply(make([]byte, 7), v)); err != nil {
		t.Fatal(err)
	}
	return m
}

type errorReply string

func appendReply(b []byte, v any) []byte {
	size := func(b []byte, kind byte, n uint64) []byte { return binary.BigEndian.AppendUint64(append(b, kind), n) }
	switch v := v.(type) {
	case string:
		return append(size(b, '$', uint64(len(v))), v...)
	case errorReply:
		return append(size(b, '-', uint64(len(v))), v...)
	case int:
		return size(b, ':', uint64(v))
	case []any:
		b = size(b, '*', uint64(len(v)))
		for _, x := range v {
			b = appendReply(b, x)
		}
		return b
	}
	return size(b, '_', 0)
}

func testKeys(t testing.TB) Keys {
	t.Helper()
	k, err := NewKeys(keyprefix.Default)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestGoldenCalls(t *testing.T) {
	t.Parallel()
	k := testKeys(t)
	for _, g := range goldenCalls() {
		t.Run(g.function, func(t *testing.T) {
			t.Parallel()
			function, keys, args, err := g.wire(k)
			if err != nil {
				t.Fatal(err)
			}
			if function != g.function {
				t.Errorf("function %s, want %s", function, g.function)
			}
			if !slices.Equal(keys, g.keys) {
				t.Errorf("KEYS\n got %q\nwant %q", keys, g.keys)
			}
			if !slices.Equal(args, g.args) {
				t.Errorf("ARGV\n got %q\nwant %q", args, g.args)
			}
			for _, key := range keys {
				if slot(key) != slot(keys[0]) {
					t.Errorf("%s is in slot %d, %s in %d", key, slot(key), keys[0], slot(keys[0]))
				}
			}
		})
	}
}

// slot computes the cluster slot as a server does.
func slot(key string) int {
	if tag := TagOf(key); tag != "" {
		key = tag[1 : len(tag)-1]
	}
	return int(keyspace.Partitioning{Flow: clusterSlots}.LanePartition(enginecore.LaneID(key)).Index) // the checksum of its text
}

func TestGoldenReplies(t *testing.T) {
	t.Parallel()
	for _, g := range goldenReplies() {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			got, err := g.decode(reply(t, g.reply))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, g.want) {
				t.Errorf("\n got %#v\nwant %#v", got, g.want)
			}
		})
	}
}

// TestShortReplies cuts golden replies and expects a *DecodeError, or for optional ends a success, but never a
// panic.
func TestShortReplies(t *testing.T) {
	t.Parallel()
	for _, g := range goldenReplies() {
		whole, ok := g.reply.([]any)
		if !ok {
			continue
		}
		for n := range whole {
			_, err := g.decode(reply(t, whole[:n]))
			var decode *enginecore.DecodeError
			if err != nil && !errors.As(err, &decode) {
				t.Errorf("%s cut to %d: %v", g.name, n, err)
			}
			if n < 2 && err == nil {
				t.Errorf("%s cut to %d decodes", g.name, n)
			}
		}
	}
}

func TestBytesArriveUnchanged(t *testing.T) {
	t.Parallel()
	k := testKeys(t)
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range bytesCalls() {
		for range 20 {
			payload := make([]byte, random.IntN(300))
			for i := range payload {
				payload[i] = byte(random.Uint32())
			}
			args, err := c.args(k, payload)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if args[c.arg] != string(payload) {
				t.Fatalf("%s: %q became %q", c.name, payload, args[c.arg])
			}
		}
	}
	payload := []byte{0, 0xff, 0xc3, '\r', '\n'}
	m := reply(t, []any{1, "OK", string(payload)})
	got, err := decodeReply(callInfo{}, m, func(r *fields) []byte { return bytesValue(r, "x") })
	if err != nil || !bytes.Equal(got, payload) {
		t.Errorf("decoded %q, %v", got, err)
	}
}
