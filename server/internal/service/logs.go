package service

import (
	"context"
	"encoding/json"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/runtime/runlog"
)

// FollowLogs implements api.FollowLogs.
func (s *Service) FollowLogs(ctx context.Context, in *api.FollowLogsInput) (Items[api.LogLine], error) {
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

func lineOf(l runlog.Line) api.LogLine {
	return api.LogLine{
		Cursor: l.Cursor, Attempt: l.Attempt, At: l.At, Level: l.Level.String(), Message: l.Message, Attrs: l.Attrs,
		Shortened: l.Shortened, Cut: l.Cut, Dropped: l.Dropped,
	}
}

// FollowFrames implements api.FollowFrames.
func (s *Service) FollowFrames(ctx context.Context, in *api.FollowFramesInput) (Items[api.Frame], error) {
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
