package command

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

var statisticsView = output.View[api.NodeStatistics]{
	Name: func(n api.NodeStatistics) string { return n.Node },
	Columns: []output.Column[api.NodeStatistics]{
		{Name: "node", Text: func(n api.NodeStatistics) string { return n.Node }},
		{Name: "ended", Text: func(n api.NodeStatistics) string { return strconv.Itoa(n.Ended) }},
		{Name: "failed", Text: func(n api.NodeStatistics) string { return strconv.Itoa(n.Failed) }},
		{Name: "retried", Text: func(n api.NodeStatistics) string { return strconv.Itoa(n.Retried) }},
		{Name: "skipped", Wide: true, Text: func(n api.NodeStatistics) string { return strconv.Itoa(n.Skipped) }},
		{Name: "median", Text: func(n api.NodeStatistics) string { return n.Median.String() }},
		{Name: "slowest", Text: func(n api.NodeStatistics) string { return n.Slowest.String() }},
	},
}

func (a *App) flowStatistics() *cobra.Command {
	var runs int
	c := a.command(spec{
		use: "statistics FLOW", short: "Show how the nodes of a flow did in its last runs",
		calls: []httpapi.Entry{httpapi.GetFlowStatistics}, columns: statisticsView.ColumnNames(),
		do: func(r *request) error {
			s, err := call(r, httpapi.GetFlowStatistics, httpapi.FlowStatisticsInput{Flow: r.args[0], Runs: runs})
			if err != nil {
				return err
			}
			if !r.out.ForPeople() {
				return r.out.Value(s, r.args[0], "")
			}
			return output.List(r.out, statisticsView, s.Nodes)
		},
	})
	c.Flags().IntVar(&runs, "runs", 50, "the maximum of runs to evaluate, the newest first, up to 200")
	return c
}
