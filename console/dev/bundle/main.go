// Command bundle builds the pages of the console: from src, in TypeScript, and third_party it writes dist. The same
// sources give the same files, byte by byte, on every machine. It needs no Node.
//
//	go run ./bundle -check FOLDER
//
// With -check it writes nothing and fails if dist differs from the files that it would write. The folder is the
// module's folder, by default the one above.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

func main() {
	check := flag.Bool("check", false, "write nothing; fail if dist is out of date")
	flag.Parse()
	dir := ".."
	if flag.NArg() > 0 {
		dir = flag.Arg(0)
	}
	if err := run(dir, *check); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run builds the console in dir.
func run(dir string, check bool) error {
	built, err := build(dir)
	if err != nil {
		return err
	}
	var stale []error
	for name, body := range built {
		path := filepath.Join(dir, "dist", name)
		if check {
			if old, err := os.ReadFile(path); err != nil || !bytes.Equal(old, body) {
				stale = append(stale, fmt.Errorf("%s is out of date: run make generate", path))
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, body, 0o644); err != nil {
			return err
		}
	}
	return errors.Join(stale...)
}

// copied are files that dist has as they are.
var copied = []string{"index.html", "icon.svg"}

// build returns the files of dist by their names.
func build(dir string) (map[string][]byte, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	preact := filepath.Join(dir, "third_party", "preact")
	result := api.Build(api.BuildOptions{
		EntryPointsAdvanced: []api.EntryPoint{
			{InputPath: filepath.Join(dir, "src", "main.tsx"), OutputPath: "app"},
			{InputPath: filepath.Join(dir, "src", "api", "worker.ts"), OutputPath: "stream"},
			{InputPath: filepath.Join(dir, "src", "style", "main.css"), OutputPath: "app"},
		},
		Bundle: true, Outdir: filepath.Join(dir, "dist"), AbsWorkingDir: dir, Format: api.FormatIIFE,
		Target: api.ES2022, Charset: api.CharsetUTF8, LegalComments: api.LegalCommentsNone,
		MinifyWhitespace: true, MinifyIdentifiers: true, MinifySyntax: true,
		JSX: api.JSXAutomatic, JSXImportSource: "preact",
		// light-dark() stays as it is: browsers know it, and the theme depends on it.
		Supported: map[string]bool{"nesting": true},
		Alias: map[string]string{
			"preact":             filepath.Join(preact, "dist", "preact.mjs"),
			"preact/hooks":       filepath.Join(preact, "hooks", "dist", "hooks.mjs"),
			"preact/jsx-runtime": filepath.Join(preact, "jsx-runtime", "dist", "jsxRuntime.mjs"),
		},
		LogLevel: api.LogLevelSilent,
	})
	if len(result.Errors) > 0 {
		var faults []error
		for _, text := range api.FormatMessages(result.Errors, api.FormatMessagesOptions{Kind: api.ErrorMessage}) {
			faults = append(faults, errors.New(strings.TrimSpace(text)))
		}
		return nil, errors.Join(faults...)
	}
	built := map[string][]byte{}
	for _, file := range result.OutputFiles {
		built[filepath.Base(file.Path)] = file.Contents
	}
	for _, name := range copied {
		if built[name], err = os.ReadFile(filepath.Join(dir, "src", name)); err != nil {
			return nil, err
		}
	}
	return built, nil
}
