package apidoc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

const (
	// columns is how wide a line of product code may be. A tab counts as 4 columns.
	columns = 120
	// widerLines is how many lines of product code are wider all the same: texts and short functions in calls, which a
	// line break would make harder to read. The number is lowered whenever one goes.
	widerLines = 147
)

// TestLineWidth fails on comments of product code that are wider than 120 columns, and when more lines of code are so
// than agreed. Tests and generated files are left out: their tables are easier to read in long lines. So are tags of
// fields, which cannot be broken.
func TestLineWidth(t *testing.T) {
	t.Parallel()
	wider := 0
	for dir, files := range packageFiles(t) {
		for _, file := range files {
			source, err := os.ReadFile(filepath.Join(root, dir, file))
			require.NoError(t, err)
			head, _, _ := strings.Cut(string(source), "\npackage ")
			if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(dir, "internal/test/") || strings.Contains(head, "DO NOT EDIT") {
				continue
			}
			number := 0
			for line := range strings.Lines(string(source)) {
				number++
				line = strings.TrimSuffix(line, "\n")
				if utf8.RuneCountInString(line)+3*strings.Count(line, "\t") <= columns {
					continue
				}
				if strings.HasSuffix(line, "`") && strings.Contains(line, `:"`) {
					continue
				}
				wider++
				if text := strings.TrimSpace(line); strings.HasPrefix(text, "// ") {
					t.Errorf("%s/%s:%d: a comment is wider than %d columns", dir, file, number, columns)
				}
			}
		}
	}
	if wider > widerLines {
		t.Errorf("%d lines are wider than %d columns, at most %d are agreed", wider, columns, widerLines)
	}
}
