package command

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/serve"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/connect"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// The doctor names problems and remedies, fails while there are any, and makes the repairs of keepers.
func TestDoctor(t *testing.T) {
	eachWay(t, func(t *testing.T, x terminal) {
		ctx, b := enginetest.Context(t), x.b
		act := activity.New("load", func(_ context.Context, n int) (int, error) { return n, nil })
		f := flow.New[int, int]("import")
		flow.Return(f, flow.Node(f, "load", act, f.Input()))
		def, err := f.Build()
		require.NoError(t, err)
		run, err := runtime.Start(ctx, b.Client, def, 7)
		require.NoError(t, err)

		code, stdout, stderr := x.run("doctor")
		require.Equal(t, shell.ExitFound, code)
		require.Contains(t, stderr, "needs attention")
		require.Contains(t, stdout, "keeper.none")
		require.Contains(t, stdout, "run flowfabric keeper")
		require.Contains(t, stdout, "worker.none")
		verdict := "1 node waits, and no worker serves the lane"
		require.Contains(t, stdout, verdict)
		require.Regexp(t, `default +unserved +1 .*`+verdict, x.ok("lane", "list"))
		require.Contains(t, x.ok("lane", "show", "default"), verdict)
		_, _, stderr = x.run("worker", "list")
		require.Contains(t, stderr, "lane default: "+verdict)

		b.Worker(t, []activity.Handler{act})
		keeper := b.Keeper(t)
		_, err = run.Result(ctx)
		require.NoError(t, err)
		enginetest.Eventually(t, func() string {
			if code, stdout, _ := x.run("doctor"); code != 0 {
				return stdout
			}
			return ""
		})
		for _, finding := range x.lines("doctor") {
			require.Equal(t, "info", finding["severity"])
			require.NotEmpty(t, finding["code"])
		}

		require.NoError(t, keeper.Stop())
		p, err := engine.ConnOf(b.Engine.Internal()).FlowPartition(run.FlowID())
		require.NoError(t, err)
		client := engine.ConnOf(b.Engine.Internal()).Client()
		lost := client.B().Del().Key(engine.ConnOf(b.Engine.Internal()).Keys().FfxClosedFlows(p)).Build()
		require.NoError(t, client.Do(ctx, lost).Error())
		_, stdout, _ = x.run("doctor", "--repair")
		require.Regexp(t, `index_reconciliation +1 +closed_flows 1`, stdout)
		if b.Engine.Embedded() != nil || x.where.IsServer() {
			code, _, _ := x.run("doctor", "--rewrite-log")
			require.Equal(t, shell.ExitUsage, code)
		}
	})
}

// An engine that cannot be opened is a finding with its remedy, in each format; a refused login is not.
func TestDoctorReportsEngineThatDoesNotOpen(t *testing.T) {
	t.Parallel()
	for _, kind := range testserver.Servers(t) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := testserver.Start(t, testserver.Options{Kind: kind})
			enginetest.Open(t, kind, server.URL(), "doc")
			server.Command(t, "ACL", "SETUSER", "app", "on", ">pw", "~doc:*", "resetchannels", "+@all")
			at, err := url.Parse(server.URL())
			require.NoError(t, err)
			x := terminal{t: t, open: connect.Open}
			login := func(user, password string) {
				to := *at
				to.User = url.UserPassword(user, password)
				x.where.URL = to.String()
			}
			finding := func() map[string]any {
				code, stdout, stderr := x.run("doctor", "--prefix", "doc", "-o", "json")
				require.Equal(t, shell.ExitFound, code, stderr)
				var findings []map[string]any
				require.NoError(t, json.Unmarshal([]byte(stdout), &findings), stdout)
				require.Len(t, findings, 1)
				require.Equal(t, "error", findings[0]["severity"])
				return findings[0]
			}
			login("app", "pw")
			found := finding()
			require.Equal(t, "rights.missing", found["code"])
			require.Contains(t, found["remedy"], "&doc:*")
			require.Contains(t, x.fails(shell.ExitNotAllowed, "--prefix", "doc", "run", "list"), "&doc:*")
			login("app", "other")
			require.Contains(t, x.fails(shell.ExitNotAllowed, "--prefix", "doc", "doctor"), "WRONGPASS")

			empty := testserver.Start(t, testserver.Options{Kind: kind, Args: []string{"replicaof " + at.Hostname() + " 1"}})
			x.where.URL = empty.URL()
			require.Equal(t, "server.replica", finding()["code"])
			server.Kill()
			x.where.URL = server.URL()
			found = finding()
			require.Equal(t, "look.failed", found["code"])
			require.Contains(t, found["remedy"], "runs")
		})
	}
}

// Every repair is a keeper task: a name that no engine knows would be ignored.
func TestRepairsAreKeeperTasks(t *testing.T) {
	b := enginetest.New(t, testserver.Embedded)
	var names []string
	for _, task := range b.KeeperTasks() {
		names = append(names, task.Name)
	}
	require.Subset(t, names, serve.Repairs)
}

// The doctor makes a server rewrite its log, and reports one that has not since its start.
func TestDoctorRewritesTheLog(t *testing.T) {
	for _, kind := range testserver.Servers(t) {
		t.Run(string(kind), func(t *testing.T) {
			server := testserver.Start(t, testserver.Options{Kind: kind, Persist: true})
			server.Restart()
			x := onEngine(t, enginetest.Open(t, kind, server.URL(), enginetest.NewPrefix()))
			_, stdout, _ := x.run("doctor")
			require.Contains(t, stdout, "log.not_rewritten")
			x.run("doctor", "--rewrite-log")
			enginetest.Eventually(t, func() string {
				if _, stdout, _ := x.run("doctor"); strings.Contains(stdout, "log.not_rewritten") {
					return "the log has not been rewritten"
				}
				// The process that writes it outlives a server that is killed, and the folder would not be empty.
				if !strings.Contains(server.Query(t, "INFO", "persistence"), "aof_rewrite_in_progress:0") {
					return "the log is being rewritten"
				}
				return ""
			})
		})
	}
}
