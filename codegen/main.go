package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/flowfabric/flowfabric-go/codegen/internal/access"
	"github.com/flowfabric/flowfabric-go/codegen/internal/check"
	"github.com/flowfabric/flowfabric-go/codegen/internal/docgen"
	"github.com/flowfabric/flowfabric-go/codegen/internal/gogen"
	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
	"github.com/flowfabric/flowfabric-go/codegen/internal/luagen"
	"github.com/flowfabric/flowfabric-go/codegen/internal/wireform"
	"github.com/flowfabric/flowfabric-go/internal/lualib"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	if len(args) > 0 && args[0] == "library" {
		set := flag.NewFlagSet("codegen library", flag.ContinueOnError)
		contract := set.Bool("contract", false, "leave out the ffx_* functions")
		if err := set.Parse(args[1:]); err != nil {
			return err
		}
		return printLibrary(root, *contract, out)
	}
	if len(args) == 1 && args[0] == "docs" {
		return printDocs(root, out)
	}
	set := flag.NewFlagSet("codegen", flag.ContinueOnError)
	check := set.Bool("check", false, "write nothing; fail when a generated file is out of date")
	accept := set.Bool("accept-wire-form", false,
		"take the present wire form though it breaks programs; only before a release has it")
	if err := set.Parse(args); err != nil {
		return err
	}
	if set.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", set.Arg(0))
	}
	files, err := header.ReadSources(filepath.Join(root, "lua"))
	if err != nil {
		return err
	}
	l, err := readLibrary(files)
	if err != nil {
		return err
	}
	outputs, err := generate(l, readBuild(root))
	if err != nil {
		return err
	}
	if err := access.Emit(root, files, outputs); err != nil {
		return err
	}
	if err := docgen.RowPage(root, l, outputs); err != nil {
		return err
	}
	var broken error
	if !*accept {
		broken = wireform.Keep(root, l, outputs)
	}
	if *check {
		return errors.Join(compare(root, outputs, out), broken)
	}
	return errors.Join(write(root, outputs), broken)
}

// moduleRoot is the directory of go.mod, found upwards from the working directory, so that go generate works
// from any package.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = parent
	}
}

const buildFile = "internal/lualib/build_gen.go"

// readBuild is the build of the last generation, or the zero value.
func readBuild(root string) luagen.Build {
	text, err := os.ReadFile(filepath.Join(root, buildFile))
	if err != nil {
		return luagen.Build{}
	}
	m := regexp.MustCompile(`build = "(\d+)-([0-9a-f]+)"`).FindSubmatch(text)
	if m == nil {
		return luagen.Build{}
	}
	n, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		return luagen.Build{}
	}
	return luagen.Build{Revision: n, Hash: string(m[2])}
}

// generate makes all files that derive from the headers alone, by their path from the module's root. The revision of
// the build grows by one when the library differs from the library of the last generation.
func generate(l *header.Library, last luagen.Build) (map[string]string, error) {
	outputs := luagen.Files(l, luagen.Build{Protocol: lualib.Protocol, MinProtocol: lualib.MinProtocol})
	id := luagen.Build{Protocol: lualib.Protocol, MinProtocol: lualib.MinProtocol}
	id.Hash = libraryHash(l.Files, outputs)
	id.Revision = last.Revision
	if id.Hash != last.Hash {
		id.Revision++
	}
	outputs = luagen.Files(l, id)
	var p header.Problems
	check.Library(l, luagen.Assemble(l.Files, outputs), &p)
	if p.Err() != nil {
		return nil, p.Err()
	}
	outputs[buildFile] = gogen.Header + fmt.Sprintf("package lualib\n\nconst build = %q\n", id)
	outputs[wireform.File(lualib.Protocol)] = wireform.Text(l, lualib.Protocol)
	written, err := gogen.Files(l)
	maps.Copy(outputs, written)
	return outputs, err
}

// readLibrary reads and checks the headers of the sources.
func readLibrary(files []header.SourceFile) (*header.Library, error) {
	var p header.Problems
	l := header.Read(files, &p)
	check.Headers(l, &p)
	check.Forms(l, &p)
	return l, p.Err()
}

// libraryHash identifies the library's text apart from the line that holds the build itself.
func libraryHash(files []header.SourceFile, generated map[string]string) string {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%s %d\n%s", f.Name, len(f.Text), f.Text)
	}
	for _, name := range slices.Sorted(maps.Keys(generated)) {
		fmt.Fprintf(h, "%d\n%s", len(generated[name]), generated[name])
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// printDocs prints the function reference.
func printDocs(root string, out io.Writer) error {
	files, err := header.ReadSources(filepath.Join(root, "lua"))
	if err != nil {
		return err
	}
	l, err := readLibrary(files)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, docgen.Functions(l))
	return err
}

// printLibrary assembles the library from the files on disk, which may be newer than the library that this program
// embeds.
func printLibrary(root string, contract bool, out io.Writer) error {
	source, err := lualib.Assemble(os.DirFS(filepath.Join(root, "lua")), contract)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, source)
	return err
}
