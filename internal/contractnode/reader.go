package contractnode

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// Reader reads nodes on a server.
type Reader struct {
	Client rueidis.Client
	Keys   enginerpc.Keys
}

// NewReader returns the reader of a session's nodes.
func NewReader(s *engine.Session) Reader { return Reader{Client: s.Client, Keys: s.Core.Keys()} }

// hmget returns the command that reads fields of a hash.
func (r Reader) hmget(key string, fields []string) rueidis.Completed {
	return r.Client.B().Hmget().Key(key).Field(fields...).Build()
}

// reads are commands that are sent together.
type reads struct {
	commands rueidis.Commands
	results  []*rueidis.RedisResult
}

// add adds a command. Its result is set by run.
func (b *reads) add(command rueidis.Completed) *rueidis.RedisResult {
	result := new(rueidis.RedisResult)
	b.commands, b.results = append(b.commands, command), append(b.results, result)
	return result
}

// run sends the commands and sets their results. It returns the first error that is not the lack of a key.
func (b *reads) run(ctx context.Context, client rueidis.Client) (fault error) {
	if len(b.commands) == 0 {
		return nil
	}
	for i, result := range client.DoMulti(ctx, b.commands...) {
		*b.results[i] = result
		if err := result.Error(); err != nil && !rueidis.IsRedisNil(err) && fault == nil {
			fault = engine.ReadError(ctx, "read", err)
		}
	}
	return fault
}
