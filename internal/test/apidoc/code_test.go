// Package apidoc checks the parts of public documentation that no linter checks.
package apidoc

import (
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// takenForGranted has the declarations that a page's code relies on, and statements to insert before the page's own. A
// page that begins with a package clause relies on none.
var takenForGranted = map[string]struct{ declarations, statements string }{
	"README.md": {
		declarations: `
			type City struct{ Code string }
			type Report struct{}
			type Summary struct{}
			type Release struct{}
			type Live struct{}
			type Edition struct{ Day string }
			type Letter struct { Edition Edition ` + "`json:\"edition\"`" + `; Summary Summary ` + "`json:\"summary\"`" + ` }
			type Receipt struct{}
			var morning *flow.Definition[Edition, Receipt]
			func Fetch(context.Context, City) (Report, error) { panic("") }
			func Merge(context.Context, []Report) (Summary, error) { panic("") }
			func Send(context.Context, Letter) (Receipt, error) { panic("") }
			var deploy *activity.Activity[Release, Live]
			var rollback *activity.Activity[Edition, string]`,
		statements: `
			var morning *flow.Definition[Edition, Receipt]
			f := flow.New[Edition, Receipt]("f")
			var tests []flow.Ref[string]
			var release flow.Ref[Release]`,
	},
	"docs/concepts/budgets.md": {declarations: "type Question struct{}\ntype Answer struct{}"},
	"docs/concepts/conditions.md": {
		declarations: `
			type Kind string
			const (Image, Video Kind = "image", "video")
			type Listing struct { Size int; Kind Kind }
			var deepScan, quickScan, makeThumb, makeClip *activity.Activity[Listing, string]
			var report *activity.Activity[string, string]
			func isTitled(Listing) bool { return true }
			var takeBack *activity.Activity[flow.Failure, string]
			var release *activity.Activity[string, string]`,
		statements: `
			f := flow.New[string, string]("f")
			var scan flow.Ref[Listing]
			var book, pay flow.Ref[string]
			var t *flowtest.T`,
	},
	"docs/concepts/limits.md": {
		declarations: "func Send(context.Context, string) (string, error) { panic(\"\") }\nvar fetch *activity.Activity[string, string]",
		statements:   `f := flow.New[string, string]("f")`,
	},
	"docs/concepts/order.md":           {declarations: "type Order struct{}\ntype Receipt struct{}"},
	"docs/contract/contract-mode.md":   {},
	"docs/operations/keeper.md":        {},
	"docs/operations/observability.md": {statements: "var worker *runtime.Worker\nvar keeper *runtime.Keeper"},
	"docs/reference/admin.md":          {},
}

const imports = `package page
import ("context"; "errors"; "fmt"; "net/http"; "os"; "testing"; "time"
"github.com/flowfabric/flowfabric-go/activity"; "github.com/flowfabric/flowfabric-go/activity/activitytest"; "github.com/flowfabric/flowfabric-go/admin"; "github.com/flowfabric/flowfabric-go/contract"
"github.com/flowfabric/flowfabric-go/enginecore"; "github.com/flowfabric/flowfabric-go/flow"; "github.com/flowfabric/flowfabric-go/flowtest"; "github.com/flowfabric/flowfabric-go/runtime"
"github.com/flowfabric/flowfabric-go/approvals")
`

// declaration matches a declaration that fills lines from the left margin, or a line.
var declaration = regexp.MustCompile(`(?ms)^(func \w|type |var \().*?^[})]\n|^(type|func) [^\n]*\}\n`)

// The Go code of every page compiles: a page that begins with a package clause as one file, each block with a whole
// program on its own, other blocks each as a function. Unused names of a page are not faults.
func TestCodeOfPages(t *testing.T) {
	t.Parallel()
	check := checker(t)
	for page, text := range pages(t) {
		_, blocks := split(text, "go")
		if len(blocks) == 0 {
			continue
		}
		granted, fragments := takenForGranted[page]
		delete(takenForGranted, page)
		if program := strings.HasPrefix(blocks[0], "package "); program {
			require.False(t, fragments, page)
			for _, fault := range check(strings.Join(blocks, "\n")) {
				t.Errorf("%s: %v", page, fault)
			}
			continue
		}
		require.True(t, fragments, "%s: the declarations that its code relies on are unknown", page)
		source := imports + granted.declarations + "\n"
		for _, block := range blocks {
			if strings.HasPrefix(block, wholeProgram) {
				for _, fault := range check(block) {
					t.Errorf("%s: %v", page, fault)
				}
				continue
			}
			for _, text := range declaration.FindAllString(block, -1) {
				source += text
			}
			source += "func _(ctx context.Context, url string, engine *runtime.Engine, client *runtime.Client) {\n" + granted.statements +
				"\n{" + declaration.ReplaceAllString(block, "") + "\n}}\n"
		}
		for _, fault := range check(source) {
			t.Errorf("%s: %v", page, fault)
		}
	}
	require.Empty(t, takenForGranted, "pages without such code")
}

// wholeProgram begins a block that readers can copy and run.
const wholeProgram = "package main\n"

// The whole program of README.md runs unchanged, in memory, and prints the output on the page.
func TestProgramOfREADME(t *testing.T) {
	t.Parallel()
	readme := pages(t)["README.md"]
	_, blocks := split(readme, "go")
	program := slices.IndexFunc(blocks, func(block string) bool { return strings.HasPrefix(block, wholeProgram) })
	require.GreaterOrEqual(t, program, 0, "README.md has no program")
	_, printed := split(readme, "text")
	require.NotEmpty(t, printed)
	file := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(file, []byte(blocks[program]), 0o600))
	run := exec.CommandContext(t.Context(), "go", "run", file)
	run.Env = append(os.Environ(), "FLOWFABRIC_URL=")
	var logs strings.Builder
	run.Stderr = &logs
	out, err := run.Output()
	require.NoError(t, err, logs.String())
	require.Equal(t, printed[0], string(out))
}

// The flow of the page about waiting for a person applies a change that two people have approved, and none that one has
// rejected.
func TestWaitForAPersonRuns(t *testing.T) {
	t.Parallel()
	_, blocks := split(pages(t)["docs/how-to/wait-for-a-person.md"], "go")
	program := strings.Replace(strings.Join(blocks, "\n"), "package change\n", "package main\n", 1) + `
func main() {
	ctx := context.Background()
	def, err := declare(activity.New("apply", func(_ context.Context, c Change) (string, error) { return "applied " + c.ID, nil }))
	if err != nil {
		panic(err)
	}
	local, err := runtime.OpenLocal(ctx, runtime.LocalConfig{Activities: def.Handlers()})
	if err != nil {
		panic(err)
	}
	defer local.Close()
	tokens, known := make(chan string), make(map[string]bool)
	go notify(ctx, local.Client(), func(w runtime.Waitpoint) error {
		if text := w.Token.Reveal(); !known[text] {
			known[text] = true
			tokens <- text
		}
		return nil
	})
	for id, choices := range [][2]string{{"approve", "approve"}, {"reject", "reject"}, {"approve", "reject"}} {
		run, err := runtime.Start(ctx, local.Client(), def, Change{ID: fmt.Sprint(id)})
		if err != nil {
			panic(err)
		}
		token := <-tokens
		for i, choice := range choices {
			fmt.Println(decide(ctx, local.Client(), token, []string{"ann", "bob"}[i], choice, "because"))
		}
		result, err := run.Result(ctx)
		fmt.Println(result, errors.Is(err, runtime.ErrRunFailed))
	}
}
`
	file := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(file, []byte(program), 0o600))
	run := exec.CommandContext(t.Context(), "go", "run", file)
	run.Env = append(os.Environ(), "FLOWFABRIC_URL=")
	var logs strings.Builder
	run.Stderr = &logs
	out, err := run.Output()
	require.NoError(t, err, logs.String())
	require.Equal(t, `Thank you. One more approval is needed. <nil>
Thank you. It is decided. <nil>
applied 0 false
Thank you. It is decided. <nil>
It has been decided already. <nil>
 true
Thank you. One more approval is needed. <nil>
Thank you. It is decided. <nil>
 true
`, string(out))
}

// checker returns a function that returns the compiler's errors, except for unused names. Unused imports of a whole file
// are errors.
func checker(t *testing.T) func(source string) []error {
	t.Helper()
	files := token.NewFileSet()
	packages := importer.ForCompiler(files, "gc", exportData(t))
	return func(source string) []error {
		file, err := parser.ParseFile(files, "page.go", source, 0)
		if err != nil {
			return []error{err}
		}
		var faults []error
		config := types.Config{
			Importer: packages,
			Error: func(err error) {
				var fault types.Error
				unused := strings.HasPrefix(source, "package ") && !strings.HasPrefix(source, imports) &&
					strings.HasSuffix(err.Error(), "imported and not used")
				if !errors.As(err, &fault) || !fault.Soft || unused {
					faults = append(faults, err)
				}
			},
		}
		_, _ = config.Check("page", files, []*ast.File{file}, nil)
		return faults
	}
}

// exportData opens the export data of the public packages and their imports, for an importer.
func exportData(t *testing.T) func(path string) (io.ReadCloser, error) {
	t.Helper()
	arguments := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", ".", "log/slog"}
	for _, dir := range publicFolders(t) {
		arguments = append(arguments, module+"/"+dir)
	}
	list := exec.CommandContext(t.Context(), "go", arguments...)
	out, err := list.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		t.Fatalf("%v: %s", err, exit.Stderr)
	}
	require.NoError(t, err)
	exports := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = file
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
}
