package server_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/server"
)

func oftenSampled(c *server.Config) { c.SampleEvery = 100 * time.Millisecond }

// The history of a lane has the waiting, running and started attempts, sample by sample.
func TestLaneHistory(t *testing.T) {
	t.Parallel()
	each(t, oftenSampled, func(t *testing.T, p *place) {
		history := func() []api.LaneSample {
			var h httpapi.LaneHistory
			require.Equal(t, http.StatusOK, p.do("GET", "/lanes/default/history", nil, &h).StatusCode)
			return h.Samples
		}
		// until waits for a sample that satisfies a condition, and returns all.
		until := func(what string, is func(api.LaneSample) bool) (list []api.LaneSample) {
			enginetest.Eventually(t, func() string {
				if list = history(); len(list) == 0 || !is(list[len(list)-1]) {
					return "the last sample is not " + what
				}
				return ""
			})
			return list
		}
		begun := func() (n int64) {
			for _, one := range history() {
				n += one.Started
			}
			return n
		}
		p.start("order", "o-1", order{Item: "book"})
		require.Equal(t, http.StatusOK, p.do("GET", "/runs/order/o-1/result?wait=30s", nil, nil).StatusCode)
		idle := func(l api.LaneSample) bool { return l.Eligible+l.Active == 0 }
		until("idle", idle)
		require.Zero(t, begun(), "the worker has not reported it")

		require.Equal(t, http.StatusNoContent, p.do("POST", "/lanes/default/pause", map[string]any{}, nil).StatusCode)
		p.start("order", "o-2", order{Item: "book"})
		list := until("with a node that waits", func(l api.LaneSample) bool { return l.Eligible == 1 })
		require.True(t, slices.ContainsFunc(list, idle), "the past stays")
		require.IsIncreasing(t, times(list))

		var workers fabrictype.Page[fabrictype.Worker]
		require.Equal(t, http.StatusOK, p.do("GET", "/workers", nil, &workers).StatusCode)
		path := "/workers/" + workers.Items[0].Instance + "/drain"
		require.Equal(t, http.StatusNoContent, p.do("POST", path, map[string]any{}, nil).StatusCode)
		enginetest.Eventually(t, func() string {
			if begun() != 1 {
				return "the attempt is not counted"
			}
			return ""
		})
		var none httpapi.LaneHistory
		require.Equal(t, http.StatusOK, p.do("GET", "/lanes/nobody/history", nil, &none).StatusCode)
		require.Empty(t, none.Samples)
	})
}

func times(list []api.LaneSample) (at []int64) {
	for _, l := range list {
		at = append(at, l.At.UnixNano())
	}
	return at
}

// The history of a budget has its usage; a budget with another key or flow has a separate history.
func TestBudgetHistory(t *testing.T) {
	t.Parallel()
	each(t, oftenSampled, func(t *testing.T, p *place) {
		require.Equal(t, http.StatusNotFound, p.do("GET", "/budgets/models/history", nil, nil).StatusCode)
		for query, ref := range map[string]fabrictype.BudgetName{
			"": {Name: "models"}, "?key=atlas": {Name: "models", Key: "atlas"}, "?flow=order": {Name: "models", Flow: "order"},
		} {
			require.NoError(t, p.client.Budget(ref).Create(t.Context(), flow.BudgetConfig{Hard: map[string]int64{"tokens": 10}}))
			enginetest.Eventually(t, func() string {
				var h httpapi.BudgetHistory
				require.Equal(t, http.StatusOK, p.do("GET", "/budgets/models/history"+query, nil, &h).StatusCode)
				if len(h.Samples) < 2 {
					return "there are no two samples"
				}
				require.Equal(t, map[string]int64{"tokens": 0}, h.Samples[1].Spent)
				return ""
			})
		}
	})
}

// Keeper tasks that work by time report the lag of keepers.
func TestKeeperLags(t *testing.T) {
	t.Parallel()
	each(t, oftenSampled, func(t *testing.T, p *place) {
		var tasks fabrictype.Page[api.KeeperTask]
		require.Equal(t, http.StatusOK, p.do("GET", "/keeper-tasks", nil, &tasks).StatusCode)
		timed := map[string]bool{}
		for _, task := range tasks.Items {
			if task.Lag != nil {
				timed[task.Name] = true
				require.NotEmpty(t, task.Lag.Minutes)
			}
		}
		require.True(t, timed["lease_expiry"] && timed["schedule"] && timed["delayed_promotion"])
		require.False(t, timed["index_reconciliation"], "it does not work by time")
	})
}

// Samples cannot be as often as one likes.
func TestSampleEvery(t *testing.T) {
	t.Parallel()
	_, err := server.New(server.Config{Engine: enginetest.New(t, "embedded").Engine, SampleEvery: time.Millisecond})
	require.ErrorIs(t, err, server.ErrInvalid)
	require.ErrorContains(t, err, "SampleEvery must be at least 100ms, got: 1ms")
}
