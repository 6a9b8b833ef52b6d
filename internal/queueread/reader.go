package queueread

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// ErrInvalid matches errors about invalid arguments. Nothing was sent.
var ErrInvalid = admin.ErrInvalid

// Reader reads the queues of one engine. It is safe for concurrent use and needs no closing.
type Reader struct {
	core   *enginerpc.Conn
	keys   enginerpc.Keys
	client rueidis.Client
}

// New returns a reader of an open engine, which stays open until the reader was used for the last time. It sends
// nothing.
func New(e *runtime.Engine) *Reader {
	core := engine.ConnOf(e.Internal())
	return &Reader{core: core, keys: core.Keys(), client: core.Client()}
}

// read sends reads in one go. The first error that is not "nil" fails all.
func (r *Reader) read(ctx context.Context, commands ...rueidis.Completed) ([]rueidis.RedisResult, error) {
	if len(commands) == 0 {
		return nil, nil
	}
	results := r.client.DoMulti(ctx, commands...)
	for i := range results {
		if err := results[i].Error(); err != nil && !rueidis.IsRedisNil(err) {
			if ended := enginerpc.Unanswered(ctx, err); ended != nil {
				return nil, fmt.Errorf("read: %w", ended)
			}
			return nil, fmt.Errorf("read: %w: %w", enginecore.ErrUnavailable, err)
		}
	}
	return results, nil
}
