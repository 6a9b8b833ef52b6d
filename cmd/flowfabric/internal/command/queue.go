package command

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

// queuedPlace is a place in the queue of a lane, with the partition that it is in.
type queuedPlace struct {
	api.QueuedPlace
	Partition int `json:"partition"`
	Place     int `json:"place"`
}

var queueView = output.View[queuedPlace]{
	Name: func(p queuedPlace) string { return p.Execution },
	Columns: []output.Column[queuedPlace]{
		{Name: "place", Text: func(p queuedPlace) string { return strconv.Itoa(p.Place) }},
		{Name: "node", Text: func(p queuedPlace) string { return nodeOfRun(p.NodeOfRun) }},
		{Name: "why", Text: func(p queuedPlace) string { return p.Rule }},
		{Name: "key", Text: func(p queuedPlace) string { return p.Key }},
		{Name: "priority", Text: func(p queuedPlace) string { return strconv.Itoa(p.Priority) }},
		{Name: "since", Text: func(p queuedPlace) string { return output.At(p.Since) }},
		{Name: "partition", Wide: true, Text: func(p queuedPlace) string { return strconv.Itoa(p.Partition) }},
		{Name: "execution", Wide: true, Text: func(p queuedPlace) string { return p.Execution }},
	},
}

// nodeOfRun names a node by flow, run and node, and anything else by its execution.
func nodeOfRun(n api.NodeOfRun) string {
	if n.Run == "" {
		return n.Execution
	}
	return n.Flow + " " + n.Run + " " + n.Node
}

func (a *App) laneQueue() *cobra.Command {
	var places int
	c := a.command(spec{
		use: "queue LANE", short: "Show which nodes workers take next, and why", calls: []httpapi.Entry{httpapi.GetLaneQueue},
		columns: queueView.ColumnNames(),
		do: func(r *request) error {
			q, err := call(r, httpapi.GetLaneQueue, httpapi.LaneQueueInput{
				LaneInput: httpapi.LaneInput{Lane: r.args[0]}, Places: places,
			})
			if err != nil {
				return err
			}
			var list []queuedPlace
			for _, part := range q.Partitions {
				for i, n := range part.Next {
					list = append(list, queuedPlace{QueuedPlace: n, Partition: part.Partition, Place: i + 1})
				}
			}
			return output.List(r.out, queueView, list)
		},
	})
	c.Flags().IntVar(&places, "places", 20, "most places of each partition, up to 50")
	return c
}

// placeUse is a node that holds a place of a limit, or waits for one.
type placeUse struct {
	api.PlaceUse
	State string `json:"state"`
}

var useView = output.View[placeUse]{
	Name: func(p placeUse) string { return p.Execution },
	Columns: []output.Column[placeUse]{
		{Name: "state", Text: func(p placeUse) string { return p.State }},
		{Name: "node", Text: func(p placeUse) string { return nodeOfRun(p.NodeOfRun) }},
		{Name: "since", Text: func(p placeUse) string { return output.At(p.Since) }},
		{Name: "priority", Text: func(p placeUse) string { return strconv.Itoa(p.Priority) }},
		{Name: "execution", Wide: true, Text: func(p placeUse) string { return p.Execution }},
	},
}

func (a *App) limitUse() *cobra.Command {
	var key string
	c := a.command(spec{
		use: "use LIMIT", short: "Show which nodes hold places of a limit, and which wait",
		calls: []httpapi.Entry{httpapi.GetLimitUse}, columns: useView.ColumnNames(),
		do: func(r *request) error {
			use, err := call(r, httpapi.GetLimitUse, httpapi.LimitUseInput{LimitInput: r.limit(key)})
			if err != nil {
				return err
			}
			var list []placeUse
			for _, p := range use.Holders {
				list = append(list, placeUse{PlaceUse: p, State: "holds"})
			}
			for _, p := range use.Pools {
				of := api.PlaceUse{NodeOfRun: api.NodeOfRun{Execution: "worker " + p.Worker}, Since: p.Since}
				list = append(list, placeUse{PlaceUse: of, State: "pool of " + strconv.Itoa(p.Places)})
			}
			for _, p := range use.Queue {
				list = append(list, placeUse{PlaceUse: p, State: "waits"})
			}
			return output.List(r.out, useView, list)
		},
	})
	declareKey(c, &key, "limit")
	return c
}

// budgetUser is a node that has reserved a part of a budget, or waits for it.
type budgetUser struct {
	api.NodeOfRun
	State     string `json:"state"`
	Amount    int64  `json:"amount,omitempty"`
	Dimension string `json:"dimension,omitempty"`
}

var budgetUserView = output.View[budgetUser]{
	Name: func(u budgetUser) string { return u.Execution },
	Columns: []output.Column[budgetUser]{
		{Name: "state", Text: func(u budgetUser) string { return u.State }},
		{Name: "node", Text: func(u budgetUser) string { return nodeOfRun(u.NodeOfRun) }},
		{Name: "amount", Text: func(u budgetUser) string {
			if u.Dimension == "" {
				return ""
			}
			return strconv.FormatInt(u.Amount, 10) + " " + u.Dimension
		}},
		{Name: "execution", Wide: true, Text: func(u budgetUser) string { return u.Execution }},
	},
}

func (a *App) budgetUse() *cobra.Command {
	f := &budgetFlags{}
	c := a.command(spec{
		use: "use BUDGET", short: "Show which nodes have reserved parts of a budget, and which wait for it",
		calls: []httpapi.Entry{httpapi.GetBudgetUse}, columns: budgetUserView.ColumnNames(),
		do: func(r *request) error {
			use, err := call(r, httpapi.GetBudgetUse, httpapi.BudgetUseInput{BudgetInput: f.input(r)})
			if err != nil {
				return err
			}
			var list []budgetUser
			for _, one := range use.Reserved {
				list = append(list, budgetUser{
					NodeOfRun: one.NodeOfRun, State: "reserves", Amount: one.Amount, Dimension: one.Dimension,
				})
			}
			for _, one := range use.Queue {
				list = append(list, budgetUser{NodeOfRun: one.NodeOfRun, State: "waits"})
			}
			return output.List(r.out, budgetUserView, list)
		},
	})
	a.declareBudget(c, f)
	return c
}
