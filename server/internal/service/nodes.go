package service

import (
	"context"
	"fmt"
	"strconv"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/describe"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// GetNode implements api.GetNode.
func (s *Service) GetNode(ctx context.Context, in *api.GetNodeInput) (*api.Node, error) {
	var opts []runtime.DescribeOption
	if in.Values {
		if err := login.Need(ctx, api.ReadPayloads); err != nil {
			return nil, err
		}
		opts = append(opts, runtime.WithValues(describe.MaxSumBytes))
	}
	n, err := s.run(ctx, in.RunName).DescribeNode(ctx, in.Node, opts...)
	if err != nil {
		return nil, err
	}
	hideChild(ctx, n)
	out := nodeOf(n)
	return &out, nil
}

func nodeOf(n *runtime.NodeDescription) api.Node {
	out := api.Node{
		Node: n.Name, Kind: string(n.Kind), Activity: n.Activity, Lane: n.Lane, Capabilities: n.Capabilities,
		Execution: string(n.ExecutionID), State: string(n.State), Attempts: n.Attempts, Retries: n.Retries,
		Reclaims: n.Reclaims, Replays: n.Replays, Worker: string(n.Worker), Percent: n.Percent, Message: n.Message,
		Reason: n.Reason, Category: n.Category, CreatedAt: n.CreatedAt, StartedAt: n.StartedAt, ClaimedAt: n.ClaimedAt,
		CompletedAt: n.CompletedAt, DueAt: n.DueAt, LeaseExpiresAt: n.LeaseExpiresAt,
		Overdue: api.Duration{Duration: n.Overdue},
		Input:   n.Input, Result: n.Result, History: n.History,
		SleepsUntil: n.SleepsUntil, Generation: n.Generation,
	}
	if n.Waiting.Reason != "" {
		waiting := n.Waiting
		out.Waiting = &waiting
	}
	if c := n.Child; c != nil {
		out.Child = &api.Child{
			Flow: c.Flow, Run: c.Run, State: string(c.State), Total: c.Total, Open: c.Open, Succeeded: c.Succeeded,
			Failed: c.Failed, Expired: c.Expired, Cancelled: c.Cancelled, Skipped: c.Skipped,
		}
	}
	for _, v := range n.LiveValues {
		out.LiveValues = append(out.LiveValues, api.LiveValue{Key: v.Key, At: v.At, Attempt: v.Attempt, Size: v.Size})
	}
	for _, w := range n.Waits {
		out.Waits = append(out.Waits, waitOf(w))
	}
	return out
}

// ListItems implements api.ListItems.
func (s *Service) ListItems(ctx context.Context, in *api.ListItemsInput) (*api.Page[api.Item], error) {
	from, err := itemCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	out, bytes := &api.Page[api.Item]{Items: []api.Item{}}, 0
	for item, err := range s.run(ctx, in.RunName).Items(ctx, in.Node, from) {
		if err != nil {
			return nil, err
		}
		bytes += len(item.Result)
		if len(out.Items) == in.Limit || len(out.Items) > 0 && bytes > describe.MaxSumBytes {
			out.Next = itemText(item.Index)
			break
		}
		out.Items = append(out.Items, api.Item{
			Index: item.Index, Name: item.Name, State: string(item.State), Attempts: item.Attempts,
			Result: itemResult(item), Reason: item.Reason, Category: item.Category,
		})
	}
	return out, nil
}

// itemResult returns the result of an item, which is JSON; nil without one.
func itemResult(item runtime.MapItem) *fabrictype.Value {
	if item.Result == nil {
		return nil
	}
	return &fabrictype.Value{Codec: activity.JSON{}.Name(), Size: len(item.Result), JSON: item.Result}
}

func itemText(index int) string { return strconv.Itoa(index) }

func itemCursor(cursor string) (int, error) {
	if cursor == "" {
		return 0, nil
	}
	index, err := strconv.Atoi(cursor)
	if err != nil || index < 0 {
		return 0, fmt.Errorf("%w: %.80q", runtime.ErrCursor, cursor)
	}
	return index, nil
}

// CancelNode implements api.CancelNode.
func (s *Service) CancelNode(ctx context.Context, in *api.NodeReasonInput) (*api.Empty, error) {
	return done(s.run(ctx, in.RunName).CancelNode(ctx, in.Node, in.Body.Reason))
}

// SetNodePriority implements api.SetNodePriority.
func (s *Service) SetNodePriority(ctx context.Context, in *api.NodePriorityInput) (*api.Empty, error) {
	return done(s.run(ctx, in.RunName).SetNodePriority(ctx, in.Node, in.Body.Priority))
}
