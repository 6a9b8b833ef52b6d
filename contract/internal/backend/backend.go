package backend

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/contractnode"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// contract is the backend of contract mode: it implements the calls of engine.Backend with ff_* functions and reads of
// the contract's keys. It publishes the messages to workers, keepers and clients that the composite functions of the
// library would publish; they are hints, and may be lost. It is safe for concurrent use.
type contract struct {
	session *engine.Session
	core    *enginerpc.Conn
	keys    enginerpc.Keys
	client  rueidis.Client
	present presentKeys
	logger  *slog.Logger
	config  *Guest
	nodes   contractnode.Reader

	// waitWorker is the worker instance that claims waitpoint nodes for this process.
	waitWorker enginecore.WorkerInstanceID

	clock  engine.Clock
	leases contractLeases
	graphs graphCache
	ends   endWatch

	extended extensions
	lanes    laneList
	putOff   putOff
	searched searchCursors

	mu         sync.Mutex
	reconciled map[keyspace.Partition]reconcileState
}

var _ interface {
	engine.Backend
	engine.OverdueIndexes
	engine.LaneDirectory
	engine.PolledTick
	engine.WorkerDirectory
	engine.CompletionFollower
	engine.WaitStore
	engine.WaitResults
	engine.GrantedClaims
	engine.StepwiseSubmission
} = (*contract)(nil)

// newContract returns the backend of a session. It reads the server's clock, and fails if that fails.
func newContract(ctx context.Context, e *engine.Session, config *Guest) (*contract, error) {
	c := &contract{
		session: e, core: e.Core, keys: e.Core.Keys(), client: e.Client, logger: e.Logger, config: config,
		nodes: contractnode.NewReader(e), reconciled: make(map[keyspace.Partition]reconcileState),
	}
	c.waitWorker = enginecore.WorkerInstanceID("flowfabric-waits-" + uuid.NewString())
	_, err := c.readClock(ctx)
	return c, err
}

// PollEvery returns the interval at which workers search for executions that other programs made eligible, and keepers
// for work that other programs made due.
func (c *contract) PollEvery() time.Duration { return c.config.poll }

// Claimable returns the key of the lane's index of eligible executions.
func (c *contract) Claimable(p keyspace.Partition, lane enginecore.LaneID) []string {
	return []string{c.keys.LaneEligible(p, lane)}
}

// ReadInputs implements [engine.Backend].
func (c *contract) ReadInputs(ctx context.Context, call enginerpc.ReadInputsCall) (enginerpc.ReadInputsReply, error) {
	return c.nodes.ReadInputs(ctx, call)
}

// UpdateProgress calls the contract's function of the same purpose.
func (c *contract) UpdateProgress(
	ctx context.Context, call enginerpc.UpdateProgressCall,
) (enginerpc.UpdateProgressReply, error) {
	return c.core.UpdateProgress(ctx, call)
}

// now returns the server's time, extrapolated from the last reading of its clock, in milliseconds.
func (c *contract) now() time.Time {
	return c.clock.Now().Truncate(time.Millisecond)
}

// readClock reads the server's clock, from which now follows.
func (c *contract) readClock(ctx context.Context) (time.Time, error) {
	now, err := c.core.Now(ctx)
	if err != nil {
		return time.Time{}, engine.ReadError(ctx, "TIME", err)
	}
	c.clock.Read(now)
	return now, nil
}

// read sends reads in one round trip. The first error other than "nil" fails all of them.
func (c *contract) read(ctx context.Context, commands ...rueidis.Completed) ([]rueidis.RedisResult, error) {
	if len(commands) == 0 {
		return nil, nil
	}
	results := c.client.DoMulti(ctx, commands...)
	for i := range results {
		if err := results[i].Error(); err != nil && !rueidis.IsRedisNil(err) {
			return nil, engine.ReadError(ctx, "read", err)
		}
	}
	return results, nil
}

// readCores reads fields of executions, in pages.
func (c *contract) readCores(
	ctx context.Context, ids []enginecore.ExecutionID, fields []string,
) ([]engine.Record, error) {
	records := make([]engine.Record, 0, len(ids))
	for len(ids) > 0 {
		page := ids[:min(len(ids), contractPage)]
		ids = ids[len(page):]
		commands := make(rueidis.Commands, len(page))
		for i, id := range page {
			commands[i] = c.hmget(c.keys.ExecCore(id), fields)
		}
		results, err := c.read(ctx, commands...)
		if err != nil {
			return nil, err
		}
		for _, result := range results {
			records = append(records, hashrecord.Read(result, fields))
		}
	}
	return records, nil
}

// contractPage bounds the commands sent in one round trip.
const contractPage = 256

// hmget returns the command that reads fields of a hash.
func (c *contract) hmget(key string, fields []string) rueidis.Completed {
	return c.client.B().Hmget().Key(key).Field(fields...).Build()
}

// members returns the members of a flow, in no order.
func (c *contract) members(
	ctx context.Context, p keyspace.Partition, id enginecore.FlowID,
) ([]enginecore.ExecutionID, error) {
	results, err := c.read(ctx, c.client.B().Smembers().Key(c.keys.FlowMembers(p, id)).Build())
	if err != nil {
		return nil, err
	}
	return idsOf[enginecore.ExecutionID](results[0]), nil
}

// idsOf decodes a list of ids; nil if the result is not a list.
func idsOf[T ~string](result rueidis.RedisResult) []T {
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

// sendContract sends calls in pages and returns their answers in order.
func sendContract[R any, C enginerpc.Call[R]](ctx context.Context, c *contract, calls []C) []batching.CallResult[R] {
	answers := make([]batching.CallResult[R], 0, len(calls))
	for len(calls) > 0 {
		page := calls[:min(len(calls), contractPage)]
		calls = calls[len(page):]
		got, _ := batching.SendAll[R](ctx, c.core, page) // each answer carries its error
		answers = append(answers, got...)
	}
	return answers
}

// firstError returns the first error of the answers other than the accepted refusals.
func firstError[R any](answers []batching.CallResult[R], accepted ...error) error {
	for _, a := range answers {
		if a.Err != nil && !isOneOf(a.Err, accepted) {
			return a.Err
		}
	}
	return nil
}
