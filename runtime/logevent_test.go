package runtime_test

import (
	"cmp"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Alerts rely on the list of events in the documentation.
func TestEveryLogEventIsUsedAndDocumented(t *testing.T) {
	t.Parallel()
	declared, err := os.ReadFile("../internal/engine/observe/logevent.go")
	require.NoError(t, err)
	document, err := os.ReadFile("../docs/operations/observability.md")
	require.NoError(t, err)
	sources := sourcesOf(t)

	names := eventsBelow(t, "../internal/enginerpc", "../enginecore/embedded", "../approvals", "../server")
	for _, m := range regexp.MustCompile(`(Event\w+)\s+LogEvent = "([^"]+)"`).FindAllStringSubmatch(string(declared), -1) {
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

// eventsBelow returns the events that the packages in and below these folders name as texts.
func eventsBelow(t *testing.T, dirs ...string) []string {
	t.Helper()
	event := regexp.MustCompile(`(?:"event", |\bevent[A-Z]\w* += )"([a-z_.]+)"`)
	found := make(map[string]bool)
	for _, dir := range dirs {
		require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			for _, match := range event.FindAllStringSubmatch(string(source), -1) {
				found[match[1]] = true
			}
			return err
		}))
	}
	return slices.Collect(maps.Keys(found))
}

// A search for events must find every log record.
func TestEveryLogRecordNamesItsEvent(t *testing.T) {
	t.Parallel()
	for _, call := range regexp.MustCompile(`(?s)\.LogAttrs\([^\n]*(?:\n[^\n]*){0,3}`).FindAllString(sourcesOf(t), -1) {
		require.Regexp(t, `[Ee]vent\w*\.Attr\(\)|[Ee]vent\w+, |level, "flowfabric: "\+message, attrs`, call)
	}
}

// sourcesOf joins the sources of package runtime and the internal packages, without tests and the declarations of the
// events.
func sourcesOf(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	for _, dir := range []string{".", "../internal", "../contract"} {
		require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() && (dir == "." && path != "." || d.Name() == "test" || d.Name() == "enginerpc") {
				return cmp.Or(err, fs.SkipDir)
			}
			if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || filepath.Base(path) == "logevent.go" {
				return nil
			}
			source, err := os.ReadFile(path)
			text.Write(source)
			return err
		}))
	}
	return text.String()
}
