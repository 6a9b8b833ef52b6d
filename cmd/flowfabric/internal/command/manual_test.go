package command

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/manual"
)

var update = flag.Bool("update", false, "write the pages of the commands and the transcript anew")

// The committed pages of the documentation equal the generated ones.
func TestCommandPagesAreCurrent(t *testing.T) {
	t.Parallel()
	const dir = "../../../../docs/reference/command"
	pages := manual.MarkdownPages(Tree())
	if *update {
		require.NoError(t, os.RemoveAll(dir))
		require.NoError(t, os.MkdirAll(dir, 0o755))
		for name, text := range pages {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		}
	}
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, len(pages), "run go test -run PagesOfTheDocumentation -update in %s", t.Name())
	for name, want := range pages {
		got, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, want, string(got), "%s is out of date: run go test -run PagesOfTheDocumentation -update", name)
	}
}

// There is a man page for each command, with its flags and the exit codes, and texts do not act as requests of troff.
func TestManPages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	nowhere(t).ok("manual", dir)
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Greater(t, len(files), 80)
	text, err := os.ReadFile(filepath.Join(dir, "flowfabric-run-list.1"))
	require.NoError(t, err)
	for _, part := range []string{".TH \"FLOWFABRIC-RUN-LIST\" 1", `.B \-\-state`, `.B \-\-url`, ".SH EXIT STATUS"} {
		require.Contains(t, string(text), part)
	}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(dir, file.Name()))
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, ".") {
				require.Regexp(t, `^\.(TH|SH|TP|B|nf|fi)\b`, line, file.Name())
			}
		}
	}
	nowhere(t).ok("manual", filepath.Join(dir, "md"), "--format", "markdown")
	require.FileExists(t, filepath.Join(dir, "md", "run.md"))
}
