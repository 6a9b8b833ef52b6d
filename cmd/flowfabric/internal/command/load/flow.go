package load

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/cliflag"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/runs"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/wording"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flowtest/runcheck"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func Flow(a *shell.App) *cobra.Command {
	return a.Group("flow", "Show and check published flows", flowList(a), flowShow(a), flowPlan(a), flowStatistics(a),
		flowDiff(a), flowCheck(a), flowWithdraw(a))
}

var flowView = output.View[fabrictype.Flow]{
	Name: func(f fabrictype.Flow) string { return f.Name },
	Columns: []output.Column[fabrictype.Flow]{
		{Name: "flow", Text: func(f fabrictype.Flow) string { return f.Name }},
		{Name: "hash", Text: func(f fabrictype.Flow) string { return f.Hash[:min(len(f.Hash), 12)] }},
		{Name: "nodes", Text: func(f fabrictype.Flow) string { return strconv.Itoa(f.Nodes) }},
		{Name: "input", Text: func(f fabrictype.Flow) string { return f.InputType }},
		{Name: "result", Text: func(f fabrictype.Flow) string { return f.ResultType }},
		{Name: "published", Text: func(f fabrictype.Flow) string { return output.At(f.PublishedAt) }},
		{Name: "by", Text: func(f fabrictype.Flow) string { return f.PublishedBy }},
		{Name: "codec", Wide: true, Text: func(f fabrictype.Flow) string { return f.Codec }},
		{Name: "doc", Text: func(f fabrictype.Flow) string { return f.Doc }},
	},
}

func flowList(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "list", Short: "Show the published flows", Calls: []httpapi.Entry{httpapi.ListFlows},
		Columns: flowView.ColumnNames(),
		Do: func(r *shell.Request) error {
			flows, err := shell.Call(r, httpapi.ListFlows, httpapi.Empty{})
			if err != nil {
				return err
			}
			return output.List(r.Out, flowView, flows.Items)
		},
	})
}

var versionView = output.View[fabrictype.FlowVersion]{
	Name: func(v fabrictype.FlowVersion) string { return v.Hash },
	Columns: []output.Column[fabrictype.FlowVersion]{
		{Name: "hash", Text: func(v fabrictype.FlowVersion) string { return v.Hash }},
		{Name: "published", Text: func(v fabrictype.FlowVersion) string { return output.At(v.PublishedAt) }},
		{Name: "by", Text: func(v fabrictype.FlowVersion) string { return v.PublishedBy }},
	},
}

func flowShow(a *shell.App) *cobra.Command {
	var format string
	c := a.Command(shell.Spec{
		Use: "show FLOW", Short: "Show a published flow with its graph, schemas and history",
		Calls: []httpapi.Entry{httpapi.GetFlow, httpapi.GetFlowGraph, httpapi.GetFlowLayout},
		Check: func([]string) error { return cliflag.CheckDrawing(format) },
		Do: func(r *shell.Request) error {
			if format == cliflag.LayoutGraph {
				l, err := shell.Call(r, httpapi.GetFlowLayout, httpapi.GetFlowLayoutInput{Flow: r.Args[0]})
				if err != nil {
					return err
				}
				return r.Out.Value(l, r.Args[0], wording.Compact(l))
			}
			if r.Cmd.Flags().Changed("graph") {
				in := httpapi.GetFlowGraphInput{Flow: r.Args[0], Format: format}
				d, err := shell.Call(r, httpapi.GetFlowGraph, in)
				if err != nil {
					return err
				}
				return r.Out.Value(d, r.Args[0], d.Text)
			}
			d, err := shell.Call(r, httpapi.GetFlow, httpapi.FlowInput{Flow: r.Args[0]})
			if err != nil {
				return err
			}
			if !r.Out.ForPeople() {
				return r.Out.Value(d, d.Name, "")
			}
			return printFlow(r, &runtime.FlowDescription{FlowDetail: *d})
		},
	})
	cliflag.DeclareDrawing(c, &format)
	c.Flags().Lookup("graph").Usage = "print the graph alone: outline, mermaid, dot (Graphviz), svg or layout (JSON)"
	return c
}

func printFlow(r *shell.Request, d *runtime.FlowDescription) error {
	r.Out.Say("flow %s: %s -> %s, codec %s", d.Name, d.InputType, d.ResultType, d.Codec)
	if d.Doc != "" {
		r.Out.Say("%s", d.Doc)
	}
	r.Out.Say("%s", d.Outline())
	if d.InputSchema != nil {
		r.Out.Say("input: %s", d.InputSchema)
	}
	if d.ResultSchema != nil {
		r.Out.Say("result: %s", d.ResultSchema)
	}
	return output.List(r.Out, versionView, d.History)
}

func flowPlan(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "plan FLOW", Short: "Show the calls of the engine that a run of a published flow becomes, without starting one",
		Calls: []httpapi.Entry{httpapi.GetFlow},
		Do: func(r *shell.Request) error {
			d, err := shell.Call(r, httpapi.GetFlow, httpapi.FlowInput{Flow: r.Args[0]})
			if err != nil {
				return err
			}
			plan, err := (&runtime.FlowDescription{FlowDetail: *d}).Plan()
			if err != nil {
				return err
			}
			return r.Out.Value(plan, plan.Flow, plan.String())
		},
	})
}

// change is a line that two graphs do not share.
type change struct {
	Side string `json:"side"`
	Line string `json:"line"`
}

var changeView = output.View[change]{
	Name: func(c change) string { return c.Line },
	Columns: []output.Column[change]{
		{Name: "side", Text: func(c change) string { return c.Side }},
		{Name: "line", Text: func(c change) string { return c.Line }},
	},
}

func flowDiff(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "diff FLOW FLOW", Short: "Compare two published flows: the lines of their graphs and schemas",
		Calls: []httpapi.Entry{httpapi.GetFlow}, Columns: changeView.ColumnNames(),
		Do: func(r *shell.Request) error {
			var lines [2][]string
			for i, name := range r.Args {
				d, err := shell.Call(r, httpapi.GetFlow, httpapi.FlowInput{Flow: name})
				if err != nil {
					return err
				}
				outline := (&runtime.FlowDescription{FlowDetail: *d}).Outline()
				lines[i] = strings.Split(strings.TrimSpace(outline), "\n")
				lines[i] = append(lines[i][1:], "input: "+string(d.InputSchema), "result: "+string(d.ResultSchema))
			}
			var changes []change
			for i, other := range []int{1, 0} {
				for _, line := range lines[i] {
					if !slices.Contains(lines[other], line) {
						changes = append(changes, change{r.Args[i], strings.TrimSpace(line)})
					}
				}
			}
			return output.List(r.Out, changeView, changes)
		},
	})
}

var problemView = output.View[runcheck.Problem]{
	Name: func(p runcheck.Problem) string { return wording.Path(httpapi.RunName{Flow: p.Flow, Run: p.Run}) },
	Columns: []output.Column[runcheck.Problem]{
		{Name: "flow", Text: func(p runcheck.Problem) string { return p.Flow }},
		{Name: "run", Text: func(p runcheck.Problem) string { return p.Run }},
		{Name: "node", Text: func(p runcheck.Problem) string { return p.Node }},
		{Name: "code", Text: func(p runcheck.Problem) string { return string(p.Code) }},
		{Name: "detail", Text: func(p runcheck.Problem) string { return p.Detail }},
	},
}

func flowCheck(a *shell.App) *cobra.Command {
	var open bool
	c := a.Command(shell.Spec{
		Use: "check [FLOW]", Short: "Check that live workers can run flows, or with --open their open runs",
		Long: "Checks that live workers serve every activity of the published flows, or of one. With --open it " +
			"checks the nodes of open runs that have not ended: their activities, lanes and capabilities. The " +
			"exit code is 7 for a problem. For a build that does not run yet, the same is checked by " +
			"package runcheck, with the file of run export.",
		Calls: []httpapi.Entry{
			httpapi.ListFlows, httpapi.GetFlow, httpapi.ListWorkers, httpapi.ListRuns, httpapi.GetRun,
		},
		Columns: problemView.ColumnNames(),
		Do: func(r *shell.Request) error {
			workers, err := shell.Call(r, httpapi.ListWorkers, httpapi.Empty{})
			if err != nil {
				return err
			}
			only := ""
			if len(r.Args) > 0 {
				only = r.Args[0]
			}
			check := checkFlows
			if open {
				check = checkOpenRuns
			}
			problems, err := check(r, only, workers.Items)
			if err != nil {
				return err
			}
			if err := output.List(r.Out, problemView, problems); err != nil || len(problems) == 0 {
				return err
			}
			return fmt.Errorf("%w: problems: %d", shell.ErrFound, len(problems))
		},
	})
	c.Flags().BoolVar(&open, "open", false, "check the open runs instead of the published flows")
	return c
}

func checkFlows(r *shell.Request, only string, workers []fabrictype.Worker) ([]runcheck.Problem, error) {
	flows := []string{only}
	if only == "" {
		published, err := shell.Call(r, httpapi.ListFlows, httpapi.Empty{})
		if err != nil {
			return nil, err
		}
		flows = wording.Names(published.Items, func(f fabrictype.Flow) string { return f.Name })
	}
	var problems []runcheck.Problem
	for _, name := range flows {
		d, err := shell.Call(r, httpapi.GetFlow, httpapi.FlowInput{Flow: name})
		if err != nil {
			return nil, err
		}
		graph, err := flowgraph.ParseGraph(d.Definition)
		if err != nil {
			return nil, fmt.Errorf("flow %s: %w", name, err)
		}
		problems = append(problems, checkGraph(name, "", graph, workers)...)
	}
	return problems, nil
}

// checkGraph returns the problems of a graph and of the sub-flows in it, whose nodes follow the name of the sub-flow's
// node.
func checkGraph(flow, prefix string, graph *flowgraph.Graph, workers []fabrictype.Worker) []runcheck.Problem {
	var problems []runcheck.Problem
	for i := range graph.Nodes {
		n := &graph.Nodes[i]
		of := runcheck.Problem{Flow: flow, Node: prefix + n.Name}
		problems = append(problems, unserved(of, n.Activity, n.Lane, n.Capabilities, workers)...)
		if n.Sub != nil && n.SubOf == "" {
			problems = append(problems, checkGraph(flow, prefix+n.Name+"/", n.Sub, workers)...)
		}
	}
	return problems
}

func checkOpenRuns(r *shell.Request, only string, workers []fabrictype.Worker) ([]runcheck.Problem, error) {
	query := runtime.RunQuery{Flow: only, States: []fabrictype.RunState{fabrictype.RunRunning}, Children: true}.Values()
	listed, _, err := shell.Pages(r, httpapi.ListRuns, 0, func(p api.Paging) httpapi.ListRunsInput {
		return httpapi.ListRunsInput{Paging: p, Query: query}
	})
	if err != nil {
		return nil, err
	}
	var problems []runcheck.Problem
	for _, run := range listed {
		d, err := runs.DescribeRun(r, httpapi.GetRunInput{RunName: httpapi.RunName{Flow: run.Flow, Run: run.Run}})
		if err != nil {
			return nil, err
		}
		for _, n := range d.Nodes {
			if !n.State.Ended() {
				found := unserved(runcheck.Problem{Flow: d.Flow, Run: d.Run, Node: n.Name}, n.Activity, n.Lane,
					n.Capabilities, workers)
				problems = append(problems, found...)
			}
		}
	}
	return problems, nil
}

// unserved returns the problem of a node whose activity no worker serves on its lane with its capabilities. Waitpoints
// and sub-flows have no activity and need no worker.
func unserved(p runcheck.Problem, activity, lane string, capabilities []string,
	workers []fabrictype.Worker) []runcheck.Problem {
	if activity == "" {
		return nil
	}
	lane = cmp.Or(lane, "default")
	p.Code, p.Detail = runcheck.ActivityMissing, fmt.Sprintf("no live worker has the activity %q", activity)
	for _, w := range workers {
		if !slices.Contains(w.Activities, activity) {
			continue
		}
		if !slices.Contains(w.Lanes, lane) {
			if p.Code == runcheck.ActivityMissing {
				p.Code = runcheck.LaneUnserved
				p.Detail = fmt.Sprintf("no live worker with the activity %q serves the lane %q", activity, lane)
			}
			continue
		}
		missing := slices.DeleteFunc(slices.Clone(capabilities),
			func(c string) bool { return slices.Contains(w.Capabilities, c) })
		if len(missing) == 0 {
			return nil
		}
		p.Code = runcheck.CapabilityUnserved
		p.Detail = fmt.Sprintf("no live worker with the activity %q on the lane %q has the capabilities %q", activity,
			lane, missing)
	}
	return []runcheck.Problem{p}
}

func flowWithdraw(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "withdraw FLOW", Short: "Remove a flow from the catalogue; its runs stay",
		Calls: []httpapi.Entry{httpapi.WithdrawFlow},
		Do: func(r *shell.Request) error {
			look := func() error { _, err := shell.Call(r, httpapi.GetFlow, httpapi.FlowInput{Flow: r.Args[0]}); return err }
			return r.Destroy("withdraw flow "+r.Args[0], look, func() error {
				_, err := shell.Call(r, httpapi.WithdrawFlow, httpapi.FlowInput{Flow: r.Args[0]})
				return r.PrintDone("withdrawn", r.Args[0], err)
			})
		},
	})
}

var statisticsView = output.View[api.NodeStatistics]{
	Name: func(n api.NodeStatistics) string { return n.Node },
	Columns: []output.Column[api.NodeStatistics]{
		{Name: "node", Text: func(n api.NodeStatistics) string { return n.Node }},
		{Name: "ended", Text: func(n api.NodeStatistics) string { return strconv.Itoa(n.Ended) }},
		{Name: "failed", Text: func(n api.NodeStatistics) string { return strconv.Itoa(n.Failed) }},
		{Name: "retried", Text: func(n api.NodeStatistics) string { return strconv.Itoa(n.Retried) }},
		{Name: "skipped", Wide: true, Text: func(n api.NodeStatistics) string { return strconv.Itoa(n.Skipped) }},
		{Name: "median", Text: func(n api.NodeStatistics) string { return n.Median.String() }},
		{Name: "p95", Text: func(n api.NodeStatistics) string { return n.P95.String() }},
		{Name: "slowest", Text: func(n api.NodeStatistics) string { return n.Slowest.String() }},
	},
}

func flowStatistics(a *shell.App) *cobra.Command {
	var runs int
	var search, order string
	c := a.Command(shell.Spec{
		Use: "statistics FLOW", Short: "Show how the nodes of a flow did in its last runs, or in the runs of a time",
		Example: "  flowfabric flow statistics orders --search yesterday --sort failures\n" +
			"  flowfabric flow statistics orders --search 1h --sort p95",
		Check: func(args []string) error {
			return runtime.RunQuery{Search: search, SearchAt: a.Now()}.Check()
		},
		Calls: []httpapi.Entry{httpapi.GetFlowStatistics}, Columns: statisticsView.ColumnNames(),
		Do: func(r *shell.Request) error {
			s, err := shell.Call(r, httpapi.GetFlowStatistics, httpapi.FlowStatisticsInput{
				Flow: r.Args[0], Runs: runs, Search: search, Sort: order,
				SearchAt: runtime.RunQuery{SearchAt: r.Now()}.Values().Get("search_at"),
			})
			if err != nil {
				return err
			}
			if !r.Out.ForPeople() {
				return r.Out.Value(s, r.Args[0], "")
			}
			return output.List(r.Out, statisticsView, s.Nodes)
		},
	})
	c.Flags().IntVar(&runs, "runs", 50, "the maximum of runs to evaluate, the newest first, up to 200")
	c.Flags().StringVar(&search, "search", "", "only runs that these words select, such as yesterday, 2h or failed")
	c.Flags().StringVar(&order, "sort", "flow", "order of the nodes: flow, failures, median or p95")
	return c
}
