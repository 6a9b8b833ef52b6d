package command

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/serverstore"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func TestOperatorRepairsFailedRun(t *testing.T) {
	eachWay(t, func(t *testing.T, x terminal) {
		ctx, b := enginetest.Context(t), x.b
		works := false
		act := activity.New("load", func(ctx context.Context, _ string) (string, error) {
			activity.Logger(ctx).Info("loading", "works", works)
			if !works {
				return "", activity.NonRetryable(errors.New("disk\x1b[31m full"))
			}
			return "ok", nil
		})
		f := flow.New[string, string]("import", flow.Tag("team.name", "census"))
		flow.Return(f, flow.Node(f, "store", act, flow.Node(f, "load", act, f.Input())))
		def, err := f.Build()
		require.NoError(t, err)

		x.ok("lane", "pause", "default", "--reason", "release")
		require.Contains(t, x.ok("lane", "pauses"), "release")
		feed, err := b.Client.Feed(ctx, runtime.FeedFilter{}, "")
		require.NoError(t, err)
		begin := feed.Cursor()
		feed.Close()
		run, err := runtime.Start(ctx, b.Client, def, "in", runtime.WithID("monday"), runtime.WithTag("customer.id", "7"))
		require.NoError(t, err)
		b.Keeper(t)
		lane := x.lines("lane", "list")[0]
		require.Equal(t, "default", lane["name"])
		require.NotEmpty(t, lane["paused_at"])
		require.Contains(t, x.ok("run", "list", "--why"), "release")
		require.Contains(t, x.ok("lane", "list"), "release")
		require.Contains(t, x.ok("lane", "show", "default"), "release")
		require.Len(t, x.lines("execution", "list", "--lane", "default"), 2)
		execution := x.lines("execution", "list", "--state", "waiting_children")[0]
		require.Equal(t, "load", execution["kind"])
		require.Contains(t, x.ok("execution", "show", execution["id"].(string)), "blocked_by_dependencies")
		require.Contains(t, x.fails(shell.ExitFound, "flow", "check", "--open"), "problems: 2")
		require.Equal(t, "activity_missing", func() any {
			_, stdout, _ := x.run("flow", "check", "--open", "--columns", "code", "--no-headers")
			return strings.Fields(stdout)[0]
		}())
		worker := b.Worker(t, []activity.Handler{act})
		enginetest.Eventually(t, func() string {
			if len(x.lines("worker", "list", "--activity", "load")) != 1 {
				return "the worker has not reported"
			}
			return ""
		})
		require.Empty(t, x.lines("worker", "list", "--lane", "other"))
		x.ok("flow", "check", "--open")
		require.Empty(t, x.lines("flow", "list"))
		require.NoError(t, b.Client.Publish(ctx, runtime.Publication{Flow: def, By: "ann"}))
		require.Contains(t, x.ok("flow", "list"), "ann")
		require.Equal(t, "import", x.lines("flow", "list")[0]["name"])
		require.Contains(t, x.ok("flow", "show", "import"), "load")
		require.Contains(t, x.ok("flow", "show", "import", "--graph", "mermaid"), "flowchart")
		require.Contains(t, x.ok("flow", "show", "import", "--graph", "svg"), "</svg>")
		require.Len(t, x.lines("flow", "show", "import")[0]["history"], 1)
		x.ok("flow", "check", "import")
		require.Contains(t, x.ok("worker", "list"), "running")
		require.Contains(t, x.fails(shell.ExitNotFound, "worker", "drain", "nobody", "--yes"), "drain worker nobody: there is no live worker of this instance\n")

		x.ok("lane", "resume", "default")
		require.Contains(t, x.fails(shell.ExitRunFailed, "run", "wait", "import/monday"), "at node load")
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, runtime.ErrRunFailed)
		found := x.lines("run", "list", "--state", "failed", "--tag", "customer.id=7", "--tag", "team.name=census", "--since", "1h")
		require.Len(t, found, 1)
		require.Equal(t, "monday", found[0]["run"])
		require.Equal(t, "load", found[0]["failed_node"])
		require.Equal(t, "import/monday\n", x.ok("run", "list", "-o", "name"))
		require.Empty(t, x.lines("run", "list", "--state", "running"))
		require.Empty(t, x.lines("run", "list", "--key", "none"))
		require.Empty(t, x.lines("run", "list", "--queued"))
		require.Equal(t, []map[string]any{{"flow": "import", "state": "failed", "runs": 1.0}}, x.lines("run", "count", "--flow", "import"))
		require.Len(t, x.lines("run", "count", "--hours", "2"), 1)
		events := x.lines("feed", "--cursor", begin, "--count", "2", "--kind", "flow_submitted,flow_failed")
		require.Equal(t, "flow_submitted", events[0]["kind"])
		require.Equal(t, "load", events[1]["node"])
		text := x.ok("run", "show", "import", "monday")
		require.Contains(t, text, "disk")
		require.NotContains(t, text, "\x1b", "an activity's text does not control the terminal")
		text = x.ok("run", "show", "import", "monday", "--values", "100", "--attempts")
		require.Regexp(t, `load: attempt 1 by ".+" \(build .+\), `, text)
		require.Contains(t, text, "the run: input ")
		require.Contains(t, x.ok("run", "show", "import", "monday", "--node", "load"), "load: attempt 1 by ")
		require.Contains(t, x.ok("run", "logs", "import/monday", "load"), "loading")
		require.Contains(t, x.ok("attempts", "import/monday"), "disk")
		require.Contains(t, x.ok("values", "import/monday"), `"in"`)
		require.Contains(t, x.ok("run", "why", "import/monday", "load"), "disk")
		require.NotEmpty(t, x.lines("run", "show", "import", "monday", "--values", "100")[0]["input"])
		require.Equal(t, "failed", x.lines("run", "show", "import", "monday")[0]["nodes"].([]any)[0].(map[string]any)["state"])

		require.NoError(t, worker.Stop())
		works = true
		b.Worker(t, []activity.Handler{act})
		begun, err := run.Describe(ctx)
		require.NoError(t, err)
		tomorrow := x
		tomorrow.now = func() time.Time { return begun.CreatedAt.Add(24 * time.Hour) }
		for _, words := range []string{"failed yesterday 7", "failed yesterday run:mon", "mond"} {
			require.Equal(t, "import/monday\n", tomorrow.ok("run", "list", "--search", words, "-o", "name"), words)
		}
		require.Empty(t, x.lines("run", "list", "--search", "failed 7 yesterday"))
		x.ok("run", "rerun", "import/monday")
		require.Equal(t, "succeeded\n", x.ok("run", "wait", "import", "monday"))
		require.Equal(t, "\"ok\"\n", x.ok("run", "result", "import", "monday"))
		require.Contains(t, x.ok("run", "show", "import", "monday"), "run again 1 time,")
		require.Contains(t, x.ok("run", "watch", "import", "monday"), "run succeeded")
		require.Contains(t, x.fails(shell.ExitUsage, "run", "purge", "import", "monday"), "--yes")
		require.Contains(t, x.ok("run", "purge", "import", "monday", "--dry-run"), "would purge run monday")
		require.Len(t, x.lines("run", "list"), 1)
		x.ok("run", "purge", "import", "monday", "-y")
		require.Empty(t, x.lines("run", "list"))
		require.Contains(t, x.fails(shell.ExitNotFound, "run", "show", "import", "monday"), "no such run")
		x.fails(shell.ExitNotFound, "run", "purge", "import", "monday", "--dry-run")
	})
}

func TestWaitsAndCancels(t *testing.T) {
	eachWay(t, func(t *testing.T, x terminal) {
		ctx, b := enginetest.Context(t), x.b
		f := flow.New[string, string]("approve")
		answer := flow.Waitpoint[string](f, "answer", activity.Signals("yes"), activity.Title("Go on?"), activity.Audience("board"))
		flow.Return(f, answer)
		def, err := f.Build()
		require.NoError(t, err)
		for _, id := range []string{"-odd", "b", "c"} {
			_, err = runtime.Start(ctx, b.Client, def, "in", runtime.WithID(id))
			require.NoError(t, err)
		}
		wait := x.lines("inbox", "approve", "--", "-odd")
		require.Equal(t, "answer", wait[0]["node"])
		all := x.lines("inbox", "--audience", "board")
		require.Len(t, all, 3)
		require.Equal(t, "Go on?", all[0]["title"])
		require.Equal(t, "approve", all[0]["flow"])
		_, stdout, stderr := x.run("inbox", "--limit", "2", "-o", "name")
		require.Equal(t, 2, strings.Count(stdout, "\n"))
		require.Contains(t, stderr, "There are more", "a cut list is reported in every format, on the error output")
		require.Empty(t, x.lines("inbox", "--audience", "ops"))
		require.Contains(t, x.ok("run", "list", "--limit", "1"), "running")
		x.ok("run", "pause", "approve", "--", "-odd")
		require.Contains(t, x.ok("run", "list"), "running, paused")
		require.NoError(t, b.Client.As("ann").Lane("slow").Pause(ctx, "why not"))
		entries := x.lines("audit", "--by", "ann")
		require.Len(t, entries, 1)
		require.Equal(t, "pause_lane", entries[0]["action"])
		require.Contains(t, x.ok("audit", "--action", "pause_lane", "--since", "1h"), "why not")
		x.ok("run", "cancel", "--reason", "enough", "--yes", "approve", "--", "-odd")
		require.Regexp(t, `cancelled by ".+": "enough"`, x.ok("run", "show", "approve", "--", "-odd"))

		require.Contains(t, x.fails(shell.ExitRunFailed, "signal", "no", "approve", "b", "answer", "--payload", `"x"`),
			`the wait takes no signal of that name; the names that count: yes`)
		require.Equal(t, "no", x.lines("wait", "signals", "approve", "b", x.lines("inbox", "approve", "b")[0]["id"].(string))[0]["name"])
		require.Equal(t, "resumed\n", x.ok("answer", "approve", "b", "--payload", `"done"`))
		require.Contains(t, x.fails(shell.ExitNotFound, "answer", "approve", "b", "--payload", `"done"`), "run b of flow approve has no open wait\n")
		require.Contains(t, x.fails(shell.ExitNotFound, "answer", "approve", "b", "answer", "--payload", `"done"`), `no open wait at node "answer"`)
		id := x.lines("inbox", "approve", "c")[0]["id"].(string)
		x.ok("wait", "cancel", "approve", "c", id, "--dry-run")
		x.ok("wait", "cancel", "approve", "c", "answer", "--dry-run")
		require.Empty(t, x.lines("wait", "signals", "approve", "c", "answer"))
		require.Len(t, x.lines("wait", "signals", "approve", "b", "answer"), 2, "a closed wait")
		x.fails(shell.ExitNotFound, "wait", "resume", "approve", "c", "nothing", "--payload", "1")
		x.ok("wait", "resume", "approve", "c", "answer", "--payload", `"by hand"`)
		require.Empty(t, x.lines("inbox"))
	})
}

// For a wait that takes several signals, a flag names the signal, and an answer with a key can be repeated.
func TestAnswer(t *testing.T) {
	eachWay(t, func(t *testing.T, x terminal) {
		ctx := enginetest.Context(t)
		f := flow.New[string, map[string]any]("release")
		flow.Return(f, flow.Waitpoint[map[string]any](f, "gate", activity.Signals("approve", "reject")))
		def, err := f.Build()
		require.NoError(t, err)
		for _, id := range []string{"a", "b"} {
			_, err = runtime.Start(ctx, x.b.Client, def, "in", runtime.WithID(id))
			require.NoError(t, err)
		}
		require.Contains(t, x.fails(shell.ExitUsage, "answer", "release/a", "--payload", "{}"), "--signal: approve, reject")
		for _, want := range []string{"resumed\n", "duplicate\n"} {
			require.Equal(t, want, x.ok("answer", "release/a", "gate", "--approve", "--idempotency-key", "k"))
		}
		require.Equal(t, "duplicate\n", x.ok("answer", "release/a", "gate", "--signal", "approve", "--idempotency-key", "k"))
		require.Equal(t, "closed\n", x.ok("answer", "release/a", "--reject", "--idempotency-key", "other"))
		require.Equal(t, "resumed\n", x.ok("answer", "release/b", "--reject"))
		run, err := x.b.Client.Run("release", "b").Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, fabrictype.RunSucceeded, run.State)
		way := map[bool]string{false: ", by a client of the engine", true: ", through the server"}[x.where.IsServer()]
		entries := x.lines("audit", "--name", "release/a/gate")
		require.Equal(t, "approve"+way, entries[len(entries)-1]["detail"])
		require.Equal(t, "reject"+way, entries[0]["detail"])
		require.Equal(t, "nothing was recorded: the answer is closed", entries[0]["failure"])
		require.Equal(t, "closed\n", x.ok("signal", "approve", "release", "b", "gate"))
		entries = x.lines("audit", "--name", "release/b/gate")
		require.Equal(t, "approve"+way, entries[0]["detail"], "a signal by name")
	})
}

// Tables show the first elements; output for programs is complete unless they set a limit.
func TestListsCutOnlyTables(t *testing.T) {
	t.Parallel()
	x := onEngine(t, embeddedBench(t))
	ctx := enginetest.Context(t)
	f := flow.New[string, string]("ask")
	flow.Return(f, flow.Waitpoint[string](f, "gate"))
	def, err := f.Build()
	require.NoError(t, err)
	const runs = 60
	for range runs {
		_, err := runtime.Start(ctx, x.b.Client, def, "in")
		require.NoError(t, err)
	}
	for _, args := range [][]string{{"run", "list"}, {"inbox"}, {"execution", "list"}} {
		for _, format := range []string{"name", "jsonl"} {
			_, stdout, stderr := x.run(append(args, "-o", format)...)
			require.Equal(t, runs, strings.Count(stdout, "\n"), "%v", args)
			require.Empty(t, stderr, "%v", args)
		}
		_, stdout, stderr := x.run(append(args, "--no-headers")...)
		require.Equal(t, 50, strings.Count(stdout, "\n"), "%v", args)
		require.Contains(t, stderr, "There are more", "%v", args)
		require.Equal(t, runs, strings.Count(x.ok(append(args, "--no-headers", "--limit", "0")...), "\n"), "%v", args)
	}
}

func TestTimersAndTurns(t *testing.T) {
	eachWay(t, func(t *testing.T, x terminal) {
		ctx, b := enginetest.Context(t), x.b
		add := activity.New("add", func(_ context.Context, n int) (int, error) { return n + 1, nil })
		inner := flow.New[int, int]("count")
		flow.Return(inner, flow.Node(inner, "add", add, inner.Input()))
		body, err := inner.Build()
		require.NoError(t, err)
		until := activity.New("three", func(_ context.Context, n int) (bool, error) { return n >= 3, nil })
		f := flow.New[int, int]("patient")
		nap := flow.Sleep(f, "nap", time.Hour)
		flow.Return(f, flow.Loop(f, "loop", body, until, f.Input(), 5, flow.After(nap)))
		def, err := f.Build()
		require.NoError(t, err)
		b.Keeper(t)
		b.Worker(t, def.Handlers())
		_, err = runtime.Start(ctx, b.Client, def, 0, runtime.WithID("r"))
		require.NoError(t, err)
		require.Contains(t, x.ok("run", "show", "patient", "r"), "sleeps until ")
		require.Empty(t, x.lines("inbox"))
		require.Contains(t, x.ok("timer", "patient", "r", "nap", "--to", "2030-01-02T03:04:05Z"), "moved to")
		require.Contains(t, x.ok("run", "show", "patient", "r"), "2030-01-02")
		x.ok("timer", "patient", "r", "nap", "--in", "2h")
		x.ok("timer", "--skip", "patient", "r", "nap")
		x.ok("run", "wait", "patient", "r")
		turns := x.lines("run", "turns", "patient", "r", "loop")
		require.Len(t, turns, 3)
		require.Equal(t, "patient/r/loop#2", turns[1]["run"])
		require.Contains(t, x.ok("run", "turns", "patient", "r", "loop"), "succeeded")
		require.Len(t, x.lines("audit", "--action", "move_timer"), 2)
		require.Len(t, x.lines("audit", "--action", "skip_timer"), 1)
		require.Contains(t, x.fails(shell.ExitFailed, "timer", "patient", "r", "nap", "--skip"), "the node does not sleep")
		b.Settle(t)
	})
}

func TestBulk(t *testing.T) {
	eachWay(t, func(t *testing.T, x terminal) {
		ctx, b := enginetest.Context(t), x.b
		f := flow.New[string, string]("import")
		flow.Return(f, flow.Waitpoint[string](f, "gate"))
		def, err := f.Build()
		require.NoError(t, err)
		for _, id := range []string{"monday", "tuesday"} {
			_, err := runtime.Start(ctx, b.Client, def, "in", runtime.WithID(id))
			require.NoError(t, err)
		}
		preview := x.lines("bulk", "preview", "cancel", "--flow", "import")[0]
		require.Equal(t, 2.0, preview["runs"])
		require.Len(t, preview["sample"], 2)
		require.Contains(t, x.ok("bulk", "start", "cancel", "--flow", "import", "--dry-run"), "2 runs")
		require.Contains(t, x.fails(shell.ExitUsage, "bulk", "start", "cancel", "--flow", "import"), "--yes")
		for range 2 {
			x.ok("bulk", "start", "cancel", "--flow", "import", "--id", "clean", "--reason", "enough", "-y")
		}
		require.Equal(t, "running", x.lines("bulk", "show", "clean")[0]["state"])
		_, err = b.RunKeeperTask(ctx, "bulk_job")
		require.NoError(t, err)
		job := x.lines("bulk", "list")[0]
		require.Equal(t, "completed", job["state"])
		require.Equal(t, 2.0, job["progress"].(map[string]any)["done"])
		require.Equal(t, "flow=import", job["query"])
		require.Equal(t, "completed before, nothing was stopped\n", x.ok("bulk", "stop", "clean"))
		require.Equal(t, "cancel of runs with flow=import, reason \"enough\"", x.lines("audit", "--name", "clean", "--action", "start_bulk_job")[0]["detail"])
		x.ok("bulk", "start", "rerun", "--from", "nobody", "--every-run", "--id", "wrong", "-y")
		_, err = b.RunKeeperTask(ctx, "bulk_job")
		require.NoError(t, err)
		require.Contains(t, x.ok("bulk", "show", "wrong"), "no such node")
		x.ok("bulk", "stop", "wrong")
		x.ok("bulk", "start", "priority", "--priority", "3", "--rate", "1", "--most", "5", "--state", "running", "--id", "p", "-y")
		x.ok("bulk", "stop", "p")
		require.Contains(t, x.ok("bulk", "list"), "priority 3")
		x.fails(shell.ExitNotFound, "bulk", "show", "nobody")
		require.Contains(t, x.fails(shell.ExitUsage, "bulk", "start", "priority", "--priority", "-1", "--flow", "x", "-y"), "must be 0 to")
	})
}

func TestSchedules(t *testing.T) {
	eachWay(t, func(t *testing.T, x terminal) {
		ctx := enginetest.Context(t)
		f := flow.New[string, string]("report")
		act := activity.New("make", func(_ context.Context, s string) (string, error) { return s, nil })
		flow.Return(f, flow.Node(f, "make", act, f.Input()))
		def, err := f.Build()
		require.NoError(t, err)
		require.Contains(t, x.fails(shell.ExitNotFound, "schedule", "create", "nightly", "report", "--every", "1h", "--input", `"a"`), `the flow is not published`)
		require.NoError(t, x.b.Client.Publish(ctx, runtime.Publication{Flow: def}))
		require.Contains(t, x.fails(shell.ExitUsage, "schedule", "create", "nightly", "report", "--every", "1h", "--input", "7"), "string")
		require.Contains(t, x.ok("schedule", "create", "nightly", "report", "--cron", "0 3 * * *", "--time-zone", "Europe/Berlin", "--input", `"a"`), "0 3 * * * Europe/Berlin")
		require.Equal(t, 3, strings.Count(x.ok("schedule", "next", "nightly", "--count", "3", "-o", "name"), "\n"))
		require.Contains(t, x.ok("schedule", "edit", "nightly", "--every", "1h", "--overlap", "queue"), "every 1h0m0s, overlap queue")
		x.ok("schedule", "pause", "nightly", "--reason", "release")
		require.Contains(t, x.ok("schedule", "list"), "release")
		x.ok("schedule", "resume", "nightly")
		require.Equal(t, "2 times\n", x.ok("schedule", "backfill", "nightly", "--from", "2026-01-01T00:30:00Z", "--until", "2026-01-01T02:30:00Z"))
		require.Equal(t, "1 time\n", x.ok("schedule", "backfill", "nightly", "--from", "2026-01-01T02:30:00Z", "--until", "2026-01-01T03:30:00Z"))
		future := x.fails(shell.ExitUsage, "schedule", "backfill", "nightly", "--from", "2026-01-01T00:30:00Z", "--until", "2126-01-01T03:30:00Z")
		require.Contains(t, future, "must have passed")
		require.NotContains(t, future, "no time in the interval")
		x.b.Keeper(t)
		x.b.Worker(t, []activity.Handler{act})
		id := strings.TrimSpace(x.ok("schedule", "trigger", "nightly"))
		require.Equal(t, "\"a\"\n", x.ok("run", "result", "report", id, "--wait"))
		x.ok("schedule", "show", "nightly")
		x.ok("schedule", "delete", "nightly", "--dry-run")
		x.ok("schedule", "delete", "nightly", "--yes")
		x.fails(shell.ExitNotFound, "schedule", "show", "nightly")
	})
}

func TestLimitsAndBudgets(t *testing.T) {
	eachWay(t, func(t *testing.T, x terminal) {
		require.Contains(t, x.ok("limit", "set", "crm", "--at-most", "10", "--per", "1s", "--at-once", "3"), "10 per 1s")
		require.Equal(t, "crm", x.lines("limit", "list")[0]["name"])
		require.Equal(t, 3.0, x.lines("limit", "show", "crm")[0]["at_once"])
		x.ok("limit", "set", "crm", "--at-once", "4")
		require.Contains(t, x.ok("limit", "show", "crm"), "10 per 1s", "settings that are not given stay")
		x.ok("limit", "set", "crm", "--at-most", "0")
		require.NotContains(t, x.ok("limit", "show", "crm"), "10 per")
		require.Contains(t, x.fails(shell.ExitUsage, "limit", "set", "crm", "--at-once", "0"), "limit reset")
		declared := activity.New("declared", func(context.Context, int) (int, error) { return 0, nil },
			activity.Limit("storm", activity.LimitConfig{AtMost: 5, Per: time.Minute, AtOnce: 2}))
		f := flow.New[int, int]("storms")
		flow.Return(f, flow.Node(f, "one", declared, f.Input()))
		def, err := f.Build()
		require.NoError(t, err)
		require.NoError(t, x.b.Client.Publish(enginetest.Context(t), runtime.Publication{Flow: def}))
		require.Contains(t, x.ok("limit", "list"), "storm", "a limit that a published flow declares")
		require.Contains(t, x.ok("limit", "set", "storm", "--at-once", "9"), "5 per 1m0s", "the declared part stays")
		require.Equal(t, 9.0, x.lines("limit", "show", "storm")[0]["at_once"])
		x.ok("limit", "reset", "crm")
		x.fails(shell.ExitNotFound, "limit", "reset", "nothing")
		x.fails(shell.ExitNotFound, "budget", "delete", "nothing", "--yes")
		x.fails(shell.ExitNotFound, "budget", "show", "llm")
		x.fails(shell.ExitNotFound, "budget", "set", "llm", "--effect", "block")
		x.ok("activity", "pause", "mail", "--reason", "quiet")
		require.Equal(t, "activity mail\n", x.ok("lane", "pauses", "-o", "name"))
		x.ok("activity", "resume", "mail")
		x.ok("secret", "rotate", "--grace", "1h")
		require.Contains(t, x.ok("keeper", "tasks"), "index_reconciliation")
		require.Contains(t, x.ok("keeper", "run", "index_reconciliation"), "done")
		require.NotContains(t, x.ok("keeper", "run", "retention"), "null")
		x.fails(shell.ExitNotFound, "keeper", "run", "nonsense")
	})
}

// Settings of a budget that are not given remain as they are, also settings that a flow has declared.
func TestBudgetSetKeepsOtherSettings(t *testing.T) {
	eachWay(t, func(t *testing.T, x terminal) {
		ctx := enginetest.Context(t)
		tenant := fabrictype.BudgetName{Name: "tenant", Key: "t9"}
		f := flow.New[map[string]string, map[string]string]("ask", flow.Budget("tenant", flow.BudgetConfig{Hard: map[string]int64{"tokens": 20}, Counted: []string{"calls"}, PerKey: []string{"tenant"}, ResetEvery: time.Hour, OnExceeded: flow.BlockNodes}))
		flow.Return(f, flow.Waitpoint[map[string]string](f, "gate"))
		def, err := f.Build()
		require.NoError(t, err)
		require.NoError(t, x.b.Client.Budget(tenant).Create(ctx, flow.BudgetConfig{Hard: map[string]int64{"tokens": 20}, Counted: []string{"calls"}, ResetEvery: time.Hour, OnExceeded: flow.BlockNodes}))
		_, err = runtime.Start(ctx, x.b.Client, def, map[string]string{"tenant": "t9"})
		require.NoError(t, err)

		x.ok("budget", "set", "tenant", "--key", "t9", "--hard", "tokens=12")
		b, err := x.b.Client.Budget(tenant).Describe(ctx)
		require.NoError(t, err)
		require.EqualValues(t, flow.BlockNodes, b.Effect)
		require.Equal(t, time.Hour, b.ResetEvery.Duration)
		require.EqualValues(t, 12, b.Amount("tokens").Hard)
		require.Len(t, b.Amounts, 2, "a dimension that is counted only stays")
		require.Contains(t, x.ok("budget", "list"), "block")

		x.ok("budget", "set", "tenant", "--key", "t9", "--soft", "tokens=10", "--hard", "tokens=0", "--reset-every", "0")
		x.ok("budget", "set", "tenant", "--key", "t9", "--effect", "cancel")
		b, err = x.b.Client.Budget(tenant).Describe(ctx)
		require.NoError(t, err)
		require.EqualValues(t, flow.BudgetEffect("cancel"), b.Effect)
		require.Zero(t, b.ResetEvery)
		require.Zero(t, b.Amount("tokens").Hard)
		require.EqualValues(t, 10, b.Amount("tokens").Soft)
		require.Len(t, b.Amounts, 2)

		_, _, stderr := x.run("budget", "set", "new", "--hard", "usd=1")
		require.Contains(t, stderr, "The budget did not exist")
		require.Contains(t, x.fails(shell.ExitUsage, "budget", "set", "new", "--effect", "explode"), "none of fail, block and cancel")
	})
}

func TestForkDiffExport(t *testing.T) {
	eachWay(t, func(t *testing.T, x terminal) {
		ctx := enginetest.Context(t)
		act := activity.New("double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
		f := flow.New[int, int]("twice")
		flow.Return(f, flow.Node(f, "second", act, flow.Node(f, "first", act, f.Input())))
		def, err := f.Build()
		require.NoError(t, err)
		require.NoError(t, x.b.Client.Publish(ctx, runtime.Publication{Flow: def}))
		x.b.Keeper(t)
		x.b.Worker(t, []activity.Handler{act})
		require.Equal(t, "12\n", x.ok("start", "twice", "--id", "a", "--input", "3", "--wait"))
		require.Equal(t, "a\n", x.ok("start", "twice", "--id", "a", "--input", "3"), "the same again is the same run")
		require.Contains(t, x.fails(shell.ExitFailed, "start", "twice", "--id", "a", "--input", "4"), "run")
		require.Contains(t, x.fails(shell.ExitUsage, "start", "twice", "--input", `"x"`), "integer")
		require.Equal(t, "b\n", x.ok("run", "fork", "twice", "a", "--id", "b", "--result", "first=5"))
		require.Equal(t, "10\n", x.ok("run", "result", "twice/b", "--wait"))
		require.Contains(t, x.ok("run", "diff", "twice", "a", "b"), "the results differ")
		diff := x.lines("run", "diff", "twice/a", "b")[0]
		require.Equal(t, true, diff["result_differs"])
		require.Equal(t, false, x.lines("run", "diff", "twice", "a", "a")[0]["result_differs"])
		require.NotEmpty(t, x.lines("run", "graph", "twice", "a", "--graph", "layout")[0]["states"])
		require.NotEmpty(t, x.lines("flow", "show", "twice", "--graph", "layout")[0]["nodes"])
		require.Contains(t, x.ok("run", "show", "twice", "b"), `fork of run "a"`)
		require.Contains(t, x.ok("run", "export", "twice", "a"), `"flow":"twice"`)
		require.Contains(t, x.ok("run", "graph", "twice", "a", "--graph", "dot"), "digraph")
		x.fails(shell.ExitNotFound, "run", "diff", "twice", "a", "nobody")
		require.Empty(t, x.lines("flow", "diff", "twice", "twice"))
		x.ok("flow", "withdraw", "twice", "--yes")
		x.fails(shell.ExitNotFound, "flow", "show", "twice")
		x.ok("start", "--help")
	})
}

func TestTokens(t *testing.T) {
	eachWay(t, func(t *testing.T, x terminal) {
		text := strings.TrimSpace(x.ok("token", "create", "ann", "--role", "operator", "--flows", "billing-*"))
		require.True(t, strings.HasPrefix(text, "ffk_"), text)
		list := x.lines("token", "list")
		require.Len(t, list, 1)
		require.Equal(t, "ann", list[0]["name"])
		require.NotContains(t, x.ok("token", "list", "-o", "json"), text)
		x.fails(shell.ExitFailed, "token", "create", "ann")
		x.fails(shell.ExitUsage, "token", "create", "bob", "--role", "king")
		x.ok("token", "delete", "ann", "--yes")
		require.Empty(t, x.lines("token", "list"))
		x.fails(shell.ExitNotFound, "token", "delete", "ann", "--dry-run")
	})
}

func TestSessions(t *testing.T) {
	eachWay(t, func(t *testing.T, x terminal) {
		require.Empty(t, x.lines("session", "list"))
		store := serverstore.New(x.b.Engine.Internal(), "default")
		for _, name := range []string{"ann", "bob"} {
			s := serverstore.Session{
				Login: "oidc", Principal: name, CreatedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour),
			}
			s.ID = s.NewID()
			require.NoError(t, store.AddSession(enginetest.Context(t), s))
		}
		require.Len(t, x.lines("session", "list"), 2)
		list := x.lines("session", "list", "--principal", "ann")
		require.Len(t, list, 1)
		id := list[0]["id"].(string)
		x.ok("session", "delete", id, "--dry-run")
		x.ok("session", "delete", id, "--yes")
		require.Len(t, x.lines("session", "list"), 1)
		x.fails(shell.ExitNotFound, "session", "delete", id, "--dry-run")
		require.Len(t, x.lines("audit", "--action", "delete_session", "--name", "ann"), 1)
	})
}
