package main

import (
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
)

// limited is one node under limits that are too wide to keep it from running; without any it is what they are compared
// with.
func limited(limits ...activity.LimitOption) func() (*flow.Definition[int, int], error) {
	return func() (*flow.Definition[int, int], error) {
		f := flow.New[int, int]("bench-admission")
		var opts []flow.NodeOption
		if len(limits) > 0 {
			opts = append(opts, flow.Limit("wide", limits...))
		}
		flow.Return(f, flow.Node(f, "node", noop, f.Input(), opts...))
		return f.Build()
	}
}

// Limits that never bind.
func wideRate() activity.LimitOption { return activity.AtMost(activity.MaxLimitCount, time.Second) }

func wideCap() activity.LimitOption { return activity.AtOnce(activity.MaxLimitCount) }
