package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCensus runs the whole program in this process, on the embedded engine.
func TestCensus(t *testing.T) {
	t.Parallel()
	tree, out := fixture(t), filepath.Join(t.TempDir(), "new", "report")
	stdout, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	require.NoError(t, err)
	defer stdout.Close()
	var stderr strings.Builder
	code := run(t.Context(), []string{"-engine", "embedded:", "-shards", "3", "-out", out, tree}, stdout, &stderr)
	require.Zero(t, code, stderr.String())
	require.Empty(t, stderr.String())

	text, record, found := strings.Cut(readFile(t, out, "report.md"), "\n## How the census ran\n")
	require.True(t, found)
	golden(t, "report.md", strings.ReplaceAll(text, tree, "/home/gopher/tree"))
	golden(t, "chart.svg", readFile(t, out, "chart.svg"))
	golden(t, "flow.mmd", readFile(t, out, "flow.mmd"))
	golden(t, "flow.dot", readFile(t, out, "flow.dot"))
	for _, node := range []string{"scan", "cut", "measure-00", "measure-01", "measure-02", "join", "rank", "report", "chart", "publish"} {
		require.Contains(t, record, "| "+node+" | completed | 1 | 0 | 0 | ")
	}
	entries, err := os.ReadDir(out)
	require.NoError(t, err)
	require.Len(t, entries, 4)

	printed, err := os.ReadFile(stdout.Name())
	require.NoError(t, err)
	require.Contains(t, string(printed), "5 packages, 8 files, 58 lines, 7 functions; 3 files do not parse\n")
	require.Contains(t, string(printed), "lib          2      36     3          2        19.4 %    long (7)\n")
	require.Contains(t, string(printed), filepath.Join(out, "report.md")+"\n")
}

// The flow is stored with every run: a change of it makes a run of before unknown to a second start, so it should be
// meant.
func TestFlow(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 3, maxShards} {
		def, err := Census(shards)
		require.NoError(t, err)
		require.Equal(t, shards+7, strings.Count(def.Mermaid(), "census."))
		require.Len(t, def.Handlers(), 8)
	}
	def, err := Census(3)
	require.NoError(t, err)
	golden(t, "flow.txt", def.Outline())
}

func TestRunID(t *testing.T) {
	t.Parallel()
	require.Equal(t, "src-fa666c77-16", runID("/usr/lib/go/src", 16))
	require.NotEqual(t, runID("/a/src", 16), runID("/b/src", 16))
	require.NotEqual(t, runID("/a/src", 16), runID("/a/src", 17))
	require.LessOrEqual(t, len(runID("/"+strings.Repeat("x", 255), 16)), 256)
}

func TestInMemory(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]bool{
		"": true, "embedded": true, "embedded:": true, "embedded:?fsync=never": true, "embedded:dir": false,
		"embedded:///dir": false, "embedded:/dir?fsync=always": false, "redis://host": false,
	} {
		require.Equal(t, want, (&options{engine: url}).inMemory(), url)
	}
}

func readFile(t *testing.T, dir, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	return string(content)
}
