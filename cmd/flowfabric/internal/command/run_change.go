package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

func (a *App) runCancel() *cobra.Command {
	var reason, node string
	var pending bool
	c := a.command(spec{
		use: "cancel FLOW RUN", short: "Cancel a run, or a node of it",
		calls: []httpapi.Entry{httpapi.CancelRun, httpapi.CancelNode},
		check: func([]string) error {
			if node != "" && pending {
				return errors.New("--node and --pending exclude each other")
			}
			return nil
		},
		do: func(r *request) error {
			if node != "" {
				return cancelNode(r, node, reason)
			}
			return r.destroy("cancel "+runText(r.name()), r.lookRun, func() error {
				in := httpapi.CancelRunInput{RunName: r.name()}
				in.Body.Reason, in.Body.PendingOnly = reason, pending
				_, err := call(r, httpapi.CancelRun, in)
				return r.done("cancelled", path(r.name()), err)
			})
		},
	})
	c.Flags().StringVar(&reason, "reason", "cancelled by an operator", "why, for the record")
	c.Flags().BoolVar(&pending, "pending", false, "let running nodes end by themselves")
	c.Flags().StringVar(&node, "node", "", "cancel this node alone")
	a.completeFlag(c, "node", "NODE")
	return c
}

func cancelNode(r *request, node, reason string) error {
	name := httpapi.NodeName{RunName: r.name(), Node: node}
	look := func() error {
		_, err := call(r, httpapi.GetNode, httpapi.GetNodeInput{NodeName: name})
		return err
	}
	return r.destroy("cancel node "+node+" of "+runText(r.name()), look, func() error {
		in := httpapi.NodeReasonInput{NodeName: name}
		in.Body.Reason = reason
		_, err := call(r, httpapi.CancelNode, in)
		return r.done("cancelled", node, err)
	})
}

func (a *App) runRerun() *cobra.Command {
	var from string
	var all bool
	c := a.command(spec{
		use: "rerun FLOW RUN", short: "Run the nodes of an ended run again that did not succeed",
		calls: []httpapi.Entry{httpapi.RerunRun},
		check: func([]string) error {
			if all && from != "" {
				return errors.New("--all and --from exclude each other")
			}
			return nil
		},
		do: func(r *request) error {
			in := httpapi.RerunInput{RunName: r.name()}
			in.Body.Scope = "failed"
			switch {
			case all:
				in.Body.Scope = "all"
			case from != "":
				in.Body.Scope, in.Body.Node = "from", from
			}
			_, err := call(r, httpapi.RerunRun, in)
			return r.done("runs again", path(r.name()), err)
		},
	})
	c.Flags().StringVar(&from, "from", "", "run this node again, and all that depends on it")
	a.completeFlag(c, "from", "NODE")
	c.Flags().BoolVar(&all, "all", false, "run all nodes again")
	return c
}

func (a *App) runFork() *cobra.Command {
	tags := tagFlag{}
	var from, id string
	var input *jsonFlag
	results := tagFlag{}
	c := a.command(spec{
		use: "fork FLOW RUN", short: "Start a run from another one, with results of it",
		calls: []httpapi.Entry{httpapi.ForkRun},
		check: func([]string) error { return input.check("input") },
		do: func(r *request) error {
			in := httpapi.ForkRunInput{RunName: r.name()}
			in.Body.ID, in.Body.From, in.Body.Tags = id, list(from), tags
			var err error
			if in.Body.Input, err = input.read(r, "input"); err != nil {
				return err
			}
			for node, text := range results {
				result := jsonFlag{text}
				if err := result.check("result"); err != nil {
					return usage("%w", err)
				}
				if in.Body.Results == nil {
					in.Body.Results = map[string]json.RawMessage{}
				}
				if in.Body.Results[node], err = result.read(r, "result"); err != nil {
					return err
				}
			}
			fork, err := call(r, httpapi.ForkRun, in)
			if err != nil {
				return err
			}
			return r.out.Value(fork, path(httpapi.RunName{Flow: fork.Flow, Run: fork.Run}), fork.Run)
		},
	})
	c.Flags().StringVar(&from, "from", "", "run these nodes again, with commas, and all that depends on them")
	a.completeFlag(c, "from", "NODE")
	input = declareJSON(c.Flags(), "input", "another input")
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

func (a *App) runDiff() *cobra.Command {
	var flow string
	var all bool
	c := a.command(spec{
		use: "diff FLOW RUN OTHER", short: "Compare two runs, node by node", calls: []httpapi.Entry{httpapi.CompareRuns},
		columns: diffView.ColumnNames(),
		do: func(r *request) error {
			in := httpapi.CompareRunsInput{RunName: r.name(), OtherRun: r.args[2], OtherFlow: flow}
			d, err := call(r, httpapi.CompareRuns, in)
			if err != nil {
				return err
			}
			if !r.out.ForPeople() {
				return r.out.Value(d, path(r.name()), "")
			}
			return printDiff(r, d, all)
		},
	})
	c.Flags().StringVar(&flow, "flow", "", "the flow of the other run, if it is another one")
	a.completeFlag(c, "flow", "FLOW")
	c.Flags().BoolVar(&all, "all", false, "show nodes that do not differ, too")
	return c
}

func printDiff(r *request, d *fabrictype.RunDiff, all bool) error {
	r.out.Say("run %q of flow %s is %s, run %q of flow %s is %s", d.A.Run, d.A.Flow, d.A.State, d.B.Run, d.B.Flow,
		d.B.State)
	for _, part := range []struct {
		differs bool
		what    string
	}{{d.Graph, "graphs"}, {d.Input, "inputs"}, {d.Result, "results"}} {
		if part.differs {
			r.out.Say("the %s differ", part.what)
		}
	}
	var nodes []fabrictype.NodeDiff
	for _, n := range d.Nodes {
		if all || len(n.Differs) > 0 {
			nodes = append(nodes, n)
		}
	}
	return output.List(r.out, diffView, nodes)
}

func (a *App) runPause() *cobra.Command {
	var reason string
	c := a.command(spec{
		use: "pause FLOW RUN", short: "Keep nodes of a run from starting", calls: []httpapi.Entry{httpapi.PauseRun},
		do: func(r *request) error {
			in := httpapi.ReasonInput{RunName: r.name()}
			in.Body.Reason = reason
			_, err := call(r, httpapi.PauseRun, in)
			return r.done("paused", path(r.name()), err)
		},
	})
	declareReason(c, &reason)
	return c
}

func declareReason(c *cobra.Command, reason *string) {
	c.Flags().StringVar(reason, "reason", "paused by an operator", "why, for the record")
}

func (a *App) runResume() *cobra.Command {
	return a.command(spec{
		use: "resume FLOW RUN", short: "End the pause of a run", calls: []httpapi.Entry{httpapi.ResumeRun},
		do: func(r *request) error {
			_, err := call(r, httpapi.ResumeRun, httpapi.RunInput{RunName: r.name()})
			return r.done("resumed", path(r.name()), err)
		},
	})
}

func (a *App) runPriority() *cobra.Command {
	var node string
	var priority int
	c := a.command(spec{
		use: "priority FLOW RUN PRIORITY", short: "Change the priority of a run's nodes, or of one node",
		calls: []httpapi.Entry{httpapi.SetRunPriority, httpapi.SetNodePriority},
		check: func(args []string) error {
			if _, err := fmt.Sscanf(args[2], "%d",
				&priority); err != nil || fmt.Sprint(priority) != args[2] || priority < 0 {
				return fmt.Errorf("PRIORITY %q: must be a number from 0 on", args[2])
			}
			return nil
		},
		do: func(r *request) (err error) {
			if node != "" {
				in := httpapi.NodePriorityInput{NodeName: httpapi.NodeName{RunName: r.name(), Node: node}}
				in.Body.Priority = priority
				_, err = call(r, httpapi.SetNodePriority, in)
			} else {
				in := httpapi.PriorityInput{RunName: r.name()}
				in.Body.Priority = priority
				_, err = call(r, httpapi.SetRunPriority, in)
			}
			return r.done("changed", path(r.name()), err)
		},
	})
	c.Flags().StringVar(&node, "node", "", "change this node alone")
	a.completeFlag(c, "node", "NODE")
	return c
}

func (a *App) runMove() *cobra.Command {
	var at time.Time
	return a.command(spec{
		use: "move FLOW RUN TIME", short: "Move the start of a run that has not started",
		calls: []httpapi.Entry{httpapi.MoveRunStart},
		check: func(args []string) (err error) {
			at, err = parseTime(args[2], a.Now())
			return err
		},
		do: func(r *request) error {
			in := httpapi.MoveStartInput{RunName: r.name()}
			in.Body.StartAt = at
			_, err := call(r, httpapi.MoveRunStart, in)
			return r.done("moved to "+output.At(at), path(r.name()), err)
		},
	})
}

func (a *App) runPurge() *cobra.Command {
	return a.command(spec{
		use: "purge FLOW RUN", short: "Remove a run that is over", calls: []httpapi.Entry{httpapi.PurgeRun},
		do: func(r *request) error {
			return r.destroy("purge "+runText(r.name()), r.lookRun, func() error {
				_, err := call(r, httpapi.PurgeRun, httpapi.RunInput{RunName: r.name()})
				return r.done("purged", path(r.name()), err)
			})
		},
	})
}

func (a *App) timerCommand() *cobra.Command {
	var to *timeFlag
	var in time.Duration
	var skip bool
	c := a.command(spec{
		use: "timer FLOW RUN NODE", short: "Move or end the sleep of a node",
		calls: []httpapi.Entry{httpapi.MoveTimer, httpapi.SkipTimer},
		check: func([]string) error {
			ways := 0
			for _, given := range []bool{to.text != "", in != 0, skip} {
				if given {
					ways++
				}
			}
			if ways != 1 {
				return errors.New("takes one of --to, --in and --skip")
			}
			if in > 0 {
				to.time = a.Now().Add(in)
			}
			return errors.Join(notNegative("in", in), to.parse("to", a.Now()))
		},
		do: func(r *request) error {
			node := httpapi.NodeName{RunName: r.name(), Node: r.args[2]}
			if skip {
				_, err := call(r, httpapi.SkipTimer, httpapi.NodeInput{NodeName: node})
				return r.done("skipped", node.Node, err)
			}
			move := httpapi.MoveTimerInput{NodeName: node}
			move.Body.Until = to.time
			_, err := call(r, httpapi.MoveTimer, move)
			return r.done("moved to "+output.At(to.time), node.Node, err)
		},
	})
	to = declareTime(c.Flags(), "to", "the new end")
	c.Flags().DurationVar(&in, "in", 0, "the new end as a time from now")
	c.Flags().BoolVar(&skip, "skip", false, "end the sleep now")
	return c
}
