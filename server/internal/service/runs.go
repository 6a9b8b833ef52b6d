package service

import (
	"context"
	"errors"
	"time"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/describe"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// pagingParameters are those that belong to a list and not to its query.
var pagingParameters = []string{"cursor", "limit"}

// ListRuns implements httpapi.ListRuns.
func (s *Service) ListRuns(ctx context.Context, in *httpapi.ListRunsInput) (*fabrictype.Page[fabrictype.Run], error) {
	var q runtime.RunQuery
	err := q.ReadValues(in.Query, pagingParameters...)
	if err != nil {
		return nil, err
	}
	who := login.From(ctx)
	out := &fabrictype.Page[fabrictype.Run]{Items: []fabrictype.Run{}, Next: in.Cursor}
	for range emptyPages { // a filter may select nothing of a page
		page, err := s.client.ListRuns(ctx, q, out.Next, in.Limit)
		if err != nil {
			return nil, err
		}
		out.Next, out.Incomplete = page.Next, page.Incomplete
		for _, r := range page.Items {
			if who.Sees(r.Flow) {
				out.Items = append(out.Items, r)
			}
		}
		if len(out.Items) > 0 || out.Next == "" {
			break
		}
	}
	return out, nil
}

// CompleteSearch implements httpapi.CompleteSearch.
func (s *Service) CompleteSearch(
	ctx context.Context, in *httpapi.CompleteSearchInput,
) (*fabrictype.Page[string], error) {
	words, err := s.client.CompleteSearch(ctx, in.Word)
	if err != nil {
		return nil, err
	}
	return &fabrictype.Page[string]{Items: words}, nil
}

// emptyPages is how many empty pages are passed over for one request.
const emptyPages = 20

// GetRun implements httpapi.GetRun.
func (s *Service) GetRun(ctx context.Context, in *httpapi.GetRunInput) (*fabrictype.RunDetail, error) {
	nodes := in.Nodes
	if nodes == 0 {
		nodes = describe.MaxPage
	}
	options := runtime.DescribeOptions{
		Cursor: in.Cursor, Nodes: nodes, Values: in.Values, ValueBytes: in.Bytes, Attempts: in.Attempts,
	}
	if in.Values {
		if err := login.Need(ctx, api.ReadPayloads); err != nil {
			return nil, err
		}
	}
	d, err := s.describe(ctx, s.run(ctx, in.RunName), options)
	if err != nil {
		return nil, err
	}
	if !login.From(ctx).May(api.ReadPayloads) {
		d.Memo = nil // the starter of a run writes the memo like the input
	}
	return &d.RunDetail, nil
}

// maxWait bounds how long GetResult waits.
const maxWait = 30 * time.Second

// GetResult implements httpapi.GetResult.
func (s *Service) GetResult(ctx context.Context, in *httpapi.GetResultInput) (*api.Result, error) {
	run := s.run(ctx, in.RunName)
	if err := waitForEnd(ctx, run, in.Wait.Duration); err != nil {
		return nil, err
	}
	d, err := s.describe(ctx, run, runtime.DescribeOptions{Nodes: 1, Values: true, ValueBytes: describe.MaxValueBytes})
	if err != nil {
		return nil, err
	}
	out := &api.Result{
		State:      string(d.State),
		FailedNode: d.FailedNode,
		Reason:     d.Reason,
		Category:   d.Category,
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
		case err == nil || errors.Is(err, &fabrictype.EventsLostError{}):
		case ctx.Err() != nil:
			return nil
		default:
			return err
		}
	}
	return nil
}

// FollowRun implements httpapi.FollowRun.
func (s *Service) FollowRun(ctx context.Context, in *httpapi.FollowRunInput) (Items[fabrictype.Event], error) {
	run := s.run(ctx, in.RunName)
	return func(yield func(Item[fabrictype.Event], error) bool) {
		for e, err := range run.Watch(ctx, in.Cursor()) {
			if in.Cursor() == "" && errors.Is(err, &fabrictype.EventsLostError{}) {
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

// GetRunGraph implements httpapi.GetRunGraph.
func (s *Service) GetRunGraph(ctx context.Context, in *httpapi.GetRunGraphInput) (*httpapi.Drawing, error) {
	d, err := s.describe(ctx, s.run(ctx, in.RunName), runtime.DescribeOptions{Nodes: 1})
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

func drawing(format string, g graph) *httpapi.Drawing {
	out := &httpapi.Drawing{Format: format}
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

// CancelRun implements httpapi.CancelRun.
func (s *Service) CancelRun(ctx context.Context, in *httpapi.CancelRunInput) (*httpapi.Empty, error) {
	run := s.run(ctx, in.RunName)
	if in.Body.PendingOnly {
		return done(run.CancelPending(ctx, in.Body.Reason))
	}
	return done(run.Cancel(ctx, in.Body.Reason))
}

// RerunRun implements httpapi.RerunRun.
func (s *Service) RerunRun(ctx context.Context, in *httpapi.RerunInput) (*httpapi.Empty, error) {
	scope := fabrictype.RerunFailed
	switch in.Body.Scope {
	case "from":
		if in.Body.Node == "" {
			return nil, faultAt("/node", "scope from needs the name of a node")
		}
		scope = fabrictype.RerunFrom(in.Body.Node)
	case "all":
		scope = fabrictype.RerunAll
	}
	return done(s.run(ctx, in.RunName).Rerun(ctx, scope, once(ctx)...))
}

// PauseRun implements httpapi.PauseRun.
func (s *Service) PauseRun(ctx context.Context, in *httpapi.ReasonInput) (*httpapi.Empty, error) {
	return done(s.run(ctx, in.RunName).Pause(ctx, in.Body.Reason))
}

// ResumeRun implements httpapi.ResumeRun.
func (s *Service) ResumeRun(ctx context.Context, in *httpapi.RunInput) (*httpapi.Empty, error) {
	return done(s.run(ctx, in.RunName).Resume(ctx))
}

// SetRunPriority implements httpapi.SetRunPriority.
func (s *Service) SetRunPriority(ctx context.Context, in *httpapi.PriorityInput) (*httpapi.Empty, error) {
	if in.Body.Priority > activityspec.MaxPriority {
		return nil, faultAt("/priority", "must be at most %d, got: %d", activityspec.MaxPriority, in.Body.Priority)
	}
	return done(s.run(ctx, in.RunName).SetPriority(ctx, in.Body.Priority))
}

// MoveRunStart implements httpapi.MoveRunStart.
func (s *Service) MoveRunStart(ctx context.Context, in *httpapi.MoveStartInput) (*httpapi.Empty, error) {
	return done(s.run(ctx, in.RunName).MoveStart(ctx, in.Body.StartAt))
}

// PurgeRun implements httpapi.PurgeRun.
func (s *Service) PurgeRun(ctx context.Context, in *httpapi.RunInput) (*httpapi.Empty, error) {
	return done(s.run(ctx, in.RunName).Purge(ctx))
}
