package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/runtime/describe"
)

// valuesView is input and result as -json shows them.
type valuesView struct {
	Input  *describe.Value `json:"input,omitempty"`
	Result *describe.Value `json:"result,omitempty"`
}

// describeAll describes a run with all of its nodes, which are read in pages when options ask for more than states.
func describeAll(
	ctx context.Context, run *runtime.RunRef, opts []describe.Option,
) (*runtime.RunDescription, error) {
	if len(opts) == 0 {
		return run.Describe(ctx)
	}
	var all *runtime.RunDescription
	cursor := ""
	for {
		d, err := run.Describe(ctx, append(opts, describe.Page(cursor, describe.MaxPage))...)
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = d
		} else {
			all.Nodes = append(all.Nodes, d.Nodes...)
		}
		if cursor = d.Next; cursor == "" {
			return all, nil
		}
	}
}

// printNode prints one node with its values and attempts.
func printNode(out *output, n *runtime.NodeDescription) {
	if out.lines {
		out.row(viewNode(n))
		return
	}
	out.say("node %q: %s", n.Name, n.State)
	if text := n.Waiting.String(); text != "" {
		out.say("  %s", text)
	}
	sayDetails(out, n)
}

// sayDetails prints the values and attempts that were asked for.
func sayDetails(out *output, n *runtime.NodeDescription) {
	sayValues(out, n.Name, n.Input, n.Result)
	for _, a := range n.History {
		worker := fmt.Sprintf("%q", a.Worker)
		if a.Build != nil {
			worker += " (build " + buildText(*a.Build) + ")"
		}
		text := fmt.Sprintf("%s: attempt %d by %s, %s to %s: %s", n.Name, a.Number, worker, at(a.Begun), at(a.Ended),
			a.Outcome)
		if a.Error != "" {
			text += fmt.Sprintf(": %q", a.Error)
		}
		out.say("%s", text)
		for line := range strings.Lines(a.Stack) {
			out.say("    %s", strings.TrimSuffix(line, "\n"))
		}
	}
}

func sayValues(out *output, what string, input, result *describe.Value) {
	say := func(name string, v *describe.Value) {
		switch {
		case v == nil:
		case v.Truncated:
			out.say("%s: %s of %d bytes (%s), which begins with %q", what, name, v.Size, v.Codec, v.Data)
		case v.Codec == "json":
			out.say("%s: %s %s", what, name, v.Data)
		default:
			out.say("%s: %s of %d bytes (%s): %q", what, name, v.Size, v.Codec, v.Data)
		}
	}
	say("input", input)
	say("result", result)
}
