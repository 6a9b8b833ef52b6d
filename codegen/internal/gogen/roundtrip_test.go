package gogen

import (
	"fmt"
	"strings"
	"testing"

	gopherlua "github.com/yuin/gopher-lua"

	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
	"github.com/flowfabric/flowfabric-go/codegen/internal/headertest"
	"github.com/flowfabric/flowfabric-go/codegen/internal/luagen"
)

// TestGoCallsMatchLuaRegistrations passes the keys and arguments that Go sends for each function of the real library to
// the generated registration, and compares every key and argument that the Lua function would receive by name.
func TestGoCallsMatchLuaRegistrations(t *testing.T) {
	t.Parallel()
	l := headertest.Real(t)
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
	generated := luagen.Files(l, luagen.Build{})
	text := harness + generated["lua/generated/register.gen.lua"] + generated["lua/composite/generated/register.gen.lua"]
	if err := state.DoString(text); err != nil {
		t.Fatal(err)
	}
	registered := state.GetGlobal("registered").(*gopherlua.LTable)
	for _, f := range l.Functions {
		x := makePlan(l, f)
		keys, args := luaList(goldenKeys(x)), luaList(goldenArgs(x))
		call := gopherlua.P{Fn: registered.RawGetString(f.Name), NRet: 1, Protect: true}
		if err := state.CallByParam(call, keys, args); err != nil {
			t.Errorf("%s: %v", f.Name, err)
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
			t.Errorf("%s: %s is %q, want %q", p.Name, what, got.String(), want)
		}
	}
	sent := goldenKeys(p)
	if p.Flags["positional"] {
		for i, want := range goldenArgs(p) {
			expect(fmt.Sprint("argument ", i+1), args.RawGetInt(i+1), want)
		}
		return
	}
	for i, k := range p.Keys {
		got := keys.RawGetString(k.Role)
		if k.Many {
			got = got.(*gopherlua.LTable).RawGetInt(1)
		}
		expect("key "+k.Role, got, sent[i])
	}
	for _, x := range p.FlatArgs() {
		expect(x.Name, args.RawGetString(x.Name), sampleOf(x.Name, x.Scalar).wire)
	}
	for _, a := range p.Args {
		switch a.Kind {
		case header.ArgRest:
			expect(a.Name, args.RawGetString(a.Name).(*gopherlua.LTable).RawGetInt(2), sampleOf(a.Name+"2", a.Field.Scalar).wire)
		case header.ArgGroup, header.ArgColumns:
			list := args.RawGetString(a.Name).(*gopherlua.LTable)
			expect(a.Name+"_count", args.RawGetString(a.Name+"_count"), "2")
			for _, x := range a.Fields {
				for i := 1; i <= 2; i++ {
					got := list.RawGetInt(i).(*gopherlua.LTable).RawGetString(x.Name)
					expect(fmt.Sprintf("%s[%d].%s", a.Name, i, x.Name), got, sampleOf(x.Name, x.Scalar).wire)
				}
			}
		}
	}
}

// TestLuaTextsMatchExamples writes and reads the examples of all messages and texts in Lua. The tests of
// internal/enginerpc do the same in Go.
func TestLuaTextsMatchExamples(t *testing.T) {
	t.Parallel()
	const prelude = "message, encode, decode = {}, {}, {}\nfunction is_set(x) return x ~= nil and x ~= '' end\n"
	l := headertest.Real(t)
	state := gopherlua.NewState()
	defer state.Close()
	if err := state.DoString(prelude + luagen.Texts(l, func(string) bool { return true })); err != nil {
		t.Fatal(err)
	}
	run := func(name, code string) {
		if err := state.DoString(code); err != nil {
			t.Errorf("%s: %v\n%s", name, err, code)
		}
	}
	quote := func(s string) string {
		var b strings.Builder
		for i := range len(s) {
			fmt.Fprintf(&b, "\\%03d", s[i])
		}
		return "'" + b.String() + "'"
	}
	for _, m := range l.Forms {
		var args, values []string
		for i, x := range m.Params() {
			value := quote(sampleOfPart(m, x).wire)
			switch {
			case x.Mark != "":
				args, values = append(args, "true"), append(values, "true")
			case x.Typ.Kind == header.KindBytes && i == len(m.Params())-1:
				position := len(sampleText(m)) - len(sampleOfPart(m, x).wire) + 1
				args, values = append(args, value), append(values, fmt.Sprint(position))
			default:
				args, values = append(args, value), append(values, value)
			}
		}
		text := quote(sampleText(m))
		same := func(call string) {
			run(m.Name, fmt.Sprintf("local got, want = { %s }, { %s }\nfor i = 1, %d do assert(got[i] == want[i], i .. ': ' .. tostring(got[i])) end",
				call, strings.Join(values, ", "), len(values)))
		}
		switch m.Kind {
		case header.FormMessage:
			run(m.Name, fmt.Sprintf("local text = message.%s(%s)\nassert(text == %s, text)", m.Name, strings.Join(args, ", "), text))
		case header.FormText:
			run(m.Name, fmt.Sprintf("local text = encode.%s(%s)\nassert(text == %s, text)", m.Name, strings.Join(args, ", "), text))
			same(fmt.Sprintf("decode.%s(%s)", m.Name, text))
		case header.FormList:
			names := make([]string, len(values))
			for i := range names {
				names[i] = fmt.Sprint("x", i)
			}
			run(m.Name, fmt.Sprintf("local n = 0\nfor %s in decode.%s_list(%s .. %s) do\n  n = n + 1\n  local got, want = { %s }, { %s }\n"+
				"  for i = 1, %d do assert(got[i] == want[i], got[i]) end\nend\nassert(n == 2)",
				strings.Join(names, ", "), m.Name, text, text, strings.Join(names, ", "), strings.Join(values, ", "), len(values)))
		}
	}
}
