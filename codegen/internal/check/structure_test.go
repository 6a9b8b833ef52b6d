package check

import (
	"strings"
	"testing"

	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
	"github.com/flowfabric/flowfabric-go/codegen/internal/luagen"
)

// structureFaults gives the messages for files of a library, given as path, text, path, text …
func structureFaults(t *testing.T, circles [][]string, texts ...string) string {
	t.Helper()
	var files []header.SourceFile
	for i := 0; i < len(texts); i += 2 {
		files = append(files, header.SourceFile{Name: "lua/" + texts[i], Text: texts[i+1]})
	}
	var p header.Problems
	l := header.Read(files, &p)
	checkWith(l, luagen.Assemble(files, map[string]string{
		"lua/generated/modules.gen.lua":           luagen.Modules(&header.Library{Files: files}, false),
		"lua/composite/generated/modules.gen.lua": luagen.Modules(&header.Library{Files: files}, true),
	}), circles, &p)
	if err := p.Err(); err != nil {
		return err.Error()
	}
	return ""
}

// stores gives the files of a library with a store in the modules b and c, and a call of one of its functions.
func stores(b, c, call string) []string {
	return []string{
		"frame/a.lua", "\n-- @store b c\n-- @call read(at, field) Reads a field.\n\n-- @hook Where a thing is.\nfunction a.of(name) return b, name end\n",
		"frame/b.lua", b, "composite/rows/c.lua", c, "graph/d.lua", "function d.f(k) local s, at = a.of(k) " + call + " end\n",
		"composite/hooks.lua", "function a.of(name) return c, name end\n",
	}
}

func TestStructure(t *testing.T) {
	t.Parallel()
	const prelude, hook = "local F = {}\n", "-- @hook Something has ended.\nfunction a.on_end() end\nfunction a.f() a.on_end() end\n"
	for _, x := range []struct {
		name, want string
		circles    [][]string
		files      []string
	}{
		{"a use in a function", "", nil, []string{
			"frame/a.lua", "function a.f() b.g() end\n", "graph/b.lua", "function b.g() end\n"}},
		{"a definition elsewhere", "lua/graph/b.lua:1: a.f is defined outside a.lua", nil, []string{
			"frame/a.lua", "a.x = 1\n", "graph/b.lua", "function a.f() end\n"}},
		{"two files of a name", "lua/graph/a.lua:1: lua/frame/a.lua has the same name", nil, []string{
			"frame/a.lua", "local x = 1\n", "graph/a.lua", "local y = 1\n"}},
		{"a composite function in the contract library", "lua/frame/a.lua:1: b.g is composite", nil, []string{
			"frame/a.lua", "function a.f() b.g() end\n", "composite/runs/b.lua", "function b.g() end\n"}},
		{"a hook", "", nil, []string{"frame/a.lua", hook, "composite/hooks.lua", "function a.on_end() end\n"}},
		{"a hook that is set to a function", "", nil, []string{
			"frame/a.lua", hook, "composite/runs/b.lua", "function b.g() end\n", "composite/hooks.lua", "a.on_end = b.g\n"}},
		{"a hook that is never set", "lua/frame/a.lua:2: hook a.on_end is set nowhere", nil, []string{"frame/a.lua", hook}},
		{"a hook that is set elsewhere", "lua/composite/runs/b.lua:1: hook a.on_end is set outside lua/composite/hooks.lua", nil, []string{
			"frame/a.lua", hook, "composite/runs/b.lua", "function a.on_end() end\n"}},
		{"a hook that only composite files call", "lua/frame/a.lua:2: hook a.on_end is called by no file of the contract library", nil, []string{
			"frame/a.lua", "-- @hook x\nfunction a.on_end() end\n", "composite/runs/b.lua", "function b.g() a.on_end() end\n",
			"composite/hooks.lua", "function a.on_end() end\n"}},
		{"a hook that two set", "a.on_end is defined at lua/frame/a.lua:2 already", nil, []string{
			"frame/a.lua", hook, "composite/hooks.lua", "function a.on_end() end\nfunction a.on_end() end\n"}},
		{"a hook without a function", "lua/frame/a.lua:1: @hook is not followed by", nil, []string{"frame/a.lua", "-- @hook x\nlocal x = 1\n"}},
		{"a circle", "files use each other in a circle: lua/frame/a.lua:1 uses b; lua/graph/b.lua:1 uses a", nil, []string{
			"frame/a.lua", "function a.f() b.g() end\n", "graph/b.lua", "function b.g() a.f() end\n"}},
		{"a known circle", "", [][]string{{"a", "b"}}, []string{
			"frame/a.lua", "function a.f() b.g() end\n", "graph/b.lua", "function b.g() a.f() end\n"}},
		{"a removed circle", "no longer a circle: a, b", [][]string{{"a", "b"}}, []string{
			"frame/a.lua", "function a.f() end\n"}},
		{"a store", "", nil, stores("function b.read(hash, field) end\n", "function c.read(r) end\n", "s.read(at, 'x')")},
		{"a store with functions of other modules", "", nil, append(stores(
			"local function none() end\nb.read = none\n", "c.read = bb.get\n", "s.read(at, 'x')"),
			"composite/rows/bb.lua", "function bb.get(r, _) end\n")},
		{"a store that lacks a function", "lua/frame/a.lua:3: c.read is defined nowhere", nil, stores(
			"function b.read(hash) end\n", "c.x = 1\n", "s.read(at, 'x')")},
		{"a function that is not declared", "lua/composite/rows/c.lua:2: c.write is not declared in a.lua", nil, stores(
			"function b.read(hash) end\n", "function c.read(r) end\nfunction c.write(r) end\n", "s.read(at, 'x')")},
		{"other parameters", "lua/composite/rows/c.lua:1: c.read has the parameters r, name; a.lua declares at, field", nil, stores(
			"function b.read(hash) end\n", "function c.read(r, name) end\n", "s.read(at, 'x')")},
		{"a call that is not declared", "lua/graph/d.lua:1: a.lua declares no write", nil, stores(
			"function b.read(hash) end\n", "function c.read(r) end\n", "s.write(at)")},
	} {
		got := structureFaults(t, x.circles, append([]string{"frame/prelude.lua", prelude}, x.files...)...)
		if x.want == "" && got != "" || !strings.Contains(got, x.want) {
			t.Errorf("%s:\n got %q\nwant %q", x.name, got, x.want)
		}
	}
}
