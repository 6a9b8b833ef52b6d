package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// module makes a module with one test and returns where its results go. The test fails from its third run on.
func module(t *testing.T) config {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	require.NoError(t, os.WriteFile("go.mod", []byte("module shaken\n\ngo 1.26\n"), 0o600))
	require.NoError(t, os.WriteFile("shaken_test.go", []byte(`package shaken

import (
	"os"
	"testing"
)

func TestTwice(t *testing.T) {
	runs, _ := os.ReadFile("runs")
	if err := os.WriteFile("runs", append(runs, '.'), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("part", func(t *testing.T) {
		if len(runs) >= 2 {
			t.Error("the third run")
		}
	})
}
`), 0o600))
	return config{packages: []string{"."}, dir: filepath.Join(dir, "results"), timeout: time.Minute}
}

func runsOf(t *testing.T) int {
	t.Helper()
	runs, err := os.ReadFile("runs")
	require.NoError(t, err)
	return len(runs)
}

// What was run already is not run again, and a failure stays on record.
func TestGoesOnWhereItWas(t *testing.T) {
	c := module(t)
	var out bytes.Buffer
	c.runs = 1
	require.NoError(t, shake(t.Context(), c, &out))
	require.Equal(t, 1, runsOf(t))
	c.runs, c.load = 3, 1
	require.ErrorIs(t, shake(t.Context(), c, &out), errFailed)
	require.Equal(t, 3, runsOf(t))
	require.ErrorIs(t, shake(t.Context(), c, &out), errFailed, "the failure is on record")
	require.Equal(t, 3, runsOf(t))
	text, err := os.ReadFile(filepath.Join(c.dir, "shaken.txt"))
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	require.Len(t, lines, 3)
	require.Contains(t, lines[2], "FAIL load=1")
	require.Contains(t, lines[2], " TestTwice/part")
	logs, err := filepath.Glob(filepath.Join(c.dir, "*.log"))
	require.NoError(t, err)
	require.Len(t, logs, 1)
}

// Results of other sources and other engines do not count.
func TestOtherBuildsDoNotCount(t *testing.T) {
	c := module(t)
	c.runs = 1
	require.NoError(t, shake(t.Context(), c, &bytes.Buffer{}))
	c.engines = "embedded"
	require.NoError(t, shake(t.Context(), c, &bytes.Buffer{}))
	require.Equal(t, 2, runsOf(t))
	c.only = "TestNone"
	require.NoError(t, shake(t.Context(), c, &bytes.Buffer{}))
	require.Equal(t, 2, runsOf(t))
}

// A run that is stopped leaves no result.
func TestStoppedRunIsNotRecorded(t *testing.T) {
	c := module(t)
	c.runs = 1
	ctx, stop := context.WithCancel(t.Context())
	stop()
	require.Error(t, shake(ctx, c, &bytes.Buffer{}))
	require.NoFileExists(t, filepath.Join(c.dir, "shaken.txt"))
}

func TestUsage(t *testing.T) {
	require.ErrorIs(t, shake(t.Context(), config{runs: 1}, &bytes.Buffer{}), errUsage)
	require.ErrorIs(t, shake(t.Context(), config{packages: []string{"."}}, &bytes.Buffer{}), errUsage)
}
