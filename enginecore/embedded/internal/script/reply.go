package script

import (
	"math"

	lua "github.com/yuin/gopher-lua"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/numfmt"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/resp"
)

// maxReplyDepth bounds nested tables in a reply, which may contain themselves.
const maxReplyDepth = 1000

// fromReply turns the reply of a command into the value that redis.call returns, by the rules of protocol 2.
func (l *Interpreter) fromReply(r *resp.Reply) lua.LValue {
	switch r.Kind {
	case resp.KindNil, resp.KindNilArray:
		return lua.LFalse
	case resp.KindInt, resp.KindBool:
		return l.numbers.value(float64(r.Int))
	case resp.KindBulk, resp.KindVerbatim:
		if l.meter != nil {
			l.meter.Text()
		}
		return lua.LString(r.Str)
	case resp.KindDouble:
		return lua.LString(numfmt.FormatScore(r.Float()))
	case resp.KindStatus:
		t := l.L.CreateTable(0, 1)
		t.RawSetString("ok", lua.LString(r.Str))
		return t
	case resp.KindError:
		return l.errorTable(r.Str)
	case resp.KindMap:
		if r.Int == resp.MapOfLists {
			t := l.L.CreateTable(len(r.Elems)/2, 0)
			for i := 0; i+1 < len(r.Elems); i += 2 {
				pair := l.L.CreateTable(2, 0)
				pair.RawSetInt(1, l.fromReply(&r.Elems[i]))
				pair.RawSetInt(2, l.fromReply(&r.Elems[i+1]))
				t.RawSetInt(i/2+1, pair)
			}
			return t
		}
	}
	t := l.L.CreateTable(len(r.Elems), 0)
	for i := range r.Elems {
		t.RawSetInt(i+1, l.fromReply(&r.Elems[i]))
	}
	return t
}

// toReply turns the value that a function returned into a reply; ok is false when it nests too deeply.
func (l *Interpreter) toReply(v lua.LValue, depth int) (reply resp.Reply, ok bool) {
	if depth > maxReplyDepth {
		return resp.Reply{}, false
	}
	switch v := v.(type) {
	case lua.LString:
		return resp.Bulk(string(v)), true
	case lua.LNumber:
		return resp.Int64(truncate(float64(v))), true
	case lua.LBool:
		if v {
			return resp.One, true
		}
		return resp.Nil, true
	case *lua.LTable:
		return l.tableReply(v, depth)
	}
	return resp.Nil, true
}

// truncate converts as C does on the platforms that servers run on: a value that does not fit becomes the smallest
// integer.
func truncate(v float64) int64 {
	if math.IsNaN(v) || v >= 1<<63 || v < -1<<63 {
		return math.MinInt64
	}
	return int64(v)
}

func (l *Interpreter) tableReply(t *lua.LTable, depth int) (resp.Reply, bool) {
	if text, ok := field(t, "err"); ok {
		return resp.Error(text), true
	}
	if text, ok := field(t, "ok"); ok {
		return resp.Status(text), true
	}
	if n, ok := t.RawGetString("double").(lua.LNumber); ok {
		return resp.Double(float64(n)), true
	}
	if inner, ok := t.RawGetString("map").(*lua.LTable); ok {
		return l.collectionReply(inner, resp.KindMap, depth)
	}
	if inner, ok := t.RawGetString("set").(*lua.LTable); ok {
		return l.collectionReply(inner, resp.KindSet, depth)
	}
	n := t.Len()
	out := make([]resp.Reply, 0, n)
	for i := 1; ; i++ {
		v := t.RawGetInt(i)
		if v == lua.LNil {
			break
		}
		r, ok := l.toReply(v, depth+1)
		if !ok {
			return resp.Reply{}, false
		}
		out = append(out, r)
	}
	return resp.Array(out), true
}

func field(t *lua.LTable, name string) (string, bool) {
	s, ok := t.RawGetString(name).(lua.LString)
	return string(s), ok
}

// collectionReply handles {map = {k = v}} and {set = {k = true}}.
func (l *Interpreter) collectionReply(t *lua.LTable, kind resp.Kind, depth int) (resp.Reply, bool) {
	var out []resp.Reply
	ok := true
	for k, v := t.Next(lua.LNil); k != lua.LNil && ok; k, v = t.Next(k) {
		var r resp.Reply
		r, ok = l.toReply(k, depth+1)
		out = append(out, r)
		if kind == resp.KindMap && ok {
			r, ok = l.toReply(v, depth+1)
			out = append(out, r)
		}
	}
	return resp.Reply{Kind: kind, Elems: out}, ok
}
