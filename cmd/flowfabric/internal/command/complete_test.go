package command

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/runs"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Names are completed from the data of the engine or server.
func TestCompletion(t *testing.T) {
	t.Parallel()
	b := embeddedBench(t)
	for name, x := range map[string]terminal{"engine": onEngine(t, b), "server": onServer(t, b)} {
		x.t = t
		if name == "engine" {
			f := flow.New[string, string]("ask")
			flow.Return(f, flow.Waitpoint[string](f, "gate"))
			def, err := f.Build()
			require.NoError(t, err)
			require.NoError(t, b.Client.Publish(enginetest.Context(t), runtime.Publication{Flow: def}))
			for _, id := range []string{"r1", "r2", "s"} {
				x.ok("start", "ask", "--id", id, "--input", `"in"`)
			}
			x.ok("lane", "pause", "slow")
		}
	}
	for _, x := range []terminal{onEngine(t, b), onServer(t, b)} {
		for typed, want := range map[string]string{
			"run show ": "ask", "run show a": "ask", "run show b": "", "run show ask ": "s r2 r1", "run show ask r": "r2 r1",
			"run logs ask s ": "gate", "run show ask/": "", "run list --flow ": "ask", "run list -o ": "table wide json jsonl yaml name",
			"start ": "ask", "answer ask s ": "gate", "schedule show ": "", "run l": "list logs",
			"run list --state ": "running succeeded failed cancelled expired", "run count --state failed,s": "failed,succeeded",
			"run list --search fai": "failed", "run list --search yesterday|tod": "yesterday|today",
			"bulk start ": strings.Join(runs.Actions, " "),
		} {
			args := strings.Split(typed, " ")
			args[len(args)-1] = strings.ReplaceAll(args[len(args)-1], "|", " ")
			lines := strings.Split(strings.TrimSpace(x.ok(append([]string{"__complete"}, args...)...)), "\n")
			var got []string
			for _, line := range lines[:len(lines)-1] {
				completion, _, _ := strings.Cut(line, "\t")
				got = append(got, completion)
			}
			for i := range got {
				got[i] = strings.ReplaceAll(got[i], " ", "|")
			}
			require.ElementsMatch(t, strings.Fields(want), got, typed)
			require.Equal(t, ":4", lines[len(lines)-1], "no files: %s", typed)
		}
	}
	nobody := terminal{t: t, open: nil}
	nobody.where.URL = "embedded:" + t.TempDir()
	require.Equal(t, ":4\n", nobody.ok("__complete", "run", "show", ""), "a failure completes nothing")
}
