package apidoc

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// exportedNames is how many package-level names a package exports at most. Every one of them is a promise, and a word
// that users meet: a number is raised only for something that users miss, and lowered with every name that goes.
var exportedNames = map[string]int{
	"activity":              118,
	"activity/activitytest": 3,
	"admin":                 54,
	"contract":              2,
	"flow":                  93,
	"flowtest":              33,
	"fabrictype":            161,
	"runtime":               162,
	"approvals":             19,
	"admin/archive":         10,
	"admin/backup":          10,
	"interceptor":           26,
	"admin/move":            8,
}

// Packages that users meet do not grow without a decision.
func TestNumberOfExportedNames(t *testing.T) {
	for dir, most := range exportedNames {
		names := exportedIn(t, filepath.Join(root, dir))
		if len(names) > most {
			t.Errorf("package %s exports %d names, at most %d are agreed: %s", dir, len(names), most, strings.Join(names, " "))
		}
	}
}

func exportedIn(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	var names []string
	add := func(name *ast.Ident) {
		if name.IsExported() {
			names = append(names, name.Name)
		}
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, decl := range file.Decls {
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
	return names
}
