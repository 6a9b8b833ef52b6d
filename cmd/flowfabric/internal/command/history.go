package command

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

var laneSampleView = output.View[api.LaneSample]{
	Name: func(l api.LaneSample) string { return output.At(l.At) },
	Columns: []output.Column[api.LaneSample]{
		{Name: "at", Text: func(l api.LaneSample) string { return output.At(l.At) }},
		{Name: "ready", Text: func(l api.LaneSample) string { return strconv.Itoa(l.Eligible) }},
		{Name: "held back", Text: func(l api.LaneSample) string { return strconv.Itoa(l.HeldBack) }},
		{Name: "running", Text: func(l api.LaneSample) string { return strconv.Itoa(l.Active) }},
		{Name: "started", Text: func(l api.LaneSample) string { return strconv.FormatInt(l.Started, 10) }},
	},
}

// historyNote names the source of the history.
const historyNote = " A server has samples of the last hour, or since it began. Without a server there is one, of the " +
	"present."

func (a *App) laneHistory() *cobra.Command {
	return a.command(spec{
		use: "history LANE", short: "Show the load of a lane during the last hour",
		long:  "Shows the waiting and running executions of a lane during the last hour." + historyNote,
		calls: []httpapi.Entry{httpapi.GetLaneHistory}, columns: laneSampleView.ColumnNames(),
		do: func(r *request) error {
			h, err := call(r, httpapi.GetLaneHistory, httpapi.LaneInput{Lane: r.args[0]})
			if err != nil {
				return err
			}
			return output.List(r.out, laneSampleView, h.Samples)
		},
	})
}

var budgetSampleView = output.View[api.BudgetSample]{
	Name: func(b api.BudgetSample) string { return output.At(b.At) },
	Columns: []output.Column[api.BudgetSample]{
		{Name: "at", Text: func(b api.BudgetSample) string { return output.At(b.At) }},
		{Name: "spent", Text: func(b api.BudgetSample) string { return amountsOf(b.Spent) }},
	},
}

// amountsOf returns amounts by dimension, such as "tokens 10, usd 3".
func amountsOf(amounts map[string]int64) string {
	var parts []string
	for dimension, n := range amounts {
		parts = append(parts, fmt.Sprintf("%s %d", dimension, n))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

func (a *App) budgetHistory() *cobra.Command {
	f := &budgetFlags{}
	c := a.command(spec{
		use: "history BUDGET", short: "Show how much was spent of a budget during the last hour",
		long:  "Shows how much was spent of a budget during the last hour." + historyNote,
		calls: []httpapi.Entry{httpapi.GetBudgetHistory}, columns: budgetSampleView.ColumnNames(),
		do: func(r *request) error {
			h, err := call(r, httpapi.GetBudgetHistory, f.input(r))
			if err != nil {
				return err
			}
			return output.List(r.out, budgetSampleView, h.Samples)
		},
	})
	a.declareBudget(c, f)
	return c
}
