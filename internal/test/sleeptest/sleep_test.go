// Package sleeptest checks that tests wait for events, as docs/contributing/tests.md says, and do not sleep.
package sleeptest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var root = filepath.Join("..", "..", "..")

// sleeps is the number of sleeps in a file of tests, and what they are for.
type sleeps struct {
	count  int
	reason string
}

// allowed lists the files whose tests sleep. A sleep belongs here only if it is the subject of the test: work that
// takes a while, a fault that lasts, a random moment; or if it is the pause between two probes in a loop. A test that
// waits for something calls enginetest.Eventually, enginetest.Pass, or receives from a channel.
var allowed = map[string]sleeps{
	"internal/enginerpc/cluster_test.go":           {2, "pause between probes; how long a slot moves"},
	"internal/test/budgettest/fault_test.go":       {1, "pause between probes"},
	"internal/test/budgettest/flow_test.go":        {1, "work that takes a while"},
	"internal/test/conformance/server.go":          {1, "pause between attempts to connect"},
	"internal/test/enginetest/enginetest.go":       {2, "pause between probes of the helpers that wait"},
	"internal/test/lostworkertest/process_test.go": {1, "work that takes a while"},
	"internal/test/storm/process_test.go":          {1, "pause between attempts to connect"},
	"internal/test/storm/soak_test.go":             {1, "random moment of a fault"},
	"internal/test/storm/soakengines_test.go":      {1, "a fault that lasts"},
	"internal/test/storm/storm_test.go":            {6, "faults that last; random moments"},
	"internal/test/testserver/cluster.go":          {1, "pause between probes of the helper that waits"},
	"internal/test/testserver/cluster_change.go":   {1, "how long a replica falls behind"},
	"internal/test/testserver/proxy/proxy.go":      {1, "delay of a slow network"},
	"internal/test/childtest/items_test.go":        {1, "work that takes a while"},
	"internal/test/childtest/random_test.go":       {1, "random moment"},
	"runtime/close_test.go":                        {1, "a moment at which calls wait"},
	"runtime/contract_crash_test.go":               {1, "a fault that lasts longer than a lease"},
	"runtime/interference_test.go":                 {3, "random moments"},
	"runtime/lost_message_test.go":                 {2, "a clock of the test's own: no time passes"},
	"runtime/lost_step_message_test.go":            {2, "a clock of the test's own: no time passes"},
	"runtime/resting_worker_test.go":               {1, "a clock of the test's own: no time passes"},
	"runtime/mixed_fleet_test.go":                  {3, "pace of a fleet; poll interval of a program; moment before a kill"},
	"internal/dispatch/isolation_test.go":          {1, "a clock of the test's own: no time passes"},
	"runtime/joins_property_test.go":               {1, "random moment"},
	"runtime/limit_crash_test.go":                  {1, "pause between requests"},
	"runtime/limit_death_test.go":                  {2, "work that takes a while; life of a worker"},
	"runtime/routing_test.go":                      {1, "commands are counted for a second"},
	"runtime/stream_test.go":                       {2, "pause between attempts; reports that may be dropped if they follow closely"},
	"runtime/timing_test.go":                       {1, "work between heartbeats"},
	"runtime/topology_test.go":                     {1, "work that takes a while"},
	"runtime/visit_test.go":                        {1, "work that takes a while"},
	"runtime/waits_load_test.go":                   {1, "signals meet timeouts"},
	"runtime/waits_property_test.go":               {1, "random moment"},
	"runtime/wake_test.go":                         {2, "a clock of the test's own: no time passes"},
}

// TestTestsDoNotSleep fails on calls of time.Sleep in tests, and on receives from time.After that do nothing else,
// unless the file is allowed to and a comment at the call gives the reason.
func TestTestsDoNotSleep(t *testing.T) {
	t.Parallel()
	found := make(map[string][]string)
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != root:
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if name = filepath.ToSlash(name); !strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(name, "internal/test/") {
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		commented := commentedLines(set, file)
		for _, line := range sleepLines(set, file) {
			at := fmt.Sprintf("%s:%d", name, line)
			found[name] = append(found[name], at)
			if !commented[line] && !commented[line-1] {
				t.Errorf("%s: no comment says why the test sleeps", at)
			}
		}
		return nil
	}))
	for name, at := range found {
		if a := allowed[name]; len(at) > a.count {
			t.Errorf("%s sleeps %d times, at most %d allowed: %s\nWait for an event instead (docs/contributing/tests.md).",
				name, len(at), a.count, strings.Join(at, ", "))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(allowed)) {
		if n := len(found[name]); n < allowed[name].count {
			t.Errorf("%s sleeps %d times, fewer than the %d that are allowed: lower the number", name, n, allowed[name].count)
		}
	}
}

// TestSleepsAreFound checks what counts as a sleep.
func TestSleepsAreFound(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"time.Sleep(d)":                        1,
		"<-time.After(d)":                      1,
		"go func() { time.Sleep(d) }()":        1,
		"defer time.Sleep(d)":                  1,
		"f := time.Sleep; f(d)":                1,
		"select { case <-time.After(d): }":     0,
		"other.Sleep(d)":                       0,
		"at := <-time.After(d); fmt.Print(at)": 0,
	} {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, "a_test.go", "package a\nfunc f() {\n"+text+"\n}\n", parser.SkipObjectResolution)
		require.NoError(t, err, text)
		require.Len(t, sleepLines(set, file), want, text)
	}
}

// sleepLines returns the lines of a file that sleep.
func sleepLines(set *token.FileSet, file *ast.File) []int {
	var lines []int
	cases := make(map[ast.Node]bool) // what selects wait for: a time that is one of several is no sleep
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if ofTime(n, "Sleep") {
				lines = append(lines, set.Position(n.Pos()).Line)
			}
		case *ast.CommClause:
			if n.Comm != nil {
				cases[n.Comm] = true
			}
		case *ast.ExprStmt:
			if receive, ok := n.X.(*ast.UnaryExpr); ok && receive.Op == token.ARROW && !cases[n] {
				if call, ok := receive.X.(*ast.CallExpr); ok && ofTime(call.Fun, "After") {
					lines = append(lines, set.Position(n.Pos()).Line)
				}
			}
		}
		return true
	})
	return lines
}

// ofTime reports whether an expression is the function of that name in package time.
func ofTime(e ast.Expr, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	pkg, ok := s.X.(*ast.Ident)
	return ok && pkg.Name == "time"
}

// commentedLines returns the lines that a comment touches.
func commentedLines(set *token.FileSet, file *ast.File) map[int]bool {
	lines := make(map[int]bool)
	for _, group := range file.Comments {
		for line := set.Position(group.Pos()).Line; line <= set.Position(group.End()).Line; line++ {
			lines[line] = true
		}
	}
	return lines
}
