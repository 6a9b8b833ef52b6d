package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/recordtext"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// ErrInvalid matches errors about invalid arguments. Nothing was sent.
var ErrInvalid = errors.New("invalid argument")

// ErrQuotaNotFound is returned for a quota policy that does not exist.
var ErrQuotaNotFound = errors.New("quota policy not found")

// Client reads and changes the data of one engine. It is safe for concurrent use and needs no closing.
type Client struct {
	engine *runtime.Engine
	core   *enginerpc.Conn
	keys   enginerpc.Keys
	client rueidis.Client
	actor  string        // who acts, for the audit log; empty for defaultActor
	tails  *atomic.Int32 // calls of TailStream that wait
}

// New returns a client of an open engine. It sends nothing. The engine must stay open until the client was used for the
// last time. The error matches ErrInvalid for a missing engine, or enginecore.ErrClosed.
func New(e *runtime.Engine) (*Client, error) {
	core := engine.ConnOf(e.Internal())
	if core == nil {
		return nil, fault("engine", "is nil or was not made by Open")
	}
	if err := core.ClosedErr(); err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	return &Client{engine: e, core: core, keys: core.Keys(), client: core.Client(), tails: new(atomic.Int32)}, nil
}

// defaultActor is the actor of a client without As.
const defaultActor = "admin"

// As returns a client whose actions are recorded under the name of the actor in the audit log, which
// runtime.Client.Audit reads: at most 256 bytes without control characters, otherwise the actions return an error. The
// empty text is "admin". The log does not record created executions and flows, signals, and usage, which are not
// actions of operators.
func (c *Client) As(actor string) *Client {
	other := *c
	other.actor = actor
	return &other
}

// audited records an action, carries it out, and records its failure.
func (c *Client) audited(
	ctx context.Context, action string, name, detail string, act func() error,
) error {
	entry := auditlink.Entry{
		Actor: cmp.Or(c.actor, defaultActor), Action: string(action), Name: name, Detail: detail,
	}
	return engine.Audited(ctx, c.engine.Internal(), entry, act)
}

// fault is an error about one argument.
func fault(argument, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrInvalid, argument, fmt.Sprintf(format, args...))
}

// checkReason refuses a reason that cannot be shown on a line, or has more than maxReason bytes.
func checkReason(reason string) error {
	if err := recordtext.Check("reason", reason, maxReason); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

// maxReason is the largest size of a reason, in bytes.
const maxReason = 2048

// checkID refuses an execution id that has not the form of one, or is of a partition that the deployment does not have:
// no worker and no keeper would look there.
func (c *Client) checkID(id enginecore.ExecutionID) error {
	if _, err := keyspace.ParseExecutionID(string(id)); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := c.core.CheckExecution(id); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

// flowPartition is where a flow lives.
func (c *Client) flowPartition(id enginecore.FlowID) (keyspace.Partition, error) {
	p, err := c.core.FlowPartition(id)
	if err != nil {
		return p, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return p, nil
}

// read sends reads in one go. The first error that is not "nil" fails all.
func (c *Client) read(ctx context.Context, commands ...rueidis.Completed) ([]rueidis.RedisResult, error) {
	if len(commands) == 0 {
		return nil, nil
	}
	results := c.client.DoMulti(ctx, commands...)
	for i := range results {
		if err := results[i].Error(); err != nil && !rueidis.IsRedisNil(err) {
			return nil, readError(ctx, err)
		}
	}
	return results, nil
}

// readError wraps the error of a read as the errors of calls are wrapped.
func readError(ctx context.Context, err error) error {
	if ended := enginerpc.Unanswered(ctx, err); ended != nil {
		return fmt.Errorf("read: %w", ended)
	}
	if _, refused := rueidis.IsRedisErr(err); refused {
		return fmt.Errorf("read: %w", enginerpc.ConnectError(err))
	}
	return fmt.Errorf("read: %w: %w", enginecore.ErrUnavailable, err)
}

func (c *Client) hmget(key string, fields []string) rueidis.Completed {
	return c.client.B().Hmget().Key(key).Field(fields...).Build()
}

// one reads fields of one hash, or gives missing when it is not there.
func (c *Client) one(ctx context.Context, key string, fields []string, missing error) (hashrecord.Record, error) {
	results, err := c.read(ctx, c.hmget(key, fields))
	if err != nil {
		return nil, err
	}
	r := hashrecord.Read(results[0], fields)
	if r == nil {
		return nil, missing
	}
	return r, nil
}

// coreOf reads fields of an execution.
func (c *Client) coreOf(ctx context.Context, id enginecore.ExecutionID, fields ...string) (hashrecord.Record, error) {
	if err := c.checkID(id); err != nil {
		return nil, err
	}
	fields = append(fields, "lifecycle_phase")
	if isNode(id) {
		nodes, err := c.readNodes(ctx, []string{string(id)}, fields)
		if n, found := nodes[string(id)]; err != nil || found {
			return n.fields, err
		}
	}
	return c.one(ctx, c.keys.ExecCore(id), fields, enginecore.ErrExecutionNotFound)
}

// now is the server's clock, which calls of the contract take from their caller.
func (c *Client) now(ctx context.Context) (time.Time, error) { return c.core.Now(ctx) }

// of names the thing that an error is about.
func of(err error, verb, kind, id string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s %s: %w", verb, kind, id, err)
}

// checkName refuses texts that cannot be part of a key.
func checkName(argument, text string) error {
	switch {
	case text == "":
		return fault(argument, "must not be empty")
	case len(text) > maxName:
		return fault(argument, "%d bytes, at most %d are allowed", len(text), maxName)
	case strings.ContainsAny(text, "{}"):
		return fault(argument, "%.80q must not contain braces", text)
	}
	return nil
}

// maxName is the longest name that becomes part of a key, in bytes.
const maxName = 256
