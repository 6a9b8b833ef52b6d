package service

import (
	"context"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// FollowFeed implements api.FollowFeed.
func (s *Service) FollowFeed(ctx context.Context, in *api.FollowFeedInput) (Items[api.FeedEvent], error) {
	filter := runtime.FeedFilter{Flow: in.Flow, Children: in.Children}
	for _, kind := range in.Kinds {
		filter.Kinds = append(filter.Kinds, fabrictype.EventKind(kind))
	}
	feed, err := s.client.Feed(ctx, filter, in.Cursor())
	if err != nil {
		return nil, err
	}
	who := login.From(ctx)
	return func(yield func(Item[api.FeedEvent], error) bool) {
		defer feed.Close()
		// Events from now on cannot be lost, so no error is to be expected before the first one.
		if in.Cursor() == "" && !yield(Item[api.FeedEvent]{Idle: true}, nil) {
			return
		}
		for e, err := range feed.Events(ctx) {
			if err != nil {
				yield(Item[api.FeedEvent]{}, err)
				return
			}
			if !who.Sees(e.Flow) {
				continue
			}
			event := api.FeedEvent{
				Cursor: feed.Cursor(), Kind: string(e.Kind), Flow: e.Flow, Run: e.Run, Child: e.Child, Node: e.Node,
				Detail: e.Detail, At: e.At,
			}
			if !yield(Item[api.FeedEvent]{Cursor: event.Cursor, Value: event}, nil) {
				return
			}
		}
	}, nil
}
