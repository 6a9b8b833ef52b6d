package server_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func (r *remote) step(t *api.Task, name, result string) (*api.Step, error) {
	return r.client.RecordStep(r.ctx, t.Token, name, json.RawMessage(result))
}

func (r *remote) logs(t *api.Task, lines ...api.TaskLine) error {
	return r.client.AppendLogs(r.ctx, t.Token, lines)
}

func (r *remote) use(t *api.Task, key string, usage map[string]int64) (*api.ExceededBudget, error) {
	return r.client.ReportUsage(r.ctx, t.Token, usage, key)
}

func requireCode(t *testing.T, err error, code string) {
	t.Helper()
	var problem *api.Problem
	require.ErrorAs(t, err, &problem)
	require.Equal(t, code, problem.Code, problem.Detail)
}

// The lines of a worker over HTTP stay with the attempt, and are not in the log of the server.
func TestLogOfTask(t *testing.T) {
	onEngines(t, func(t *testing.T, r *remote) {
		run := r.start(1)
		task := r.claim()
		at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		require.NoError(t, r.logs(task,
			api.TaskLine{Message: "first", At: at, Attrs: json.RawMessage(`{"big":12345678901234567890,"deep":{"a":[1]}}`)},
			api.TaskLine{Level: "warn", Message: "second"}))
		require.NoError(t, r.complete(task, "2"))
		r.requireResult(run, 2)

		var lines []fabrictype.LogLine
		for line, err := range run.Logs(r.ctx, "only", runtime.LogQuery{}) {
			require.NoError(t, err)
			lines = append(lines, line)
		}
		require.Len(t, lines, 2)
		require.Equal(t, "first", lines[0].Message)
		require.True(t, at.Equal(lines[0].At))
		require.JSONEq(t, `{"big":12345678901234567890,"deep":{"a":[1]}}`, string(lines[0].Attrs))
		require.Equal(t, "WARN", lines[1].Level.String())

		requireCode(t, r.logs(task, api.TaskLine{Message: "late"}), "task_settled")
		second := r.start(2)
		task = r.claim()
		requireCode(t, r.logs(task, api.TaskLine{Message: "x", Attrs: json.RawMessage(`[1]`)}), "invalid")
		requireCode(t, r.logs(task, api.TaskLine{Level: "loud", Message: "x"}), "invalid")
		require.NoError(t, r.complete(task, "3"))
		r.requireResult(second, 3)
	})
}

// A recorded step has its first result, in this attempt and in later ones; one without the lease records nothing.
func TestStepsOfTask(t *testing.T) {
	onEngines(t, func(t *testing.T, r *remote) {
		run := r.start(1, activity.Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: 2}))
		task := r.claim()
		get := func(task *api.Task, name string) (*api.Step, error) {
			return r.client.GetStep(r.ctx, task.Token, name)
		}
		none, err := get(task, "charge")
		require.NoError(t, err)
		require.Equal(t, &api.Step{}, none)
		first, err := r.step(task, "charge", `{"id":12345678901234567890}`)
		require.NoError(t, err)
		require.False(t, first.Recorded)
		again, err := r.step(task, "charge", `{"id":2}`)
		require.NoError(t, err)
		require.True(t, again.Recorded)
		require.JSONEq(t, `{"id":12345678901234567890}`, string(again.Result))
		_, err = r.fail(task, api.FailTaskBody{Reason: "later"})
		require.NoError(t, err)
		_, err = r.step(task, "other", `1`)
		requireCode(t, err, "task_settled")

		second := r.claim()
		require.Equal(t, 2, second.Attempt)
		known, err := get(second, "charge")
		require.NoError(t, err)
		require.True(t, known.Recorded)
		require.Contains(t, string(known.Result), "12345678901234567890")
		unknown, err := get(second, "other")
		require.NoError(t, err)
		require.False(t, unknown.Recorded)
		_, err = r.step(second, "a name", `1`)
		requireCode(t, err, "invalid")
		_, err = r.step(second, "large", `"`+strings.Repeat("x", 1<<20)+`"`)
		requireCode(t, err, "too_large")
		_, err = r.as("two").client.GetStep(r.ctx, "unknown", "charge")
		requireCode(t, err, "lease_lost")
		require.NoError(t, r.complete(second, "2"))
		r.requireResult(run, 2)
	})
}

// A Go function finds the step that a worker over HTTP has recorded, under the same name.
func TestStepsOfTaskMatchFunctions(t *testing.T) {
	onEngines(t, func(t *testing.T, r *remote) {
		run := r.start(1, activity.Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: 2}))
		task := r.claim()
		_, err := r.step(task, "charge", `7`)
		require.NoError(t, err)
		_, err = r.fail(task, api.FailTaskBody{Reason: "later"})
		require.NoError(t, err)
		r.b.Worker(t, []activity.Handler{activity.New("work", func(ctx context.Context, n int) (int, error) {
			return activity.Step(ctx, "charge", func(context.Context) (int, error) { return 0, nil })
		})})
		r.requireResult(run, 7)
	})
}

// The usage of a worker over HTTP counts in the budgets of the run: once for a key, and up to a hard limit.
func TestUsageOfTask(t *testing.T) {
	onEngines(t, func(t *testing.T, r *remote) {
		f := flow.New[int, int]("paid", flow.Budget("money", flow.BudgetConfig{Hard: map[string]int64{"cents": 10}}))
		flow.Return(f, flow.Node(f, "only", activity.Declare[int, int]("work"), f.Input()))
		def, err := f.Build()
		require.NoError(t, err)
		run, err := runtime.Start(r.ctx, r.b.Client, def, 1)
		require.NoError(t, err)
		task := r.claim()
		for range 2 {
			fits, err := r.use(task, "call-1", map[string]int64{"cents": 4})
			require.NoError(t, err)
			require.Nil(t, fits)
		}
		over, err := r.use(task, "call-2", map[string]int64{"cents": 7})
		require.NoError(t, err)
		require.Equal(t, &api.ExceededBudget{Budget: "money", Dimension: "cents", Asked: 7, Spent: 4, Hard: 10}, over)
		_, err = r.use(task, "", map[string]int64{"euros": 1})
		requireCode(t, err, "invalid")
		_, err = r.use(task, "", map[string]int64{"cents": -1})
		requireCode(t, err, "invalid")
		_, err = r.use(task, "", nil)
		requireCode(t, err, "invalid")
		require.NoError(t, r.complete(task, "2"))
		_, err = run.Result(enginetest.Context(t))
		require.NoError(t, err)
		_, err = r.use(task, "call-3", map[string]int64{"cents": 1})
		requireCode(t, err, "task_settled")
	})
}
