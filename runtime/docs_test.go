package runtime_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The Go code of each page, taken together, is one file that compiles.
func TestPagesCompile(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"run-a-flow.md", "wait-for-a-person.md", "approval-links.md", "rerun-and-purge.md", "find-runs.md", "schedule-runs.md", "use-budgets.md"} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			compilePage(t, filepath.Join("..", "docs", "how-to", page))
		})
	}
}

func compilePage(t *testing.T, name string) {
	page, err := os.ReadFile(name)
	require.NoError(t, err)
	var source strings.Builder
	inside := false
	for line := range strings.Lines(string(page)) {
		switch {
		case strings.HasPrefix(line, "```go"):
			inside = true
		case strings.HasPrefix(line, "```"):
			inside = false
		case inside:
			source.WriteString(line)
		}
	}
	// Below this directory, so that it is part of the module.
	dir, err := os.MkdirTemp("testdata", "page-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.WriteFile(filepath.Join(dir, "page.go"), []byte(source.String()), 0o644))
	out, err := exec.Command("go", "build", "-o", os.DevNull, "./"+filepath.ToSlash(dir)).CombinedOutput()
	require.NoError(t, err, string(out))
}
