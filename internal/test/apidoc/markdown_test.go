package apidoc

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

var root = filepath.Join("..", "..", "..")

// pages are the pages that readers see, by their path below the root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := make(map[string]string)
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != root && (name == "testdata" || strings.HasPrefix(name, ".")) {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		text, err := os.ReadFile(path)
		name, relErr := filepath.Rel(root, path)
		require.NoError(t, relErr)
		found[filepath.ToSlash(name)] = string(text)
		return err
	}))
	require.Contains(t, found, "README.md")
	return found
}

// split separates a page into prose and the blocks of code that are marked with a language.
func split(page, language string) (prose string, blocks []string) {
	var b, code strings.Builder
	fence, wanted := false, false
	for line := range strings.Lines(page) {
		mark := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(mark, "```") && !fence:
			fence, wanted = true, mark == "```"+language
		case strings.HasPrefix(mark, "```"):
			if wanted {
				blocks = append(blocks, code.String())
				code.Reset()
			}
			fence, wanted = false, false
		case wanted:
			code.WriteString(line)
		case !fence:
			b.WriteString(line)
		}
	}
	return b.String(), blocks
}

var (
	codeSpan = regexp.MustCompile("`[^`]*`")
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ +(.+)$`)
)

// anchors are those that a page has for its headings.
func anchors(page string) map[string]bool {
	prose, _ := split(page, "")
	found := make(map[string]bool)
	for _, match := range heading.FindAllStringSubmatch(prose, -1) {
		found[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(match[1]))] = true
	}
	return found
}

// A link inside the repository leads to a file, and to a heading of it.
func TestLinks(t *testing.T) {
	t.Parallel()
	all := pages(t)
	for page, text := range all {
		prose, _ := split(text, "")
		for _, match := range link.FindAllStringSubmatch(codeSpan.ReplaceAllString(prose, ""), -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(match[1], "#")
			target := page
			if file != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(page), filepath.FromSlash(file)))
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(target))); err != nil {
				t.Errorf("%s: %s leads to no file", page, match[1])
			} else if anchor != "" && !anchors(all[target])[anchor] {
				t.Errorf("%s: %s leads to no heading of %s", page, match[1], target)
			}
		}
	}
}

// The index of the documentation links every page, or a linked README in the page's folder does, and README links the
// index.
func TestEveryPageIsLinked(t *testing.T) {
	t.Parallel()
	const index = "docs/README.md"
	all := pages(t)
	require.Contains(t, all["README.md"], "]("+index+")")
	for page := range all {
		link := strings.TrimPrefix(page, "docs/")
		if link == page || page == index || strings.Contains(all[index], "]("+link+")") {
			continue
		}
		folder, name := path.Split(page)
		if beside := folder + "README.md"; beside == page || !strings.Contains(all[beside], "]("+name+")") {
			t.Errorf("%s does not lead to %s", index, page)
		}
	}
}
