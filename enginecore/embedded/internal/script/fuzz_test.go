package script

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/resp"
)

// called returns a function that runs the body of a Lua function on texts. A text that the function refuses is an error,
// never the end of the process.
func called(f *testing.F, body string) func(texts ...string) resp.Reply {
	f.Helper()
	l := New(Options{})
	f.Cleanup(l.Close)
	_, err := l.Load("#!lua name=t\nredis.register_function('f', function(keys, args) "+body+" end)", false)
	require.NoError(f, err)
	return func(texts ...string) resp.Reply { return l.Run(l.Function("f"), nil, texts) }
}

// FuzzCJSON decodes any text. JSON is accepted unless it nests deeper than a server allows, and an encoded text is
// decoded and encoded as the same text.
func FuzzCJSON(f *testing.F) {
	again := called(f, `
		local ok, value = pcall(cjson.decode, args[1])
		if not ok then return false end
		local fits, text = pcall(cjson.encode, value)
		return fits and text or ''`)
	for _, seed := range []string{
		`{"a":[1,2.5,-0,1e300,null,true],"b":{"c":"\u00e4\ud83d\ude00\\\/"}}`, `[[[[]]]]`, `"\ud800"`, `0x10`, `-inf`, `nan`, `01`, "\"\x01\"",
		`{"1":1,"x":2}`, `[null,null,null]`, `{"a":1}x`, "[1]\x00x", `{"":""}`, `1e999`, `"\u0000"`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		first := again(text)
		if first.Kind == resp.KindNil {
			require.False(t, acceptedByServers(text), "%q is JSON", text)
			return
		}
		require.Equal(t, resp.KindBulk, first.Kind, "%q: %s", text, first.Str)
		if first.Str == "" {
			return // such as a list with more holes than values
		}
		second := again(first.Str)
		require.Equal(t, resp.KindBulk, second.Kind, "%q", first.Str)
		if !bytes.ContainsAny([]byte(first.Str), "{") { // the order of a table's keys is its own
			require.Equal(t, first.Str, second.Str)
		}
	})
}

// acceptedByServers reports whether a text is JSON that a server decodes as well: its library knows no half of a
// surrogate pair and nests up to 1,000 deep.
func acceptedByServers(text string) bool {
	return json.Valid([]byte(text)) && !bytes.Contains([]byte(text), []byte(`\u`)) && bytes.Count([]byte(text), []byte("["))+
		bytes.Count([]byte(text), []byte("{")) < maxJSONDepth && !bytes.Contains([]byte(text), []byte{0})
}

// FuzzCMsgPack unpacks any bytes. Unpacked values are packed and unpacked as the same values.
func FuzzCMsgPack(f *testing.F) {
	again := called(f, `
		local ok, one = pcall(function() return { cmsgpack.unpack(args[1]) } end)
		if not ok then return false end
		return #one == 0 and '' or cmsgpack.pack(unpack(one, 1, #one))`)
	for _, seed := range []string{
		"\x93\x01\xa1a\xc0", "\x81\xa1k\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00", "\xdd\xff\xff\xff\xff", "\xdf\xff\xff\xff\xff\x01", "\xdb\xff\xff\xff\xff",
		"\x81\xc0\x01", "\x81\xca\x7f\xc0\x00\x00\x01", "\xd3\x80\x00\x00\x00\x00\x00\x00\x00", "\xdc\x00\x01\xdc\x00\x01\x05", "\xc1", "\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x05",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data string) {
		if slices.ContainsFunc([]byte(data), isWideNumber) {
			return // the interpreter makes room for all numbers below a large key of a map, which takes gigabytes
		}
		first := again(data)
		if first.Kind == resp.KindNil || first.Kind == resp.KindBulk && first.Str == "" {
			return
		}
		require.Equal(t, resp.KindBulk, first.Kind, "%q: %s", data, first.Str)
		second := again(first.Str)
		require.Equal(t, resp.KindBulk, second.Kind, "%q", first.Str)
		third := again(second.Str) // the first pass cuts values that nest too deep, so the second has none
		require.Len(t, third.Str, len(second.Str), "%q and %q", second.Str, third.Str)
	})
}

// isWideNumber reports whether a byte is the code of a number of 32 bits or more.
func isWideNumber(code byte) bool {
	return bytes.IndexByte([]byte("\xca\xcb\xce\xcf\xd2\xd3"), code) >= 0
}

// FuzzStruct unpacks any bytes by any format, from any place.
func FuzzStruct(f *testing.F) {
	unpacked := called(f, `
		local ok, n = pcall(function() return select('#', struct.unpack(args[1], args[2], tonumber(args[3]))) end)
		pcall(struct.size, args[1])
		pcall(struct.pack, args[1], 1, 'x', 2, 3, 'y')
		return ok and n or -1`)
	f.Add("<BBBI4", "\x01\x02\x03\x04\x05\x06\x07", int64(1))
	f.Add(">I6Hc0s!8d", "\x00\x00\x00\x00\x00\x01\x00\x02ab\x00", int64(1))
	f.Add("Bc0", "\xffx", int64(1))
	f.Add("i33", "", int64(0))
	f.Add("c2147483647", "", int64(-1))
	f.Add("!3i", "", int64(9223372036854775807))
	f.Fuzz(func(t *testing.T, format, data string, at int64) {
		if reply := unpacked(format, data, strconv.FormatInt(at, 10)); reply.Kind != resp.KindInt {
			t.Fatalf("%q %q %d: %v", format, data, at, reply)
		}
	})
}
