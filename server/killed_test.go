package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server"
)

// childVariable has the moment at which a server in a child process kills itself, and the address and the key prefix
// of its engine.
const childVariable = "FLOWFABRIC_TEST_CHILD"

// Moments at which the process of a server ends in the middle of a request.
const (
	never         = "never"
	beforeCall    = "before" // the request has arrived
	afterCall     = "after"  // the operation was executed; the reply was neither stored nor received
	killingHeader = "X-Test-Kill"
)

// serveAsChild serves an engine until the process is killed. It prints the address.
func serveAsChild() {
	moment, rest, _ := strings.Cut(os.Getenv(childVariable), " ")
	address, prefix, _ := strings.Cut(rest, " ")
	engine, err := runtime.Open(context.Background(), address,
		runtime.OpenConfig{Prefix: prefix, AllowVolatile: true, Partitions: 4})
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	s, err := server.New(server.Config{Engine: engine})
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(killingHeader) != "" && moment == beforeCall {
			killMyself()
		}
		if r.Header.Get(killingHeader) != "" && moment == afterCall {
			w = killer{w}
		}
		s.Handler().ServeHTTP(w, r)
	}))
	fmt.Println(listener.URL)
	select {}
}

func killMyself() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// killer kills the process instead of writing a reply.
type killer struct{ http.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (killer) WriteHeader(int) { killMyself() }

// Write implements http.ResponseWriter.
func (killer) Write([]byte) (int, error) { killMyself(); return 0, nil }

// child starts the process of a server, and returns the place that it serves. It ends with the test.
func child(t *testing.T, b *enginetest.Bench, moment string) *place {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	command := exec.Command(program)
	command.Env = append(os.Environ(), childVariable+"="+moment+" "+b.URL+" "+b.Prefix)
	output, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	lines := bufio.NewScanner(output)
	require.True(t, lines.Scan(), "the server does not start")
	require.Contains(t, lines.Text(), "http://")
	return &place{t: t, bench: b, url: lines.Text(), client: b.Client}
}

// post sends a request that may have no answer.
func (p *place) post(path string, body any, key string) (status int, reply []byte, err error) {
	text, err := json.Marshal(body)
	require.NoError(p.t, err)
	request, err := http.NewRequestWithContext(p.t.Context(), "POST", p.url+httpapi.Prefix+path, bytes.NewReader(text))
	require.NoError(p.t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", key)
	request.Header.Set(killingHeader, "yes")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(answer.Body)
	return answer.StatusCode, b.Bytes(), err
}

// A server may be killed at any moment of a request: the repeat, at another server, has the effect once.
func TestKilledServer(t *testing.T) {
	t.Parallel()
	// An engine in memory ends with its process.
	testserver.SideBySide(t, testserver.Servers(t), func(t *testing.T, kind testserver.Kind) {
		b := enginetest.New(t, kind)
		ctx := enginetest.Context(t)
		def := approvals(t)
		b.KeepingWorker(t, def.Handlers())
		require.NoError(t, b.Client.Publish(ctx, runtime.Publication{Flow: def}))
		other := child(t, b, never)
		for _, moment := range []string{beforeCall, afterCall} {
			start := map[string]any{"input": order{"book", 1}}
			killed := child(t, b, moment)
			_, _, err := killed.post("/flows/approval/runs", start, moment)
			require.Error(t, err, "the server was killed")
			forgetUnfinished(t, b)
			status, reply, err := other.post("/flows/approval/runs", start, moment)
			require.NoError(t, err)
			require.Contains(t, []int{http.StatusOK, http.StatusCreated}, status, "%s", reply)
			require.Equal(t, moment == afterCall, status == http.StatusOK, "a run that the killed server had started")
			var run, again api.StartedRun
			require.NoError(t, json.Unmarshal(reply, &run))
			_, reply, err = other.post("/flows/approval/runs", start, moment)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(reply, &again))
			require.Equal(t, run, again)

			// The same for an answer: it counts once.
			enginetest.Eventually(t, func() string {
				waits, err := b.Client.Run("approval", run.Run).Waitpoints(ctx)
				if err != nil || len(waits) == 0 {
					return "no wait"
				}
				return ""
			})
			killed = child(t, b, moment)
			answer := map[string]any{"node": "approve", "name": "answer", "payload": decision{Yes: true}}
			_, _, err = killed.post("/runs/approval/"+run.Run+"/signals", answer, "answer "+moment)
			require.Error(t, err)
			forgetUnfinished(t, b)
			status, reply, err = other.post("/runs/approval/"+run.Run+"/signals", answer, "answer "+moment)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, status, "%s", reply)
			var delivery fabrictype.SignalResult
			require.NoError(t, json.Unmarshal(reply, &delivery))
			want := map[string]string{beforeCall: "resumed", afterCall: "duplicate"}
			require.EqualValues(t, want[moment], delivery.Outcome)
		}
		page, err := b.Client.ListRuns(ctx, runtime.RunQuery{Flow: "approval"}, "", 100)
		require.NoError(t, err)
		require.Len(t, page.Items, 2)
	})
}

// forgetUnfinished lets the minute pass in which a request counts as being executed.
func forgetUnfinished(t *testing.T, b *enginetest.Bench) {
	t.Helper()
	pattern := engine.ConnOf(b.Engine.Internal()).Keys().FfxAPIRequestEnds(
		keyspace.Partition{Family: keyspace.FlowFamily}, "default", "")
	keys, err := invariant.Keys(t.Context(), b.Operator(), b.Prefix)
	require.NoError(t, err)
	soon := strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10) // a reply is kept for a day
	for _, key := range keys {
		if !strings.HasPrefix(key, pattern) {
			continue
		}
		client := b.Operator()
		open, err := client.Do(t.Context(), client.B().Zrangebyscore().Key(key).Min("0").Max(soon).Build()).AsStrSlice()
		require.NoError(t, err)
		for _, request := range open {
			past := client.B().Zadd().Key(key).ScoreMember().ScoreMember(1, request).Build()
			require.NoError(t, client.Do(t.Context(), past).Error())
		}
	}
}

// Actions that have an effect each time have one effect for all repeats of a request: reruns, forks, triggers and
// backfills of schedules.
func TestKilledServerInActions(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, testserver.Servers(t), func(t *testing.T, kind testserver.Kind) {
		b := enginetest.New(t, kind)
		ctx := enginetest.Context(t)
		def := orders(t)
		b.KeepingWorker(t, def.Handlers())
		require.NoError(t, b.Client.Publish(ctx, runtime.Publication{Flow: def}))
		run, err := runtime.Start(ctx, b.Client, def, order{"book", 1}, runtime.WithID("one"))
		require.NoError(t, err)
		schedule, err := runtime.Schedule(ctx, b.Client, "hourly", def, order{"book", 1},
			runtime.ScheduleConfig{Every: time.Hour, Overlap: fabrictype.OverlapAllow})
		require.NoError(t, err)
		other := child(t, b, never)
		past := map[string]any{
			"from": schedule.NextFire.Add(-3 * time.Hour), "until": schedule.NextFire.Add(-time.Hour),
		}
		for _, moment := range []string{beforeCall, afterCall} {
			for _, request := range []struct {
				path string
				body any
			}{
				{"/runs/order/one/rerun", map[string]any{"scope": "all"}},
				{"/runs/order/one/fork", map[string]any{"from": []string{"pack"}}},
				{"/schedules/hourly/trigger", map[string]any{}},
				{"/schedules/hourly/backfill", past},
			} {
				_, err = run.Result(ctx)
				require.NoError(t, err)
				key := moment + request.path
				_, _, err = child(t, b, moment).post(request.path, request.body, key)
				require.Error(t, err, "the server was killed")
				_, err = run.Result(ctx)
				require.NoError(t, err)
				forgetUnfinished(t, b)
				status, reply, err := other.post(request.path, request.body, key)
				require.NoError(t, err)
				require.Less(t, status, 300, "%s: %s", key, reply)
			}
		}
		_, err = run.Result(ctx)
		require.NoError(t, err)
		d, err := run.Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, 2, d.Reruns)
		forks := 0
		for fork, err := range run.Forks(ctx) {
			require.NoError(t, err, "%v", fork)
			forks++
		}
		require.Equal(t, 2, forks)
		var about *fabrictype.Schedule
		enginetest.Eventually(t, func() string {
			about, err = b.Client.Schedule("hourly").Describe(ctx)
			if err != nil || len(about.Backfills) > 0 {
				return "backfills are open"
			}
			return ""
		})
		triggered, backfilled := 0, 0
		for _, fire := range about.History {
			if fire.Triggered {
				triggered++
			}
			if fire.Backfilled {
				backfilled++
			}
		}
		require.Equal(t, 2, triggered)
		require.Equal(t, 6, backfilled, "the second backfill is another request and finds the runs of the first")
	})
}
