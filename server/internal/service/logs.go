package service

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// FollowLogs implements httpapi.FollowLogs.
func (s *Service) FollowLogs(ctx context.Context, in *httpapi.FollowLogsInput) (Items[fabrictype.LogLine], error) {
	if err := ownNode(ctx, in.Node); err != nil {
		return nil, err
	}
	run, at := s.run(ctx, in.RunName), in.Cursor()
	lines := func(follow bool) iter.Seq2[fabrictype.LogLine, error] {
		return run.Logs(ctx, in.Node, runtime.LogQuery{Attempt: in.Attempt, After: at, Follow: follow})
	}
	return presentThenNew(in.Present, lines, func(l fabrictype.LogLine) Item[fabrictype.LogLine] {
		at = l.Cursor
		return Item[fabrictype.LogLine]{Cursor: l.Cursor, Value: l}
	}), nil
}

// presentThenNew returns the present items and then, unless presentOnly is set, an idle item and the items that
// follow. read continues after the last item that was passed to item.
func presentThenNew[From, To any](
	presentOnly bool, read func(follow bool) iter.Seq2[From, error], item func(From) Item[To],
) Items[To] {
	return func(yield func(Item[To], error) bool) {
		all := func(follow bool) bool {
			for from, err := range read(follow) {
				if err != nil {
					yield(Item[To]{}, err)
					return false
				}
				if !yield(item(from), nil) {
					return false
				}
			}
			return true
		}
		if all(false) && !presentOnly && yield(Item[To]{Idle: true}, nil) {
			all(true)
		}
	}
}

// ownNode refuses a node of a child run to a caller who sees some flows only: the child run is of another flow.
func ownNode(ctx context.Context, node string) error {
	if strings.Contains(node, "/") && login.From(ctx).Restricted() {
		return fmt.Errorf("node %q: %w", node, engine.ErrUnknownNode)
	}
	return nil
}

// FollowFrames implements httpapi.FollowFrames.
func (s *Service) FollowFrames(ctx context.Context, in *httpapi.FollowFramesInput) (Items[fabrictype.Frame], error) {
	if err := ownNode(ctx, in.Node); err != nil {
		return nil, err
	}
	run, at := s.run(ctx, in.RunName), in.Cursor()
	frames := func(follow bool) iter.Seq2[fabrictype.Frame, error] {
		if follow {
			return run.Stream(ctx, in.Node, at)
		}
		return run.Frames(ctx, in.Node, at)
	}
	return presentThenNew(in.Present, frames, func(f fabrictype.Frame) Item[fabrictype.Frame] {
		at = f.Cursor
		return Item[fabrictype.Frame]{Cursor: f.Cursor, Value: f}
	}), nil
}
