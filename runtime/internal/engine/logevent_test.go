package engine

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whoever alerts on an event relies on the list in the documentation.
func TestEveryLogEventIsUsedAndDocumented(t *testing.T) {
	t.Parallel()
	declared, err := os.ReadFile("logevent.go")
	require.NoError(t, err)
	document, err := os.ReadFile("../docs/operations/observability.md")
	require.NoError(t, err)
	sources := sourcesOf(t)

	names := []string{"library.loaded", "library.incompatible"} // of package enginecore
	names = append(names, "storage.failed", "storage.restored") // of package embedded
	for _, m := range regexp.MustCompile(`(event\w+)\s+logEvent = "([^"]+)"`).FindAllStringSubmatch(string(declared), -1) {
		names = append(names, m[2])
		require.Contains(t, sources, m[1], "nothing logs %s", m[2])
	}
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| (?:error|warning|info|debug) ").FindAllStringSubmatch(string(document), -1) {
		documented = append(documented, m[1])
	}
	slices.Sort(names)
	slices.Sort(documented)
	require.Equal(t, names, documented)
}

// Records without an event would escape whoever searches for it.
func TestEveryLogRecordNamesItsEvent(t *testing.T) {
	t.Parallel()
	for _, call := range regexp.MustCompile(`(?s)\.LogAttrs\([^\n]*(?:\n[^\n]*){0,2}`).FindAllString(sourcesOf(t), -1) {
		require.Regexp(t, `event\w*\.attr\(\)|event\w+, |level, "flowfabric: "\+message, attrs`, call)
	}
}

// sourcesOf joins the sources of this package but for its tests and the declarations of the events.
func sourcesOf(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	var text strings.Builder
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || file == "logevent.go" {
			continue
		}
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		text.Write(source)
	}
	return text.String()
}
