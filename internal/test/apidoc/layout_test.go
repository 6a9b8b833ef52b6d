package apidoc

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryPackageIsDescribed fails on packages without a package comment, on packages of several files that have it
// elsewhere than in doc.go, and on folders of packages that are missing in the table of CONTRIBUTING.md.
func TestEveryPackageIsDescribed(t *testing.T) {
	t.Parallel()
	listed := listedFolders(t)
	for dir, files := range packageFiles(t) {
		if !listed[dir] {
			t.Errorf("%s is missing in the table of folders of CONTRIBUTING.md", dir)
		}
		var documented []string
		sources := 0
		for _, file := range files {
			source, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, dir, file), nil,
				parser.PackageClauseOnly|parser.ParseComments)
			require.NoError(t, err)
			if !strings.HasSuffix(file, "_test.go") {
				sources++
			}
			if source.Doc.Text() != "" {
				documented = append(documented, file)
				require.Regexp(t, `^(Package `+source.Name.Name+`|Command `+path.Base(dir)+`) `, source.Doc.Text(), "%s/%s", dir, file)
			}
		}
		if len(documented) != 1 || sources > 1 && documented[0] != "doc.go" {
			t.Errorf("%s has its package comment in %q, want it in doc.go", dir, documented)
		}
	}
	for dir := range listed {
		_, err := os.Stat(filepath.Join(root, filepath.FromSlash(dir)))
		require.NoError(t, err, "the table of folders of CONTRIBUTING.md")
	}
}

// packageFiles returns the names of the Go files of each folder below the root.
func packageFiles(t *testing.T) map[string][]string {
	t.Helper()
	found := make(map[string][]string)
	require.NoError(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if base := d.Name(); d.IsDir() && name != root && (base == "testdata" || base == "module" || strings.HasPrefix(base, ".")) {
			return filepath.SkipDir
		}
		if strings.HasSuffix(name, ".go") {
			rel, err := filepath.Rel(root, filepath.Dir(name))
			require.NoError(t, err)
			found[filepath.ToSlash(rel)] = append(found[filepath.ToSlash(rel)], d.Name())
		}
		return nil
	}))
	return found
}

// listedFolders returns the folders in the table of CONTRIBUTING.md. A row begins with a folder; its other names are
// folders next to the first one or below it, if they exist.
func listedFolders(t *testing.T) map[string]bool {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	require.NoError(t, err)
	listed := make(map[string]bool)
	packages := slices.Collect(maps.Keys(packageFiles(t)))
	name := regexp.MustCompile("`([a-z0-9/-]+)`")
	_, layout, _ := strings.Cut(string(page), "## Layout")
	layout, _, _ = strings.Cut(layout, "\n## ")
	for row := range strings.Lines(layout) {
		if !strings.HasPrefix(row, "| `") {
			continue
		}
		names := name.FindAllStringSubmatch(row, -1)
		first := names[0][1]
		listed[first] = true
		for _, match := range names[1:] {
			for _, folder := range []string{match[1], path.Join(path.Dir(first), match[1]), path.Join(first, match[1])} {
				if slices.Contains(packages, folder) {
					listed[folder] = true
				}
			}
		}
	}
	return listed
}
