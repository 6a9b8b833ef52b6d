package server_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
)

// The queue of a lane names the nodes that workers take next, to those who see all flows.
func TestLaneQueue(t *testing.T) {
	t.Parallel()
	each(t, withTokens, func(t *testing.T, p *place) {
		p.token = adminSecret
		require.Equal(t, http.StatusNoContent, p.do("POST", "/lanes/default/pause", map[string]any{}, nil).StatusCode)
		p.start("order", "o-1", order{Item: "book"})
		p.start("approval", "a-1", order{Item: "pen"})
		var queue api.LaneQueue
		require.Equal(t, http.StatusOK, p.do("GET", "/lanes/default/queue", nil, &queue).StatusCode)
		require.Equal(t, 2, queue.Waiting)
		runs := map[string]string{}
		for _, part := range queue.Partitions {
			require.True(t, part.Paused)
			for _, n := range part.Next {
				runs[n.Run] = n.Flow + " " + n.Node + " " + n.Activity + " " + n.Rule
			}
		}
		require.Equal(t, map[string]string{"o-1": "order pack pack age", "a-1": "approval pack pack age"}, runs)
		require.Equal(t, http.StatusUnprocessableEntity, p.do("GET", "/lanes/default/queue?places=51", nil, nil).StatusCode)

		viewer := p.as("ann", api.Viewer, "")
		require.Equal(t, http.StatusOK, viewer.do("GET", "/lanes/default/queue", nil, nil).StatusCode)
		bound := p.as("ben", api.Operator, "order*")
		require.Equal(t, http.StatusForbidden, bound.do("GET", "/lanes/default/queue", nil, nil).StatusCode)
	})
}

// The use of a limit is there once the limit is.
func TestLimitUse(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, p *place) {
		require.Equal(t, http.StatusNotFound, p.do("GET", "/limits/crm/use", nil, nil).StatusCode)
		require.NoError(t, p.client.Limit("crm", "").Set(t.Context(), activity.LimitConfig{AtOnce: 2}))
		var use api.LimitUse
		require.Equal(t, http.StatusOK, p.do("GET", "/limits/crm/use", nil, &use).StatusCode)
		require.Equal(t, api.LimitUse{Holders: []api.PlaceUse{}, Queue: []api.PlaceUse{}}, use)
	})
}

// The use of a budget is there once the budget is.
func TestBudgetUse(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, p *place) {
		require.Equal(t, http.StatusNotFound, p.do("GET", "/budgets/models/use", nil, nil).StatusCode)
		for query, ref := range map[string]fabrictype.BudgetName{
			"": {Name: "models"}, "?key=atlas": {Name: "models", Key: "atlas"}, "?flow=order": {Name: "models", Flow: "order"},
		} {
			require.NoError(t, p.client.Budget(ref).Create(t.Context(), flow.BudgetConfig{Hard: map[string]int64{"tokens": 10}}))
			var use api.BudgetUse
			require.Equal(t, http.StatusOK, p.do("GET", "/budgets/models/use"+query, nil, &use).StatusCode)
			require.Equal(t, api.BudgetUse{Reserved: []api.Reservation{}, Queue: []api.PlaceUse{}}, use)
		}
	})
}

// Statistics of a flow say how its nodes did in its last runs, and which versions these have.
func TestFlowStatistics(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, p *place) {
		for _, id := range []string{"1", "2", "3"} {
			p.start("order", id, order{Item: "book"})
			require.Equal(t, http.StatusOK, p.do("GET", "/runs/order/"+id+"/result?wait=30s", nil, nil).StatusCode)
		}
		var s api.FlowStatistics
		enginetest.Eventually(t, func() string {
			s = api.FlowStatistics{}
			require.Equal(t, http.StatusOK, p.do("GET", "/flows/order/statistics?runs=2", nil, &s).StatusCode)
			if len(s.Nodes) != 1 || s.Nodes[0].Ended != 2 {
				return "the list of runs is behind"
			}
			return ""
		})
		require.Equal(t, 2, s.Runs)
		require.True(t, s.More)
		require.Equal(t, "pack", s.Nodes[0].Node)
		require.Len(t, s.Versions, 1)
		require.Equal(t, 2, s.Versions[0].Runs)
		require.Len(t, s.Versions[0].Latest, 2)
		require.EqualValues(t, "succeeded", s.Versions[0].Latest[0].State)
		require.False(t, s.Versions[0].Last.Before(s.Versions[0].Latest[1].CreatedAt))
		require.Equal(t, orders(t).Hash()[:32], s.Versions[0].Hash)
	})
}

// A parameter that is given several times is refused unless it is a list that is written so.
func TestParametersAreGivenOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	for query, fault := range map[string]api.ProblemFault{
		"/counts?by=flow&by=state": {Name: "by", Message: "is given 2 times: write its values in one, with commas between them"},
		"/runs?limit=1&limit=2":    {Name: "limit", Message: "is given 2 times: it takes one value"},
		"/runs?flow=a&flow=b":      {Name: "flow", Message: "is given 2 times: it takes one value"},
		"/executions?lane=a&lane=": {Name: "lane", Message: "is given 2 times: it takes one value"},
		"/feed?flow=a&flow=b":      {Name: "flow", Message: "is given 2 times: it takes one value"},
	} {
		var problem api.Problem
		require.Equal(t, http.StatusUnprocessableEntity, p.do("GET", query, nil, &problem).StatusCode, query)
		fault.In = "query"
		require.Equal(t, []api.ProblemFault{fault}, problem.Errors, query)
	}
	for _, query := range []string{"/counts?by=flow,state", "/runs?state=failed&state=running"} {
		require.Equal(t, http.StatusOK, p.do("GET", query, nil, nil).StatusCode, query)
	}
}

// A cursor that no page of executions returned is refused, as a cursor of another list is.
func TestBadCursorOfExecutions(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	var problem api.Problem
	require.Equal(t, http.StatusUnprocessableEntity, p.do("GET", "/executions?cursor=1e999", nil, &problem).StatusCode)
	require.Equal(t, "bad_cursor", problem.Code)
}
