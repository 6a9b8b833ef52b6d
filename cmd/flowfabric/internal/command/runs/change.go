package runs

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/cliflag"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/wording"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

func runCancel(a *shell.App) *cobra.Command {
	var reason, node string
	var pending bool
	c := a.Command(shell.Spec{
		Use: "cancel FLOW RUN", Short: "Cancel a run, or a node of it",
		Calls: []httpapi.Entry{httpapi.CancelRun, httpapi.CancelNode},
		Check: func([]string) error {
			if node != "" && pending {
				return errors.New("--node and --pending exclude each other")
			}
			return nil
		},
		Do: func(r *shell.Request) error {
			if node != "" {
				return cancelNode(r, node, reason)
			}
			return r.Destroy("cancel "+wording.Run(r.RunName()), func() error { return lookRun(r) }, func() error {
				in := httpapi.CancelRunInput{RunName: r.RunName()}
				in.Body.Reason, in.Body.PendingOnly = reason, pending
				_, err := shell.Call(r, httpapi.CancelRun, in)
				return r.PrintDone("cancelled", wording.Path(r.RunName()), err)
			})
		},
	})
	c.Flags().StringVar(&reason, "reason", "cancelled by an operator", "why, for the record")
	c.Flags().BoolVar(&pending, "pending", false, "let running nodes end by themselves")
	c.Flags().StringVar(&node, "node", "", "cancel this node alone")
	a.CompleteFlag(c, "node", "NODE")
	return c
}

func cancelNode(r *shell.Request, node, reason string) error {
	name := httpapi.NodeName{RunName: r.RunName(), Node: node}
	look := func() error {
		_, err := shell.Call(r, httpapi.GetNode, httpapi.GetNodeInput{NodeName: name})
		return err
	}
	return r.Destroy("cancel node "+node+" of "+wording.Run(r.RunName()), look, func() error {
		in := httpapi.NodeReasonInput{NodeName: name}
		in.Body.Reason = reason
		_, err := shell.Call(r, httpapi.CancelNode, in)
		return r.PrintDone("cancelled", node, err)
	})
}

func runRerun(a *shell.App) *cobra.Command {
	var from string
	var all bool
	c := a.Command(shell.Spec{
		Use: "rerun FLOW RUN", Short: "Run the nodes of an ended run again that did not succeed",
		Calls: []httpapi.Entry{httpapi.RerunRun},
		Check: func([]string) error {
			if all && from != "" {
				return errors.New("--all and --from exclude each other")
			}
			return nil
		},
		Do: func(r *shell.Request) error {
			in := httpapi.RerunInput{RunName: r.RunName()}
			in.Body.Scope = "failed"
			switch {
			case all:
				in.Body.Scope = "all"
			case from != "":
				in.Body.Scope, in.Body.Node = "from", from
			}
			_, err := shell.Call(r, httpapi.RerunRun, in)
			return r.PrintDone("runs again", wording.Path(r.RunName()), err)
		},
	})
	c.Flags().StringVar(&from, "from", "", "run this node again, and all that depends on it")
	a.CompleteFlag(c, "from", "NODE")
	c.Flags().BoolVar(&all, "all", false, "run all nodes again")
	return c
}

func runFork(a *shell.App) *cobra.Command {
	tags := cliflag.Tags{}
	var from, id string
	var input *cliflag.JSON
	results := cliflag.Tags{}
	c := a.Command(shell.Spec{
		Use: "fork FLOW RUN", Short: "Start a run from another one, with results of it",
		Calls: []httpapi.Entry{httpapi.ForkRun},
		Check: func([]string) error { return input.Check("input") },
		Do: func(r *shell.Request) error {
			in := httpapi.ForkRunInput{RunName: r.RunName()}
			in.Body.ID, in.Body.From, in.Body.Tags = id, cliflag.List(from), tags
			var err error
			if in.Body.Input, err = input.Read(r, "input"); err != nil {
				return err
			}
			for node, text := range results {
				result := cliflag.JSON{Text: text}
				if err := result.Check("result"); err != nil {
					return shell.Usage("%w", err)
				}
				if in.Body.Results == nil {
					in.Body.Results = map[string]json.RawMessage{}
				}
				if in.Body.Results[node], err = result.Read(r, "result"); err != nil {
					return err
				}
			}
			fork, err := shell.Call(r, httpapi.ForkRun, in)
			if err != nil {
				return err
			}
			return r.Out.Value(fork, wording.Path(httpapi.RunName{Flow: fork.Flow, Run: fork.Run}), fork.Run)
		},
	})
	c.Flags().StringVar(&from, "from", "", "run these nodes again, with commas, and all that depends on them")
	a.CompleteFlag(c, "from", "NODE")
	input = cliflag.DeclareJSON(c.Flags(), "input", "another input")
	c.Flags().Var(results, "result", "a result for a node, NODE=JSON; may be given several times")
	c.Flags().StringVar(&id, "id", "", "the id of the fork; a random one by default")
	c.Flags().Var(tags, "tag", "a tag of the fork; may be given several times")
	return c
}

var diffView = output.View[fabrictype.NodeDiff]{
	Name: func(n fabrictype.NodeDiff) string { return n.Name },
	Columns: []output.Column[fabrictype.NodeDiff]{
		{Name: "node", Text: func(n fabrictype.NodeDiff) string { return n.Name }},
		{Name: "differs", Text: func(n fabrictype.NodeDiff) string { return strings.Join(n.Differs, ", ") }},
		{Name: "state", Text: func(n fabrictype.NodeDiff) string { return string(side(n.A).State) }},
		{Name: "other state", Text: func(n fabrictype.NodeDiff) string { return string(side(n.B).State) }},
		{Name: "took", Text: func(n fabrictype.NodeDiff) string { return tookText(side(n.A).Took) }},
		{Name: "other took", Text: func(n fabrictype.NodeDiff) string { return tookText(side(n.B).Took) }},
	},
}

func side(n *fabrictype.NodeSide) fabrictype.NodeSide {
	if n == nil {
		return fabrictype.NodeSide{}
	}
	return *n
}

func tookText(d fabrictype.Duration) string {
	if d.Duration == 0 {
		return ""
	}
	return d.String()
}

func runDiff(a *shell.App) *cobra.Command {
	var flow string
	var all bool
	c := a.Command(shell.Spec{
		Use: "diff FLOW RUN OTHER", Short: "Compare two runs, node by node", Calls: []httpapi.Entry{httpapi.CompareRuns},
		Columns: diffView.ColumnNames(),
		Do: func(r *shell.Request) error {
			in := httpapi.CompareRunsInput{RunName: r.RunName(), OtherRun: r.Args[2], OtherFlow: flow}
			d, err := shell.Call(r, httpapi.CompareRuns, in)
			if err != nil {
				return err
			}
			if !r.Out.ForPeople() {
				return r.Out.Value(d, wording.Path(r.RunName()), "")
			}
			return printDiff(r, d, all)
		},
	})
	c.Flags().StringVar(&flow, "flow", "", "the flow of the other run, if it is another one")
	a.CompleteFlag(c, "flow", "FLOW")
	c.Flags().BoolVar(&all, "all", false, "show nodes that do not differ, too")
	return c
}

func printDiff(r *shell.Request, d *fabrictype.RunDiff, all bool) error {
	r.Out.Say("run %q of flow %s is %s, run %q of flow %s is %s", d.A.Run, d.A.Flow, d.A.State, d.B.Run, d.B.Flow,
		d.B.State)
	for _, part := range []struct {
		differs bool
		what    string
	}{{d.Graph, "graphs"}, {d.Input, "inputs"}, {d.Result, "results"}} {
		if part.differs {
			r.Out.Say("the %s differ", part.what)
		}
	}
	var nodes []fabrictype.NodeDiff
	for _, n := range d.Nodes {
		if all || len(n.Differs) > 0 {
			nodes = append(nodes, n)
		}
	}
	return output.List(r.Out, diffView, nodes)
}

func runPause(a *shell.App) *cobra.Command {
	var reason string
	c := a.Command(shell.Spec{
		Use: "pause FLOW RUN", Short: "Keep nodes of a run from starting", Calls: []httpapi.Entry{httpapi.PauseRun},
		Do: func(r *shell.Request) error {
			in := httpapi.ReasonInput{RunName: r.RunName()}
			in.Body.Reason = reason
			_, err := shell.Call(r, httpapi.PauseRun, in)
			return r.PrintDone("paused", wording.Path(r.RunName()), err)
		},
	})
	cliflag.DeclareReason(c, &reason)
	return c
}

func runResume(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "resume FLOW RUN", Short: "End the pause of a run", Calls: []httpapi.Entry{httpapi.ResumeRun},
		Do: func(r *shell.Request) error {
			_, err := shell.Call(r, httpapi.ResumeRun, httpapi.RunInput{RunName: r.RunName()})
			return r.PrintDone("resumed", wording.Path(r.RunName()), err)
		},
	})
}

func runPriority(a *shell.App) *cobra.Command {
	var node string
	var priority int
	c := a.Command(shell.Spec{
		Use: "priority FLOW RUN PRIORITY", Short: "Change the priority of a run's nodes, or of one node",
		Calls: []httpapi.Entry{httpapi.SetRunPriority, httpapi.SetNodePriority},
		Check: func(args []string) error {
			if _, err := fmt.Sscanf(args[2], "%d",
				&priority); err != nil || fmt.Sprint(priority) != args[2] || priority < 0 {
				return fmt.Errorf("PRIORITY %q: must be a number from 0 on", args[2])
			}
			return nil
		},
		Do: func(r *shell.Request) (err error) {
			if node != "" {
				in := httpapi.NodePriorityInput{NodeName: httpapi.NodeName{RunName: r.RunName(), Node: node}}
				in.Body.Priority = priority
				_, err = shell.Call(r, httpapi.SetNodePriority, in)
			} else {
				in := httpapi.PriorityInput{RunName: r.RunName()}
				in.Body.Priority = priority
				_, err = shell.Call(r, httpapi.SetRunPriority, in)
			}
			return r.PrintDone("changed", wording.Path(r.RunName()), err)
		},
	})
	c.Flags().StringVar(&node, "node", "", "change this node alone")
	a.CompleteFlag(c, "node", "NODE")
	return c
}

func runMove(a *shell.App) *cobra.Command {
	var at time.Time
	return a.Command(shell.Spec{
		Use: "move FLOW RUN TIME", Short: "Move the start of a run that has not started",
		Calls: []httpapi.Entry{httpapi.MoveRunStart},
		Check: func(args []string) (err error) {
			at, err = cliflag.ParseTime(args[2], a.Now())
			return err
		},
		Do: func(r *shell.Request) error {
			in := httpapi.MoveStartInput{RunName: r.RunName()}
			in.Body.StartAt = at
			_, err := shell.Call(r, httpapi.MoveRunStart, in)
			return r.PrintDone("moved to "+output.At(at), wording.Path(r.RunName()), err)
		},
	})
}

func runPurge(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "purge FLOW RUN", Short: "Remove a run that is over", Calls: []httpapi.Entry{httpapi.PurgeRun},
		Do: func(r *shell.Request) error {
			return r.Destroy("purge "+wording.Run(r.RunName()), func() error { return lookRun(r) }, func() error {
				_, err := shell.Call(r, httpapi.PurgeRun, httpapi.RunInput{RunName: r.RunName()})
				return r.PrintDone("purged", wording.Path(r.RunName()), err)
			})
		},
	})
}

func Timer(a *shell.App) *cobra.Command {
	var to *cliflag.Time
	var in time.Duration
	var skip bool
	c := a.Command(shell.Spec{
		Use: "timer FLOW RUN NODE", Short: "Move or end the sleep of a node",
		Calls: []httpapi.Entry{httpapi.MoveTimer, httpapi.SkipTimer},
		Check: func([]string) error {
			ways := 0
			for _, given := range []bool{to.Text != "", in != 0, skip} {
				if given {
					ways++
				}
			}
			if ways != 1 {
				return errors.New("takes one of --to, --in and --skip")
			}
			if in > 0 {
				to.Time = a.Now().Add(in)
			}
			return errors.Join(shell.NotNegative("in", in), to.Parse("to", a.Now()))
		},
		Do: func(r *shell.Request) error {
			node := httpapi.NodeName{RunName: r.RunName(), Node: r.Args[2]}
			if skip {
				_, err := shell.Call(r, httpapi.SkipTimer, httpapi.NodeInput{NodeName: node})
				return r.PrintDone("skipped", node.Node, err)
			}
			move := httpapi.MoveTimerInput{NodeName: node}
			move.Body.Until = to.Time
			_, err := shell.Call(r, httpapi.MoveTimer, move)
			return r.PrintDone("moved to "+output.At(to.Time), node.Node, err)
		},
	})
	to = cliflag.DeclareTime(c.Flags(), "to", "the new end")
	cliflag.DeclareDuration(c.Flags(), &in, "in", 0, "the new end as a time from now")
	c.Flags().BoolVar(&skip, "skip", false, "end the sleep now")
	return c
}
