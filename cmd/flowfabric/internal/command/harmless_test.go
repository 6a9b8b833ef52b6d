package command

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/connect"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// nasty contains characters that control terminals: C0, delete, C1 (CSI as one character), overrides and isolates of
// direction, tags, separators.
const nasty = "a\x1b[31m\r\n\t\x00\x7f\u009b2J\u202eb\u2066\u200b\ufeff\U000e0041\u2028z"

// requireHarmless fails when a terminal would do anything else than show the text and its line breaks.
func requireHarmless(t *testing.T, text string) {
	t.Helper()
	require.True(t, utf8.ValidString(text))
	hidden := func(r rune) bool { return r != '\n' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }
	require.False(t, strings.ContainsFunc(text, hidden), "%q", text)
}

// Text of activities, clients and errors does not control the terminal, in any format in which it is printed.
func TestOutputEscapesControlCharacters(t *testing.T) {
	t.Parallel()
	b := embeddedBench(t)
	ctx := enginetest.Context(t)
	x := onEngine(t, b)
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
	const reason = "a\u202eb\u200b\ufeff" // which may be stored: they are not control characters
	require.NoError(t, b.Client.Lane("other").Pause(ctx, reason))
	execution := x.lines("execution", "list")[0]["id"].(string)
	for _, args := range [][]string{
		{"run", "list"}, {"run", "show", "import", run.ID()}, {"execution", "list"}, {"execution", "show", execution},
		{"lane", "pauses"}, {"lane", "list"}, {"attempts", "import", run.ID()}, {"run", "why", "import", run.ID()},
	} {
		for _, form := range [][]string{nil, {"-o", "json"}, {"-o", "jsonl"}, {"-o", "yaml"}, {"-o", "name"}, {"-o", "wide"}} {
			requireHarmless(t, x.ok(append(args, form...)...))
		}
	}
	require.Contains(t, x.ok("lane", "pauses"), `a\u202eb\u200b\ufeff`)
	require.Equal(t, reason, x.lines("lane", "pauses")[0]["reason"], "JSON is exact")
	for _, args := range [][]string{{"run", "show", "import", nasty}, {"run", "show", nasty, "r"}, {nasty}, {"run", "list", "--" + nasty}, {"run", "list", "--state", nasty}} {
		_, stdout, stderr := x.run(args...)
		requireHarmless(t, stdout)
		requireHarmless(t, stderr)
		require.NotEmpty(t, stderr)
	}
	x.open = func(context.Context, connect.Where) (*connect.Session, error) { return nil, errors.New(nasty) }
	requireHarmless(t, x.fails(shell.ExitFailed, "run", "list"))
}
