package service

import (
	"context"

	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// visible returns the elements of flows that the caller may see.
func visible[T any](ctx context.Context, list []T, flow func(T) string) []T {
	who := login.From(ctx)
	if !who.Restricted() {
		return list
	}
	var out []T
	for _, element := range list {
		if who.Sees(flow(element)) {
			out = append(out, element)
		}
	}
	return out
}
