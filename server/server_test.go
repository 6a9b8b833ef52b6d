package server_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/httpclient"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

func TestStartAndResult(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, p *place) {
		p.start("order", "a/1", order{"book", 2})
		var result api.Result
		reply := p.do("GET", "/runs/order/"+url.PathEscape("a/1")+"/result?wait=30s", nil, &result)
		require.Equal(t, http.StatusOK, reply.StatusCode)
		require.Equal(t, "succeeded", result.State)
		require.JSONEq(t, `"packed book"`, string(result.Value.JSON))

		var page fabrictype.Page[fabrictype.Run]
		p.do("GET", "/runs?flow=order&state=succeeded", nil, &page)
		require.Len(t, page.Items, 1)
		require.Equal(t, "a/1", page.Items[0].Run)

		var detail fabrictype.RunDetail
		p.do("GET", "/runs/order/a%2F1?values=true&attempts=true", nil, &detail)
		require.EqualValues(t, "succeeded", detail.State)
		require.JSONEq(t, `{"item":"book","count":2}`, string(detail.Nodes[0].Input.JSON))
		require.Len(t, detail.Nodes[0].History, 1)
	})
}

func TestAllFaultsAreReportedTogether(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, p *place) {
		var problem api.Problem
		reply := p.do("POST", "/flows/order/runs", map[string]any{"input": map[string]any{"item": 3, "cuont": 1}}, &problem)
		require.Equal(t, http.StatusUnprocessableEntity, reply.StatusCode)
		require.Equal(t, "application/problem+json", reply.Header.Get("Content-Type"))
		require.Equal(t, "invalid", problem.Code)
		require.Greater(t, len(problem.Errors), 1)

		for path, want := range map[string]int{
			"/runs?flwo=order":         http.StatusUnprocessableEntity,
			"/runs/order/none":         http.StatusNotFound,
			"/flows/none":              http.StatusNotFound,
			"/schedules/none":          http.StatusNotFound,
			"/budgets/none":            http.StatusNotFound,
			"/workers?x=1":             http.StatusUnprocessableEntity,
			"/runs/order/none/nodes/x": http.StatusNotFound,
		} {
			reply := p.do("GET", path, nil, &problem)
			require.Equal(t, want, reply.StatusCode, path)
			require.NotEmpty(t, problem.Code, path)
		}
	})
}

// Errors are problems also where the API has no operation.
func TestUnknownRoutesReturnProblems(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	for _, c := range []struct {
		method, path string
		status       int
		code, allow  string
	}{
		{"PATCH", "/runs", http.StatusMethodNotAllowed, "method_not_allowed", "GET, HEAD"},
		{"GET", "/flows/order/runs", http.StatusMethodNotAllowed, "method_not_allowed", "POST"},
		{"DELETE", "/runs/order/a%2Fb/priority", http.StatusMethodNotAllowed, "method_not_allowed", "PUT"},
		{"GET", "/nosuch", http.StatusNotFound, "not_found", ""},
		{"GET", "/runs/", http.StatusNotFound, "not_found", ""},
		{"POST", "/runs/order/one/nosuch", http.StatusNotFound, "not_found", ""},
		{"GET", "", http.StatusNotFound, "not_found", ""},
	} {
		var problem api.Problem
		reply := p.do(c.method, c.path, nil, &problem)
		require.Equal(t, c.status, reply.StatusCode, c.path)
		require.Equal(t, c.status, problem.Status, c.path)
		require.Equal(t, c.code, problem.Code, c.path)
		require.Equal(t, "application/problem+json", reply.Header.Get("Content-Type"), c.path)
		require.Equal(t, c.allow, reply.Header.Get("Allow"), c.path)
		require.Contains(t, problem.Detail, c.allow, c.path)
	}
}

func TestFollowRun(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, p *place) {
		p.start("order", "one", order{"book", 1})
		request, err := http.NewRequestWithContext(t.Context(), "GET", p.url+httpapi.Prefix+"/runs/order/one/events", nil)
		require.NoError(t, err)
		request.Header.Set("Accept", "text/event-stream")
		reply, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		defer reply.Body.Close()
		require.Equal(t, "text/event-stream", reply.Header.Get("Content-Type"))
		var ids, events []string
		for scanner := bufio.NewScanner(reply.Body); scanner.Scan(); {
			if id, ok := strings.CutPrefix(scanner.Text(), "id: "); ok {
				ids = append(ids, id)
			}
			if event, ok := strings.CutPrefix(scanner.Text(), "event: "); ok {
				events = append(events, event)
			}
		}
		require.Equal(t, []string{"end"}, events)
		require.Greater(t, len(ids), 2)

		var items []fabrictype.Event
		for page := (httpapi.Events[fabrictype.Event]{Next: ids[0]}); !page.End; {
			after := page.Next
			page = httpapi.Events[fabrictype.Event]{}
			p.do("GET", "/runs/order/one/events?wait=5s", nil, &page, "Last-Event-ID", after)
			items = append(items, page.Items...)
		}
		require.Len(t, items, len(ids)-1)
		require.EqualValues(t, "flow_success", items[len(items)-1].Kind)
	})
}

func TestAnswerAWait(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, p *place) {
		p.start("approval", "one", order{"book", 1})
		var waits fabrictype.Page[fabrictype.Wait]
		require.Eventually(t, func() bool { // the worker opens the wait
			p.do("GET", "/waits", nil, &waits)
			return len(waits.Items) == 1
		}, patience, 10e6)
		require.Equal(t, "Ship it?", waits.Items[0].Title)

		var problem api.Problem
		answer := map[string]any{"node": "approve", "name": "answer", "payload": map[string]any{"yes": "perhaps"}}
		require.Equal(t, http.StatusUnprocessableEntity, p.do("POST", "/runs/approval/one/signals", answer, &problem).StatusCode)
		require.Equal(t, "/yes", problem.Errors[0].Pointer)

		answer["payload"] = map[string]any{"yes": true}
		var delivery fabrictype.SignalResult
		require.Equal(t, http.StatusOK, p.do("POST", "/runs/approval/one/signals", answer, &delivery).StatusCode)
		require.EqualValues(t, "resumed", delivery.Outcome)
		var result api.Result
		p.do("GET", "/runs/approval/one/result?wait=30s", nil, &result)
		require.JSONEq(t, `"shipped"`, string(result.Value.JSON))
	})
}

// gone is the writer of a reply whose client has left.
type gone struct{ http.ResponseWriter }

// Write implements http.ResponseWriter.
func (gone) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// A reply that cannot be written is not a panic of the server, whether it has a result or an error, and whether the
// time of the request has passed or its connection has broken.
func TestUnwrittenReplyIsNotAPanic(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	expired, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for _, ctx := range []context.Context{t.Context(), expired} {
		for _, path := range []string{"/runs", "/server", "/runs/order/none", "/nosuch"} {
			request := httptest.NewRequestWithContext(ctx, "GET", "http://localhost"+httpapi.Prefix+path, nil)
			p.server.Handler().ServeHTTP(gone{httptest.NewRecorder()}, request)
		}
		request := httptest.NewRequestWithContext(ctx, "POST", "http://localhost"+httpapi.Prefix+"/flows/order/runs", strings.NewReader("{"))
		p.server.Handler().ServeHTTP(gone{httptest.NewRecorder()}, request)
	}
	require.NotContains(t, p.log.String(), "panic")
}

// A client reads replies to their end, also those that are sent in chunks: the next request uses the same connection.
func TestClientReusesConnections(t *testing.T) {
	t.Parallel()
	var connections atomic.Int32
	listener := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"version":"` + strings.Repeat("x", 10_000) + `"}`))
		_ = http.NewResponseController(w).Flush()
		_, _ = w.Write([]byte("\n"))
	}))
	listener.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	listener.Start()
	t.Cleanup(listener.Close)
	client, err := httpclient.New(listener.URL, httpclient.Config{HTTPClient: listener.Client()})
	require.NoError(t, err)
	for range 5 {
		info, err := client.GetServer(t.Context())
		require.NoError(t, err)
		require.Len(t, info.Version, 10_000)
	}
	require.EqualValues(t, 1, connections.Load())
}
