package server_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Each operation of administrators that changes something leaves an entry in the audit log, with actor, action and
// object.
func TestAdministrationIsAudited(t *testing.T) {
	t.Parallel()
	p := newPlace(t, withProxy)
	ctx := enginetest.Context(t)
	as := []string{userHeader, "all"}
	p.do("PUT", "/budgets/money", map[string]any{"hard": map[string]int{"calls": 3}}, nil, as...)
	_, err := runtime.Schedule(ctx, p.client, "hourly", orders(t), order{"book", 1}, runtime.ScheduleConfig{Every: time.Hour})
	require.NoError(t, err)
	run, err := runtime.Start(ctx, p.client, orders(t), order{"book", 1}, runtime.WithID("over"))
	require.NoError(t, err)
	_, err = run.Result(ctx)
	require.NoError(t, err)

	calls := []struct {
		operation, path string
		body            any
		action, name    string
	}{
		{"create-token", "/tokens", map[string]any{"name": "ci", "role": "viewer"}, "create_token", "ci"},
		{"delete-token", "/tokens/ci", nil, "delete_token", "ci"},
		{"delete-session", "/sessions/" + p.session("ann", time.Hour), nil, "delete_session", "ann"},
		{"rotate-secrets", "/secrets/rotate", map[string]any{}, "rotate_secrets", ""},
		{"delete-budget", "/budgets/money", nil, "delete_budget", "money"},
		{"delete-schedule", "/schedules/hourly", nil, "delete_schedule", "hourly"},
		{"purge-run", "/runs/order/over", nil, "purge_run", "order/over"},
		{"run-keeper-task", "/keeper-tasks/" + p.keeperTask() + "/run", nil, "run_keeper_task", p.keeperTask()},
		{
			"start-bulk-job", "/bulk", map[string]any{"id": "job", "query": "flow=order", "action": map[string]any{"kind": "cancel"}},
			"start_bulk_job", "job",
		},
		{"withdraw-flow", "/flows/order", nil, "withdraw_flow", "order"},
	}
	tested := map[string]bool{}
	for _, call := range calls {
		op, found := httpapi.Find(call.operation)
		require.True(t, found, call.operation)
		tested[op.Name] = true
		var created api.CreatedToken
		out := any(nil)
		if call.operation == "create-token" {
			out = &created
		}
		reply := p.do(op.Method, call.path, call.body, out, as...)
		require.Less(t, reply.StatusCode, http.StatusBadRequest, call.operation)
		var page fabrictype.Page[fabrictype.AuditEntry]
		p.do("GET", "/audit?limit=1&action="+call.action, nil, &page, as...)
		require.Len(t, page.Items, 1, call.operation)
		entry := page.Items[0]
		require.Equal(t, "all", entry.Actor, call.operation)
		require.Empty(t, entry.Failure, call.operation)
		if call.name != "" {
			require.Equal(t, call.name, entry.Name, call.operation)
		}
		if created.Text != "" {
			require.NotContains(t, entry.Detail, created.Text)
			require.Equal(t, "role viewer", entry.Detail)
		}
	}
	for _, op := range httpapi.Operations() {
		if op.Right == api.Administer && op.Effect != httpapi.Reads {
			require.True(t, tested[op.Name], "%s is not tested", op.Name)
		}
	}

	// Failed operations are recorded, too.
	reply := p.do("DELETE", "/tokens/nobody", nil, nil, as...)
	require.Equal(t, http.StatusNotFound, reply.StatusCode)
	var page fabrictype.Page[fabrictype.AuditEntry]
	p.do("GET", "/audit?limit=1&action=delete_token", nil, &page, as...)
	require.Contains(t, page.Items[0].Failure, "nobody")
}

// keeperTask is the name of a task of keepers.
func (p *place) keeperTask() string {
	p.t.Helper()
	var page fabrictype.Page[api.KeeperTask]
	p.do("GET", "/keeper-tasks", nil, &page, userHeader, "all")
	require.NotEmpty(p.t, page.Items)
	return page.Items[0].Name
}

// An answer is in the audit log: who answered which wait with which signal, but never the payload. An answer that
// names its wait does not reach another wait, and leaves no entry when the wait has ended.
func TestAnswersAreAudited(t *testing.T) {
	t.Parallel()
	p := newPlace(t, withProxy)
	ctx := enginetest.Context(t)
	as := []string{userHeader, "all"}
	run, err := runtime.Start(ctx, p.client, approvals(t), order{"book", 1}, runtime.WithID("one"))
	require.NoError(t, err)
	var waits fabrictype.Page[fabrictype.Wait]
	enginetest.Eventually(t, func() string {
		p.do("GET", "/runs/approval/one/waits", nil, &waits, as...)
		if len(waits.Items) == 0 {
			return "no wait is open"
		}
		return ""
	})
	wait := waits.Items[0].ID
	send := func(body map[string]any) (status int, d fabrictype.SignalResult) {
		return p.do("POST", "/runs/approval/one/signals", body, &d, as...).StatusCode, d
	}
	for _, wrong := range []map[string]any{
		{"node": "approve", "wait": "none", "name": "answer"}, {"node": "pack", "wait": wait, "name": "answer"},
		{"node": "approve", "step": "x", "wait": wait, "name": "answer"},
	} {
		status, _ := send(wrong)
		require.Equal(t, http.StatusNotFound, status, wrong)
	}
	status, _ := send(map[string]any{"node": "approve", "wait": wait, "name": "answer", "payload": "a secret"})
	require.Equal(t, http.StatusUnprocessableEntity, status)
	status, d := send(map[string]any{
		"node": "approve", "wait": wait, "name": "answer", "source": "ann", "payload": map[string]any{"yes": true},
	})
	require.Equal(t, http.StatusOK, status)
	require.EqualValues(t, "resumed", d.Outcome)
	_, err = run.Result(ctx)
	require.NoError(t, err)
	_, d = send(map[string]any{"node": "approve", "wait": wait, "name": "answer", "payload": map[string]any{"yes": true}})
	require.EqualValues(t, "closed", d.Outcome)
	_, d = send(map[string]any{"node": "approve", "name": "answer", "payload": map[string]any{"yes": true}})
	require.EqualValues(t, "closed", d.Outcome)

	var page fabrictype.Page[fabrictype.AuditEntry]
	p.do("GET", "/audit?action=answer_wait", nil, &page, as...)
	type entry struct{ actor, name, detail, failure string }
	var got []entry
	for _, e := range page.Items {
		got = append(got, entry{e.Actor, e.Name, e.Detail, e.Failure})
	}
	require.Equal(t, []entry{
		{"all", "approval/one/approve", "answer, through the server", "nothing was recorded: the answer is closed"},
		{"all", "approval/one/approve", "answer, through the server", ""},
		{"all", "approval/one/approve", "answer, through the server; in the name of ann", ""},
		{"all", "approval/one/approve", "answer, through the server", "nothing was recorded: the answer is not valid"},
		{"all", "approval/one/approve", "answer, through the server", ""},
	}, got)
}
