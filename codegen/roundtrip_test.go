package main

import (
	"fmt"
	"path/filepath"
	"testing"

	gopherlua "github.com/yuin/gopher-lua"
)

// TestGoCallsMatchLuaRegistrations passes the keys and arguments that Go sends for each function of the real library to
// the generated registration, and compares every key and argument that the Lua function would receive by name.
func TestGoCallsMatchLuaRegistrations(t *testing.T) {
	t.Parallel()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	files, err := readSources(filepath.Join(root, "lua"))
	if err != nil {
		t.Fatal(err)
	}
	var p problems
	l := readHeaders(files, &p)
	check(l, &p)
	if err := p.err(); err != nil {
		t.Fatal(err)
	}
	state := gopherlua.NewState()
	defer state.Close()
	const harness = `
registered, redis = {}, {}
function redis.register_function(name, callback)
  if type(name) == 'table' then callback, name = name.callback, name.function_name end
  registered[name] = callback
end
local call = { begin = function() end, finish = function(answer) return answer end, refuse = function() end }
local F = setmetatable({}, { __index = function() return function(K, A) return { K = K, A = A } end end })
`
	text := harness + emitLuaRegister(l, false, build{}) + emitLuaRegister(l, true, build{})
	if err := state.DoString(text); err != nil {
		t.Fatal(err)
	}
	registered := state.GetGlobal("registered").(*gopherlua.LTable)
	for _, f := range l.functions {
		x := makePlan(l, f)
		keys, args := luaList(goldenKeys(x)), luaList(goldenArgs(x))
		call := gopherlua.P{Fn: registered.RawGetString(f.name), NRet: 1, Protect: true}
		if err := state.CallByParam(call, keys, args); err != nil {
			t.Errorf("%s: %v", f.name, err)
			continue
		}
		seen := state.Get(-1).(*gopherlua.LTable)
		state.Pop(1)
		compareUnpacked(t, x, seen.RawGetString("K").(*gopherlua.LTable), seen.RawGetString("A").(*gopherlua.LTable))
	}
}

func luaList(texts []string) *gopherlua.LTable {
	t := &gopherlua.LTable{}
	for _, s := range texts {
		t.Append(gopherlua.LString(s))
	}
	return t
}

func compareUnpacked(t *testing.T, p *plan, keys, args *gopherlua.LTable) {
	t.Helper()
	expect := func(what string, got gopherlua.LValue, want string) {
		t.Helper()
		if got.String() != want {
			t.Errorf("%s: %s is %q, want %q", p.name, what, got.String(), want)
		}
	}
	sent := goldenKeys(p)
	for i, k := range p.keys {
		got := keys.RawGetString(k.role)
		if k.many {
			got = got.(*gopherlua.LTable).RawGetInt(1)
		}
		expect("key "+k.role, got, sent[i])
	}
	for _, x := range p.flatArgs() {
		expect(x.name, args.RawGetString(x.name), sampleOf(x.name, x.scalar).wire)
	}
	for _, a := range p.args {
		switch a.kind {
		case argRest:
			expect(a.name, args.RawGetString(a.name).(*gopherlua.LTable).RawGetInt(2), sampleOf(a.name+"2", a.field.scalar).wire)
		case argGroup, argColumns:
			list := args.RawGetString(a.name).(*gopherlua.LTable)
			expect(a.name+"_count", args.RawGetString(a.name+"_count"), "2")
			for _, x := range a.fields {
				for i := 1; i <= 2; i++ {
					got := list.RawGetInt(i).(*gopherlua.LTable).RawGetString(x.name)
					expect(fmt.Sprintf("%s[%d].%s", a.name, i, x.name), got, sampleOf(x.name, x.scalar).wire)
				}
			}
		}
	}
}
