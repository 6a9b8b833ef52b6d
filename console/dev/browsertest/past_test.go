package browsertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/server"
)

// sampled waits until the server has samples.
func (p *place) sampled(t *testing.T, path string, most int) {
	t.Helper()
	enginetest.Eventually(t, func() string {
		reply, err := http.Get(p.url + "api/v1/" + path)
		require.NoError(t, err)
		defer func() { _ = reply.Body.Close() }()
		require.Equal(t, http.StatusOK, reply.StatusCode)
		var past struct {
			Samples []json.RawMessage `json:"samples"`
		}
		require.NoError(t, json.NewDecoder(reply.Body).Decode(&past))
		if len(past.Samples) < most {
			return fmt.Sprintf("%d samples of %s", len(past.Samples), path)
		}
		return ""
	})
}

// A newly opened page shows the last hour: lanes, budgets and the lag of keepers.
func TestPagesShowTheLastHour(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start(func(c *server.Config) { c.SampleEvery = 200 * time.Millisecond })
		p.queue(t)
		require.NoError(t, p.client.Budget(fabrictype.BudgetName{Name: "calm"}).Create(t.Context(), flow.BudgetConfig{Hard: map[string]int64{"tokens": 100}}))
		p.sampled(t, "lanes/models/history", 2)
		p.sampled(t, "budgets/calm/history", 6)
		w := open(t, p.url)
		w.goTo("lanes/models")
		w.see("svg.stacked")
		w.shows("Starts per minute")
		w.shows("at most 7 waited")
		w.goTo("budgets")
		w.await(`document.querySelector("[data-budget=calm] [data-forecast]")?.textContent.startsWith("100 left. Nothing was spent in the last")`)
		w.goTo("keepers")
		w.see(`[data-behind="lease_expiry"]`)
	})
}
