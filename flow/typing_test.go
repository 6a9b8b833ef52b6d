package flow_test

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// typingProgram is compiled with different statements in place of the verb.
const typingProgram = `package main

import (
	"context"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
)

type Source struct{}
type Listing struct{}
type Stats struct{}

var (
	scan  = activity.New("scan", func(context.Context, Source) (Listing, error) { return Listing{}, nil })
	count = activity.New("count", func(context.Context, Listing) (Stats, error) { return Stats{}, nil })
	sum   = activity.New("sum", func(context.Context, []Stats) (Stats, error) { return Stats{}, nil })
)

func declare() (*flow.Definition[Source, Stats], error) {
	f := flow.New[Source, Stats]("typing")
	files := flow.Node(f, "scan", scan, f.Input())
	one := flow.Node(f, "one", count, files, flow.Tag("a.b", "c"))
	two := flow.Node(f, "two", count, flow.Const(Listing{}), flow.After(files, one))
	%s
	_, _ = one, two
	return f.Build()
}
`

// Mismatched types do not compile, and the message names both types.
func TestTyping(t *testing.T) {
	t.Parallel()
	check := typeChecker(t)
	for name, tc := range map[string]struct {
		statement string
		want      []string // empty: it compiles
	}{
		"right":            {`flow.Return(f, flow.Node(f, "sum", sum, flow.List(one, two), flow.AfterEach([]flow.Ref[Stats]{one, two})))`, nil},
		"explicit":         {`var b flow.Binding[[]Stats] = flow.List(one); flow.Return(f, flow.Node(f, "sum", sum, b))`, nil},
		"flow's input":     {`flow.Node(f, "bad", count, f.Input())`, []string{"flow.Ref[Source]", "flow.Binding[Listing]"}},
		"reference":        {`flow.Node(f, "bad", scan, files)`, []string{"flow.Ref[Listing]", "flow.Binding[Source]"}},
		"constant":         {`flow.Node(f, "bad", count, flow.Const(Source{}))`, []string{"flow.Binding[Source]", "flow.Binding[Listing]"}},
		"list":             {`flow.Node(f, "bad", sum, flow.List(files))`, []string{"flow.Binding[[]Listing]", "flow.Binding[[]Stats]"}},
		"mixed list":       {`flow.List(files, one)`, []string{"flow.Ref[Stats]", "flow.Ref[Listing]"}},
		"single for list":  {`flow.Node(f, "bad", sum, one)`, []string{"flow.Ref[Stats]", "flow.Binding[[]Stats]"}},
		"struct":           {`flow.Node(f, "bad", count, flow.Struct[Source]())`, []string{"flow.Binding[Source]", "flow.Binding[Listing]"}},
		"return":           {`flow.Return(f, files)`, []string{"flow.Ref[Listing]", "flow.Ref[Stats]"}},
		"value":            {`flow.Node(f, "bad", count, "text")`, []string{"string", "flow.Binding[Listing]", "missing method constOrRef"}},
		"after a value":    {`flow.Node(f, "bad", count, files, flow.After(3))`, []string{"int", "flow.Upstream"}},
		"function":         {`flow.Node(f, "bad", func(context.Context, Listing) (Stats, error) { return Stats{}, nil }, files)`, []string{"func(context.Context, Listing) (Stats, error)", "*activity.Activity[I, O]"}},
		"flow's option":    {`flow.Node(f, "bad", count, files, flow.Deadline(3))`, []string{"flow.Option", "flow.NodeOption"}},
		"node's option":    {`flow.New[Source, Stats]("x", activity.Lane("x"))`, []string{"activity.ExecutionOption", "flow.Option"}},
		"execution's":      {`flow.Node(f, "good", count, files, activity.Lane("x"))`, nil},
		"activity's":       {`flow.Node(f, "bad", count, files, activity.Alias("x"))`, []string{"activity.Option", "flow.NodeOption"}},
		"wait's":           {`flow.Node(f, "bad", count, files, activity.MatchAll())`, []string{"activity.WaitOption", "flow.NodeOption"}},
		"assigned further": {`var other flow.Ref[Source] = one; _ = other`, []string{"flow.Ref[Stats]", "flow.Ref[Source]"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := check(fmt.Sprintf(typingProgram, tc.statement))
			if (got == "") != (len(tc.want) == 0) {
				t.Fatalf("got %q", got)
			}
			for _, want := range tc.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q is not in %q", want, got)
				}
			}
		})
	}
}

// typeChecker returns a function that gives the first error in a program, "" when there is none.
func typeChecker(t *testing.T) func(source string) string {
	t.Helper()
	exports := make(map[string]string)
	for _, line := range goList(t, "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", ".") {
		path, file, _ := strings.Cut(line, " ")
		exports[path] = file
	}
	open := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	return func(source string) string {
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, "main.go", source, 0)
		if err != nil {
			return err.Error()
		}
		config := types.Config{
			Importer: importer.ForCompiler(files, "gc", open),
		}
		if _, err := config.Check("main", files, []*ast.File{file}, nil); err != nil {
			return err.Error()
		}
		return ""
	}
}

func goList(t *testing.T, args ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, stderr.String())
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// Those who only declare flows do not compile the engine.
func TestImports(t *testing.T) {
	t.Parallel()
	const module = "github.com/flowfabric/flowfabric-go/"
	allowed := map[string]bool{
		module + "flow": true, module + "activity": true, module + "internal/activitycontext": true, module + "internal/recordtext": true,
		module + "internal/activityspec": true, module + "internal/flowgraph": true, module + "internal/errordetail": true,
		module + "internal/flowgraph/needs": true, module + "internal/layout": true, module + "internal/jsontype": true,
		module + "fabrictype": true,
	}
	seen := 0
	for _, path := range goList(t, "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".", "../activity") {
		if path == "" {
			continue
		}
		seen++
		if !allowed[path] {
			t.Errorf("flow or activity depends on %s", path)
		}
	}
	if seen != len(allowed) {
		t.Errorf("%d packages, not %d", seen, len(allowed))
	}
	for _, path := range goList(t, "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "../activity") {
		if path == module+"flow" {
			t.Error("activity depends on flow")
		}
	}
}
