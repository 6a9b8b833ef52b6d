package main

import (
	"strings"
	"testing"
)

// structureFaults gives the messages for files of a library, given as path, text, path, text …
func structureFaults(t *testing.T, circles [][]string, texts ...string) string {
	t.Helper()
	var files []sourceFile
	for i := 0; i < len(texts); i += 2 {
		files = append(files, sourceFile{"lua/" + texts[i], texts[i+1]})
	}
	var p problems
	checkFileNames(files, &p)
	l := readHeaders(files, &p)
	s := checkScopes(assembled(files, map[string]string{
		"lua/generated/modules.gen.lua":           emitModules(&library{files: files}, false),
		"lua/composite/generated/modules.gen.lua": emitModules(&library{files: files}, true),
	}), l.hooks, &p)
	if s != nil {
		s.checkStructure(l.hooks, circles, &p)
	}
	if err := p.err(); err != nil {
		return err.Error()
	}
	return ""
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
		{"a hook that nobody sets", "lua/frame/a.lua:2: hook a.on_end is set nowhere", nil, []string{"frame/a.lua", hook}},
		{"a hook that two set", "a.on_end is defined at lua/frame/a.lua:2 already", nil, []string{
			"frame/a.lua", hook, "composite/hooks.lua", "function a.on_end() end\nfunction a.on_end() end\n"}},
		{"a hook without a function", "lua/frame/a.lua:1: @hook is not followed by", nil, []string{"frame/a.lua", "-- @hook x\nlocal x = 1\n"}},
		{"a circle", "files use each other in a circle: lua/frame/a.lua:1 uses b; lua/graph/b.lua:1 uses a", nil, []string{
			"frame/a.lua", "function a.f() b.g() end\n", "graph/b.lua", "function b.g() a.f() end\n"}},
		{"a known circle", "", [][]string{{"a", "b"}}, []string{
			"frame/a.lua", "function a.f() b.g() end\n", "graph/b.lua", "function b.g() a.f() end\n"}},
		{"a circle that is none any more", "no circle any more: a, b", [][]string{{"a", "b"}}, []string{
			"frame/a.lua", "function a.f() end\n"}},
	} {
		got := structureFaults(t, x.circles, append([]string{"frame/prelude.lua", prelude}, x.files...)...)
		if x.want == "" && got != "" || !strings.Contains(got, x.want) {
			t.Errorf("%s:\n got %q\nwant %q", x.name, got, x.want)
		}
	}
}
