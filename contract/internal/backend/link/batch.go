package link

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/sleep"
)

// Batch collects calls and reads to be sent in order in one round trip.
type Batch struct {
	link     *Link
	commands rueidis.Commands
	settle   []func(context.Context, rueidis.RedisResult)
	looks    []*rueidis.RedisResult
}

func (c *Link) Batch() *Batch { return &Batch{link: c} }

// Look adds a read whose refusal by the server is an error of its result alone.
func (b *Batch) Look(command rueidis.Completed) *rueidis.RedisResult {
	result := new(rueidis.RedisResult)
	b.commands = append(b.commands, command)
	b.settle = append(b.settle, func(_ context.Context, r rueidis.RedisResult) { *result = r })
	b.looks = append(b.looks, result)
	return result
}

// AddOnce adds a call that is not idempotent, and so not repeated.
func AddOnce[R any, C enginerpc.Call[R]](b *Batch, call C) *batching.CallResult[R] {
	a := new(batching.CallResult[R])
	command, err := enginerpc.Command[R](b.link.Core, call)
	if err != nil {
		a.Err = err
		return a
	}
	b.commands = append(b.commands, command)
	b.settle = append(b.settle, func(ctx context.Context, r rueidis.RedisResult) {
		a.Reply, a.Err = enginerpc.Decode[R](ctx, call, r)
	})
	return a
}

// AddAgain adds an idempotent call, which is repeated while the engine is unreachable.
func AddAgain[R any, C enginerpc.Call[R]](b *Batch, call C) *batching.CallResult[R] {
	a := new(batching.CallResult[R])
	command, err := enginerpc.Command[R](b.link.Core, call)
	if err != nil {
		a.Err = err
		return a
	}
	b.commands = append(b.commands, command)
	b.settle = append(b.settle, func(ctx context.Context, r rueidis.RedisResult) {
		if a.Reply, a.Err = enginerpc.Decode[R](ctx, call, r); retry.IsUnavailable(a.Err) {
			a.Reply, a.Err = CallAgain[R](ctx, b.link, call)
		}
	})
	return a
}

// Run sends all commands and sets the results. The errors of calls are in their results; run returns the error of a
// read that the engine did not answer.
func (b *Batch) Run(ctx context.Context) error {
	if len(b.commands) == 0 {
		return nil
	}
	var fault error
	for i, result := range b.link.Client.DoMulti(ctx, b.commands...) {
		b.settle[i](ctx, result)
		if err := result.NonRedisError(); err != nil && fault == nil {
			fault = engine.ReadError(ctx, "read", err)
		}
	}
	for _, result := range b.looks {
		if err := ReadFault(ctx, *result); retry.IsUnavailable(err) && fault == nil {
			fault = err
		}
	}
	return fault
}

const (
	// patience bounds the time for the repeats of one call while the engine is unreachable.
	patience = 15 * time.Second
	Pause    = 50 * time.Millisecond
)

// CallAgain sends an idempotent call until the engine has answered, for up to patience.
func CallAgain[R any, C enginerpc.Call[R]](ctx context.Context, c *Link, call C) (R, error) {
	for end := time.Now().Add(patience); ; {
		reply, err := enginerpc.Do[R](ctx, c.Core, call)
		if !retry.IsUnavailable(err) || ctx.Err() != nil || time.Now().After(end) {
			return reply, err
		}
		sleep.For(ctx, Pause)
	}
}

// IsOneOf reports whether an error matches one of several.
func IsOneOf(err error, list []error) bool {
	return slices.ContainsFunc(list, func(target error) bool { return errors.Is(err, target) })
}
