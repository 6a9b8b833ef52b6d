package service

import (
	"context"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/waitreason"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// A caller who is bound to some flows sees nothing of runs of other flows. Where an operation crosses from a run to its
// child runs, the functions of this file draw the line.

// visible returns the elements of flows that the caller may see.
func visible[T any](ctx context.Context, list []T, flow func(T) string) []T {
	who := login.From(ctx)
	if !who.Restricted() {
		return list
	}
	var out []T
	for _, element := range list {
		if who.Sees(flow(element)) {
			out = append(out, element)
		}
	}
	return out
}

// waits returns the waits of a run, and of its child runs that the caller may see: the open ones, or all.
func (s *Service) waits(ctx context.Context, run *runtime.RunRef, closed bool) ([]runtime.Waitpoint, error) {
	list := run.Waitpoints
	if closed {
		list = run.AllWaitpoints
	}
	waits, err := list(ctx)
	return visible(ctx, waits, flowOfWait), err
}

func flowOfWait(w runtime.Waitpoint) string { return w.Flow }

// describe describes a run, without the child runs that the caller may not see.
func (s *Service) describe(
	ctx context.Context, run *runtime.RunRef, options runtime.DescribeOptions,
) (*runtime.RunDescription, error) {
	d, err := run.Describe(ctx, options)
	if err != nil {
		return nil, err
	}
	for i := range d.Nodes {
		hideChild(ctx, &d.Nodes[i])
	}
	return d, nil
}

// hideChild removes from a node the data about a child run of a flow that the caller may not see. The run of the items
// of a map belongs to the node itself.
func hideChild(ctx context.Context, n *fabrictype.Node) {
	if n.Child == nil || n.Kind == fabrictype.KindMap || login.From(ctx).Sees(n.Child.Flow) {
		return
	}
	n.Child = nil
	if n.Waiting.Reason == waitreason.ChildRun {
		n.Waiting = fabrictype.Explanation{
			Reason: waitreason.ChildRun, Sentence: "waits for a run of another flow", Since: n.Waiting.Since,
		}
	}
}
