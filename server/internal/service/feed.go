package service

import (
	"context"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// FollowFeed implements httpapi.FollowFeed.
func (s *Service) FollowFeed(ctx context.Context, in *httpapi.FollowFeedInput) (Items[fabrictype.FeedEvent], error) {
	filter := runtime.FeedFilter{Flow: in.Flow, Children: in.Children}
	for _, kind := range in.Kinds {
		filter.Kinds = append(filter.Kinds, fabrictype.EventKind(kind))
	}
	feed, err := s.client.Feed(ctx, filter, in.Cursor())
	if err != nil {
		return nil, err
	}
	who := login.From(ctx)
	return func(yield func(Item[fabrictype.FeedEvent], error) bool) {
		defer feed.Close()
		// Events from now on cannot be lost, so no error is to be expected before the first one.
		if in.Cursor() == "" && !yield(Item[fabrictype.FeedEvent]{Idle: true}, nil) {
			return
		}
		for e, err := range feed.Events(ctx) {
			if err != nil {
				yield(Item[fabrictype.FeedEvent]{}, err)
				return
			}
			if !who.Sees(e.Flow) {
				continue
			}
			e.Cursor = feed.Cursor()
			if !yield(Item[fabrictype.FeedEvent]{Cursor: e.Cursor, Value: e}, nil) {
				return
			}
		}
	}, nil
}
