package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"strings"

	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/runtime/describe"
)

// diffView is the comparison of two runs as -json shows it.
type diffView struct {
	Same   bool             `json:"same"`
	Graph  bool             `json:"graph_differs"`
	Input  bool             `json:"input_differs"`
	Result bool             `json:"result_differs"`
	States []string         `json:"states"`
	Nodes  []nodeDifference `json:"nodes"`
}

type nodeDifference struct {
	Node    string            `json:"node"`
	Differs []string          `json:"differs,omitempty"`
	States  []string          `json:"states"`
	Seconds []float64         `json:"seconds"`
	Results []*describe.Value `json:"results,omitempty"`
}

func prepareDiff(flags *flag.FlagSet) action {
	other := flags.String("flow", "", "the flow of the other run, if it is another one")
	whole := flags.Bool("all", false, "show nodes that do not differ, too")
	check := need([]string{"FLOW", "RUN", "OTHER"})
	return action{check, func(ctx context.Context, s *session, out *output, args []string) error {
		if *other == "" {
			*other = args[0]
		}
		d, err := runtime.DiffRuns(ctx, s.client.Run(args[0], args[1]), s.client.Run(*other, args[2]))
		if err != nil {
			return err
		}
		if out.lines {
			out.row(viewDiff(d))
			return nil
		}
		out.say("run %q of flow %s is %s, run %q of flow %s is %s", d.A.Run, d.A.Flow, d.A.State, d.B.Run, d.B.Flow,
			d.B.State)
		for _, line := range []struct {
			differs bool
			what    string
		}{{d.Graph, "graphs"}, {d.Input, "inputs"}, {d.Result, "results"}} {
			if line.differs {
				out.say("the %s differ", line.what)
			}
		}
		out.head("node", "differs", args[1], args[2], "took", "took")
		for i := range d.Nodes {
			if n := &d.Nodes[i]; *whole || n.Differs() {
				a, b := sideText(n.A), sideText(n.B)
				out.row(nil, n.Name, strings.Join(differences(n), ", "), a[0], b[0], a[1], b[1])
			}
		}
		return nil
	}}
}

// differences names what differs between two nodes.
func differences(n *runtime.NodeDiff) []string {
	var list []string
	add := func(differs bool, what string) {
		if differs {
			list = append(list, what)
		}
	}
	add(n.A == nil, "added")
	add(n.B == nil, "removed")
	add(n.State, "state")
	add(n.Result, "result")
	add(n.Reason, "reason")
	for _, part := range n.Graph {
		list = append(list, "graph: "+part)
	}
	return list
}

// sideText returns the state of a node and how long it took.
func sideText(n *runtime.NodeSide) [2]string {
	if n == nil {
		return [2]string{}
	}
	took := ""
	if n.Took > 0 {
		took = n.Took.String()
	}
	return [2]string{string(n.State), took}
}

func viewDiff(d *runtime.RunDiff) diffView {
	v := diffView{
		Same: d.Same(), Graph: d.Graph, Input: d.Input, Result: d.Result,
		States: []string{string(d.A.State), string(d.B.State)},
	}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		a, b := sideText(n.A), sideText(n.B)
		view := nodeDifference{
			Node: n.Name, Differs: differences(n), States: []string{a[0], b[0]}, Seconds: []float64{0, 0},
		}
		for place, side := range []*runtime.NodeSide{n.A, n.B} {
			if side != nil {
				view.Seconds[place] = side.Took.Seconds()
			}
		}
		if n.Result {
			view.Results = []*describe.Value{n.A.Result, n.B.Result}
		}
		v.Nodes = append(v.Nodes, view)
	}
	return v
}

func prepareFork(flags *flag.FlagSet) action {
	from := flags.String("from", "", "run these nodes again, with commas, and all that depends on them")
	input := flags.String("input", "", "another input, in JSON")
	id := flags.String("id", "", "the id of the fork")
	by := flags.String("by", "flowfabric", "who asks for it, for the record")
	valid := func() error {
		if *input != "" && !json.Valid([]byte(*input)) {
			return fmt.Errorf("%w: -input is no JSON", errUsage)
		}
		return nil
	}
	check := need([]string{"FLOW", "RUN"}, valid)
	return action{check, func(ctx context.Context, s *session, out *output, args []string) error {
		opts := []runtime.StartOption{runtime.WithActor(*by)}
		if *from != "" {
			opts = append(opts, runtime.ForkFrom(strings.Split(*from, ",")...))
		}
		if *input != "" {
			opts = append(opts, runtime.ForkInput(json.RawMessage(*input)))
		}
		if *id != "" {
			opts = append(opts, runtime.WithID(*id))
		}
		fork, err := s.client.Run(args[0], args[1]).Fork(ctx, opts...)
		if err != nil {
			return err
		}
		out.row(map[string]string{"flow": fork.FlowName(), "run": fork.ID()}, fork.ID())
		return nil
	}}
}
