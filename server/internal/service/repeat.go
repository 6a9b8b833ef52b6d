package service

import (
	"context"
	"errors"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime"
)

type repeatKey struct{}

// WithRepeatKey returns the context of a request that a client may repeat. The key is the same for all repeats, and for
// no other request: operations that create something derive its name from it. So a repeat creates nothing else, also
// when a server ended between carrying the request out and storing the reply.
func WithRepeatKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, repeatKey{}, key)
}

// named returns the name that a client has given, or else the one of the request's key; empty without a key.
func named(ctx context.Context, given string) string {
	key, _ := ctx.Value(repeatKey{}).(string)
	if given != "" || key == "" {
		return given
	}
	return "request-" + key
}

// once returns the options of an action that has an effect each time: it has one for all repeats of the request.
func once(ctx context.Context) []runtime.ActionOption {
	if id := named(ctx, ""); id != "" {
		return []runtime.ActionOption{runtime.WithRequestID(id)}
	}
	return nil
}

// IsGone reports whether a run does not exist; if it was started earlier, it was purged.
func (s *Service) IsGone(ctx context.Context, flow, run string) (bool, error) {
	_, err := s.client.Run(flow, run).Describe(ctx, runtime.DescribeOptions{Nodes: 1})
	if errors.Is(err, engine.ErrRunNotFound) {
		return true, nil
	}
	return false, err
}
