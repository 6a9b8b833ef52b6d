package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// sources is a package with the uses of its files among each other.
type sources struct {
	path  string
	files []string
	// uses has the files that a file depends on.
	uses map[string]map[string]bool
}

// listed is a package as `go list` describes it.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly                 bool
	ImportMap               map[string]string
}

// load reads the packages that patterns select.
func load(patterns []string) ([]sources, error) {
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,DepOnly,ImportMap", "--"}
	list := exec.Command("go", append(args, patterns...)...)
	var faults bytes.Buffer
	list.Stderr = &faults
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, &faults)
	}
	exports := make(map[string]string)
	var selected []listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		exports[p.ImportPath] = p.Export
		if !p.DepOnly {
			selected = append(selected, p)
		}
	}
	packages := make([]sources, 0, len(selected))
	for _, p := range selected {
		loaded, err := p.load(exports)
		if err != nil {
			return nil, err
		}
		packages = append(packages, loaded)
	}
	return packages, nil
}

// load parses and checks the files of a package. exports has the files with the export data of the packages it imports.
func (p *listed) load(exports map[string]string) (sources, error) {
	set := token.NewFileSet()
	loaded := sources{path: p.ImportPath, uses: make(map[string]map[string]bool)}
	var files []*ast.File
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return sources{}, err
		}
		files = append(files, file)
		if !ast.IsGenerated(file) {
			loaded.files = append(loaded.files, name)
			loaded.uses[name] = make(map[string]bool)
		}
	}
	open := func(path string) (io.ReadCloser, error) {
		if actual, mapped := p.ImportMap[path]; mapped {
			path = actual
		}
		return os.Open(exports[path])
	}
	config := types.Config{Importer: importer.ForCompiler(set, "gc", open)}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	checked, err := config.Check(p.ImportPath, set, files, info)
	if err != nil {
		return sources{}, fmt.Errorf("check %s: %w", p.ImportPath, err)
	}
	for ident, object := range info.Uses {
		if object.Pkg() != checked || !isCounted(object) {
			continue
		}
		user, used := filepath.Base(set.Position(ident.Pos()).Filename), filepath.Base(set.Position(object.Pos()).Filename)
		if user != used && loaded.uses[user] != nil && loaded.uses[used] != nil {
			loaded.uses[user][used] = true
		}
	}
	return loaded, nil
}

// isCounted reports whether a use of an object makes a file depend on the file that declares it: names of package level
// and methods do.
func isCounted(object types.Object) bool {
	if object.Parent() == object.Pkg().Scope() {
		return true
	}
	function, isFunction := object.(*types.Func)
	return isFunction && function.Signature().Recv() != nil
}
