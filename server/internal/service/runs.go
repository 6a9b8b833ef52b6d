package service

import (
	"context"
	"errors"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/describe"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// pagingParameters are those that belong to a list and not to its query.
var pagingParameters = []string{"cursor", "limit"}

// ListRuns implements api.ListRuns.
func (s *Service) ListRuns(ctx context.Context, in *api.ListRunsInput) (*api.Page[api.Run], error) {
	q, err := runtime.ParseRunQuery(in.Query, pagingParameters...)
	if err != nil {
		return nil, err
	}
	who := login.From(ctx)
	out := &api.Page[api.Run]{Items: []api.Run{}, Next: in.Cursor}
	for range emptyPages { // a filter may select nothing of a page
		page, err := s.client.ListRuns(ctx, q, out.Next, in.Limit)
		if err != nil {
			return nil, err
		}
		out.Next = page.Next
		for _, r := range page.Runs {
			if who.Sees(r.Flow) {
				out.Items = append(out.Items, runOf(r))
			}
		}
		if len(out.Items) > 0 || out.Next == "" {
			break
		}
	}
	return out, nil
}

// emptyPages is how many empty pages are passed over for one request.
const emptyPages = 20

func runOf(r runtime.RunSummary) api.Run {
	return api.Run{
		Flow: r.Flow, Run: r.Run, State: string(r.State), CreatedAt: r.CreatedAt, StartsAt: r.StartsAt,
		ClosedAt: r.ClosedAt,
		PausedAt: r.PausedAt, FailedNode: r.FailedNode, Tags: r.Tags, Key: r.Key, Queued: r.Queued,
		Nodes: api.NodeCounts{
			All: r.Nodes.All, Open: r.Nodes.Open, Failed: r.Nodes.Failed, Cancelled: r.Nodes.Cancelled,
			Expired: r.Nodes.Expired, Skipped: r.Nodes.Skipped,
		},
	}
}

// GetRun implements api.GetRun.
func (s *Service) GetRun(ctx context.Context, in *api.GetRunInput) (*api.RunDetail, error) {
	nodes := in.Nodes
	if nodes == 0 {
		nodes = describe.MaxPage
	}
	opts := []runtime.DescribeOption{runtime.WithPage(in.Cursor, nodes)}
	if in.Values {
		if err := login.Need(ctx, api.ReadPayloads); err != nil {
			return nil, err
		}
		opts = append(opts, runtime.WithValues(in.Bytes))
	}
	if in.Attempts {
		opts = append(opts, runtime.WithAttempts())
	}
	d, err := s.describe(ctx, s.run(ctx, in.RunName), opts...)
	if err != nil {
		return nil, err
	}
	out := detailOf(d)
	if !login.From(ctx).May(api.ReadPayloads) {
		out.Memo = nil // the starter of a run writes the memo like the input
	}
	return out, nil
}

func detailOf(d *runtime.RunDescription) *api.RunDetail {
	out := &api.RunDetail{
		Flow: d.Flow, Run: d.Run, FlowID: string(d.FlowID), State: string(d.State), FailedNode: d.FailedNode,
		Reason: d.FailureReason, Category: d.FailureCategory, StartedBy: d.StartedBy, CancelReason: d.CancelReason,
		CancelledBy: d.CancelledBy, CreatedAt: d.CreatedAt, StartsAt: d.StartsAt, ClosedAt: d.ClosedAt,
		DeadlineAt: d.DeadlineAt, Memo: d.Memo, Overdue: api.Duration{Duration: d.Overdue}, NoKeeper: d.NoKeeper,
		PausedAt: d.PausedAt, PausedBy: d.PausedBy, PauseReason: d.PauseReason, Reruns: d.Reruns, Schedule: d.Schedule,
		FireAt: d.FireAt, Parent: string(d.Parent), OpenNodes: d.OpenNodes,
		Key: d.Key, QueuePlace: d.QueuePlace, ForkedFrom: d.ForkedFrom, KeptNodes: d.KeptNodes, Input: d.Input,
		Result: d.Result, Nodes: make([]api.Node, len(d.Nodes)), Next: d.Next,
	}
	if d.Reruns > 0 {
		out.LastRerun = &api.Rerun{
			At:    d.LastRerun.At,
			By:    d.LastRerun.By,
			Scope: string(d.LastRerun.Scope),
			Nodes: d.LastRerun.Nodes,
		}
	}
	for _, b := range d.Budgets {
		out.Budgets = append(out.Budgets, budgetOf(b))
	}
	for i := range d.Nodes {
		out.Nodes[i] = nodeOf(&d.Nodes[i])
	}
	return out
}

// maxWait bounds how long GetResult waits.
const maxWait = 30 * time.Second

// GetResult implements api.GetResult.
func (s *Service) GetResult(ctx context.Context, in *api.GetResultInput) (*api.Result, error) {
	run := s.run(ctx, in.RunName)
	if err := waitForEnd(ctx, run, in.Wait.Duration); err != nil {
		return nil, err
	}
	d, err := s.describe(ctx, run, runtime.WithPage("", 1), runtime.WithValues(describe.MaxValueBytes))
	if err != nil {
		return nil, err
	}
	out := &api.Result{
		State:      string(d.State),
		FailedNode: d.FailedNode,
		Reason:     d.FailureReason,
		Category:   d.FailureCategory,
	}
	if d.State == fabrictype.RunSucceeded {
		out.Value = d.Result
	}
	if out.Reason == "" {
		out.Reason = d.CancelReason
	}
	return out, nil
}

// waitForEnd returns when the run is over or the time is up.
func waitForEnd(ctx context.Context, run *runtime.RunRef, wait time.Duration) error {
	if wait <= 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, min(wait, maxWait))
	defer cancel()
	for _, err := range run.Watch(ctx, "") {
		switch {
		case err == nil || errors.Is(err, runtime.ErrEventsLost):
		case ctx.Err() != nil:
			return nil
		default:
			return err
		}
	}
	return nil
}

// FollowRun implements api.FollowRun.
func (s *Service) FollowRun(ctx context.Context, in *api.FollowRunInput) (Items[fabrictype.Event], error) {
	run := s.run(ctx, in.RunName)
	return func(yield func(Item[fabrictype.Event], error) bool) {
		for e, err := range run.Watch(ctx, in.Cursor()) {
			if in.Cursor() == "" && errors.Is(err, runtime.ErrEventsLost) {
				continue // a client without a cursor begins with the oldest event that is left
			}
			if err != nil {
				yield(Item[fabrictype.Event]{}, err)
				return
			}
			if !yield(Item[fabrictype.Event]{Cursor: e.ID, Value: e}, nil) {
				return
			}
		}
	}, nil
}

// GetRunGraph implements api.GetRunGraph.
func (s *Service) GetRunGraph(ctx context.Context, in *api.GetRunGraphInput) (*api.Drawing, error) {
	d, err := s.describe(ctx, s.run(ctx, in.RunName), runtime.WithPage("", 1))
	if err != nil {
		return nil, err
	}
	return drawing(in.Format, d), nil
}

// graph is something that can be drawn.
type graph interface {
	Mermaid() string
	DOT() string
	Outline() string
	SVG(drawing flow.Drawing) string
}

func drawing(format string, g graph) *api.Drawing {
	out := &api.Drawing{Format: format}
	switch format {
	case "dot":
		out.Text = g.DOT()
	case "outline":
		out.Text = g.Outline()
	case "svg":
		out.Text = g.SVG(flow.Drawing{})
	default:
		out.Text = g.Mermaid()
	}
	return out
}

// CancelRun implements api.CancelRun.
func (s *Service) CancelRun(ctx context.Context, in *api.CancelRunInput) (*api.Empty, error) {
	run := s.run(ctx, in.RunName)
	if in.Body.PendingOnly {
		return done(run.CancelPending(ctx, in.Body.Reason))
	}
	return done(run.Cancel(ctx, in.Body.Reason))
}

// RerunRun implements api.RerunRun.
func (s *Service) RerunRun(ctx context.Context, in *api.RerunInput) (*api.Empty, error) {
	scope := runtime.RerunFailed()
	switch in.Body.Scope {
	case "from":
		if in.Body.Node == "" {
			return nil, faultAt("/node", "scope from needs the name of a node")
		}
		scope = runtime.RerunFrom(in.Body.Node)
	case "all":
		scope = runtime.RerunAll()
	}
	return done(s.run(ctx, in.RunName).Rerun(ctx, scope, once(ctx)...))
}

// PauseRun implements api.PauseRun.
func (s *Service) PauseRun(ctx context.Context, in *api.ReasonInput) (*api.Empty, error) {
	return done(s.run(ctx, in.RunName).Pause(ctx, in.Body.Reason))
}

// ResumeRun implements api.ResumeRun.
func (s *Service) ResumeRun(ctx context.Context, in *api.RunInput) (*api.Empty, error) {
	return done(s.run(ctx, in.RunName).Resume(ctx))
}

// SetRunPriority implements api.SetRunPriority.
func (s *Service) SetRunPriority(ctx context.Context, in *api.PriorityInput) (*api.Empty, error) {
	if in.Body.Priority > activity.MaxPriority {
		return nil, faultAt("/priority", "must be at most %d, got: %d", activity.MaxPriority, in.Body.Priority)
	}
	return done(s.run(ctx, in.RunName).SetPriority(ctx, in.Body.Priority))
}

// MoveRunStart implements api.MoveRunStart.
func (s *Service) MoveRunStart(ctx context.Context, in *api.MoveStartInput) (*api.Empty, error) {
	return done(s.run(ctx, in.RunName).MoveStart(ctx, in.Body.StartAt))
}

// PurgeRun implements api.PurgeRun.
func (s *Service) PurgeRun(ctx context.Context, in *api.RunInput) (*api.Empty, error) {
	return done(s.run(ctx, in.RunName).Purge(ctx))
}
