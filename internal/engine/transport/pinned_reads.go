package transport

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/rueidis"
)

// pinnedReads prevents the client library from reusing the memory of answered reads for other commands: it sends reads
// again when a connection breaks, and the writer of that connection may still access them. Calls end with their
// contexts also while the connection that they need is being made.
type pinnedReads struct {
	rueidis.Client
	dialer *dialer // nil for an engine in this process, where connections are there at once
	// roles are the connections, which are renewed after a reply that only a replica gives. It is nil where there are
	// none: in this process, and in a cluster, whose servers name the primary.
	roles *links
}

// Do implements rueidis.Client.
func (c pinnedReads) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	command = steady(command)
	generation := c.roles.now()
	if !c.connecting() {
		result := c.Client.Do(ctx, command)
		if err := result.NonRedisError(); err == nil || !errors.Is(err, ErrConnecting) {
			return c.roles.judged(generation, result)
		}
	}
	return c.roles.judged(generation, c.doWhileConnecting(ctx, command))
}

// DoMulti implements rueidis.Client.
func (c pinnedReads) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	for i := range commands {
		commands[i] = steady(commands[i])
	}
	generation := c.roles.now()
	if c.connecting() {
		return c.roles.allJudged(generation, c.doMultiWhileConnecting(ctx, commands))
	}
	results := c.Client.DoMulti(ctx, commands...)
	c.sendUnsent(ctx, commands, results)
	return c.roles.allJudged(generation, results)
}

// Nodes implements rueidis.Client.
func (c pinnedReads) Nodes() map[string]rueidis.Client {
	nodes := c.Client.Nodes()
	for address, node := range nodes {
		nodes[address] = pinnedReads{node, c.dialer, c.roles}
	}
	return nodes
}

// connecting reports whether a call may have to wait for a connection.
func (c pinnedReads) connecting() bool { return c.dialer != nil && c.dialer.busy.Load() > 0 }

// doWhileConnecting makes a call in a separate goroutine, so that the caller can leave when its context ends.
func (c pinnedReads) doWhileConnecting(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	answer := make(chan rueidis.RedisResult, 1)
	for ctx.Err() == nil {
		if !c.dialer.begin(func() { answer <- c.Client.Do(undated{ctx}, command) }) {
			return rueidis.NewErrorResult(rueidis.ErrClosing)
		}
		select {
		case result := <-answer:
			if !errors.Is(result.NonRedisError(), ErrConnecting) {
				return result
			}
		case <-ctx.Done():
		}
	}
	return rueidis.NewErrorResult(ctx.Err())
}

// doMultiWhileConnecting makes calls as doWhileConnecting makes one. The commands are copied, since a caller that has
// left may reuse the list.
func (c pinnedReads) doMultiWhileConnecting(ctx context.Context, commands []rueidis.Completed) []rueidis.RedisResult {
	if ctx.Err() != nil {
		return failAll(commands, ctx.Err())
	}
	answer := make(chan []rueidis.RedisResult, 1)
	own := slices.Clone(commands)
	if !c.dialer.begin(func() { answer <- c.Client.DoMulti(undated{ctx}, own...) }) {
		return failAll(commands, rueidis.ErrClosing)
	}
	select {
	case results := <-answer:
		c.sendUnsent(ctx, own, results)
		return results
	case <-ctx.Done():
		return failAll(commands, ctx.Err())
	}
}

func failAll(commands []rueidis.Completed, err error) []rueidis.RedisResult {
	return slices.Repeat([]rueidis.RedisResult{rueidis.NewErrorResult(err)}, len(commands))
}

// sendUnsent sends the commands that have not been sent because a connection was being made, and enters their results.
func (c pinnedReads) sendUnsent(ctx context.Context, commands []rueidis.Completed, results []rueidis.RedisResult) {
	var unsent []rueidis.Completed
	var places []int
	for i, result := range results {
		if err := result.NonRedisError(); err != nil && errors.Is(err, ErrConnecting) {
			unsent, places = append(unsent, commands[i]), append(places, i)
		}
	}
	if len(unsent) == 0 {
		return
	}
	for i, result := range c.doMultiWhileConnecting(ctx, unsent) {
		results[places[i]] = result
	}
}

// undated is a context without a deadline. The client library makes a connection for all callers that wait for it under
// the deadline of the first one.
type undated struct{ context.Context }

// Deadline implements context.Context.
func (undated) Deadline() (time.Time, bool) { return time.Time{}, false }

// steady leaves commands that are not repeated to be used again, as hot calls are.
func steady(command rueidis.Completed) rueidis.Completed {
	if command.IsReadOnly() {
		return command.Pin()
	}
	return command
}
