package link

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/contractnode"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// Link is the connection of the backend to an engine. It is safe for concurrent use.
type Link struct {
	Session *engine.Session
	Core    *enginerpc.Conn
	Keys    enginerpc.Keys
	Client  rueidis.Client
	Logger  *slog.Logger
	Nodes   contractnode.Reader

	Poll     time.Duration
	clock    engine.Clock
	extended extensions
	lanes    laneList
}

// New returns the link of a session. It reads the server's clock, and fails if that fails. poll is the interval at
// which the data is read that other programs may have written.
func New(ctx context.Context, e *engine.Session, poll time.Duration) (*Link, error) {
	c := &Link{
		Session: e, Core: e.Core, Keys: e.Core.Keys(), Client: e.Client, Logger: e.Logger,
		Nodes: contractnode.NewReader(e), Poll: poll,
	}
	_, err := c.ReadClock(ctx)
	return c, err
}

// PollEvery returns the interval at which workers search for executions that other programs made eligible, and keepers
// for work that other programs made due.
func (c *Link) PollEvery() time.Duration { return c.Poll }

// Now returns the server's time, extrapolated from the last reading of its clock, in milliseconds.
func (c *Link) Now() time.Time {
	return c.clock.Now().Truncate(time.Millisecond)
}

// ReadClock reads the server's clock, from which now follows.
func (c *Link) ReadClock(ctx context.Context) (time.Time, error) {
	now, err := c.Core.Now(ctx)
	if err != nil {
		return time.Time{}, engine.ReadError(ctx, "TIME", err)
	}
	c.clock.Read(now)
	return now, nil
}

// Read sends reads in one round trip. The first error other than "nil" fails all of them.
func (c *Link) Read(ctx context.Context, commands ...rueidis.Completed) ([]rueidis.RedisResult, error) {
	if len(commands) == 0 {
		return nil, nil
	}
	results := c.Client.DoMulti(ctx, commands...)
	for i := range results {
		if err := results[i].Error(); err != nil && !rueidis.IsRedisNil(err) {
			return nil, engine.ReadError(ctx, "read", err)
		}
	}
	return results, nil
}

// ReadCores reads fields of executions, in pages.
func (c *Link) ReadCores(
	ctx context.Context, ids []enginecore.ExecutionID, fields []string,
) ([]engine.Record, error) {
	records := make([]engine.Record, 0, len(ids))
	for len(ids) > 0 {
		page := ids[:min(len(ids), Page)]
		ids = ids[len(page):]
		commands := make(rueidis.Commands, len(page))
		for i, id := range page {
			commands[i] = c.Hmget(c.Keys.ExecCore(id), fields)
		}
		results, err := c.Read(ctx, commands...)
		if err != nil {
			return nil, err
		}
		for _, result := range results {
			records = append(records, hashrecord.Read(result, fields))
		}
	}
	return records, nil
}

// Page bounds the commands sent in one round trip.
const Page = 256

// Hmget returns the command that reads fields of a hash.
func (c *Link) Hmget(key string, fields []string) rueidis.Completed {
	return c.Client.B().Hmget().Key(key).Field(fields...).Build()
}

// Members returns the members of a flow, in no order.
func (c *Link) Members(
	ctx context.Context, p keyspace.Partition, id enginecore.FlowID,
) ([]enginecore.ExecutionID, error) {
	results, err := c.Read(ctx, c.Client.B().Smembers().Key(c.Keys.FlowMembers(p, id)).Build())
	if err != nil {
		return nil, err
	}
	return IDsOf[enginecore.ExecutionID](results[0]), nil
}

// IDsOf decodes a list of ids; nil if the result is not a list.
func IDsOf[T ~string](result rueidis.RedisResult) []T {
	texts, err := result.AsStrSlice()
	if err != nil {
		return nil
	}
	ids := make([]T, len(texts))
	for i, text := range texts {
		ids[i] = T(text)
	}
	return ids
}

// Send sends calls in pages and returns their answers in order.
func Send[R any, C enginerpc.Call[R]](ctx context.Context, c *Link, calls []C) []batching.CallResult[R] {
	answers := make([]batching.CallResult[R], 0, len(calls))
	for len(calls) > 0 {
		page := calls[:min(len(calls), Page)]
		calls = calls[len(page):]
		got, _ := batching.SendAll[R](ctx, c.Core, page) // each answer carries its error
		answers = append(answers, got...)
	}
	return answers
}

// FirstError returns the first error of the answers other than the accepted refusals.
func FirstError[R any](answers []batching.CallResult[R], accepted ...error) error {
	for _, a := range answers {
		if a.Err != nil && !IsOneOf(a.Err, accepted) {
			return a.Err
		}
	}
	return nil
}

// TellWork notifies the workers of a lane. The random number makes messages distinct.
func (c *Link) TellWork(ctx context.Context, p keyspace.Partition, lane enginecore.LaneID) {
	work := enginerpc.WorkMessage{Partition: p, Mark: strconv.FormatUint(rand.Uint64(), 36)}
	c.Publish(ctx, c.Keys.ChannelWake(lane), work.Text())
}

// TellDue notifies keepers of an item that is due at a time in Unix ms.
func (c *Link) TellDue(ctx context.Context, p keyspace.Partition, at int64) {
	c.Publish(ctx, c.Keys.ChannelDue(), enginerpc.DueMessage{Partition: p, At: time.UnixMilli(at)}.Text())
}

// Publish publishes a hint. A subscriber that misses it finds the work by polling.
func (c *Link) Publish(ctx context.Context, channel, message string) {
	c.Client.Do(ctx, c.Client.B().Publish().Channel(channel).Message(message).Build())
}

// TellStop notifies the worker of an execution, if it has one, to stop it. core has the execution as it was; kind is
// one of package engine.
func (c *Link) TellStop(ctx context.Context, id enginecore.ExecutionID, core engine.Record, kind, reason string) {
	worker := enginecore.WorkerInstanceID(core["current_worker_instance_id"])
	if worker == "" {
		return
	}
	stop := enginerpc.CancelMessage{
		ExecutionID: id, LeaseID: enginecore.LeaseID(core["current_lease_id"]), Kind: kind, Reason: reason,
	}
	c.Publish(ctx, c.Keys.ChannelWorker(worker), stop.Text())
}

// ReadEach sends reads in one round trip. It fails only if the engine could not be reached or could not answer: each
// result may have its own error, such as a key of another type.
func (c *Link) ReadEach(ctx context.Context, commands ...rueidis.Completed) ([]rueidis.RedisResult, error) {
	if len(commands) == 0 {
		return nil, nil
	}
	results := c.Client.DoMulti(ctx, commands...)
	for i := range results {
		if err := ReadFault(ctx, results[i]); retry.IsUnavailable(err) {
			return nil, err
		}
	}
	return results, nil
}

// ReadFault returns the error of one read; nil for a missing key.
func ReadFault(ctx context.Context, result rueidis.RedisResult) error {
	if err := result.Error(); err != nil && !rueidis.IsRedisNil(err) {
		return engine.ReadError(ctx, "read", err)
	}
	return nil
}

// Readable reads fields of executions, in pages. It returns those that could be read with their fields; the error joins
// an engine.ItemError for each of the others, unless the engine could not be reached.
func (c *Link) Readable(
	ctx context.Context, ids []enginecore.ExecutionID, fields []string,
) ([]enginecore.ExecutionID, []engine.Record, error) {
	var faults error
	some := make([]enginecore.ExecutionID, 0, len(ids))
	records := make([]engine.Record, 0, len(ids))
	for len(ids) > 0 {
		page := ids[:min(len(ids), Page)]
		ids = ids[len(page):]
		commands := make(rueidis.Commands, len(page))
		for i, id := range page {
			commands[i] = c.Hmget(c.Keys.ExecCore(id), fields)
		}
		results, err := c.ReadEach(ctx, commands...)
		if err != nil {
			return nil, nil, err
		}
		for i, result := range results {
			if err := ReadFault(ctx, result); err != nil {
				faults = errors.Join(faults, &engine.ItemError{Item: string(page[i]), Err: err})
				continue
			}
			some, records = append(some, page[i]), append(records, hashrecord.Read(result, fields))
		}
	}
	return some, records, faults
}
