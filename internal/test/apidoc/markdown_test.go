package apidoc

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
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
	found, err := readPages(t.Context(), root)
	require.NoError(t, err)
	require.Contains(t, found, "README.md")
	return found
}

// readPages reads the pages of a tree that git tracks or would track; all of them outside of a work tree.
func readPages(ctx context.Context, dir string) (map[string]string, error) {
	list := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.md")
	list.Dir = dir
	out, err := list.Output()
	var files []string
	if err == nil {
		files = strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 })
	} else if files, err = walkPages(dir); err != nil {
		return nil, err
	}
	found := make(map[string]string)
	for _, file := range files {
		if hiddenPage.MatchString(file) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(file)))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted since the last commit
		}
		if err != nil {
			return nil, err
		}
		found[file] = string(text)
	}
	return found, nil
}

// hiddenPage matches pages in folders that readers do not see.
var hiddenPage = regexp.MustCompile(`(^|/)(testdata|\.[^/]*)/`)

func walkPages(dir string) (files []string, err error) {
	err = fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) == ".md" {
			files = append(files, path)
		}
		return err
	})
	return files, err
}

// A report that a program leaves in the tree, and that git ignores, is not checked as a page.
func TestIgnoredFilesAreNoPages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		".gitignore": "report/", "README.md": "Read me.", "docs/a.md": "A", "report/report.md": "`os.Nothing`",
		"x/testdata/b.md": "B", ".cache/c.md": "C",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	found, err := readPages(t.Context(), dir)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"README.md": "Read me.", "docs/a.md": "A", "report/report.md": "`os.Nothing`"}, found,
		"outside of a work tree there is nothing to ask")
	if err := exec.CommandContext(t.Context(), "git", "init", "-q", dir).Run(); err != nil {
		t.Skip("git is not installed")
	}
	found, err = readPages(t.Context(), dir)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"README.md": "Read me.", "docs/a.md": "A"}, found)
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
