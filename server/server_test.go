package server_test

import (
	"bufio"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
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
