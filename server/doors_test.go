package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/api"
	links "github.com/flowfabric/flowfabric-go/approvals"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server"
	"github.com/flowfabric/flowfabric-go/server/internal/contract"
)

// answered is the reply to a request.
type answered struct {
	status int
	text   string
}

// raw sends a request to any path of the server as a user of the proxy.
func (p *place) raw(method, path, user string, body any) answered {
	p.t.Helper()
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		require.NoError(p.t, err)
		reader = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, reader)
	require.NoError(p.t, err)
	request.Header.Set("Content-Type", "application/json")
	if user != "" {
		request.Header.Set(userHeader, user)
	}
	got, err := http.DefaultClient.Do(request)
	require.NoError(p.t, err)
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	require.NoError(p.t, err)
	return answered{got.StatusCode, string(text)}
}

// given is an answer that a test gives to an open wait.
type given struct {
	wait                   runtime.Waitpoint
	user, source, category string
	payload                string // JSON
}

func (g *given) body() map[string]any {
	body := map[string]any{"name": "approve", "payload": json.RawMessage(g.payload)}
	if g.source != "" {
		body["source"] = g.source
	}
	if g.category != "" {
		body["category"] = g.category
	}
	return body
}

// door is a way to answer a wait through the server.
type door struct {
	name   string
	answer func(p *place, g given) answered
	// named reports whether the route takes the name of another source, and the category of a signal.
	named bool
}

// doors are all ways to answer a wait through the server.
func doors() []door {
	api1 := httpapi.Prefix
	return []door{
		{"signal-run by name", func(p *place, g given) answered {
			body := g.body()
			body["node"] = g.wait.Node
			return p.raw("POST", api1+"/runs/"+g.wait.Flow+"/"+g.wait.Run+"/signals", g.user, body)
		}, true},
		{"signal-run by the id of the wait", func(p *place, g given) answered {
			body := g.body()
			body["node"], body["wait"] = g.wait.Node, g.wait.ID
			return p.raw("POST", api1+"/runs/"+g.wait.Flow+"/"+g.wait.Run+"/signals", g.user, body)
		}, true},
		{"signal-token", func(p *place, g given) answered {
			body := g.body()
			body["token"] = g.wait.Token.Reveal()
			return p.raw("POST", api1+"/signals", g.user, body)
		}, true},
		{"/v1 signal", answerByContract, true},
		{"a link", answerByLink, false},
	}
}

// answerByContract answers with the token that the route of waitpoints gives.
func answerByContract(p *place, g given) answered {
	p.t.Helper()
	id := g.wait.ExecutionID
	listed := p.raw("GET", "/v1/executions/"+id+"/pending-waitpoints", "all", nil)
	require.Equal(p.t, http.StatusOK, listed.status, listed.text)
	var waits []struct {
		Token string `json:"waitpoint_token"`
	}
	require.NoError(p.t, json.Unmarshal([]byte(listed.text), &waits))
	require.Len(p.t, waits, 1)
	octets := []int{}
	for _, b := range []byte(g.payload) {
		octets = append(octets, int(b))
	}
	return p.raw("POST", "/v1/executions/"+id+"/signal", g.user, map[string]any{
		"execution_id": id, "waitpoint_id": g.wait.ID, "signal_id": uuid.NewString(), "signal_name": "approve",
		"signal_category": g.category, "source_type": "person", "source_identity": g.source, "payload": octets,
		"payload_encoding": "json", "target_scope": "waitpoint", "waitpoint_token": waits[0].Token,
	})
}

// answerByLink fills in the form of a page of links, whose host has authenticated the user. The payload is a decision
// of the page.
func answerByLink(p *place, g given) answered {
	p.t.Helper()
	handler, err := links.New(p.client, links.Config{
		Choices:  []links.Choice{{Signal: "approve", Label: "Yes"}},
		Identity: func(*http.Request) (string, bool) { return g.user, true },
	})
	require.NoError(p.t, err)
	path := links.Path(g.wait.Token)
	shown := httptest.NewRecorder()
	handler.ServeHTTP(shown, httptest.NewRequest("GET", path, nil))
	form := url.Values{"choice": {"approve"}, "comment": {"fine"}}
	for _, field := range regexp.MustCompile(`name="([a-z]+)" value="([^"]*)"`).FindAllStringSubmatch(shown.Body.String(), -1) {
		if field[1] != "choice" {
			form.Set(field[1], field[2])
		}
	}
	request := httptest.NewRequest("POST", path, strings.NewReader(form.Encode()))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, cookie := range shown.Result().Cookies() {
		request.AddCookie(cookie)
	}
	sent := httptest.NewRecorder()
	handler.ServeHTTP(sent, request)
	return answered{sent.Code, sent.Body.String()}
}

// question is a flow with a wait for two persons, whose answers must have a choice.
func question(t testing.TB) *flow.Definition[order, string] {
	f := flow.New[order, string]("question")
	answers := flow.WaitpointSignals[map[string]string](f, "ask", activity.AtLeastDistinct(2), activity.Title("May it go?"),
		activity.AnswerSchema([]byte(`{"type":"object","required":["choice"],"properties":{"choice":{"type":"string","maxLength":20}}}`)))
	count := activity.New("count", func(_ context.Context, got []activity.Signal[map[string]string]) (string, error) {
		names := make([]string, len(got))
		for i, s := range got {
			names[i] = s.Source
		}
		return strings.Join(names, ","), nil
	})
	flow.Return(f, flow.Node(f, "count", count, answers))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

// asked starts a run of the question and returns its wait.
func (p *place) asked(def *flow.Definition[order, string]) (*runtime.Run[string], runtime.Waitpoint) {
	p.t.Helper()
	ctx := enginetest.Context(p.t)
	run, err := runtime.Start(ctx, p.client, def, order{"book", 1})
	require.NoError(p.t, err)
	var waits []runtime.Waitpoint
	enginetest.Eventually(p.t, func() string {
		if waits, err = run.Waitpoints(ctx); err != nil || len(waits) != 1 {
			return fmt.Sprint("the wait to be open: ", len(waits), " ", err)
		}
		return ""
	})
	return run, waits[0]
}

// received returns the sources of the signals that a wait has recorded.
func (p *place) received(run *runtime.Run[string], w runtime.Waitpoint) (sources []string) {
	p.t.Helper()
	for s, err := range run.ReceivedSignals(p.t.Context(), w) {
		require.NoError(p.t, err)
		sources = append(sources, s.Source)
	}
	return sources
}

// Every way to answer a wait has the same rules: rights, flows, sources, schema, bounds, the audit log.
func TestEveryRouteChecksAnswers(t *testing.T) {
	t.Parallel()
	p := newPlace(t, withProxy)
	readOnly := newPlaceOn(t, p.bench, func(c *server.Config) { withProxy(c); c.ReadOnly = true })
	def := question(t)
	p.bench.KeepingWorker(t, def.Handlers())
	const approver, good = "not operate", `{"choice":"secret"}`
	for _, d := range doors() {
		t.Run(d.name, func(t *testing.T) {
			p, readOnly := *p, *readOnly
			p.t, readOnly.t = t, t
			run, wait := p.asked(def)
			refused := func(g given, status ...int) answered {
				t.Helper()
				g.wait = wait
				got := d.answer(&p, g)
				require.Contains(t, status, got.status, got.text)
				require.Empty(t, p.received(run, wait), "a refused answer is recorded: %s", got.text)
				return got
			}
			if d.named {
				refused(given{user: "", payload: good}, http.StatusUnauthorized)
				refused(given{user: "not approve", payload: good}, http.StatusForbidden)
				refused(given{user: "bound", payload: good}, http.StatusForbidden, http.StatusNotFound)
				got := refused(given{user: approver, source: "bob", payload: good}, http.StatusForbidden)
				require.Contains(t, got.text, "needs the right operate")
				require.Equal(t, http.StatusForbidden, d.answer(&readOnly, given{wait: wait, user: approver, payload: good}).status)
				for _, bad := range []string{`{"text":"secret"}`, `"secret"`, `{"choice":"` + strings.Repeat("x", 70_000) + `"}`} {
					got := refused(given{user: approver, payload: bad}, http.StatusUnprocessableEntity, http.StatusBadRequest,
						http.StatusRequestEntityTooLarge)
					require.NotContains(t, got.text, "internal")
				}
				for _, bad := range []string{strings.Repeat("c", 257), "two\nlines"} {
					refused(given{user: approver, category: bad, payload: good}, http.StatusUnprocessableEntity, http.StatusBadRequest,
						http.StatusRequestEntityTooLarge)
				}
			}

			// The same person counts once, and another one ends the wait.
			got := d.answer(&p, given{wait: wait, user: approver, payload: good})
			require.Equal(t, http.StatusOK, got.status, got.text)
			got = d.answer(&p, given{wait: wait, user: approver, payload: good})
			require.Contains(t, []int{http.StatusOK, http.StatusConflict}, got.status, got.text)
			got = d.answer(&p, given{wait: wait, user: "not administer", payload: good})
			require.Equal(t, http.StatusOK, got.status, got.text)
			names, err := run.Result(enginetest.Context(t))
			require.NoError(t, err)
			require.Equal(t, approver+",not administer", names)

			var page fabrictype.Page[fabrictype.AuditEntry]
			p.do("GET", "/audit?action=answer_wait&name="+url.QueryEscape(wait.Flow+"/"+wait.Run+"/"+wait.Node), nil, &page, userHeader, "all")
			taken := map[string]int{}
			for _, e := range page.Items {
				require.NotContains(t, e.Detail+e.Failure, "secret", "the log has no payloads")
				if e.Failure == "" {
					taken[e.Actor]++
				}
			}
			require.GreaterOrEqual(t, taken[approver], 2, "%+v", page.Items)
			require.Equal(t, 1, taken["not administer"], "%+v", page.Items) // who may operate
		})
	}
}

// A signal to a wait of a run has the bounds of runs, regardless of the bounds that the sender requests.
func TestSignalBoundsIgnoreSender(t *testing.T) {
	t.Parallel()
	p := newPlace(t, withProxy)
	def := question(t)
	p.bench.KeepingWorker(t, def.Handlers())
	run, wait := p.asked(def)
	listed := p.raw("GET", "/v1/executions/"+wait.ExecutionID+"/pending-waitpoints", "all", nil)
	var waits []struct {
		Token string `json:"waitpoint_token"`
	}
	require.NoError(t, json.Unmarshal([]byte(listed.text), &waits))
	for range 3 {
		got := p.raw("POST", "/v1/executions/"+wait.ExecutionID+"/signal", "not operate", map[string]any{
			"execution_id": wait.ExecutionID, "waitpoint_id": wait.ID, "signal_id": uuid.NewString(), "signal_name": "approve",
			"payload": []int{'{', '"', 'c', 'h', 'o', 'i', 'c', 'e', '"', ':', '"', '"', '}'}, "waitpoint_token": waits[0].Token,
			"signal_maxlen": 1, "max_signals_per_execution": 1,
		})
		require.Equal(t, http.StatusOK, got.status, got.text)
	}
	require.Len(t, p.received(run, wait), 3)
}

// Every route under /v1 needs its right, is refused to principals who are bound to flows, and is refused by a
// read-only server if it changes anything.
func TestEveryContractRouteNeedsItsRight(t *testing.T) {
	t.Parallel()
	p := newPlace(t, withProxy)
	readOnly := newPlaceOn(t, p.bench, func(c *server.Config) { withProxy(c); c.ReadOnly = true })
	id := string(keyspace.NewExecutionID(keyspace.Partition{Family: keyspace.FlowFamily}))
	for _, r := range contract.Routes() {
		path := strings.NewReplacer("/executions/{id}", "/executions/"+id, "{id}", uuid.NewString(), "{index}", "0", "{worker}", "w",
			"{waitpoint}", uuid.NewString()).Replace(r.Pattern)
		require.Equal(t, http.StatusUnauthorized, p.raw(r.Method, path, "", nil).status, r.Operation)
		got := p.raw(r.Method, path, "not "+string(r.Right), nil)
		require.Equal(t, http.StatusForbidden, got.status, r.Operation)
		require.Contains(t, got.text, "needs the right "+string(r.Right))
		require.Equal(t, http.StatusForbidden, p.raw(r.Method, path, "bound to all", nil).status, r.Operation)
		if !r.Reads {
			got := readOnly.raw(r.Method, path, "all", nil)
			require.Equal(t, http.StatusForbidden, got.status, r.Operation)
			require.Contains(t, got.text, "read-only")
		}
	}
}

// Client.ClientAs answers as its actor, with the schema of the wait and an entry in the audit log.
func TestClientAsAnswers(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	def := question(t)
	p.bench.KeepingWorker(t, def.Handlers())
	run, wait := p.asked(def)
	client, err := p.server.ClientAs("ann")
	require.NoError(t, err)
	answer := api.SignalBody{Name: "approve", Payload: []byte(`{}`)}
	_, err = client.SignalToken(t.Context(), wait.Token.Reveal(), answer)
	require.Error(t, err)
	answer.Payload = []byte(`{"choice":"yes"}`)
	_, err = client.SignalToken(t.Context(), wait.Token.Reveal(), answer)
	require.NoError(t, err)
	require.Equal(t, []string{"ann"}, p.received(run, wait))
	var page fabrictype.Page[fabrictype.AuditEntry]
	p.do("GET", "/audit?action=answer_wait", nil, &page)
	require.Len(t, page.Items, 3, "%+v", page.Items)
	require.Equal(t, "approve, by a client of the engine", page.Items[0].Detail)
	require.Equal(t, "nothing was recorded: the answer is not valid", page.Items[1].Failure)
}

// A start with a signal is in the audit log, too.
func TestStartsWithSignalsAreAudited(t *testing.T) {
	t.Parallel()
	p := newPlace(t, withProxy)
	signal := map[string]any{"node": "approve", "name": "answer", "payload": map[string]any{"yes": true}}
	body := map[string]any{"id": "one", "input": order{"book", 1}, "signal": signal}
	for _, status := range []int{http.StatusCreated, http.StatusOK} {
		got := p.raw("POST", httpapi.Prefix+"/flows/approval/runs", "all", body)
		require.Equal(t, status, got.status, got.text)
	}
	var page fabrictype.Page[fabrictype.AuditEntry]
	p.do("GET", "/audit?action=answer_wait&name=approval/one/approve", nil, &page, userHeader, "all")
	require.NotEmpty(t, page.Items)
	require.Equal(t, "all", page.Items[len(page.Items)-1].Actor)
}

// The signals to one wait are bounded together, over all routes, and the refusal names the bound.
func TestSignalsOfAWaitAreBoundedTogether(t *testing.T) {
	t.Parallel()
	const sum, each = 1 << 20, 1<<16 - 1 // of a payload, which is a text in quotes
	p := newPlace(t, withProxy)
	f := flow.New[order, int]("crowd")
	all := flow.WaitpointSignals[any](f, "ask", activity.Signals("approve"), activity.AtLeast(100), activity.Title("All?"))
	count := activity.New("size", func(_ context.Context, got []activity.Signal[any]) (int, error) { return len(got), nil })
	flow.Return(f, flow.Node(f, "size", count, all))
	def, err := f.Build()
	require.NoError(t, err)
	p.bench.KeepingWorker(t, def.Handlers())
	ctx := enginetest.Context(t)
	run, err := runtime.Start(ctx, p.client, def, order{"book", 1})
	require.NoError(t, err)
	var waits []runtime.Waitpoint
	enginetest.Eventually(t, func() string {
		waits, err = run.Waitpoints(ctx)
		require.NoError(t, err)
		return map[bool]string{false: "the wait is not open"}[len(waits) == 1]
	})
	left := sum
	for i := 0; left > 100; i++ {
		texts := len("approve") + len("external") + len("s")
		payload := strings.Repeat("x", min(each, left-texts)-2)
		sent, err := run.SignalWait(ctx, runtime.WaitName{Node: "ask"}, runtime.Signal{Name: "approve", Payload: payload, Source: "s"})
		require.NoError(t, err)
		require.Equal(t, fabrictype.SignalAccepted, sent.Outcome)
		left -= len(payload) + 2 + texts
	}
	before := len(p.received(&runtime.Run[string]{RunRef: run.RunRef}, waits[0]))
	refusals := map[string]string{}
	for _, d := range doors() {
		got := d.answer(p, given{wait: waits[0], user: "not operate", payload: `"` + strings.Repeat("y", 100) + `"`})
		require.Contains(t, []int{http.StatusRequestEntityTooLarge, http.StatusConflict, http.StatusBadRequest}, got.status, got.text)
		refusals[d.name] = got.text
	}
	_, err = run.SignalWait(ctx, runtime.WaitName{Node: "ask"}, runtime.Signal{Name: "approve", Payload: strings.Repeat("y", 100)})
	require.ErrorIs(t, err, runtime.ErrTooLarge)
	refusals["Go by name"] = err.Error()
	_, err = p.client.Signal(ctx, waits[0].Token, runtime.Signal{Name: "approve", Payload: strings.Repeat("y", 100)})
	require.ErrorIs(t, err, runtime.ErrTooLarge)
	refusals["Go by token"] = err.Error()
	_, err = runtime.Start(ctx, p.client, def, order{"book", 1}, runtime.WithSignal(runtime.WaitName{Node: "ask"}, runtime.Signal{Name: "approve", Payload: strings.Repeat("y", 100)}), runtime.WithID(run.ID()))
	require.ErrorIs(t, err, runtime.ErrTooLarge)
	refusals["Go with a start"] = err.Error()
	for name, text := range refusals {
		require.Contains(t, text, "at most 1048576", name)
	}
	require.Len(t, p.received(&runtime.Run[string]{RunRef: run.RunRef}, waits[0]), before, "a refused signal is recorded")
}

// A field that contradicts its signal is 422 by every route, with both in the text, and nothing is recorded. An answer
// that does not count is 409 with the names that do.
func TestContradictionsAndUncountedAnswers(t *testing.T) {
	t.Parallel()
	p := newPlace(t, withProxy)
	f := flow.New[string, []activity.Signal[activity.Decision]]("release")
	flow.Return(f, flow.Approval(f, "go-live", activity.Approvers(2)))
	def, err := f.Build()
	require.NoError(t, err)
	run, err := runtime.Start(enginetest.Context(t), p.bench.Client, def, "", runtime.WithID("v1"))
	require.NoError(t, err)
	waits, err := run.Waitpoints(enginetest.Context(t))
	require.NoError(t, err)
	require.Len(t, waits, 1)
	answer := func(path string, more map[string]any, user string, choice string) (int, string) {
		body := map[string]any{"name": "approve", "payload": map[string]any{"choice": choice}}
		maps.Copy(body, more)
		var problem api.Problem
		return p.do("POST", path, body, &problem, userHeader, user).StatusCode, problem.Detail
	}
	for path, more := range map[string]map[string]any{
		"/runs/release/v1/signals": {"node": "go-live"}, "/signals": {"token": waits[0].Token.Reveal()},
	} {
		status, text := answer(path, more, "all", "reject")
		require.Equal(t, http.StatusUnprocessableEntity, status, text)
		require.Contains(t, text, "payload of signal approve is not valid")
	}
	status, text := answer("/runs/release/v1/signals", map[string]any{"node": "go-live"}, "all", "approve")
	require.Equal(t, http.StatusOK, status, text)
	status, text = answer("/runs/release/v1/signals", map[string]any{"node": "go-live"}, "all", "approve")
	require.Equal(t, http.StatusConflict, status, text)
	require.Contains(t, text, "the names that count: approve, reject")
}
