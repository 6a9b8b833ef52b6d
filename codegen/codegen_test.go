package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/flowfabric/flowfabric-go/codegen/internal/gogen"
	"github.com/flowfabric/flowfabric-go/codegen/internal/header"
	"github.com/flowfabric/flowfabric-go/codegen/internal/luagen"
)

// TestRevisionGrowsWithChange generates from the real library, which also shows that its headers are sound.
func TestRevisionGrowsWithChange(t *testing.T) {
	t.Parallel()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	files, err := header.ReadSources(filepath.Join(root, "lua"))
	if err != nil {
		t.Fatal(err)
	}
	buildOf := func(files []header.SourceFile, last luagen.Build) luagen.Build {
		t.Helper()
		l, err := readLibrary(files)
		if err != nil {
			t.Fatal(err)
		}
		outputs, err := generate(l, last)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := write(dir, outputs); err != nil {
			t.Fatal(err)
		}
		var listed bytes.Buffer
		if err := compare(dir, outputs, &listed); err != nil {
			t.Errorf("just written: %v %s", err, listed.String())
		}
		return readBuild(dir)
	}
	first := buildOf(files, luagen.Build{})
	if first.Revision != 1 || first.Hash == "" {
		t.Errorf("first build %v", first)
	}
	if again := buildOf(files, first); again != first {
		t.Errorf("nothing changed, %v became %v", first, again)
	}
	changed := slices.Clone(files)
	changed[0].Text += "-- changed\n"
	if next := buildOf(changed, first); next.Revision != 2 || next.Hash == first.Hash {
		t.Errorf("after a change %v became %v", first, next)
	}
}

func TestCompareNamesTheDifference(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	outputs := map[string]string{"a/x": "1", gogen.CallsFolder + "/calls_new_gen.go": "2"}
	if err := write(dir, map[string]string{"a/x": "1", gogen.CallsFolder + "/calls_old_gen.go": "0"}); err != nil {
		t.Fatal(err)
	}
	var listed bytes.Buffer
	err := compare(dir, outputs, &listed)
	if err == nil || listed.String() != gogen.CallsFolder+"/calls_new_gen.go\n"+gogen.CallsFolder+"/calls_old_gen.go\n" {
		t.Errorf("%v, listed %q", err, listed.String())
	}
	if err := write(dir, outputs); err != nil {
		t.Fatal(err)
	}
	if err := compare(dir, outputs, &listed); err != nil {
		t.Error(err)
	}
}

// TestFunctionNamesOnlyInGeneratedCode keeps calls from being made by name past the typed calls. The conformance
// suite replays recorded calls, so it may name them.
func TestFunctionNamesOnlyInGeneratedCode(t *testing.T) {
	t.Parallel()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	literal := regexp.MustCompile("[\"`]ff(x[0-9]*)?_[a-z_]+[\"`]")
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if strings.HasPrefix(name, ".") || name == "codegen" || name == "testdata" || name == "conformance" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_gen.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(text), "\n") {
			// Metrics of the contract begin with ff_http_.
			if m := literal.FindString(line); m != "" && !strings.HasPrefix(m, `"ff_http_`) {
				t.Errorf("%s:%d: %s: use the typed call, or enginerpc.FunctionName", path, i+1, m)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
