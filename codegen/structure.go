package main

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/internal/lualib"
)

// The structure of the library: each module is one file of its name, files of the contract library use no others, and
// files do not use each other in circles.

// knownCircles lists the circles of files that are meant; lua/README.md explains them.
var knownCircles = [][]string{{"repair_execution", "repair_flow"}}

// A module is a table with the functions of one file. It has the name of its file.
func moduleOf(file string) string {
	return strings.TrimSuffix(strings.TrimSuffix(path.Base(file), ".lua"), ".gen")
}

// hasModule reports whether a file defines fields of its module.
func hasModule(f sourceFile) bool {
	name := regexp.QuoteMeta(moduleOf(f.name))
	return regexp.MustCompile(`(?m)^(function )?` + name + `\.\w+`).MatchString(f.text)
}

// emitModules writes the declarations of the modules of the contract library, or of the composite calls. All are
// declared before the first file, so that functions can call each other whatever the order of the files.
func emitModules(l *library, composite bool) string {
	var names []string
	for _, f := range l.files {
		if lualib.IsComposite(strings.TrimPrefix(f.name, "lua/")) == composite && hasModule(f) {
			names = append(names, moduleOf(f.name))
		}
	}
	if composite {
		names = append(names, rowModules(l)...)
	} else {
		names = append(names, messageModule, encodeModule, decodeModule)
	}
	slices.Sort(names)
	var b strings.Builder
	b.WriteString(luaHeader)
	for _, name := range names {
		fmt.Fprintf(&b, "local %s = {}\n", name)
	}
	return b.String()
}

// checkFileNames reports files of the same name: a name leads to one file, in whichever folder it is.
func checkFileNames(files []sourceFile, p *problems) {
	first := map[string]string{}
	for _, f := range files {
		name := moduleOf(f.name)
		if before, ok := first[name]; ok {
			p.add(position{f.name, 1}, "%s has the same name", before)
		}
		first[name] = f.name
	}
}

// checkStructure reports definitions outside the file of their module, hooks that are not set once, fields that are
// used before they are there, uses of composite modules by the contract library, and circles of files.
func (s *scopes) checkStructure(hooks map[moduleField]position, circles [][]string, p *problems) {
	generated := func(file string) bool { return lualib.IsGenerated(file) }
	owner := map[string]string{}
	for _, f := range s.files {
		if !generated(f.name) {
			owner[moduleOf(f.name)] = f.name
		}
	}
	for field, lines := range s.definitions {
		own := s.position(lines[0])
		if _, ok := hooks[field]; ok {
			s.checkHook(field, lines)
		}
		if field.module != functionTable && !generated(own.file) && own.file != owner[field.module] {
			p.add(own, "%s.%s is defined outside %s.lua", field.module, field.field, field.module)
		}
	}
	graph := map[string]map[string]position{}
	for _, u := range s.uses {
		at := s.position(u.line)
		to, ok := owner[u.module]
		if !ok || generated(at.file) || at.file == to {
			continue
		}
		if isComposite(to) && !isComposite(at.file) {
			p.add(at, "%s.%s is composite, which the contract library does not have; declare a hook", u.module, u.field)
		}
		if graph[at.file] == nil {
			graph[at.file] = map[string]position{}
		}
		if _, ok := graph[at.file][to]; !ok {
			graph[at.file][to] = at
		}
	}
	checkCircles(graph, circles, p)
}

// hookFile sets all hooks but those that the contract library sets by itself.
const hookFile = "lua/composite/hooks.lua"

// checkHook reports a hook that is not set, that is set outside hookFile, or that only composite files call, which
// could call its function directly.
func (s *scopes) checkHook(field moduleField, lines []int) {
	own := s.position(lines[0])
	if len(lines) == 1 {
		s.problems.add(own, "hook %s.%s is set nowhere", field.module, field.field)
	} else if at := s.position(lines[1]); isComposite(at.file) && at.file != hookFile {
		s.problems.add(at, "hook %s.%s is set outside %s", field.module, field.field, hookFile)
	}
	if !isComposite(own.file) && !slices.ContainsFunc(s.uses, func(u moduleUse) bool {
		return u.moduleField == field && !isComposite(s.position(u.line).file)
	}) {
		s.problems.add(own, "hook %s.%s is called by no file of the contract library", field.module, field.field)
	}
}

// functionTable holds the functions of the library, which every file adds to.
const functionTable = "F"

func isComposite(file string) bool { return lualib.IsComposite(strings.TrimPrefix(file, "lua/")) }

// checkCircles reports files that use each other in a circle, unless that is known, and known circles that are none.
func checkCircles(graph map[string]map[string]position, known [][]string, p *problems) {
	unseen := slices.Clone(known)
	for _, files := range circlesOf(graph) {
		var names []string
		for _, f := range files {
			names = append(names, moduleOf(f))
		}
		slices.Sort(names)
		if i := slices.IndexFunc(unseen, func(c []string) bool { return slices.Equal(c, names) }); i >= 0 {
			unseen = slices.Delete(unseen, i, i+1)
			continue
		}
		var steps []string
		for _, from := range files {
			for _, to := range slices.Sorted(maps.Keys(graph[from])) {
				if slices.Contains(files, to) {
					at := graph[from][to]
					steps = append(steps, fmt.Sprintf("%s:%d uses %s", at.file, at.line, moduleOf(to)))
				}
			}
		}
		p.add(position{files[0], 1}, "files use each other in a circle: %s", strings.Join(steps, "; "))
	}
	for _, c := range unseen {
		p.add(position{"codegen/structure.go", 1}, "no longer a circle: %s", strings.Join(c, ", "))
	}
}

// circlesOf gives the sets of files each of which can be reached from all others of the set, by Tarjan's algorithm.
func circlesOf(graph map[string]map[string]position) [][]string {
	var (
		out   [][]string
		stack []string
		next  = 1
		index = map[string]int{}
		low   = map[string]int{}
		open  = map[string]bool{}
		visit func(file string)
	)
	visit = func(file string) {
		index[file], low[file] = next, next
		next++
		stack = append(stack, file)
		open[file] = true
		for _, to := range slices.Sorted(maps.Keys(graph[file])) {
			if index[to] == 0 {
				visit(to)
				low[file] = min(low[file], low[to])
			} else if open[to] {
				low[file] = min(low[file], index[to])
			}
		}
		if low[file] != index[file] {
			return
		}
		at := slices.Index(stack, file)
		if set := slices.Clone(stack[at:]); len(set) > 1 {
			slices.Sort(set)
			out = append(out, set)
		}
		for _, f := range stack[at:] {
			open[f] = false
		}
		stack = stack[:at]
	}
	for _, file := range slices.Sorted(maps.Keys(graph)) {
		if index[file] == 0 {
			visit(file)
		}
	}
	slices.SortFunc(out, func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
	return out
}
