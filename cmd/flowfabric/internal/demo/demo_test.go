package demo

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/internal/httpcall"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

// Every list of the API, and with it every page of the console, has entries, and runs are in all states.
func TestDemoFillsEveryPage(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(enginetest.Context(t))
	engine, err := runtime.Open(ctx, "", runtime.OpenConfig{AllowVolatile: true, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, engine.Close()) })
	sample, err := Open(ctx, engine)
	require.NoError(t, err)
	keeper, err := runtime.NewKeeper(engine, runtime.KeeperConfig{})
	require.NoError(t, err)
	ended := make(chan error, 2)
	go func() { ended <- keeper.Run(ctx) }()
	go func() { ended <- sample.Run(ctx) }()
	<-sample.Ready()
	t.Cleanup(func() {
		stop()
		for range 2 {
			if err := <-ended; err != nil {
				require.ErrorIs(t, err, context.Canceled)
			}
		}
	})
	srv, err := server.New(server.Config{Engine: engine, RequestsPerSecond: -1})
	require.NoError(t, err)
	t.Cleanup(srv.Close)
	client, err := srv.ClientAs("ann")
	require.NoError(t, err)
	c := client.Internal()
	require.NoError(t, err)

	until(t, "the runs are in all states", func() string {
		counts, err := httpcall.Call(ctx, c, httpapi.CountRuns, httpapi.CountRunsInput{By: []string{"state"}})
		require.NoError(t, err)
		states := map[fabrictype.RunState]int{}
		for _, n := range counts.Items {
			states[n.State] = n.Runs
		}
		if states["succeeded"] < 8 || states["failed"] < 7 || states["cancelled"] < 1 || states["running"] < 15 {
			return fmt.Sprint(states)
		}
		return ""
	})
	for _, run := range []string{
		"demo-mail/ada@example.com", "demo-video/unboxing", "demo-answer/question-4", "demo-release/v2.4",
		"demo-order/first",
	} {
		until(t, run+" waits", func() string { return waits(ctx, t, c, run) })
	}
	until(t, "calls wait for the limit", func() string {
		limits, err := httpcall.Call(ctx, c, httpapi.ListLimits, httpapi.Empty{})
		require.NoError(t, err)
		for _, l := range limits.Items {
			if l.Name == "demo-partner-api" && l.Running == 2 && l.Waiting == 3 {
				return ""
			}
		}
		return fmt.Sprintf("%+v", limits.Items)
	})
	lists := map[string]func() (int, error){
		"flows": length(ctx, c, httpapi.ListFlows, httpapi.Empty{}), "lanes": length(ctx, c, httpapi.ListLanes, httpapi.Empty{}),
		"pauses": length(ctx, c, httpapi.ListPauses, httpapi.Empty{}), "workers": length(ctx, c, httpapi.ListWorkers, httpapi.Empty{}),
		"limits": length(ctx, c, httpapi.ListLimits, httpapi.Empty{}), "budgets": length(ctx, c, httpapi.ListBudgets, httpapi.Empty{}),
		"schedules": length(ctx, c, httpapi.ListSchedules, httpapi.Empty{}), "jobs": length(ctx, c, httpapi.ListBulkJobs, httpapi.Empty{}),
		"waits": length(ctx, c, httpapi.ListWaits, httpapi.ListWaitsInput{}), "audit": length(ctx, c, httpapi.ListAudit, api.ListAuditInput{}),
		"runs":         length(ctx, c, httpapi.ListRuns, httpapi.ListRunsInput{}),
		"keeper tasks": length(ctx, c, httpapi.ListKeeperTasks, httpapi.Empty{}),
		"items": length(ctx, c, httpapi.ListItems, httpapi.ListItemsInput{NodeName: httpapi.NodeName{
			RunName: httpapi.RunName{Flow: "demo-order", Run: "4709"}, Node: "price",
		}}),
		"fires": length(ctx, c, httpapi.ListFires, httpapi.ListFiresInput{ScheduleInput: httpapi.ScheduleInput{Schedule: "demo-greet"}}),
	}
	for name, list := range lists {
		until(t, name, func() string {
			n, err := list()
			require.NoError(t, err, name)
			if n == 0 {
				return "the list is empty"
			}
			return ""
		})
	}
	lost := node(ctx, t, c, "lost-2026-06.csv", "fetch")
	require.Equal(t, 3, lost.Attempts)
	until(t, "the panic has its stack", func() string {
		history := node(ctx, t, c, "empty-2026-07.csv", "parse").History
		if len(history) == 0 || history[0].Stack == "" {
			return "no stack"
		}
		return ""
	})
	flow, err := httpcall.Call(ctx, c, httpapi.GetFlow, httpapi.FlowInput{Flow: "demo-order"})
	require.NoError(t, err)
	require.Greater(t, len(flow.History), 1)
}

func until(t *testing.T, what string, missing func() string) {
	t.Helper()
	enginetest.Eventually(t, func() string {
		if text := missing(); text != "" {
			return what + ": " + text
		}
		return ""
	})
}

// length returns a function that reads the length of a list.
func length[In, T any](ctx context.Context, c *httpcall.Caller, op httpapi.Call[In, fabrictype.Page[T]], in In) func() (int, error) {
	return func() (int, error) {
		page, err := httpcall.Call(ctx, c, op, in)
		if err != nil {
			return 0, err
		}
		return len(page.Items), nil
	}
}

// waits returns why a run does not wait.
func waits(ctx context.Context, t *testing.T, c *httpcall.Caller, run string) string {
	t.Helper()
	in := httpapi.ExplainRunsInput{}
	flow, id, _ := strings.Cut(run, "/")
	in.Body.Runs = append(in.Body.Runs, api.RunNamed{Flow: flow, Run: id})
	page, err := httpcall.Call(ctx, c, httpapi.ExplainRuns, in)
	require.NoError(t, err)
	if len(page.Items) == 0 || page.Items[0].Waiting == nil && page.Items[0].Wait == nil {
		return fmt.Sprintf("%+v", page.Items)
	}
	return ""
}

func node(ctx context.Context, t *testing.T, c *httpcall.Caller, run, name string) *fabrictype.Node {
	t.Helper()
	n, err := httpcall.Call(ctx, c, httpapi.GetNode, httpapi.GetNodeInput{NodeName: httpapi.NodeName{
		RunName: httpapi.RunName{Flow: "demo-import", Run: run}, Node: name,
	}})
	require.NoError(t, err)
	return n
}
