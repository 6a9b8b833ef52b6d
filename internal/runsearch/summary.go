package runsearch

import (
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/recordstate"
)

// NextRun is Next for callers of the API.
func (s *Search) NextRun(ctx context.Context) (run fabrictype.Run, found bool, err error) {
	next, found, err := s.Next(ctx)
	if !found || err != nil {
		return fabrictype.Run{}, false, err
	}
	return summarize(next), true, nil
}

// List is Page for callers of the API.
func (s *Search) List(ctx context.Context, limit int) (fabrictype.Page[fabrictype.Run], error) {
	found, next, err := s.Page(ctx, limit)
	if err != nil {
		return fabrictype.Page[fabrictype.Run]{}, err
	}
	return fabrictype.Page[fabrictype.Run]{Items: summarizeAll(found), Next: next}, nil
}

func summarize(r enginerpc.Run) fabrictype.Run {
	s := fabrictype.Run{
		Flow: r.FlowName, Run: r.RunID, FlowID: string(r.FlowID), State: recordstate.RunState(r.State, r.Outcome),
		CreatedAt: r.CreatedAt,
		StartsAt:  r.StartAt, ClosedAt: r.ClosedAt, FailedNode: r.FailedNode, Nodes: fabrictype.NodeCounts{
			All: int(r.NodeCount), Open: int(r.OpenNodes), Failed: int(r.NodesFailed), Cancelled: int(r.NodesCancelled),
			Expired: int(r.NodesExpired), Skipped: int(r.NodesSkipped),
		},
	}
	if s.Key, s.Queued = r.RunKey, r.Queued; s.Queued { // its start is a time that does not come
		s.StartsAt = time.Time{}
	}
	pause, _ := enginerpc.ParsePauseText(r.Paused)
	s.PausedAt = pause.Since
	for _, tag := range r.Tags {
		if s.Tags == nil {
			s.Tags = make(map[string]string)
		}
		s.Tags[tag.Name] = string(tag.Value)
	}
	return s
}

func summarizeAll(runs []enginerpc.Run) []fabrictype.Run {
	var list []fabrictype.Run
	for _, r := range runs {
		list = append(list, summarize(r))
	}
	return list
}
