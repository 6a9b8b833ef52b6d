package flow_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The Go code of each page, taken together, is one file that compiles.
func TestPagesCompile(t *testing.T) {
	t.Parallel()
	check := typeChecker(t)
	for page, programs := range map[string]bool{
		"concepts/activities.md":   true,
		"concepts/flows.md":        false,
		"concepts/waits.md":        true,
		"how-to/declare-a-flow.md": true,
		"how-to/map-a-list.md":     true,
	} {
		text, err := os.ReadFile(filepath.Join("..", "docs", filepath.FromSlash(page)))
		if err != nil {
			t.Fatal(err)
		}
		source := goBlocks(string(text))
		if (source != "") != programs {
			t.Errorf("%s: has Go code: %v", page, source != "")
		}
		if !programs {
			continue
		}
		if fault := check(source); fault != "" {
			t.Errorf("%s: %s", page, fault)
		}
	}
}

func goBlocks(page string) string {
	var b strings.Builder
	inside := false
	for line := range strings.Lines(page) {
		switch {
		case strings.TrimSpace(line) == "```go":
			inside = true
		case strings.HasPrefix(line, "```"):
			inside = false
		case inside:
			b.WriteString(line)
		}
	}
	return b.String()
}
