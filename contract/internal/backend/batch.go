package backend

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

// contractBatch collects calls and reads to be sent in order in one round trip.
type contractBatch struct {
	contract *contract
	commands rueidis.Commands
	settle   []func(context.Context, rueidis.RedisResult)
	looks    []*rueidis.RedisResult
}

func (c *contract) batch() *contractBatch { return &contractBatch{contract: c} }

// look adds a read whose refusal by the server is an error of its result alone.
func (b *contractBatch) look(command rueidis.Completed) *rueidis.RedisResult {
	result := new(rueidis.RedisResult)
	b.commands = append(b.commands, command)
	b.settle = append(b.settle, func(_ context.Context, r rueidis.RedisResult) { *result = r })
	b.looks = append(b.looks, result)
	return result
}

// addOnce adds a call that is not idempotent, and so not repeated.
func addOnce[R any, C enginerpc.Call[R]](b *contractBatch, call C) *batching.CallResult[R] {
	a := new(batching.CallResult[R])
	command, err := enginerpc.Command[R](b.contract.core, call)
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

// addAgain adds an idempotent call, which is repeated while the engine is unreachable.
func addAgain[R any, C enginerpc.Call[R]](b *contractBatch, call C) *batching.CallResult[R] {
	a := new(batching.CallResult[R])
	command, err := enginerpc.Command[R](b.contract.core, call)
	if err != nil {
		a.Err = err
		return a
	}
	b.commands = append(b.commands, command)
	b.settle = append(b.settle, func(ctx context.Context, r rueidis.RedisResult) {
		if a.Reply, a.Err = enginerpc.Decode[R](ctx, call, r); retry.IsUnavailable(a.Err) {
			a.Reply, a.Err = callAgain[R](ctx, b.contract, call)
		}
	})
	return a
}

// run sends all commands and sets the results. The errors of calls are in their results; run returns the error of a
// read that the engine did not answer.
func (b *contractBatch) run(ctx context.Context) error {
	if len(b.commands) == 0 {
		return nil
	}
	var fault error
	for i, result := range b.contract.client.DoMulti(ctx, b.commands...) {
		b.settle[i](ctx, result)
		if err := result.NonRedisError(); err != nil && fault == nil {
			fault = engine.ReadError(ctx, "read", err)
		}
	}
	for _, result := range b.looks {
		if err := readFault(ctx, *result); retry.IsUnavailable(err) && fault == nil {
			fault = err
		}
	}
	return fault
}

const (
	// contractPatience bounds the time for the repeats of one call while the engine is unreachable.
	contractPatience = 15 * time.Second
	contractPause    = 50 * time.Millisecond
)

// callAgain sends an idempotent call until the engine has answered, for up to contractPatience.
func callAgain[R any, C enginerpc.Call[R]](ctx context.Context, c *contract, call C) (R, error) {
	for end := time.Now().Add(contractPatience); ; {
		reply, err := enginerpc.Do[R](ctx, c.core, call)
		if !retry.IsUnavailable(err) || ctx.Err() != nil || time.Now().After(end) {
			return reply, err
		}
		sleep.For(ctx, contractPause)
	}
}

// isOneOf reports whether an error matches one of several.
func isOneOf(err error, list []error) bool {
	return slices.ContainsFunc(list, func(target error) bool { return errors.Is(err, target) })
}
