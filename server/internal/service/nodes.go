package service

import (
	"context"
	"encoding/json"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/runtime/runlog"
)

// GetNode implements api.GetNode.
func (s *Service) GetNode(ctx context.Context, in *api.GetNodeInput) (*api.Node, error) {
	if in.Values {
		if err := need(ctx, api.ReadPayloads); err != nil {
			return nil, err
		}
	}
	n, err := s.run(ctx, in.RunName).DescribeNode(ctx, in.Node)
	if err != nil {
		return nil, err
	}
	out := nodeOf(n)
	if !in.Values {
		out.Input, out.Result = nil, nil
	}
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
		Input:   valueOf(n.Input), Result: valueOf(n.Result), History: n.History,
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
	out := &api.Page[api.Item]{Items: []api.Item{}}
	for item, err := range s.run(ctx, in.RunName).Items(ctx, in.Node, from) {
		if err != nil {
			return nil, err
		}
		if len(out.Items) == in.Limit {
			out.Next = itemText(item.Index)
			break
		}
		out.Items = append(out.Items, api.Item{
			Index: item.Index, Name: item.Name, State: string(item.State), Attempts: item.Attempts, Result: item.Result,
			Reason: item.Reason, Category: item.Category,
		})
	}
	return out, nil
}

// FollowLogs implements api.FollowLogs.
func (s *Service) FollowLogs(ctx context.Context, in *api.FollowLogsInput) (Items[api.LogLine], error) {
	lines := s.run(ctx, in.RunName).
		Logs(ctx, in.Node, runlog.Query{Attempt: in.Attempt, After: in.Cursor(), Follow: true})
	return func(yield func(Item[api.LogLine], error) bool) {
		for l, err := range lines {
			if err != nil {
				yield(Item[api.LogLine]{}, err)
				return
			}
			line := api.LogLine{
				Cursor: l.Cursor, Attempt: l.Attempt, At: l.At, Level: l.Level.String(), Message: l.Message,
				Attrs:     l.Attrs,
				Shortened: l.Shortened, Cut: l.Cut,
			}
			if !yield(Item[api.LogLine]{l.Cursor, line}, nil) {
				return
			}
		}
	}, nil
}

// FollowFrames implements api.FollowFrames.
func (s *Service) FollowFrames(ctx context.Context, in *api.FollowFramesInput) (Items[api.Frame], error) {
	frames := s.run(ctx, in.RunName).Stream(ctx, in.Node, in.Cursor())
	return func(yield func(Item[api.Frame], error) bool) {
		for f, err := range frames {
			if err != nil {
				yield(Item[api.Frame]{}, err)
				return
			}
			if !yield(Item[api.Frame]{f.Cursor, frameOf(f)}, nil) {
				return
			}
		}
	}, nil
}

func frameOf(f runtime.StreamFrame) api.Frame {
	out := api.Frame{
		Cursor: f.Cursor, Attempt: f.Attempt, Kind: f.Kind, At: f.At, Encoding: f.Encoding,
		CorrelationID: f.CorrelationID,
	}
	if f.JSON && json.Valid(f.Payload) {
		out.JSON = f.Payload
	} else {
		out.Data = f.Payload
	}
	return out
}

// CancelNode implements api.CancelNode.
func (s *Service) CancelNode(ctx context.Context, in *api.NodeReasonInput) (*api.Empty, error) {
	return done(s.run(ctx, in.RunName).CancelNode(ctx, in.Node, in.Body.Reason))
}

// SetNodePriority implements api.SetNodePriority.
func (s *Service) SetNodePriority(ctx context.Context, in *api.NodePriorityInput) (*api.Empty, error) {
	return done(s.run(ctx, in.RunName).SetNodePriority(ctx, in.Node, in.Body.Priority))
}

// ListWaits implements api.ListWaits.
func (s *Service) ListWaits(ctx context.Context, in *api.ListWaitsInput) (*api.Page[api.Wait], error) {
	q, err := runtime.ParseWaitQuery(in.Query, pagingParameters...)
	if err != nil {
		return nil, err
	}
	page, err := s.client.ListWaits(ctx, q, in.Cursor, in.Limit)
	if err != nil {
		return nil, err
	}
	out := pageOf(visible(ctx, page.Waits, func(w runtime.Waitpoint) string { return w.Flow }), waitOf)
	out.Next = page.Next
	return out, nil
}

func waitOf(w runtime.Waitpoint) api.Wait {
	return api.Wait{
		ID: string(
			w.ID,
		), Flow: w.Flow, Run: w.Run, Node: w.Node, Step: w.Step, State: string(w.State), OpenedAt: w.OpenedAt,
		TimeoutAt: w.TimeoutAt, OnTimeout: string(w.OnTimeout), Escalated: w.Escalated, Signals: w.Signals, All: w.All,
		Distinct: w.Distinct, Needed: w.Needed, Received: w.Received, Title: w.Title, Question: w.Question,
		Audience: w.Audience, Schema: w.AnswerSchema, Tags: w.Tags,
	}
}
