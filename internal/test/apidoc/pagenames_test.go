package apidoc

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// pageName matches a name of a Go package in backquotes, with or without a call: Type.Member, package.Name or
// package.Type.Member.
var pageName = regexp.MustCompile("`((?:[a-z]+\\.)?[A-Z]\\w*(?:\\.[A-Z]\\w*)?)(?:\\([^`]*\\))?`")

// standardNames are names of the standard library whose package has the name of one of ours.
var standardNames = []string{"runtime.Goexit"}

// TestNamesOnPages fails on names in backquotes on pages that no public package declares: `Type.Member`,
// `package.Name` and `package.Type.Member`. A single name may be an option of several packages, or no Go name at all.
func TestNamesOnPages(t *testing.T) {
	t.Parallel()
	table := symbolTable{packages: make(map[string]*symbols)}
	byName := make(map[string]*symbols)
	for _, dir := range publicFolders(t) {
		byName[filepath.Base(dir)] = table.load(filepath.Join(root, dir), false)
	}
	checked := 0
	for page, text := range pages(t) {
		if page == "CHANGELOG.md" || page == "docs/reference/renamed.md" || strings.HasPrefix(page, "docs/contributing/") {
			continue // they name removed features and internal packages
		}
		prose, _ := split(text, "")
		for _, match := range pageName.FindAllStringSubmatch(prose, -1) {
			name := match[1]
			first, rest, qualified := strings.Cut(name, ".")
			if !qualified || slices.Contains(standardNames, name) {
				continue
			}
			checked++
			if unicode.IsLower(rune(first[0])) {
				if pkg := byName[first]; pkg != nil && !table.declares(pkg, rest) {
					t.Errorf("%s: package %s declares no %s", page, first, rest)
				}
				continue
			}
			found := false
			for _, pkg := range byName {
				found = found || table.declares(pkg, name)
			}
			if !found {
				t.Errorf("%s: no public package declares %s", page, name)
			}
		}
	}
	require.NotZero(t, checked)
}
