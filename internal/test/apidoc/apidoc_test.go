// Package apidoc checks the documentation of what users see.
package apidoc

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every exported name of every package that users can import has a doc comment, methods of unexported types included.
func TestExportedNamesAreDocumented(t *testing.T) {
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch name := d.Name(); {
			case name == "internal", name == "testdata", name == "examples", name == "tools", name == "cmd",
				name == "bench", name == "codegen", strings.HasPrefix(name, ".") && path != root:
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		require.NoError(t, err)
		for _, name := range undocumented(file) {
			t.Errorf("%s: %s has no doc comment", path, name)
		}
		return nil
	}))
}

func undocumented(file *ast.File) []string {
	var names []string
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && d.Doc.Text() == "" {
				names = append(names, d.Name.Name)
			}
		case *ast.GenDecl:
			names = append(names, undocumentedIn(d)...)
		}
	}
	return names
}

// undocumentedIn lists names of a declaration without a comment. The comment of a group counts for its members.
func undocumentedIn(d *ast.GenDecl) []string {
	var names []string
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() && d.Doc.Text() == "" && s.Doc.Text() == "" {
				names = append(names, s.Name.Name)
			}
		case *ast.ValueSpec:
			for _, name := range s.Names {
				if name.IsExported() && d.Doc.Text() == "" && s.Doc.Text() == "" && s.Comment.Text() == "" {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}
