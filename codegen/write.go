package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/flowfabric/flowfabric-go/codegen/internal/gogen"
	"github.com/flowfabric/flowfabric-go/codegen/internal/wireform"
	"github.com/flowfabric/flowfabric-go/internal/lualib"
)

// stale lists generated call files that the sources no longer give, and wire forms that the library no longer serves.
func stale(root string, outputs map[string]string) []string {
	var out []string
	for _, pattern := range []string{gogen.CallsFolder + "/calls_*_gen.go", "testdata/wire/protocol-*.txt"} {
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
		if name == wireform.File(protocol) {
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
