package runtime

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// ContractOnly makes the engine use nothing but the ff_* functions of the FlowFabric contract, version 15, against
// whatever library of that version the server already has; it is neither loaded nor replaced. So flows run on a stock
// FlowFabric server, beside its own programs. Open fails with enginecore.ErrNoLibrary or ErrIncompatibleLibrary where the
// library is missing or of another version.
//
// Each step is then a call of its own: runs are slower, and what one composite call does at once can be seen half done in
// between. Everything is repeated until it is done. Start refuses a flow that the contract cannot serve, with
// ErrNotInContract. In this process (embedded) the library is ours without its composite calls.
func ContractOnly() OpenOption { return func(c *openConfig) { c.core.ContractOnly = true } }

// PollInterval is how often workers and keepers in contract mode look for what other programs have made ready or due: of
// what this library does, its own learn at once. Defaults to 1 s, at least 10 ms. Without ContractOnly it means nothing.
func PollInterval(d time.Duration) OpenOption { return func(c *openConfig) { c.contract.poll = d } }

// ReconcileInterval is how often a keeper in contract mode looks for steps that nobody has taken, because a process ended
// between two calls or another program ended an execution. Defaults to 5 s, at least 10 ms. Without ContractOnly it means
// nothing.
func ReconcileInterval(d time.Duration) OpenOption {
	return func(c *openConfig) { c.contract.reconcile = d }
}

// Defaults of PollInterval and ReconcileInterval.
const (
	DefaultPollInterval      = time.Second
	DefaultReconcileInterval = 5 * time.Second
	minContractInterval      = 10 * time.Millisecond
)

type contractConfig struct {
	poll, reconcile time.Duration
}

// contract implements calls with ff_* functions and reads of the contract's keys. The messages that the composite calls
// send to workers, keepers and clients it sends itself; they are hints, and may be lost.
type contract struct {
	session *session
	core    *enginecore.Engine
	keys    enginecore.Keys
	client  rueidis.Client
	logger  *slog.Logger
	config  contractConfig

	clock  engineClock
	leases contractLeases
	graphs graphCache
	ends   endWatch

	mu         sync.Mutex
	lanes      map[enginecore.LaneID]bool // seen in this process
	reconciled map[enginecore.Partition]reconcileState
}

func newContract(ctx context.Context, e *session, config contractConfig) (*contract, error) {
	config.poll = max(cmp.Or(config.poll, DefaultPollInterval), minContractInterval)
	config.reconcile = max(cmp.Or(config.reconcile, DefaultReconcileInterval), minContractInterval)
	c := &contract{
		session: e, core: e.core, keys: e.core.Keys(), client: e.client, logger: e.logger, config: config,
		lanes: make(map[enginecore.LaneID]bool), reconciled: make(map[enginecore.Partition]reconcileState),
	}
	_, err := c.readClock(ctx)
	return c, err
}

func (c *contract) pollEvery() time.Duration { return c.config.poll }

func (c *contract) claimable(p enginecore.Partition, lane enginecore.LaneID) []string {
	return []string{c.keys.LaneEligible(p, lane)}
}

// UpdateProgress is a function of the contract.
func (c *contract) UpdateProgress(ctx context.Context, call enginecore.UpdateProgressCall) (enginecore.UpdateProgressReply, error) {
	return c.core.UpdateProgress(ctx, call)
}

// Announce has nothing to do: nothing is set aside in contract mode.
func (c *contract) Announce(context.Context, enginecore.AnnounceCall) (enginecore.AnnounceReply, error) {
	return enginecore.AnnounceReply{Status: enginecore.StatusOK}, nil
}

// now is the server's time, as of the last look at its clock.
func (c *contract) now() time.Time {
	return c.clock.now().Truncate(time.Millisecond)
}

// readClock brings now up to date.
func (c *contract) readClock(ctx context.Context) (time.Time, error) {
	now, err := c.core.Now(ctx)
	if err != nil {
		return time.Time{}, contractReadError("TIME", err)
	}
	c.clock.read(now)
	return now, nil
}

// contractReadError gives the error of a read the classes that calls have.
func contractReadError(what string, err error) error {
	if _, refused := rueidis.IsRedisErr(err); refused {
		return fmt.Errorf("%s: %w", what, enginecore.ConnectError(err))
	}
	return fmt.Errorf("%s: %w: %w", what, enginecore.ErrUnavailable, err)
}

// read sends reads in one go. The first error that is not "nil" fails all.
func (c *contract) read(ctx context.Context, commands ...rueidis.Completed) ([]rueidis.RedisResult, error) {
	if len(commands) == 0 {
		return nil, nil
	}
	results := c.client.DoMulti(ctx, commands...)
	for i := range results {
		if err := results[i].Error(); err != nil && !rueidis.IsRedisNil(err) {
			return nil, contractReadError("read", err)
		}
	}
	return results, nil
}

// record is a row of fields of a hash; what is missing is "".
type contractRecord map[string]string

func (r contractRecord) int(field string) int64 {
	n, _ := strconv.ParseInt(r[field], 10, 64)
	return n
}

// time reads a field that holds Unix ms; zero when it is unset.
func (r contractRecord) time(field string) time.Time {
	ms, err := strconv.ParseFloat(r[field], 64)
	if err != nil || ms <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(ms)).UTC()
}

func (r contractRecord) terminal() bool { return r["lifecycle_phase"] == "terminal" }

// exists tells a record from a missing one, of which no field is there.
func (r contractRecord) exists() bool { return len(r) > 0 }

// recordOf reads the reply of an HMGET.
func recordOf(result rueidis.RedisResult, fields []string) contractRecord {
	values, err := result.ToArray()
	if err != nil {
		return nil
	}
	var r contractRecord
	for i := range values {
		if text, err := values[i].ToString(); err == nil && i < len(fields) {
			if r == nil {
				r = make(contractRecord, len(fields))
			}
			r[fields[i]] = text
		}
	}
	return r
}

// readCores reads fields of executions, in pages.
func (c *contract) readCores(ctx context.Context, ids []enginecore.ExecutionID, fields []string) ([]contractRecord, error) {
	records := make([]contractRecord, 0, len(ids))
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
			records = append(records, recordOf(result, fields))
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
func sendContract[R any, C enginecore.Call[R]](ctx context.Context, c *contract, calls []C) []answer[R] {
	answers := make([]answer[R], 0, len(calls))
	for len(calls) > 0 {
		page := calls[:min(len(calls), contractPage)]
		calls = calls[len(page):]
		got, _ := sendAll[R](ctx, c.core, page) // each answer carries its error
		answers = append(answers, got...)
	}
	return answers
}

// firstError is the first error of the answers that is none of the accepted refusals.
func firstError[R any](answers []answer[R], accepted ...error) error {
	for _, a := range answers {
		if a.err != nil && !isOneOf(a.err, accepted) {
			return a.err
		}
	}
	return nil
}
