package service

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/runtime/runlog"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// FollowLogs implements api.FollowLogs.
func (s *Service) FollowLogs(ctx context.Context, in *api.FollowLogsInput) (Items[api.LogLine], error) {
	if err := ownNode(ctx, in.Node); err != nil {
		return nil, err
	}
	lines := s.run(ctx, in.RunName).
		Logs(ctx, in.Node, runlog.Query{Attempt: in.Attempt, After: in.Cursor(), Follow: !in.Present})
	return func(yield func(Item[api.LogLine], error) bool) {
		for l, err := range lines {
			if err != nil {
				yield(Item[api.LogLine]{}, err)
				return
			}
			if !yield(Item[api.LogLine]{l.Cursor, lineOf(l)}, nil) {
				return
			}
		}
	}, nil
}

// ownNode refuses a node of a child run to a caller who sees some flows only: the child run is of another flow.
func ownNode(ctx context.Context, node string) error {
	if strings.Contains(node, "/") && login.From(ctx).Restricted() {
		return fmt.Errorf("node %q: %w", node, runtime.ErrUnknownNode)
	}
	return nil
}

func lineOf(l runlog.Line) api.LogLine {
	return api.LogLine{
		Cursor: l.Cursor, Attempt: l.Attempt, At: l.At, Level: l.Level.String(), Message: l.Message, Attrs: l.Attrs,
		Shortened: l.Shortened, Cut: l.Cut, Dropped: l.Dropped,
	}
}

// FollowFrames implements api.FollowFrames.
func (s *Service) FollowFrames(ctx context.Context, in *api.FollowFramesInput) (Items[api.Frame], error) {
	if err := ownNode(ctx, in.Node); err != nil {
		return nil, err
	}
	read := s.run(ctx, in.RunName).Stream
	if in.Present {
		read = s.run(ctx, in.RunName).Frames
	}
	frames := read(ctx, in.Node, in.Cursor())
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
		CorrelationID: f.CorrelationID, ProducedAt: f.ProducedAt, Dropped: f.Dropped,
	}
	if f.JSON && json.Valid(f.Payload) {
		out.JSON = f.Payload
	} else {
		out.Data = f.Payload
	}
	return out
}
