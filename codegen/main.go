package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing/fstest"

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
	files, err := readSources(filepath.Join(root, "lua"))
	if err != nil {
		return err
	}
	outputs, err := generate(files, readBuild(root))
	if err != nil {
		return err
	}
	if err := emitAccess(root, files, outputs); err != nil {
		return err
	}
	if err := emitRowPage(root, files, outputs); err != nil {
		return err
	}
	var broken error
	if !*accept {
		broken = keepWireForm(root, files, outputs)
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

// readSources reads the hand-written files of the library in their order. A file below the directory that the order
// does not have is an error.
func readSources(dir string) ([]sourceFile, error) {
	files := os.DirFS(dir)
	order := lualib.Order(files)
	var unknown []string
	err := fs.WalkDir(files, ".", func(name string, _ fs.DirEntry, err error) error {
		if path.Ext(name) == ".lua" && !slices.Contains(order, name) {
			unknown = append(unknown, name)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("folders in internal/lualib does not contain the folder of %s", strings.Join(unknown, ", "))
	}
	var out []sourceFile
	for _, name := range order {
		if lualib.IsGenerated(name) {
			continue
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		out = append(out, sourceFile{name: "lua/" + name, text: string(text)})
	}
	return out, nil
}

// rpcFolder has the typed calls and the key builders.
const rpcFolder = "internal/enginerpc"

const buildFile = "internal/lualib/build_gen.go"

// readBuild is the build of the last generation, or the zero value.
func readBuild(root string) build {
	text, err := os.ReadFile(filepath.Join(root, buildFile))
	if err != nil {
		return build{}
	}
	m := regexp.MustCompile(`build = "(\d+)-([0-9a-f]+)"`).FindSubmatch(text)
	if m == nil {
		return build{}
	}
	n, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		return build{}
	}
	return build{revision: n, hash: string(m[2])}
}

// generate makes all generated files from the sources, by their path from the module's root. The revision of
// the build grows by one when the library differs from the library of the last generation.
func generate(files []sourceFile, last build) (map[string]string, error) {
	l, err := readLibrary(files)
	if err != nil {
		return nil, err
	}
	outputs := generatedLua(l, build{protocol: lualib.Protocol, minProtocol: lualib.MinProtocol})
	id := build{protocol: lualib.Protocol, minProtocol: lualib.MinProtocol}
	id.hash = libraryHash(files, outputs)
	id.revision = last.revision
	if id.hash != last.hash {
		id.revision++
	}
	outputs = generatedLua(l, id)
	var p problems
	checkFileNames(files, &p)
	if s := checkScopes(assembled(files, outputs), l, &p); s != nil {
		s.checkStructure(l.hooks, knownCircles, &p)
		s.checkStores(l.stores)
	}
	if p.err() != nil {
		return nil, p.err()
	}
	outputs[buildFile] = goHeader + fmt.Sprintf("package lualib\n\nconst build = %q\n", id)

	plans := makePlans(l)
	folders := map[string][]*plan{}
	for _, x := range plans {
		folder := path.Dir(strings.TrimPrefix(x.pos.file, "lua/"))
		folders[folder] = append(folders[folder], x)
	}
	var errs []error
	add := func(path string) func(string, error) {
		return func(text string, err error) {
			if err != nil {
				err = fmt.Errorf("%s: %w", path, err)
			}
			outputs[path] = text
			errs = append(errs, err)
		}
	}
	add(rpcFolder + "/keys_gen.go")(emitGoKeys(l))
	add(publicErrorFile)(emitPublicErrors(l))
	add(internalErrorFile)(emitInternalErrors(l))
	add(rpcFolder + "/texts_gen.go")(emitTexts(l))
	add(rpcFolder + "/texts_gen_test.go")(emitTextsTest(l))
	add(rpcFolder + "/calls_gen.go")(emitShared(l, plans))
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		add(rpcFolder + "/calls_" + strings.ReplaceAll(folder, "/", "_") + "_gen.go")(emitCalls(folders[folder]))
	}
	add(rpcFolder + "/calls_gen_test.go")(emitGolden(plans))
	add(rowFolder + "/layout_gen.go")(emitGoRows(l))
	outputs[wireFile(lualib.Protocol)] = emitWireForm(l, lualib.Protocol)
	return outputs, errors.Join(errs...)
}

// readLibrary reads and checks the headers of the sources.
func readLibrary(files []sourceFile) (*library, error) {
	var p problems
	l := readHeaders(files, &p)
	check(l, &p)
	checkForms(l, &p)
	return l, p.err()
}

func makePlans(l *library) []*plan {
	var plans []*plan
	for _, f := range l.functions {
		plans = append(plans, makePlan(l, f))
	}
	return plans
}

// generatedLua makes the generated files of the library, by their path from the module's root.
func generatedLua(l *library, id build) map[string]string {
	return map[string]string{
		"lua/generated/modules.gen.lua":            emitModules(l, false),
		"lua/generated/keys.gen.lua":               emitLuaKeys(l),
		"lua/generated/texts.gen.lua":              emitLuaTexts(l),
		"lua/generated/register.gen.lua":           emitLuaRegister(l, false, id),
		"lua/composite/generated/modules.gen.lua":  emitModules(l, true),
		"lua/" + rowModuleFile:                     emitLuaRows(l),
		"lua/composite/generated/register.gen.lua": emitLuaRegister(l, true, id),
	}
}

// assembled puts the generated files in their places among the others, each in the form that the library has.
func assembled(files []sourceFile, generated map[string]string) []sourceFile {
	tree := fstest.MapFS{}
	for _, f := range files {
		tree[strings.TrimPrefix(f.name, "lua/")] = &fstest.MapFile{Data: []byte(f.text)}
	}
	for name, text := range generated {
		tree[strings.TrimPrefix(name, "lua/")] = &fstest.MapFile{Data: []byte(text)}
	}
	var out []sourceFile
	for _, name := range lualib.Order(tree) {
		if f, ok := tree[name]; ok {
			out = append(out, sourceFile{"lua/" + name, lualib.Block(name, string(f.Data))})
		}
	}
	return out
}

// libraryHash identifies the library's text apart from the line that holds the build itself.
func libraryHash(files []sourceFile, generated map[string]string) string {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%s %d\n%s", f.name, len(f.text), f.text)
	}
	for _, name := range slices.Sorted(maps.Keys(generated)) {
		fmt.Fprintf(h, "%d\n%s", len(generated[name]), generated[name])
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// stale lists generated call files that the sources no longer give, and wire forms that the library no longer serves.
func stale(root string, outputs map[string]string) []string {
	var out []string
	for _, pattern := range []string{rpcFolder + "/calls_*_gen.go", "testdata/wire/protocol-*.txt"} {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			continue
		}
		for _, file := range found {
			name := path.Dir(pattern) + "/" + filepath.Base(file)
			if _, ok := outputs[name]; !ok && !served(name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// served reports whether a file has the wire form of a protocol that the library supports.
func served(name string) bool {
	for protocol := lualib.MinProtocol; protocol <= lualib.Protocol; protocol++ {
		if name == wireFile(protocol) {
			return true
		}
	}
	return false
}

func compare(root string, outputs map[string]string, out io.Writer) error {
	differ := stale(root, outputs)
	for path, text := range outputs {
		have, err := os.ReadFile(filepath.Join(root, path))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err != nil || string(have) != text {
			differ = append(differ, path)
		}
	}
	if len(differ) == 0 {
		return nil
	}
	slices.Sort(differ)
	for _, path := range differ {
		fmt.Fprintln(out, path)
	}
	return fmt.Errorf("%d generated files are out of date; run go run ./codegen", len(differ))
}

// write stores the files that changed, so that unchanged ones keep their time.
func write(root string, outputs map[string]string) error {
	for _, name := range stale(root, outputs) {
		if err := os.Remove(filepath.Join(root, name)); err != nil {
			return err
		}
	}
	for _, path := range slices.Sorted(maps.Keys(outputs)) {
		full := filepath.Join(root, path)
		if have, err := os.ReadFile(full); err == nil && string(have) == outputs[path] {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(full, []byte(outputs[path]), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// printDocs prints the function reference.
func printDocs(root string, out io.Writer) error {
	files, err := readSources(filepath.Join(root, "lua"))
	if err != nil {
		return err
	}
	l, err := readLibrary(files)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, emitDocs(l, makePlans(l)))
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
