package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// nasty has what terminals obey: C0, delete, C1 (CSI as one character), overrides and isolates of direction, tags,
// separators.
const nasty = "a\x1b[31m\r\n\t\x00\x7f\u009b2J\u202eb\u2066\u200b\ufeff\U000e0041\u2028z"

const shown = `a\x1b[31m\r\n\t\x00\x7f\u009b2J\u202eb\u2066\u200b\ufeff\U000e0041\u2028z`

func TestVisible(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "für Zoë 🙂, C:\\dir": "für Zoë 🙂, C:\\dir", nasty: shown, "\xffok\xc3": `\xffok\xc3`, "\u061c": `\u061c`, "'\x1b'": `'\x1b'`,
	} {
		require.Equal(t, want, visible(text))
	}
	require.Equal(t, "one\n"+`t\x1bwo`, visibleLines("one\nt\x1bwo"))
	line, err := visibleJSON(map[string]string{nasty: nasty})
	require.NoError(t, err)
	require.False(t, strings.ContainsFunc(line, isHidden))
	var back map[string]string
	require.NoError(t, json.Unmarshal([]byte(line), &back))
	require.Equal(t, map[string]string{nasty: nasty}, back, "what is shown as JSON is exact")
}

// requireHarmless fails when a terminal would do anything else than show the text and its line breaks.
func requireHarmless(t *testing.T, text string) {
	t.Helper()
	require.True(t, utf8.ValidString(text))
	require.False(t, strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && isHidden(r) }), "%q", text)
}

// Nothing that an activity, a client or an error says is a command to the terminal, in whatever form it is printed.
func TestNothingIsACommandToTheTerminal(t *testing.T) {
	enginetest.Only(t, testserver.Embedded)
	b := enginetest.New(t, testserver.Embedded)
	ctx := enginetest.Context(t)
	x := terminal{t, b}
	act := activity.New("load", func(context.Context, string) (string, error) { return "", activity.NonRetryable(errors.New(nasty)) })
	f := flow.New[string, string]("import")
	flow.Return(f, flow.Node(f, "load", act, f.Input()))
	def, err := f.Build()
	require.NoError(t, err)
	b.Worker(t, []activity.Handler{act})
	run, err := runtime.Start(ctx, b.Client, def, "in", runtime.WithID("bidi \u202e run"), runtime.WithTag("a.\u202e", "\u2066"))
	require.NoError(t, err)
	_, err = run.Result(ctx)
	require.ErrorIs(t, err, runtime.ErrRunFailed)
	const reason = "a\u202eb\u200b\ufeff" // which may be stored: they are no control characters
	require.NoError(t, b.Client.PauseLane(ctx, "other", reason))
	execution := x.lines("executions")[0]["id"].(string)
	for _, args := range [][]string{
		{"runs"}, {"describe", "import", run.ID()}, {"executions"}, {"execution", execution}, {"pauses"}, {"lanes"},
	} {
		for _, form := range [][]string{nil, {"-json"}} {
			requireHarmless(t, x.ok(append(args, form...)...))
		}
	}
	require.Contains(t, x.ok("pauses"), `a\u202eb\u200b\ufeff`)
	require.Equal(t, reason, x.lines("pauses")[0]["reason"], "JSON is exact")
	for _, args := range [][]string{{"describe", "import", nasty}, {"describe", nasty, "r"}, {nasty}, {"runs", "-" + nasty}, {"runs", "-state", nasty}} {
		_, stdout, stderr := x.run(args...)
		requireHarmless(t, stdout)
		requireHarmless(t, stderr)
		require.NotEmpty(t, stderr)
	}
	var stderr bytes.Buffer
	p := program{stdout: &bytes.Buffer{}, stderr: &stderr, open: func(context.Context, location) (*session, error) { return nil, errors.New(nasty) }}
	require.Equal(t, exitFailure, p.run(ctx, []string{"runs"}))
	requireHarmless(t, stderr.String())
}

// The engine's URL may come with a password, which no help shows.
func TestHelpShowsNoPassword(t *testing.T) {
	var stdout bytes.Buffer
	p := program{stdout: &stdout, stderr: &stdout, url: "valkey://app:secret@localhost", open: noEngine}
	for _, args := range [][]string{{"-help"}, {"runs", "-help"}, {}} {
		p.run(t.Context(), args)
	}
	require.Contains(t, stdout.String(), "FLOWFABRIC_URL")
	require.NotContains(t, stdout.String(), "secret")
}
