package apidoc

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// corePackages are the packages that every program imports.
var corePackages = []string{"activity", "fabrictype", "flow", "runtime"}

// Numbers of package-level names that are agreed, and the numbers to which they shall shrink. Every name is a promise,
// and a word that users meet.
const (
	namesAgreed, namesTarget         = 762, 800
	coreNamesAgreed, coreNamesTarget = 428, 420
)

// The numbers of names that users meet only shrink.
func TestNumberOfExportedNames(t *testing.T) {
	t.Parallel()
	numbers := make(map[string]int)
	all, core := 0, 0
	for _, dir := range publicFolders(t) {
		numbers[dir] = exportedIn(t, filepath.Join(root, dir))
		all += numbers[dir]
		if slices.Contains(corePackages, dir) {
			core += numbers[dir]
		}
	}
	t.Logf("%d names, the target is %d; %d of them in %s, the target is %d", all, namesTarget, core,
		strings.Join(corePackages, ", "), coreNamesTarget)
	if all > namesAgreed {
		t.Errorf("the public packages export %d names, at most %d are agreed: %v", all, namesAgreed, numbers)
	}
	if core > coreNamesAgreed {
		t.Errorf("the packages of every program export %d names, at most %d are agreed: %v", core, coreNamesAgreed, numbers)
	}
}

// At most one package below runtime is public, and the comment of every package that not all programs need says who
// imports it.
func TestPublicPackagesSayWhoImportsThem(t *testing.T) {
	t.Parallel()
	below := 0
	for _, dir := range publicFolders(t) {
		if strings.HasPrefix(dir, "runtime/") {
			below++
		}
		if slices.Contains(corePackages, dir) {
			continue
		}
		packages, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, dir, "doc.go"), nil,
			parser.PackageClauseOnly|parser.ParseComments)
		require.NoError(t, err)
		require.Contains(t, strings.ReplaceAll(packages.Doc.Text(), "\n", " "), "Import it to ", "comment of package %s", dir)
	}
	require.LessOrEqual(t, below, 1, "public packages below runtime")
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
		if name == "main" || slices.Contains(parts, "internal") || parts[0] == "tools" || parts[0] == "examples" {
			continue
		}
		folders = append(folders, dir)
	}
	return folders
}

// exportedIn counts the exported types, functions, variables and constants of a package.
func exportedIn(t *testing.T, dir string) int {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	names := make(map[string]bool)
	add := func(name *ast.Ident) {
		if name.IsExported() {
			names[name.Name] = true
		}
	}
	for _, file := range paths {
		if strings.HasSuffix(path.Base(file), "_test.go") {
			continue
		}
		source, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, decl := range source.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					add(d.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						add(s.Name)
					case *ast.ValueSpec:
						for _, name := range s.Names {
							add(name)
						}
					}
				}
			}
		}
	}
	return len(names)
}
