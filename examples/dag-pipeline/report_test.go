package main

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/runtime"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "go test -update writes %s anew", path)
}

func TestReport(t *testing.T) {
	t.Parallel()
	root := fixture(t)
	report, err := Report(t.Context(), measureAll(t, root, 3))
	require.NoError(t, err)
	golden(t, "report.md", strings.ReplaceAll(report, root, "/home/gopher/tree"))
}

func TestReportOfNothing(t *testing.T) {
	t.Parallel()
	ranking := measureAll(t, t.TempDir(), 3)
	report, err := Report(t.Context(), ranking)
	require.NoError(t, err)
	require.Contains(t, report, "| Go files | 0 |")
	chart, err := Chart(t.Context(), ranking)
	require.NoError(t, err)
	require.Contains(t, chart, "There is no Go code.")
}

func TestChart(t *testing.T) {
	t.Parallel()
	ranking := measureAll(t, fixture(t), 3)
	ranking.Tables[0].Packages = append(ranking.Tables[0].Packages, Package{Dir: `<"` + strings.Repeat("x", 100) + `&`})
	chart, err := Chart(t.Context(), ranking)
	require.NoError(t, err)
	decoder := xml.NewDecoder(strings.NewReader(chart))
	bars := 0
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "rect" {
			bars++
		}
	}
	require.Equal(t, 1+2+2*6, bars) // background, legend, and two for each package
}

func TestCode(t *testing.T) {
	t.Parallel()
	require.Equal(t, "`a\\|b 'c'`", code("a|b\n`c`"))
	require.Empty(t, code(""))
}

func TestThousands(t *testing.T) {
	t.Parallel()
	for n, text := range map[int]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", 123456: "123,456"} {
		require.Equal(t, text, thousands(n))
	}
}

func TestReplaceFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, content := range []string{"one", "two"} {
		require.NoError(t, replaceFile(dir+"/file", content))
		got, err := os.ReadFile(dir + "/file")
		require.NoError(t, err)
		require.Equal(t, content, string(got))
	}
	require.Error(t, replaceFile(dir+"/missing/file", ""))
	require.NoError(t, os.Mkdir(dir+"/taken", 0o755))
	require.ErrorContains(t, replaceFile(dir+"/taken", ""), "/taken")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "nothing temporary is left")
}

func TestDisplay(t *testing.T) {
	t.Parallel()
	begun := time.Unix(1000, 0)
	state := &runtime.RunDescription{RunDetail: fabrictype.RunDetail{Run: "r", State: fabrictype.RunRunning, Nodes: []fabrictype.Node{
		{Name: "scan", State: fabrictype.NodeSucceeded, Attempts: 1, StartedAt: begun, CompletedAt: begun.Add(70 * time.Millisecond)},
		{Name: "one", State: fabrictype.NodeActive, Attempts: 1, Percent: 50, Message: "half"},
		{Name: "two", State: fabrictype.NodeDelayed, Attempts: 1, Reason: "disk"},
		{Name: "three", State: fabrictype.NodeWaitingChildren},
	}}}
	var plain strings.Builder
	d := newDisplay(&plain, false)
	d.found(state)
	require.Equal(t, "Run r goes on: 1 of 4 nodes are finished and do not run again: scan\n"+
		"Begun, but not finished, by a process that is gone or still runs: one\n", plain.String())
	plain.Reset()
	d.show(state)
	require.Empty(t, plain.String(), "nothing has changed")
	state.Nodes[1].Attempts = 2
	d.show(state)
	require.Contains(t, plain.String(), "one            runs, attempt 2\n")

	plain.Reset()
	d.trouble(errDisk)
	d.trouble(errDisk)
	require.Equal(t, "The engine does not answer, trying again: the disk is on fire\n", plain.String(), "once is enough")

	var screen strings.Builder
	d = newDisplay(&screen, true)
	d.show(state)
	require.Contains(t, screen.String(), " 38 %  1 of 4 nodes")
	require.Contains(t, screen.String(), "one          [============            ]  50 %  runs, attempt 2 half\n")
	require.NotContains(t, screen.String(), "three")
	screen.Reset()
	state.Nodes[1].State = fabrictype.NodeSucceeded
	d.show(state)
	require.True(t, strings.HasPrefix(screen.String(), "\x1b[3A"), "draws over its last output: %q", screen.String())
}
