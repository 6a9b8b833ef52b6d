package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
	"github.com/flowfabric/flowfabric-go/internal/lualib"
)

// The structure of the library: each module is one file of its name, files of the contract library use no others, and
// files do not use each other in circles.

// knownCircles lists the circles of files that are meant; lua/README.md explains them.
var knownCircles = [][]string{{"repair_execution", "repair_flow"}}

// Library reads the assembled library, with its generated files, and reports names that nothing declares and
// violations of its structure.
func Library(l *header.Library, assembled []header.SourceFile, p *header.Problems) {
	checkWith(l, assembled, knownCircles, p)
}

func checkWith(l *header.Library, assembled []header.SourceFile, circles [][]string, p *header.Problems) {
	checkFileNames(l.Files, p)
	if s := checkScopes(assembled, l, p); s != nil {
		s.checkStructure(l.Hooks, circles, p)
		s.checkStores(l.Stores)
	}
}

// checkFileNames reports files of the same name: a name leads to one file, in whichever folder it is.
func checkFileNames(files []header.SourceFile, p *header.Problems) {
	first := map[string]string{}
	for _, f := range files {
		name := header.ModuleOf(f.Name)
		if before, ok := first[name]; ok {
			p.Add(header.Position{File: f.Name, Line: 1}, "%s has the same name", before)
		}
		first[name] = f.Name
	}
}

// checkStructure reports definitions outside the file of their module, hooks that are not set once, fields that are
// used before they are there, uses of composite modules by the contract library, and circles of files.
func (s *scopes) checkStructure(hooks map[header.ModuleField]header.Position, circles [][]string, p *header.Problems) {
	generated := func(file string) bool { return lualib.IsGenerated(file) }
	owner := map[string]string{}
	for _, f := range s.files {
		if !generated(f.Name) {
			owner[header.ModuleOf(f.Name)] = f.Name
		}
	}
	for field, lines := range s.definitions {
		own := s.position(lines[0])
		if _, ok := hooks[field]; ok {
			s.checkHook(field, lines)
		}
		if field.Module != functionTable && !generated(own.File) && own.File != owner[field.Module] {
			p.Add(own, "%s.%s is defined outside %s.lua", field.Module, field.Field, field.Module)
		}
	}
	graph := map[string]map[string]header.Position{}
	for _, u := range s.uses {
		at := s.position(u.line)
		to, ok := owner[u.Module]
		if !ok || generated(at.File) || at.File == to {
			continue
		}
		if isComposite(to) && !isComposite(at.File) {
			p.Add(at, "%s.%s is composite, which the contract library does not have; declare a hook", u.Module, u.Field)
		}
		if graph[at.File] == nil {
			graph[at.File] = map[string]header.Position{}
		}
		if _, ok := graph[at.File][to]; !ok {
			graph[at.File][to] = at
		}
	}
	checkCircles(graph, circles, p)
}

// hookFile sets all hooks but those that the contract library sets by itself.
const hookFile = "lua/composite/hooks.lua"

// checkHook reports a hook that is not set, that is set outside hookFile, or that only composite files call, which
// could call its function directly.
func (s *scopes) checkHook(field header.ModuleField, lines []int) {
	own := s.position(lines[0])
	if len(lines) == 1 {
		s.problems.Add(own, "hook %s.%s is set nowhere", field.Module, field.Field)
	} else if at := s.position(lines[1]); isComposite(at.File) && at.File != hookFile {
		s.problems.Add(at, "hook %s.%s is set outside %s", field.Module, field.Field, hookFile)
	}
	if !isComposite(own.File) && !slices.ContainsFunc(s.uses, func(u moduleUse) bool {
		return u.ModuleField == field && !isComposite(s.position(u.line).File)
	}) {
		s.problems.Add(own, "hook %s.%s is called by no file of the contract library", field.Module, field.Field)
	}
}

// functionTable holds the functions of the library, which every file adds to.
const functionTable = "F"

func isComposite(file string) bool { return lualib.IsComposite(strings.TrimPrefix(file, "lua/")) }

// checkCircles reports files that use each other in a circle, unless that is known, and known circles that are none.
func checkCircles(graph map[string]map[string]header.Position, known [][]string, p *header.Problems) {
	unseen := slices.Clone(known)
	for _, files := range circlesOf(graph) {
		var names []string
		for _, f := range files {
			names = append(names, header.ModuleOf(f))
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
					steps = append(steps, fmt.Sprintf("%s:%d uses %s", at.File, at.Line, header.ModuleOf(to)))
				}
			}
		}
		p.Add(header.Position{File: files[0], Line: 1}, "files use each other in a circle: %s", strings.Join(steps, "; "))
	}
	for _, c := range unseen {
		p.Add(header.Position{File: "codegen/internal/check/structure.go", Line: 1},
			"no longer a circle: %s", strings.Join(c, ", "))
	}
}

// circlesOf gives the sets of files each of which can be reached from all others of the set, by Tarjan's algorithm.
func circlesOf(graph map[string]map[string]header.Position) [][]string {
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
