package alonetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/doc"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

const (
	module = "github.com/flowfabric/flowfabric-go"
	root   = "../../.."
	// urlVariable has the URL of the engine that a program connects to.
	urlVariable = "FLOWFABRIC_ALONE_URL"
)

// program is made of the first example of a package that runs, or imports the package if it has none.
type program struct {
	name, source, output string
}

// TestAlone builds and runs a program for each public package. It fails if a package needs another one that its example
// does not import.
func TestAlone(t *testing.T) {
	t.Parallel()
	var programs []program
	for _, dir := range publicFolders(t) {
		programs = append(programs, programFor(t, dir))
	}
	binaries := build(t, programs)
	testserver.SideBySide(t, testserver.Kinds(t), func(t *testing.T, kind testserver.Kind) {
		if kind == testserver.OnCluster {
			t.Skip("programs share a cluster with other tests, and have no prefix of their own")
		}
		for _, p := range programs {
			command := exec.CommandContext(t.Context(), filepath.Join(binaries, p.name))
			command.Dir = t.TempDir()
			command.Env = append(os.Environ(), urlVariable+"="+enginetest.URL(t, kind))
			var stdout, stderr bytes.Buffer
			command.Stdout, command.Stderr = &stdout, &stderr
			require.NoError(t, command.Run(), "%s: %s%s", p.name, stdout.Bytes(), stderr.Bytes())
			require.Equal(t, strings.TrimSpace(p.output), strings.TrimSpace(stdout.String()), p.name)
		}
	})
}

// publicFolders lists the folders of the packages of this module that programs outside of it import.
func publicFolders(t *testing.T) []string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Name}} {{.ImportPath}}", module+"/...")
	out, err := list.CombinedOutput()
	require.NoError(t, err, "%s", out)
	var folders []string
	for line := range strings.Lines(string(out)) {
		name, importPath, _ := strings.Cut(strings.TrimSpace(line), " ")
		dir := strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/")
		parts := strings.Split(dir, "/")
		if name != "main" && !slices.Contains(parts, "internal") && parts[0] != "tools" && parts[0] != "examples" {
			folders = append(folders, dir)
		}
	}
	return folders
}

func programFor(t *testing.T, dir string) program {
	t.Helper()
	name := strings.ReplaceAll(dir, "/", "_")
	paths, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	require.NoError(t, err)
	for _, path := range paths {
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
		require.NoError(t, err)
		for _, example := range doc.Examples(file) {
			if example.Play == nil || example.Output == "" || example.Unordered || importsInternal(example.Play) {
				continue
			}
			var source bytes.Buffer
			require.NoError(t, format.Node(&source, files, example.Play))
			return program{name, onEngine(source.String()), example.Output}
		}
	}
	return program{name: name, source: fmt.Sprintf("package main\n\nimport _ %q\n\nfunc main() {}\n", module+"/"+dir)}
}

func importsInternal(file *ast.File) bool {
	return slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return strings.Contains(i.Path.Value, "/internal/") })
}

// onEngine lets an example that uses an engine in memory use the engine of the variable engineURL.
func onEngine(source string) string {
	source = strings.ReplaceAll(source, `"embedded:",`, "engineURL,")
	source = strings.ReplaceAll(source, `runtime.Open(ctx, "",`, "runtime.Open(ctx, engineURL,")
	source = strings.ReplaceAll(source, "runtime.OpenConfig{", "runtime.OpenConfig{AllowVolatile: true, ")
	before, after, local := strings.Cut(source, "runtime.LocalConfig{")
	if local && !strings.HasPrefix(strings.TrimSpace(after), "URL:") {
		source = before + "runtime.LocalConfig{URL: engineURL, " + after
	}
	return source
}

// build compiles all programs by one command, as packages of this module that exist in an overlay alone, and returns
// the folder of the binaries.
func build(t *testing.T, programs []program) string {
	t.Helper()
	here, err := filepath.Abs(".")
	require.NoError(t, err)
	dir := t.TempDir()
	replace := make(map[string]string)
	add := func(name, file, text string) {
		path := filepath.Join(dir, name+"-"+file)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		replace[filepath.Join(here, "programs", name, file)] = path
	}
	binaries := filepath.Join(dir, "bin")
	arguments := []string{"build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", binaries + "/"}
	for _, p := range programs {
		add(p.name, "main.go", p.source)
		add(p.name, "url.go", fmt.Sprintf("package main\n\nimport \"os\"\n\nvar engineURL = os.Getenv(%q)\n", urlVariable))
		arguments = append(arguments, "./programs/"+p.name)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	out, err := exec.CommandContext(t.Context(), "go", arguments...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binaries
}
