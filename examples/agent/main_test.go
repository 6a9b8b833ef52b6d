package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestProgram runs the whole program in this process, on the embedded engine.
func TestProgram(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, typed, want string
		args              []string
		written           bool
	}{
		{"approved", "", "Approved by the program.", nil, true},
		{"asked, yes", "yes\n", "Approved by the person at the terminal.", []string{"-ask"}, true},
		{"asked, no answer", "", "Refused by the person at the terminal.", []string{"-ask"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			notes := filepath.Join(t.TempDir(), "notes")
			var stdout, stderr strings.Builder
			args := append([]string{"-engine", "embedded:", "-notes", notes, "-run", "r"}, c.args...)
			require.Zero(t, run(t.Context(), args, strings.NewReader(c.typed), &stdout, &stderr), stderr.String())
			require.Empty(t, stderr.String())
			for _, want := range []string{
				"Run r: " + sampleQuestion, "Turn 4: " + sampleAnswer, "  calls search_text {", c.want,
				"  4. write_note {", "Answer: " + sampleAnswer, " of 20000 tokens used",
			} {
				require.Contains(t, stdout.String(), want)
			}
			_, err := os.Stat(filepath.Join(notes, "answer.md"))
			require.Equal(t, c.written, err == nil)
		})
	}
}

func TestProgramStopsAtItsBudget(t *testing.T) {
	t.Parallel()
	var stdout, stderr strings.Builder
	args := []string{"-engine", "embedded:", "-notes", t.TempDir(), "-budget", "100"}
	require.Equal(t, exitFailure, run(t.Context(), args, strings.NewReader(""), &stdout, &stderr))
	require.Contains(t, stderr.String(), "budget exceeded")
	require.Contains(t, stdout.String(), " of 100 tokens used")
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"-budget 0: must be 1 or more":          {"-budget", "0"},
		`-model-url "x": must be a URL of http`: {"-model-url", "x"},
		"flag provided but not defined":         {"-colour"},
	} {
		var stdout, stderr strings.Builder
		require.Equal(t, exitUsage, run(t.Context(), args, strings.NewReader(""), &stdout, &stderr))
		require.Contains(t, stderr.String(), want)
	}
	var stdout, stderr strings.Builder
	require.Zero(t, run(t.Context(), []string{"-help"}, strings.NewReader(""), &stdout, &stderr))
	require.Contains(t, stdout.String(), "-model-url")
}
