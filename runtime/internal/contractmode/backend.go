package contractmode

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// contractConfig is how often contract mode looks for what other programs have done; 0 is for the defaults.
type ContractConfig struct {
	Poll, Reconcile time.Duration
}

// Defaults and bounds of contractConfig.
const (
	DefaultPollInterval      = time.Second
	DefaultReconcileInterval = 5 * time.Second
	minContractInterval      = 10 * time.Millisecond
)

// contract is a backend made of ff_* functions and reads of the contract's keys. The messages that the composite calls
// send to workers, keepers and clients it sends itself; they are hints, and may be lost.
type contract struct {
	session *engine.Session
	core    *enginerpc.Conn
	keys    enginerpc.Keys
	client  rueidis.Client
	logger  *slog.Logger
	config  ContractConfig

	clock  engine.EngineClock
	leases contractLeases
	graphs graphCache
	ends   endWatch

	mu         sync.Mutex
	lanes      map[enginecore.LaneID]bool // seen in this process
	reconciled map[enginecore.Partition]reconcileState
}

var _ interface {
	engine.Backend
	engine.OverdueIndexes
	engine.LaneDirectory
	engine.CompletionFollower
} = (*contract)(nil)

func NewContract(ctx context.Context, e *engine.Session, config ContractConfig) (*contract, error) {
	config.Poll = max(cmp.Or(config.Poll, DefaultPollInterval), minContractInterval)
	config.Reconcile = max(cmp.Or(config.Reconcile, DefaultReconcileInterval), minContractInterval)
	c := &contract{
		session: e, core: e.Core, keys: e.Core.Keys(), client: e.Client, logger: e.Logger, config: config,
		lanes: make(map[enginecore.LaneID]bool), reconciled: make(map[enginecore.Partition]reconcileState),
	}
	_, err := c.readClock(ctx)
	return c, err
}

func (c *contract) PollEvery() time.Duration { return c.config.Poll }

func (c *contract) Claimable(p enginecore.Partition, lane enginecore.LaneID) []string {
	return []string{c.keys.LaneEligible(p, lane)}
}

// UpdateProgress is a function of the contract.
func (c *contract) UpdateProgress(ctx context.Context, call enginerpc.UpdateProgressCall) (enginerpc.UpdateProgressReply, error) {
	return c.core.UpdateProgress(ctx, call)
}

// Announce has nothing to do: nothing is set aside in contract mode.
func (c *contract) Announce(context.Context, enginerpc.AnnounceCall) (enginerpc.AnnounceReply, error) {
	return enginerpc.AnnounceReply{Status: enginerpc.StatusOK}, nil
}

// now is the server's time, as of the last look at its clock.
func (c *contract) now() time.Time {
	return c.clock.Now().Truncate(time.Millisecond)
}

// readClock brings now up to date.
func (c *contract) readClock(ctx context.Context) (time.Time, error) {
	now, err := c.core.Now(ctx)
	if err != nil {
		return time.Time{}, engine.ReadError("TIME", err)
	}
	c.clock.Read(now)
	return now, nil
}

// read sends reads in one go. The first error that is not "nil" fails all.
func (c *contract) read(ctx context.Context, commands ...rueidis.Completed) ([]rueidis.RedisResult, error) {
	if len(commands) == 0 {
		return nil, nil
	}
	results := c.client.DoMulti(ctx, commands...)
	for i := range results {
		if err := results[i].Error(); err != nil && !rueidis.IsRedisNil(err) {
			return nil, engine.ReadError("read", err)
		}
	}
	return results, nil
}

// readCores reads fields of executions, in pages.
func (c *contract) readCores(ctx context.Context, ids []enginecore.ExecutionID, fields []string) ([]engine.Record, error) {
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

// contractPage bounds the commands that are sent in one go.
const contractPage = 256

func (c *contract) hmget(key string, fields []string) rueidis.Completed {
	return c.client.B().Hmget().Key(key).Field(fields...).Build()
}

func (c *contract) members(ctx context.Context, p enginecore.Partition, id enginecore.FlowID) ([]enginecore.ExecutionID, error) {
	results, err := c.read(ctx, c.client.B().Smembers().Key(c.keys.FlowMembers(p, id)).Build())
	if err != nil {
		return nil, err
	}
	return idsOf[enginecore.ExecutionID](results[0]), nil
}

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

// sendContract sends calls in pages and gives their answers in order.
func sendContract[R any, C enginerpc.Call[R]](ctx context.Context, c *contract, calls []C) []engine.CallResult[R] {
	answers := make([]engine.CallResult[R], 0, len(calls))
	for len(calls) > 0 {
		page := calls[:min(len(calls), contractPage)]
		calls = calls[len(page):]
		got, _ := engine.SendAll[R](ctx, c.core, page) // each answer carries its error
		answers = append(answers, got...)
	}
	return answers
}

// firstError is the first error of the answers that is none of the accepted refusals.
func firstError[R any](answers []engine.CallResult[R], accepted ...error) error {
	for _, a := range answers {
		if a.Err != nil && !isOneOf(a.Err, accepted) {
			return a.Err
		}
	}
	return nil
}
