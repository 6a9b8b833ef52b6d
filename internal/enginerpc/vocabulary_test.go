package enginerpc

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// The library's present functions do not use every type that headers may name; these tests cover them all.

func TestEncodeEveryType(t *testing.T) {
	t.Parallel()
	w := &wire{keys: testKeys(t), name: "f"}
	w.text("a")
	w.bytes([]byte{0xff})
	w.bytes(nil)
	w.int(-3)
	w.optionalInt(0)
	w.optionalInt(7)
	w.float(0.1)
	w.optionalFloat(0)
	w.optionalFloat(1e21)
	w.millis(1500 * time.Millisecond)
	w.millis(time.Microsecond)
	w.millis(0)
	w.optionalMillis(0)
	w.optionalMillis(time.Second)
	w.time(time.Time{})
	w.time(time.UnixMilli(1795188498438))
	w.timeOrNow(time.UnixMilli(1795188498438))
	w.bool(true)
	w.bool(false)
	want := []string{
		"a", "\xff", "", "-3", "", "7", "0.1", "", "1e+21", "1500", "1", "0", "", "1000", "", "1795188498438",
		"1795188498438", "1", "0",
	}
	if !slices.Equal(w.args, want) || w.err != nil {
		t.Errorf("\n got %q, %v\nwant %q", w.args, w.err, want)
	}
}

func TestOptionalKeyKeepsTheSlot(t *testing.T) {
	t.Parallel()
	w := &wire{keys: testKeys(t), name: "f"}
	w.partition(keyspace.Partition{Family: keyspace.FlowFamily, Index: 7}, keyspace.FlowFamily)
	w.noKey()
	if w.err != nil || w.list[0] != "ff:noop:{fp:7}" {
		t.Errorf("%q, %v", w.list, w.err)
	}
	w.key("ff:idx:workers")
	if w.err == nil {
		t.Error("a key without the tag was accepted")
	}
}

type namedCount struct {
	Name  string
	Count int64
}

func decodeNamedCount(r *fields, out *namedCount) {
	out.Name = textValue[string](r, "name")
	out.Count = intValue[int64](r, "count")
}

func TestDecodeEveryShape(t *testing.T) {
	t.Parallel()
	two := []namedCount{{"a", 1}, {"b", 2}}
	for name, x := range map[string]struct {
		reply  []any
		decode func(*fields) any
		want   any
	}{
		"list":     {[]any{[]any{[]any{"a", "1"}, []any{"b", 2}}}, func(r *fields) any { return list(r, "x", decodeNamedCount) }, two},
		"listOf":   {[]any{[]any{"a", "b"}}, func(r *fields) any { return listOf(r, "x", textValue[enginecore.EdgeID]) }, []enginecore.EdgeID{"a", "b"}},
		"rest":     {[]any{"a", "1", "b", "2"}, func(r *fields) any { return rest(r, "x", decodeNamedCount) }, two},
		"restOf":   {[]any{"1", "2"}, func(r *fields) any { return restOf(r, "x", intValue[enginecore.AttemptIndex]) }, []enginecore.AttemptIndex{1, 2}},
		"group":    {[]any{"2", "a", "1", "b", "2"}, func(r *fields) any { return group(r, "x", decodeNamedCount) }, two},
		"groupOf":  {[]any{"1", "a"}, func(r *fields) any { return groupOf(r, "x", textValue[string]) }, []string{"a"}},
		"pairs":    {[]any{[]any{"a", "\xff"}}, func(r *fields) any { return pairs(r, "x") }, []Pair{{"a", []byte{0xff}}}},
		"float":    {[]any{"0.25"}, func(r *fields) any { return floatValue(r, "x") }, 0.25},
		"duration": {[]any{"1500"}, func(r *fields) any { return millisValue(r, "x") }, 1500 * time.Millisecond},
		"none":     {[]any{""}, func(r *fields) any { return millisValue(r, "x") }, time.Duration(0)},
		"bools":    {[]any{"1", "0", ""}, func(r *fields) any { return restOf(r, "x", boolValue) }, []bool{true, false, false}},
		"id":       {[]any{"{fp:1}:x"}, func(r *fields) any { return executionIDValue(r, "x") }, enginecore.ExecutionID("{fp:1}:x")},
	} {
		got, err := decodeReply(callInfo{}, reply(t, append([]any{1, "OK"}, x.reply...)), x.decode)
		if err != nil || !reflect.DeepEqual(got, x.want) {
			t.Errorf("%s: got %#v, %v", name, got, err)
		}
	}
	for name, x := range map[string]struct {
		reply  []any
		decode func(*fields) any
	}{
		"no list":           {[]any{"a"}, func(r *fields) any { return list(r, "x", decodeNamedCount) }},
		"flat list":         {[]any{[]any{"a", "1"}}, func(r *fields) any { return list(r, "x", decodeNamedCount) }},
		"long element":      {[]any{[]any{[]any{"a", "1", "2"}}}, func(r *fields) any { return list(r, "x", decodeNamedCount) }},
		"torn rest":         {[]any{"a", "1", "b"}, func(r *fields) any { return rest(r, "x", decodeNamedCount) }},
		"huge group":        {[]any{"9999999999", "a"}, func(r *fields) any { return group(r, "x", decodeNamedCount) }},
		"negative group":    {[]any{"-1"}, func(r *fields) any { return group(r, "x", decodeNamedCount) }},
		"odd pairs":         {[]any{[]any{"a"}}, func(r *fields) any { return pairs(r, "x") }},
		"bad float":         {[]any{"x"}, func(r *fields) any { return floatValue(r, "x") }},
		"endless duration":  {[]any{"99999999999999999"}, func(r *fields) any { return millisValue(r, "x") }},
		"bad bool":          {[]any{"yes"}, func(r *fields) any { return boolValue(r, "x") }},
		"bad time":          {[]any{"nan"}, func(r *fields) any { return timeValue(r, "x") }},
		"bytes from a list": {[]any{[]any{}}, func(r *fields) any { return bytesValue(r, "x") }},
	} {
		got, err := decodeReply(callInfo{}, reply(t, append([]any{1, "OK"}, x.reply...)), x.decode)
		if err == nil {
			t.Errorf("%s decodes to %#v", name, got)
		}
	}
}

func TestReplyForms(t *testing.T) {
	t.Parallel()
	status := func(r *fields) Status { return r.status }
	value := func(r *fields) string { return textValue[string](r, "value") }
	if got, err := decodeReply(callInfo{form: formBare}, reply(t, []any{"ADMITTED"}), status); err != nil || got != "ADMITTED" {
		t.Errorf("bare: %q, %v", got, err)
	}
	if _, err := decodeReply(callInfo{form: formBare}, reply(t, []any{0, "invalid_input", "x"}), status); !errors.Is(err, errorcode.InvalidInput) {
		t.Errorf("bare refusal: %v", err)
	}
	if got, err := decodeReply(callInfo{form: formRaw}, reply(t, "15"), value); err != nil || got != "15" {
		t.Errorf("raw: %q, %v", got, err)
	}
	if _, err := decodeReply(callInfo{form: formRaw}, reply(t, []any{1, "OK"}), value); !isDecodeError(err) {
		t.Errorf("raw, but an array: %v", err)
	}
	for _, bad := range []any{"OK", nil, 1, []any{}, []any{"OK"}, []any{2, "OK"}, []any{1}, []any{1, 2}} {
		if _, err := decodeReply(callInfo{}, reply(t, bad), status); !isDecodeError(err) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func TestKeysPrefix(t *testing.T) {
	t.Parallel()
	k, err := NewKeys("my-app")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ got, want string }{
		{k.ExecCore("{fp:7}:x"), "my-app:exec:{fp:7}:{fp:7}:x:core"},
		{k.LaneEligible(keyspace.Partition{Family: keyspace.FlowFamily, Index: 3}, "default"), "my-app:idx:{fp:3}:lane:default:eligible"},
		{k.ConfigPartitions(), "my-app:config:partitions"},
		{k.ChannelWake("gpu"), "my-app:ffx:wake:gpu"},
		{k.Prefix(), "my-app"},
	} {
		if x.got != x.want {
			t.Errorf("got %s, want %s", x.got, x.want)
		}
	}
	for key, want := range map[string]string{"a{b}c": "{b}", "a{}c": "", "a": "", "a{b": "", "{x}{y}": "{x}"} {
		if got := TagOf(key); got != want {
			t.Errorf("tag of %q: %q", key, got)
		}
	}
}
