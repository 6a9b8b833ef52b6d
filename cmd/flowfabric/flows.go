package main

import (
	"context"
	"flag"
	"fmt"
	"strconv"

	"github.com/flowfabric/flowfabric-go/runtime/catalogue"
)

func prepareFlows(flags *flag.FlagSet) action {
	mermaid := flags.Bool("mermaid", false, "with NAME: print the graph as a Mermaid flowchart")
	dot := flags.Bool("dot", false, "with NAME: print the graph in the language of Graphviz")
	check := func(args []string) error {
		switch {
		case len(args) > 1:
			return fmt.Errorf("%w: want at most one argument (NAME), got %d", errUsage, len(args))
		case *mermaid && *dot:
			return fmt.Errorf("%w: -mermaid and -dot exclude each other", errUsage)
		case len(args) == 0 && (*mermaid || *dot):
			return fmt.Errorf("%w: -mermaid and -dot need the name of a flow", errUsage)
		}
		return nil
	}
	return action{check, func(ctx context.Context, s *session, out *output, args []string) error {
		if len(args) == 0 {
			return printFlows(ctx, s, out)
		}
		d, err := s.client.DescribeFlow(ctx, args[0])
		if err != nil {
			return err
		}
		printFlow(out, d, *mermaid, *dot)
		return nil
	}}
}

func printFlows(ctx context.Context, s *session, out *output) error {
	flows, err := s.client.Flows(ctx)
	if err != nil {
		return err
	}
	out.head("flow", "hash", "nodes", "input", "result", "published", "by", "doc")
	for _, f := range flows {
		out.row(f, f.Name, f.Hash[:min(len(f.Hash), 12)], strconv.Itoa(f.Nodes), f.InputType, f.ResultType,
			at(f.PublishedAt), f.PublishedBy, f.Doc)
	}
	return nil
}

// printFlow prints a flow: as JSON whole, else its graph, its input and its history.
func printFlow(out *output, d *catalogue.Description, mermaid, dot bool) {
	if out.lines {
		out.row(d)
		return
	}
	switch {
	case mermaid:
		out.say("%s", d.Mermaid())
		return
	case dot:
		out.say("%s", d.DOT())
		return
	}
	out.say("flow %s: %s -> %s, codec %s", d.Name, d.InputType, d.ResultType, d.Codec)
	if d.Doc != "" {
		out.say("%s", d.Doc)
	}
	out.say("%s", d.Outline())
	if d.InputSchema != nil {
		out.say("input: %s", d.InputSchema)
	}
	if d.ResultSchema != nil {
		out.say("result: %s", d.ResultSchema)
	}
	out.head("hash", "published", "by")
	for _, v := range d.History {
		out.row(v, v.Hash, at(v.PublishedAt), v.PublishedBy)
	}
}
