package server_test

import (
	"maps"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

func TestLimitsAndBudgetsHaveETags(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, p *place) {
		for path, body := range map[string]func(n int) any{
			"/limits/crm":    func(n int) any { return map[string]any{"at_once": n} },
			"/budgets/money": func(n int) any { return map[string]any{"hard": map[string]int{"calls": n, "cents": 5}} },
		} {
			reply := p.do("PUT", path, body(3), nil)
			require.Equal(t, http.StatusOK, reply.StatusCode, path)
			tag := reply.Header.Get("Etag")
			require.NotEmpty(t, tag)
			require.Equal(t, tag, p.do("GET", path, nil, nil).Header.Get("Etag"))
			require.Equal(t, http.StatusOK, p.do("PUT", path, body(4), nil, "If-Match", tag).StatusCode)
			var problem api.Problem
			require.Equal(t, http.StatusPreconditionFailed, p.do("PUT", path, body(5), &problem, "If-Match", tag).StatusCode)
			require.Equal(t, "changed_meanwhile", problem.Code)
			require.Equal(t, http.StatusOK, p.do("PUT", path, body(5), nil, "If-Match", "*").StatusCode)
			require.Equal(t, http.StatusPreconditionFailed, p.do("PUT", path+"-none", body(5), nil, "If-Match", tag).StatusCode)
		}
	})
}

// Of several writers that have read the same state, one changes it.
func TestConcurrentWriters(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, p *place) {
		for path, body := range map[string]func(n int) any{
			"/limits/crm":    func(n int) any { return map[string]any{"at_once": n} },
			"/budgets/money": func(n int) any { return map[string]any{"hard": map[string]int{"calls": n}} },
		} {
			tag := p.do("PUT", path, body(1), nil).Header.Get("Etag")
			statuses := make([]int, 8)
			var group sync.WaitGroup
			for i := range statuses {
				group.Go(func() { statuses[i] = p.do("PUT", path, body(10+i), nil, "If-Match", tag).StatusCode })
			}
			group.Wait()
			counts := map[int]int{}
			for _, status := range statuses {
				counts[status]++
			}
			require.Equal(t, map[int]int{http.StatusOK: 1, http.StatusPreconditionFailed: len(statuses) - 1}, counts, path)
		}
	})
}

// A run that was there before is answered with 200, a new one with 201.
func TestStartReportsExistingRun(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, p *place) {
		body := map[string]any{"id": "one", "input": order{"book", 1}}
		var first, second api.StartedRun
		require.Equal(t, http.StatusCreated, p.do("POST", "/flows/order/runs", body, &first).StatusCode)
		require.Equal(t, http.StatusOK, p.do("POST", "/flows/order/runs", body, &second).StatusCode)
		require.Equal(t, api.StartedRun{Flow: "order", Run: "one"}, first)
		require.Equal(t, api.StartedRun{Flow: "order", Run: "one", Existed: true}, second)
		other := maps.Clone(body)
		other["input"] = order{"pen", 1}
		require.Equal(t, http.StatusConflict, p.do("POST", "/flows/order/runs", other, nil).StatusCode)
	})
}

func TestSchedules(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, p *place) {
		const path = "/schedules/hourly"
		var problem api.Problem
		body := map[string]any{"flow": "order", "input": map[string]any{"item": 3}, "every": "1h"}
		require.Equal(t, http.StatusUnprocessableEntity, p.do("PUT", path, body, &problem).StatusCode)
		require.Greater(t, len(problem.Errors), 1)
		body["input"] = order{"book", 1}
		body["cron"] = "0 * * * *"
		require.Equal(t, http.StatusUnprocessableEntity, p.do("PUT", path, body, &problem).StatusCode, "every and cron")
		require.Equal(t, http.StatusNotFound, p.do("GET", path, nil, nil).StatusCode, "nothing was written")
		body["flow"] = "none"
		require.Equal(t, http.StatusNotFound, p.do("PUT", path, body, &problem).StatusCode)
		require.Equal(t, "flow_not_published", problem.Code)

		body = map[string]any{"flow": "order", "input": order{"book", 1}, "every": "1h", "tags": map[string]string{"team.name": "a"}}
		var made, edited fabrictype.Schedule
		require.Equal(t, http.StatusOK, p.do("PUT", path, body, &made).StatusCode)
		require.Equal(t, "order", made.Flow)
		require.Equal(t, "1h0m0s", made.Every.String())
		var fires fabrictype.Page[string]
		p.do("GET", path+"/fires?limit=3", nil, &fires)
		require.Len(t, fires.Items, 3)

		edit := map[string]any{"timing": map[string]any{"cron": "30 2 * * *", "time_zone": "Europe/Berlin"}, "overlap": "queue"}
		require.Equal(t, http.StatusOK, p.do("PATCH", path, edit, &edited).StatusCode)
		require.Equal(t, [3]string{"30 2 * * *", "Europe/Berlin", "queue"}, [3]string{edited.Cron, edited.TimeZone, string(edited.Overlap)})
		require.Zero(t, edited.Every)
		require.Equal(t, made.Tags, edited.Tags, "settings that are not given stay")
		require.Equal(t, http.StatusNotFound, p.do("PATCH", "/schedules/none", edit, nil).StatusCode)

		var shown fabrictype.Schedule
		require.Equal(t, http.StatusOK, p.do("GET", path, nil, &shown).StatusCode)
		require.Nil(t, shown.Input)
		require.Equal(t, http.StatusOK, p.do("GET", path+"?values=true", nil, &shown).StatusCode)
		require.JSONEq(t, `{"item": "book", "count": 1}`, string(shown.Input.JSON))

		past := map[string]any{"from": "2020-01-01T00:00:00Z", "until": "2020-01-03T12:00:00Z", "overlap": "allow"}
		var backfilled httpapi.Backfilled
		require.Equal(t, http.StatusOK, p.do("POST", path+"/backfill", past, &backfilled).StatusCode)
		require.Equal(t, 3, backfilled.Times)
		past["until"] = "2019-01-01T00:00:00Z"
		require.Equal(t, http.StatusUnprocessableEntity, p.do("POST", path+"/backfill", past, nil).StatusCode)

		var started api.StartedRun
		require.Equal(t, http.StatusOK, p.do("POST", path+"/trigger", nil, &started).StatusCode)
		require.Equal(t, "order", started.Flow)
		require.Equal(t, http.StatusNoContent, p.do("DELETE", path, nil, nil).StatusCode)
		require.Equal(t, http.StatusNotFound, p.do("GET", path, nil, nil).StatusCode)
	})
}
