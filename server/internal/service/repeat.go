package service

import "context"

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
