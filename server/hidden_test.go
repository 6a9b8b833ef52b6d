package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server"
)

// hiddenFlow is a flow that waits for a person.
func hiddenFlow(t testing.TB) *flow.Definition[string, string] {
	f := flow.New[string, string]("secret-child")
	answer := flow.Waitpoint[string](f, "SECRET-NODE", activity.Title("SECRET-TITLE"), activity.Question("SECRET-QUESTION"))
	flow.Return(f, answer)
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

// parentFlow runs the hidden flow as a sub-flow and for each element of a list.
func parentFlow(t testing.TB) *flow.Definition[string, string] {
	f := flow.New[string, string]("ordinary")
	child := hiddenFlow(t)
	list := flow.Node(f, "list", activity.New("list", func(context.Context, string) ([]string, error) { return []string{"a", "b"}, nil }), f.Input())
	flow.MapFlow(f, "each", child, list)
	flow.Return(f, flow.Sub(f, "sub", child, f.Input()))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

// A principal who is bound to some flows learns nothing of child runs of other flows from any operation on the parent.
func TestHiddenChildRunsDoNotExist(t *testing.T) {
	t.Parallel()
	each(t, withProxy, func(t *testing.T, p *place) {
		ctx := enginetest.Context(t)
		def := parentFlow(t)
		p.bench.KeepingWorker(t, def.Handlers())
		require.NoError(t, p.client.Publish(ctx, runtime.Publication{Flow: def}))
		run, err := runtime.Start(ctx, p.client, def, "x", runtime.WithID("one"))
		require.NoError(t, err)
		var waits []runtime.Waitpoint
		enginetest.Eventually(t, func() string {
			if waits, err = run.Waitpoints(ctx); err != nil || len(waits) != 3 {
				return "three child runs do not wait yet"
			}
			return ""
		})
		const path = "/runs/ordinary/one"
		all := func(user string) string {
			var text strings.Builder
			for _, op := range httpapi.Operations() {
				if op.Method != http.MethodGet || !op.Bound || strings.Contains(op.Path, "{key}") ||
					strings.HasPrefix(op.Path, "/flows/") {
					continue
				}
				for _, node := range []string{"sub", "each"} {
					target := strings.NewReplacer("{flow}", "ordinary", "{run}", "one", "{node}", node, "{wait}", waits[0].ID).Replace(op.Path)
					switch op.Name {
					case "list-run-waits":
						target += "?closed=true"
					case "get-run":
						target += "?values=true&attempts=true"
					case "get-node":
						target += "?values=true"
					case "compare-runs":
						target += "?other_run=one"
					case "follow-logs", "follow-frames":
						target += "?present=true"
					case "follow-feed", "follow-run", "get-result":
						continue // this stream does not end
					case "get-run-graph", "get-run-layout":
						continue // the definition of the parent has the flows within
					}
					got := p.raw("GET", httpapi.Prefix+target, user, nil)
					require.Less(t, got.status, 500, op.Name)
					text.WriteString(op.Name + ": " + got.text + "\n")
				}
			}
			explained := p.raw("POST", httpapi.Prefix+"/runs/explain", user, map[string]any{"runs": []map[string]string{{"flow": "ordinary", "run": "one"}}})
			require.Equal(t, http.StatusOK, explained.status, explained.text)
			text.WriteString("explain-runs: " + explained.text)
			return text.String()
		}
		for _, secret := range []string{"SECRET-TITLE", "SECRET-QUESTION", "SECRET-NODE", "secret-child"} {
			require.Contains(t, all("all"), secret, "the test looks where it is")
			for line := range strings.Lines(all("bound")) {
				if at := strings.Index(line, secret); at >= 0 {
					t.Fatalf("%.20s shows %s: …%s…", line, secret, line[max(0, at-200):min(len(line), at+100)])
				}
			}
		}
		var mine, theirs fabrictype.Page[fabrictype.Wait]
		p.do("GET", path+"/waits", nil, &mine, userHeader, "bound")
		p.do("GET", path+"/waits", nil, &theirs, userHeader, "all")
		require.Empty(t, mine.Items)
		require.Len(t, theirs.Items, 3)
		for _, w := range waits {
			for action, body := range map[string]map[string]any{"cancel": {"reason": "x"}, "resume": {"payload": "x"}} {
				got := p.raw("POST", httpapi.Prefix+path+"/waits/"+w.ID+"/"+action, "bound", body)
				require.Equal(t, http.StatusNotFound, got.status, got.text)
			}
			got := p.raw("GET", httpapi.Prefix+path+"/waits/"+w.ID+"/signals", "bound", nil)
			require.Equal(t, http.StatusNotFound, got.status, got.text)
		}
		require.Equal(t, http.StatusOK, p.raw("GET", httpapi.Prefix+path+"/nodes/each/items", "bound", nil).status)
	})
}

// A principal without the right payloads:read gets no value that a program has put in: inputs, memos, constants,
// payloads of signals.
func TestViewersSeeNoPayloads(t *testing.T) {
	t.Parallel()
	p := newPlace(t, withProxy)
	ctx := enginetest.Context(t)
	const secret = "S3CRET"
	f := flow.New[string, string]("valued", flow.Describe("Has constants."))
	type pair struct {
		A string   `json:"a"`
		B []string `json:"b"`
	}
	join := activity.New("join", func(_ context.Context, in pair) (string, error) { return in.A, nil })
	parts := flow.Struct[pair](flow.Field("a", flow.Const(secret+"-part")), flow.Field("b", flow.Const([]string{secret + "-list"})))
	same := activity.New("same", func(_ context.Context, in string) (string, error) { return in, nil })
	flow.Node(f, "same", same, flow.Const(secret+"-whole"))
	flow.Return(f, flow.Node(f, "join", join, parts))
	def, err := f.Build()
	require.NoError(t, err)
	p.bench.KeepingWorker(t, def.Handlers())
	require.NoError(t, p.client.Publish(ctx, runtime.Publication{Flow: def}))
	run, err := runtime.Start(ctx, p.client, def, secret+"-input", runtime.WithID("one"), runtime.WithMemo(map[string]string{"who": secret + "-memo"}),
		runtime.WithTag("team.name", "visible"))
	require.NoError(t, err)
	_, err = run.Result(ctx)
	require.NoError(t, err)
	_, err = runtime.Schedule(ctx, p.client, "hourly", def, secret+"-schedule", runtime.ScheduleConfig{Cron: "0 * * * *"})
	require.NoError(t, err)
	_, err = p.client.StartBulkJob(ctx, runtime.RunQuery{Flow: "none"}, fabrictype.BulkAction{Kind: "signal", Signal: "go", Payload: []byte(`"` + secret + `-signal"`)}, runtime.BulkOptions{ID: "job"})
	require.NoError(t, err)

	read := func(user string) string {
		var text strings.Builder
		for _, op := range httpapi.Operations() {
			if op.Method != http.MethodGet || op.Streams || op.Name == "get-result" {
				continue
			}
			path := strings.NewReplacer("{flow}", "valued", "{run}", "one", "{node}", "join", "{schedule}", "hourly", "{job}", "job",
				"{wait}", "w", "{key}", "k").Replace(op.Path)
			for _, query := range []string{"", "?values=true", "?format=outline", "?format=mermaid", "?format=dot", "?format=svg"} {
				text.WriteString(p.raw("GET", httpapi.Prefix+path+query, user, nil).text + "\n")
			}
		}
		return text.String()
	}
	seen, hidden := read("all"), read("not payloads:read")
	for _, part := range []string{"-part", "-list", "-whole", "-input", "-memo", "-schedule", "-signal"} {
		require.Contains(t, seen, secret+part, "the test looks where it is")
		require.NotContains(t, hidden, secret+part)
	}
	require.Contains(t, hidden, "visible")

	// The definition without its constants is one that programs read.
	var d runtime.FlowDescription
	p.do("GET", "/flows/valued", nil, &d, userHeader, "not payloads:read")
	var graph map[string]any
	require.NoError(t, json.Unmarshal(d.Definition, &graph))
	require.Contains(t, d.Outline(), "join")
}

// A registration of a push worker belongs to one principal: a principal of another kind of login may have the same
// name.
func TestPushWorkersOfOneNameAreSeparate(t *testing.T) {
	t.Parallel()
	p := newPlace(t, func(c *server.Config) {
		withTokens(c)
		c.Proxy = &server.ProxyLogin{UserHeader: userHeader, From: loopback, Grants: []server.Grant{{MatchName: "ann", Role: api.Admin}}}
		c.PushTo = []string{"http://127.0.0.1:1"}
	})
	token := p.as("ann", api.WorkerRole, "")
	body := map[string]any{"url": "http://127.0.0.1:1/tasks", "secret": pushSecret, "activities": []string{"none"}}
	require.Equal(t, http.StatusOK, token.do("PUT", "/push-workers/w", body, nil).StatusCode)
	require.Equal(t, http.StatusNotFound, p.do("DELETE", "/push-workers/w", nil, nil, userHeader, "ann").StatusCode)
	require.Equal(t, http.StatusOK, p.do("PUT", "/push-workers/w", body, nil, userHeader, "ann").StatusCode)
	var page fabrictype.Page[api.PushWorker]
	p.do("GET", "/push-workers", nil, &page, userHeader, "ann")
	require.Len(t, page.Items, 2)
	require.Equal(t, []string{"proxy", "token"}, []string{page.Items[0].Login, page.Items[1].Login})
	require.Equal(t, http.StatusNoContent, token.do("DELETE", "/push-workers/w", nil, nil).StatusCode)
	p.do("GET", "/push-workers", nil, &page, userHeader, "ann")
	require.Len(t, page.Items, 1)
	require.Equal(t, "proxy", page.Items[0].Login)
}
