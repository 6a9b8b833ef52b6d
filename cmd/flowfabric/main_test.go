package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/runtime/catalogue"
	"github.com/flowfabric/flowfabric-go/runtime/runfeed"
)

func TestMain(m *testing.M) {
	enginetest.Main(m)
}

// terminal runs commands on an engine.
type terminal struct {
	t *testing.T
	b *enginetest.Bench
}

func (x terminal) run(args ...string) (code int, stdout, stderr string) {
	x.t.Helper()
	var out, errs bytes.Buffer
	p := program{stdout: &out, stderr: &errs, open: func(context.Context, location) (*session, error) {
		operator, err := admin.New(x.b.Engine)
		return &session{x.b.Client, operator, x.b.Engine, location{}, func() {}}, err
	}}
	code = p.run(enginetest.Context(x.t), args)
	return code, out.String(), errs.String()
}

// ok runs a command that must succeed.
func (x terminal) ok(args ...string) string {
	x.t.Helper()
	code, stdout, stderr := x.run(args...)
	require.Zero(x.t, code, "%v: %s", args, stderr)
	return stdout
}

// lines are the JSON objects that a command prints.
func (x terminal) lines(args ...string) []map[string]any {
	x.t.Helper()
	var list []map[string]any
	for line := range strings.SplitSeq(strings.TrimSpace(x.ok(append(args, "-json")...)), "\n") {
		if line == "" {
			continue
		}
		var value map[string]any
		require.NoError(x.t, json.Unmarshal([]byte(line), &value), line)
		list = append(list, value)
	}
	return list
}

func TestOperatorsDay(t *testing.T) {
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		x := terminal{t, b}
		works := false
		act := activity.New("load", func(context.Context, string) (string, error) {
			if !works {
				return "", activity.NonRetryable(errors.New("disk\x1b[31m full"))
			}
			return "ok", nil
		})
		f := flow.New[string, string]("import", flow.Tag("team.name", "census"))
		flow.Return(f, flow.Node(f, "store", act, flow.Node(f, "load", act, f.Input())))
		def, err := f.Build()
		require.NoError(t, err)

		x.ok("pause", "lane", "default", "-reason", "release")
		require.Contains(t, x.ok("pauses"), "release")
		feed, err := b.Client.Feed(ctx, runfeed.Filter{}, "")
		require.NoError(t, err)
		begin := feed.Cursor()
		feed.Close()
		run, err := runtime.Start(ctx, b.Client, def, "in", runtime.WithID("monday"), runtime.WithTag("customer.id", "7"))
		require.NoError(t, err)
		b.Keeper(t)
		worker := b.Worker(t, []activity.Handler{act})
		lane := x.lines("lanes")[0]
		require.Equal(t, "default", lane["lane"])
		require.Equal(t, true, lane["paused"])
		require.Contains(t, x.ok("lanes"), "release")
		require.Len(t, x.lines("executions", "-lane", "default"), 2)
		execution := x.lines("executions", "-state", "waiting_children")[0]
		require.Equal(t, "load", execution["kind"])
		require.Contains(t, x.ok("execution", execution["id"].(string)), "blocked_by_dependencies")

		enginetest.Eventually(t, enginetest.Patience, func() string {
			if len(x.lines("workers", "-activity", "load")) != 1 {
				return "the worker has not reported"
			}
			return ""
		})
		require.Empty(t, x.lines("workers", "-lane", "other"))
		require.Empty(t, x.lines("flows"))
		require.NoError(t, b.Client.Publish(ctx, catalogue.Publication{Flow: def, By: "ann"}))
		require.Contains(t, x.ok("flows"), "ann")
		require.Equal(t, "import", x.lines("flows")[0]["name"])
		require.Contains(t, x.ok("flows", "import"), "load")
		require.Contains(t, x.ok("flows", "import", "-mermaid"), "flowchart")
		require.Len(t, x.lines("flows", "import")[0]["history"], 1)
		require.Contains(t, x.ok("workers"), "running")
		code, _, stderr := x.run("drain", "nobody")
		require.Equal(t, exitFailure, code)
		require.Contains(t, stderr, "worker_not_found")

		x.ok("resume", "lane", "default")
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunFailed)
		found := x.lines("runs", "-state", "failed", "-tag", "customer.id=7", "-tag", "team.name=census", "-since", "1h")
		require.Len(t, found, 1)
		require.Equal(t, "monday", found[0]["run"])
		require.Equal(t, "load", found[0]["failed_node"])
		require.Empty(t, x.lines("runs", "-state", "running"))
		require.Equal(t, []map[string]any{{"flow": "import", "state": "failed", "runs": 1.0}}, x.lines("counts", "-flow", "import"))
		require.Len(t, x.lines("counts", "-hours", "2"), 1)
		events := x.lines("feed", "-cursor", begin, "-count", "2", "-kind", "flow_submitted,flow_failed")
		require.Equal(t, "flow_submitted", events[0]["kind"])
		require.Equal(t, "load", events[1]["node"])
		text := x.ok("describe", "import", "monday")
		require.Contains(t, text, "disk")
		require.NotContains(t, text, "\x1b", "what an activity says is no command to the terminal")
		text = x.ok("describe", "import", "monday", "-values", "100", "-attempts")
		require.Regexp(t, `load: attempt 1 by ".+" \(build .+\), `, text)
		require.Contains(t, text, "the run: input ")
		require.Contains(t, x.ok("describe", "import", "monday", "-node", "load"), "load: attempt 1 by ")
		require.NotEmpty(t, x.lines("describe", "import", "monday", "-values", "100")[0]["input"])
		require.Equal(t, "failed", x.lines("describe", "import", "monday")[0]["details"].([]any)[0].(map[string]any)["state"])

		require.NoError(t, worker.Stop())
		works = true
		b.Worker(t, []activity.Handler{act})
		x.ok("rerun", "import", "monday", "-by", "ann")
		_, err = run.Result(ctx)
		require.NoError(t, err)
		require.Contains(t, x.ok("describe", "import", "monday"), "run again 1 times")
		x.ok("purge", "import", "monday")
		require.Empty(t, x.lines("runs"))
		code, _, stderr = x.run("describe", "import", "monday")
		require.Equal(t, exitFailure, code)
		require.Contains(t, stderr, "no such run")
	})
}

func TestWaitsAndCancels(t *testing.T) {
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		x := terminal{t, b}
		f := flow.New[string, string]("approve")
		answer := flow.Waitpoint[string](f, "answer", activity.Signals("yes"), activity.Title("Go on?"), activity.Audience("board"))
		flow.Return(f, answer)
		def, err := f.Build()
		require.NoError(t, err)
		_, err = runtime.Start(ctx, b.Client, def, "in", runtime.WithID("-odd"))
		require.NoError(t, err)
		wait := x.lines("waits", "approve", "--", "-odd")
		require.Equal(t, "answer", wait[0]["node"])
		all := x.lines("waits", "-audience", "board")
		require.Len(t, all, 1)
		require.Equal(t, "Go on?", all[0]["title"])
		require.Equal(t, "approve", all[0]["flow"])
		require.Empty(t, x.lines("waits", "-audience", "ops"))
		require.Contains(t, x.ok("runs", "-limit", "1"), "running")
		x.ok("pause", "run", "approve", "--", "-odd")
		require.Contains(t, x.ok("runs"), "running, paused")
		require.NoError(t, b.Client.As("ann").PauseLane(ctx, "slow", "why not"))
		entries := x.lines("audit", "-actor", "ann")
		require.Len(t, entries, 1)
		require.Equal(t, "pause_lane", entries[0]["action"])
		require.Contains(t, x.ok("audit", "-action", "pause_lane", "-since", "1h"), "why not")
		x.ok("cancel", "-reason", "enough", "-by", "ann", "approve", "--", "-odd")
		require.Contains(t, x.ok("describe", "approve", "--", "-odd"), `cancelled by "ann": "enough"`)
	})
}

func TestCallsThatMakeNoSense(t *testing.T) {
	for _, args := range [][]string{
		{}, {"frobnicate"}, {"runs", "-nonsense"}, {"runs", "extra"}, {"runs", "-tag", "x"}, {"runs", "-state", "lost"}, {"describe", "one"},
		{"pause", "lane"}, {"rerun", "a", "b", "-all", "-from", "c"}, {"execution", "nonsense"}, {"-odd"}, {"runs", "-limit", "-1"}, {"counts", "-hours", "-1"},
		{"runs", "-since", "-1h"}, {"runs", "-since", "1h", "-finished", "1h"}, {"runs", "-tag", "UPPER=x"}, {"waits", "one"}, {"audit", "-limit", "-1"}, {"audit", "x"}, {"waits", "-limit", "-1"}, {"waits", "-flow", "a", "a", "b"}, {"cancel"}, {"purge", "a"},
		{"lanes", "x"}, {"workers", "x"}, {"drain"}, {"flows", "a", "b"}, {"flows", "-dot"}, {"flows", "a", "-dot", "-mermaid"}, {"pauses", "x"}, {"pause", "run", "x"}, {"resume"}, {"resume", "flow", "x"}, {"execution"}, {"execution", "{fp:0}:x"},
		{"executions", "x"}, {"executions", "-limit", "-1"}, {"executions", "-state", "lost"}, {"executions", "-index", "eligible"},
		{"executions", "-index", "nonsense", "-lane", "default"}, {"executions", "-flow-id", "x"}, {"executions", "-lane", "" + strings.Repeat("x", 1000)},
	} {
		var out, errs bytes.Buffer
		p := program{stdout: &out, stderr: &errs, open: func(context.Context, location) (*session, error) {
			t.Errorf("%v: the engine is opened", args)
			return nil, errUsage
		}}
		require.Equal(t, exitUsage, p.run(t.Context(), args), "%v", args)
		require.Contains(t, errs.String(), "flowfabric: ")
		if len(args) > 0 { // without a command there is help
			require.Empty(t, out.String(), "%v", args)
		}
	}
	p := program{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}, open: open}
	require.Equal(t, exitUsage, p.run(context.Background(), []string{"runs"}), "no engine is named")
	require.Equal(t, exitUsage, p.run(context.Background(), []string{"-url", "nonsense://", "runs"}))
	require.Zero(t, p.run(context.Background(), []string{"-help"}))
	require.Zero(t, p.run(context.Background(), []string{"runs", "-help"}))
	require.Equal(t, exitUsage, p.run(context.Background(), []string{"acl", "a b"}))
	require.Equal(t, exitUsage, p.run(context.Background(), []string{"-prefix", "*", "acl", "app"}))
	dir := t.TempDir()
	engine, err := runtime.Open(t.Context(), "embedded:"+dir, runtime.OpenConfig{Prefix: "x"})
	require.NoError(t, err)
	require.NoError(t, engine.Close())
	require.Zero(t, p.run(context.Background(), []string{"-url", "embedded:" + dir, "-prefix", "x", "-namespace", "n", "runs"}))
}

// A command creates no engine: without one it fails and does not change the directory.
func TestNoEngineIsMade(t *testing.T) {
	empty := t.TempDir()
	for _, dir := range []string{filepath.Join(empty, "missing"), empty, ""} {
		for _, args := range [][]string{{"runs"}, {"describe", "f", "r"}, {"pause", "lane", "x"}} {
			var out, errs bytes.Buffer
			p := program{stdout: &out, stderr: &errs, open: open}
			require.Equal(t, exitFailure, p.run(t.Context(), append([]string{"-url", "embedded:" + dir}, args...)), "%v", args)
			require.Contains(t, errs.String(), "engine in")
			require.Empty(t, out.String())
		}
	}
	left, err := os.ReadDir(empty)
	require.NoError(t, err)
	require.Empty(t, left)
}

// What fails prints no head of a table without rows.
func TestNoHeadBeforeAnError(t *testing.T) {
	b := enginetest.New(t, testserver.Embedded)
	x := terminal{t, b}
	require.Contains(t, x.ok("runs"), "FLOW", "an empty table has its head")
	require.NoError(t, b.Engine.Close())
	for _, args := range [][]string{{"runs"}, {"executions"}, {"lanes"}, {"pauses"}} {
		code, stdout, _ := x.run(args...)
		require.Equal(t, exitFailure, code, "%v", args)
		require.Empty(t, stdout, "%v", args)
	}
}
