package runtime

import (
	"context"

	"github.com/redis/rueidis"
)

// steadyClient keeps reads from being used for other commands once they are answered. The client library sends them again when a
// connection breaks, while the writer of that connection may still look at them.
type steadyClient struct{ rueidis.Client }

// Do implements rueidis.Client.
func (c steadyClient) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	return c.Client.Do(ctx, steady(command))
}

// DoMulti implements rueidis.Client.
func (c steadyClient) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	for i := range commands {
		commands[i] = steady(commands[i])
	}
	return c.Client.DoMulti(ctx, commands...)
}

// steady leaves commands that are not repeated to be used again, as hot calls are.
func steady(command rueidis.Completed) rueidis.Completed {
	if command.IsReadOnly() {
		return command.Pin()
	}
	return command
}
