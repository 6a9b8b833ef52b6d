package script

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/numfmt"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/resp"
)

const (
	textReadOnly = "Attempt to modify a readonly table"
	textNoGlobal = "Script attempted to access nonexistent global variable '"
)

// openLibraries builds the two scopes: the scope of running functions, and the small scope of a library while it loads.
// Functions that differ between the server's Lua and this one are replaced.
func (l *Interpreter) openLibraries(o Options) {
	L := l.L
	for _, open := range []lua.LGFunction{lua.OpenBase, lua.OpenTable, lua.OpenString, lua.OpenMath,
		lua.OpenCoroutine} {
		L.Push(L.NewFunction(open))
		L.Push(lua.LString(""))
		L.Call(1, 0)
	}
	plain := L.G.Global
	l.runScope, l.loadScope = L.NewTable(), L.NewTable()
	l.globals, l.globalsMeta = L.NewTable(), L.NewTable()

	for _, name := range []string{"getmetatable", "ipairs", "rawequal", "select", "type", "_VERSION", "coroutine"} {
		l.runScope.RawSetString(name, plain.RawGetString(name))
	}
	for name, fn := range map[string]lua.LGFunction{
		"assert": l.baseAssert, "error": l.baseError, "pcall": l.basePCall,
		"xpcall": l.xpcallOf(plain.RawGetString("xpcall").(*lua.LFunction).GFunction), "tonumber": l.baseToNumber,
		"tostring": l.baseToString, "unpack": baseUnpack, "rawset": l.baseRawSet, "rawget": l.baseRawGet,
		"setmetatable": l.baseSetMetatable, "pairs": l.basePairs, "next": l.baseNext, "loadstring": l.baseLoadString,
		"collectgarbage": baseCollectGarbage, "gcinfo": baseCollectGarbage,
	} {
		l.runScope.RawSetString(name, L.NewFunction(fn))
	}

	str := plain.RawGetString("string").(*lua.LTable)
	str.RawSetString("format", L.NewFunction(l.stringFormat))
	str.RawSetString("rep", L.NewFunction(l.stringRep))
	str.RawSetString("byte", L.NewFunction(stringByte))
	tab := plain.RawGetString("table").(*lua.LTable)
	tab.RawSetString("concat", L.NewFunction(l.tableConcat))
	maths := plain.RawGetString("math").(*lua.LTable)
	maths.RawSetString("huge", lua.LNumber(math.Inf(1)))
	maths.RawSetString("random", L.NewFunction(l.mathRandom))
	maths.RawSetString("randomseed", L.NewFunction(func(*lua.LState) int { return 0 }))

	redis, loadRedis := L.NewTable(), L.NewTable()
	l.registerRedis(o, redis, loadRedis)
	for name, t := range map[string]*lua.LTable{
		"string": str, "table": tab, "math": maths, "redis": redis, "cjson": l.newCJSON(), "bit": l.newBit(),
		"struct": l.newStruct(), "cmsgpack": l.newCMsgPack(),
	} {
		l.runScope.RawSetString(name, l.protect(t, nil))
	}
	missing := L.NewFunction(func(L *lua.LState) int {
		raiseText(L, textNoGlobal+l.toText(L.Get(2))+"'")
		return 0
	})
	l.loadScope.RawSetString("redis", l.protect(loadRedis, missing))

	for scope, absent := range map[*lua.LTable]*lua.LFunction{
		l.runScope: missing, l.loadScope: L.NewFunction(l.missingAtLoad),
	} {
		meta := L.NewTable()
		meta.RawSetString("__index", absent)
		scope.Metatable = meta
	}
	l.globalsMeta.RawSetString("__index", l.runScope)
	l.globalsMeta.RawSetString("__newindex", l.readOnlyFunc())
	l.globals.Metatable = l.globalsMeta
	l.protected[l.globals] = l.runScope
	l.runScope.RawSetString("_G", l.globals)
	l.env = L.NewTable()
	l.env.Metatable = l.globalsMeta
	l.env.RawSetString(checkpointName, L.NewFunction(l.checkpoint))
	l.direct = l.directNames()
	l.enterScope(l.runScope)
}

// directNames returns all names that running functions can use, as directName makes them, with their values.
func (l *Interpreter) directNames() map[string]lua.LValue {
	direct := map[string]lua.LValue{}
	l.runScope.ForEach(func(global, v lua.LValue) {
		direct[directName(global.String(), "")] = v
		if front, ok := v.(*lua.LTable); ok && front != l.globals {
			l.real(front).ForEach(func(field, v lua.LValue) {
				if field, ok := field.(lua.LString); ok {
					direct[directName(global.String(), string(field))] = v
				}
			})
		}
	})
	return direct
}

// enterScope makes the names of a scope the ones that code sees.
func (l *Interpreter) enterScope(scope *lua.LTable) {
	l.globalsMeta.RawSetString("__index", scope)
	for name, v := range l.direct {
		if scope != l.runScope {
			v = lua.LNil
		}
		l.env.RawSetString(name, v)
	}
}

// missingAtLoad resolves a name that prepare has made, in the scope of loading libraries.
func (l *Interpreter) missingAtLoad(L *lua.LState) int {
	global, field, isField := strings.Cut(strings.TrimPrefix(l.toText(L.Get(2)), "."), ".")
	v, missing := l.loadScope.RawGetString(global), global
	if table, ok := v.(*lua.LTable); ok && isField {
		v, missing = l.real(table).RawGetString(field), field
	}
	if v == lua.LNil {
		raiseText(L, textNoGlobal+missing+"'")
	}
	L.Push(v)
	return 1
}

// checkpoint is called by programs where they may run for long.
func (l *Interpreter) checkpoint(L *lua.LState) int {
	l.budget.spend(checkpointCost)
	if l.budget.interrupted() {
		raiseText(L, errTimeout.Error())
	}
	return 0
}

func (l *Interpreter) readOnlyFunc() *lua.LFunction {
	return l.L.NewFunction(func(L *lua.LState) int {
		raiseText(L, textReadOnly)
		return 0
	})
}

// protect returns a read-only proxy for t: an empty table that resolves all names in t. missing, if given, is called
// for absent names.
func (l *Interpreter) protect(t *lua.LTable, missing *lua.LFunction) *lua.LTable {
	if missing != nil {
		meta := l.L.NewTable()
		meta.RawSetString("__index", missing)
		t.Metatable = meta
	}
	front, meta := l.L.NewTable(), l.L.NewTable()
	meta.RawSetString("__index", t)
	meta.RawSetString("__newindex", l.readOnlyFunc())
	front.Metatable = meta
	l.protected[front] = t
	return front
}

// real returns the table behind a proxy.
func (l *Interpreter) real(t *lua.LTable) *lua.LTable {
	if t.Metatable != lua.LNil {
		if behind, ok := l.protected[t]; ok {
			return behind
		}
	}
	return t
}

// tostring is Lua's tostring with the server's number format.
func (l *Interpreter) tostring(v lua.LValue) string {
	switch v := v.(type) {
	case lua.LNumber:
		return numfmt.FormatG14(float64(v))
	case lua.LString:
		return string(v)
	case *lua.LUserData:
		if v == l.null {
			return "userdata: (nil)"
		}
	}
	return l.L.ToStringMeta(v).String()
}

// toText converts as C's lua_tostring does: strings and numbers, nothing else.
func (l *Interpreter) toText(v lua.LValue) string {
	switch v := v.(type) {
	case lua.LNumber:
		return numfmt.FormatG14(float64(v))
	case lua.LString:
		return string(v)
	}
	return ""
}

func (l *Interpreter) baseToString(L *lua.LState) int {
	L.Push(lua.LString(l.tostring(L.CheckAny(1))))
	return 1
}

func (l *Interpreter) baseToNumber(L *lua.LState) int {
	v := L.CheckAny(1)
	base := L.OptInt(2, 10)
	if base == 10 {
		switch v := v.(type) {
		case lua.LNumber:
			L.Push(v)
			return 1
		case lua.LString:
			if n, ok := luaNumber(string(v)); ok {
				L.Push(lua.LNumber(n))
				return 1
			}
		}
		L.Push(lua.LNil)
		return 1
	}
	if base < 2 || base > 36 {
		raiseText(L, "bad argument #2 to 'tonumber' (base out of range)")
	}
	s, ok := v.(lua.LString)
	if !ok {
		if n, isNumber := v.(lua.LNumber); isNumber {
			s = lua.LString(numfmt.FormatG14(float64(n)))
		} else {
			raiseText(L, "bad argument #1 to 'tonumber' (string expected, got "+v.Type().String()+")")
		}
	}
	if n, ok := unsignedNumber(string(s), base); ok {
		L.Push(lua.LNumber(n))
	} else {
		L.Push(lua.LNil)
	}
	return 1
}

// luaNumber converts a whole string, white space around it allowed. A zero byte ends the string, as in C.
func luaNumber(s string) (float64, bool) {
	v, n := numfmt.Strtod(s)
	if n == 0 {
		return 0, false
	}
	for n < len(s) && numfmt.IsSpace(s[n]) {
		n++
	}
	return v, n == len(s) || s[n] == 0
}

// unsignedNumber follows C's strtoul: a minus sign wraps around.
func unsignedNumber(s string, base int) (float64, bool) {
	s, _, _ = strings.Cut(s, "\x00")
	s = strings.TrimFunc(s, func(r rune) bool { return r < 128 && numfmt.IsSpace(byte(r)) })
	neg := strings.HasPrefix(s, "-")
	if neg || strings.HasPrefix(s, "+") {
		s = s[1:]
	}
	if base == 16 && len(s) > 2 && s[0] == '0' && s[1]|0x20 == 'x' {
		s = s[2:]
	}
	for i := 0; i < len(s); i++ {
		digit := int(s[i]|0x20) - 'a' + 10
		if numfmt.IsDigit(s[i]) {
			digit = int(s[i] - '0')
		}
		if !numfmt.IsAlnum(s[i]) || digit >= base {
			return 0, false
		}
	}
	if s == "" {
		return 0, false
	}
	v, err := strconv.ParseUint(s, base, 64)
	if err != nil { // only out of range is left
		return math.MaxUint64, true
	}
	if neg {
		v = -v
	}
	return float64(v), true
}

func (l *Interpreter) baseError(L *lua.LState) int {
	v := L.Get(1)
	level := L.OptInt(2, 1)
	switch v.(type) {
	case lua.LString, lua.LNumber:
		if level > 0 {
			v = lua.LString(position(L, level) + l.toText(v))
		}
	}
	raise(L, v)
	return 0
}

func (l *Interpreter) baseAssert(L *lua.LState) int {
	v := L.CheckAny(1)
	if lua.LVAsBool(v) {
		return L.GetTop()
	}
	text := "assertion failed!"
	switch msg := L.Get(2).(type) {
	case lua.LString, lua.LNumber:
		text = l.tostring(msg)
	case *lua.LNilType:
	default:
		text = "bad argument #2 to 'assert' (string expected, got " + msg.Type().String() + ")"
	}
	raiseText(L, text)
	return 0
}

// basePCall differs from the state's own in three ways: an error table with a text in err yields the text, as on a
// server; a call that ran out of time cannot be caught; and outer locals stay shared with the closures over them.
func (l *Interpreter) basePCall(L *lua.LState) int {
	fn := L.CheckAny(1)
	if fn.Type() != lua.LTFunction && L.GetMetaField(fn, "__call").Type() != lua.LTFunction {
		L.Push(lua.LFalse)
		L.Push(lua.LString("attempt to call a " + fn.Type().String() + " value"))
		return 2
	}
	err := L.PCall(L.GetTop()-1, lua.MultRet, l.keepError())
	if err == nil {
		L.Insert(lua.LTrue, 1)
		return L.GetTop()
	}
	if l.budget.interrupted() {
		panic(err)
	}
	var v lua.LValue = lua.LString(err.Error())
	if ae, ok := err.(*lua.ApiError); ok {
		v = ae.Object
		if t, ok := v.(*lua.LTable); ok {
			switch text := t.RawGetString("err").(type) {
			case lua.LString, lua.LNumber:
				v = text
			}
		}
	}
	L.Push(lua.LFalse)
	L.Push(v)
	return 2
}

// xpcallOf returns the standard xpcall, but that the end of the time cannot be caught.
func (l *Interpreter) xpcallOf(standard lua.LGFunction) lua.LGFunction {
	return func(L *lua.LState) int {
		n := standard(L)
		if l.budget.interrupted() {
			raiseText(L, errTimeout.Error())
		}
		return n
	}
}

// keepError is an error handler that changes nothing. Its presence keeps the state from closing the locals of all
// functions on the stack when an error is raised.
func (l *Interpreter) keepError() *lua.LFunction {
	if l.handler == nil {
		l.handler = l.L.NewFunction(func(*lua.LState) int { return 1 })
	}
	return l.handler
}

func baseUnpack(L *lua.LState) int {
	t := L.CheckTable(1)
	from, to := L.OptInt(2, 1), 0
	if L.Get(3) == lua.LNil {
		to = t.Len()
	} else {
		to = L.CheckInt(3)
	}
	n := to - from + 1
	if n <= 0 {
		return 0
	}
	if n+L.GetTop() > maxStack {
		raiseText(L, "too many results to unpack")
	}
	for i := from; i <= to; i++ {
		L.Push(t.RawGetInt(i))
	}
	return n
}

func (l *Interpreter) refuseProtected(t *lua.LTable) {
	if _, ok := l.protected[t]; ok {
		raise(l.L, lua.LString(textReadOnly))
	}
}

func (l *Interpreter) baseRawSet(L *lua.LState) int {
	t := L.CheckTable(1)
	l.refuseProtected(t)
	L.RawSet(t, L.CheckAny(2), L.CheckAny(3))
	L.SetTop(1)
	return 1
}

func (l *Interpreter) baseRawGet(L *lua.LState) int {
	L.Push(l.real(L.CheckTable(1)).RawGet(L.CheckAny(2)))
	return 1
}

func (l *Interpreter) baseSetMetatable(L *lua.LState) int {
	t := L.CheckTable(1)
	l.refuseProtected(t)
	if m, ok := t.Metatable.(*lua.LTable); ok && m.RawGetString("__metatable") != lua.LNil {
		raiseText(L, "cannot change a protected metatable")
	}
	meta := L.Get(2)
	if meta != lua.LNil && meta.Type() != lua.LTTable {
		raiseText(L, "bad argument #2 to 'setmetatable' (nil or table expected)")
	}
	L.SetMetatable(t, meta)
	L.SetTop(1)
	return 1
}

func (l *Interpreter) basePairs(L *lua.LState) int {
	t := l.real(L.CheckTable(1))
	L.Push(l.runScope.RawGetString("next"))
	L.Push(t)
	L.Push(lua.LNil)
	return 3
}

func (l *Interpreter) baseNext(L *lua.LState) int {
	k, v := l.real(L.CheckTable(1)).Next(L.Get(2))
	L.Push(k)
	if k == lua.LNil {
		return 1
	}
	L.Push(v)
	return 2
}

func (l *Interpreter) baseLoadString(L *lua.LState) int {
	proto, err := l.compile(L.CheckString(1))
	if err == nil {
		fn := L.NewFunctionFromProto(proto)
		fn.Env = l.env
		L.Push(fn)
		return 1
	}
	L.Push(lua.LNil)
	L.Push(lua.LString(oneLine(err.Error())))
	return 2
}

// baseCollectGarbage answers without doing anything: memory belongs to the whole process.
func baseCollectGarbage(L *lua.LState) int {
	L.Push(lua.LNumber(0))
	return 1
}

func (l *Interpreter) tableConcat(L *lua.LState) int {
	t := L.CheckTable(1)
	sep := ""
	if L.GetTop() > 1 {
		sep = l.toText(L.Get(2))
	}
	from := L.OptInt(3, 1)
	to := 0
	if L.Get(4) == lua.LNil {
		to = t.Len()
	} else {
		to = L.CheckInt(4)
	}
	var b strings.Builder
	for i := from; i <= to; i++ {
		switch v := t.RawGetInt(i).(type) {
		case lua.LString:
			b.WriteString(string(v))
		case lua.LNumber:
			b.WriteString(numfmt.FormatG14(float64(v)))
		default:
			raiseText(L, fmt.Sprintf("invalid value (%s) at index %d in table for 'concat'", v.Type(), i))
		}
		if i < to {
			b.WriteString(sep)
		}
	}
	L.Push(lua.LString(b.String()))
	return 1
}

// stringByte is string.byte. Without an end it returns one byte; the interpreter's own function returns all of them
// then.
func stringByte(L *lua.LState) int {
	s, from := L.CheckString(1), L.OptInt(2, 1)
	to := L.OptInt(3, from)
	if from < 0 {
		from += len(s) + 1
	}
	if to < 0 {
		to += len(s) + 1
	}
	from, to = max(from, 1), min(to, len(s))
	if to-from >= maxStack-L.GetTop() {
		raiseText(L, "stack overflow (string slice too long)")
	}
	for i := from; i <= to; i++ {
		L.Push(lua.LNumber(s[i-1]))
	}
	return max(0, to-from+1)
}

func (l *Interpreter) stringRep(L *lua.LState) int {
	s, n := L.CheckString(1), L.CheckInt(2)
	if n <= 0 {
		n = 0
	}
	if len(s) > 0 && n > resp.MaxBulkBytes/len(s) {
		raiseText(L, "resulting string too large")
	}
	L.Push(lua.LString(strings.Repeat(s, n)))
	return 1
}

func (l *Interpreter) mathRandom(L *lua.LState) int {
	r := float64(l.random(1<<31-1)) / (1<<31 - 1)
	switch L.GetTop() {
	case 0:
		L.Push(lua.LNumber(r))
	case 1:
		hi := L.CheckInt(1)
		if hi < 1 {
			raiseText(L, "bad argument #1 to 'random' (interval is empty)")
		}
		L.Push(lua.LNumber(math.Floor(r*float64(hi)) + 1))
	default:
		lo, hi := L.CheckInt(1), L.CheckInt(2)
		if lo > hi {
			raiseText(L, "bad argument #2 to 'random' (interval is empty)")
		}
		L.Push(lua.LNumber(math.Floor(r*float64(hi-lo+1)) + float64(lo)))
	}
	return 1
}
