package runtime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/interceptor"
	"github.com/flowfabric/flowfabric-go/internal/answer"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// Client starts, observes and stops runs. It is safe for concurrent use.
type Client struct {
	*clientState
	// actor is who acts, unless WithActor names another one; empty for the defaults.
	actor string
	// interceptors are around operations on runs, the first one outermost.
	interceptors []interceptor.Client
}

// clientState is the state that the clients of one NewClient share.
type clientState struct {
	session  *engine.Session
	compiled submit.CompiledCache
	// submitter starts runs and receives their ends.
	submitter *submit.Submitter
	// answers checks the payloads of signals.
	answers answer.Checker
	// singles are the flows of activities that Do has run.
	singles singleFlows
	// published are flows that were started by their names.
	published publishedFlows
}

// NewClient returns a client of an engine. Close it before the engine. The error matches ErrInvalid for a missing
// engine, or enginecore.ErrClosed.
func NewClient(e *Engine) (*Client, error) {
	if err := e.open(); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return &Client{clientState: &clientState{session: e.session, submitter: submit.NewSubmitter(e.session)}}, nil
}

// As returns a client whose actions name the actor, a person or a program, unless WithActor names another one: the
// engine records it with runs, and in the audit log. The clients share everything else, and closing one closes both. A
// name with more than 256 bytes or with control characters makes the actions return ErrInvalid.
func (c *Client) As(actor string) *Client {
	if c == nil {
		return nil
	}
	return &Client{clientState: c.clientState, actor: actor, interceptors: c.interceptors}
}

// Close ends the client's subscriptions. Waiting calls of Result, Watch and Stream return enginecore.ErrClosed, and so
// do all later calls of the client and its runs.
func (c *Client) Close() {
	if c != nil && c.clientState != nil && c.submitter != nil {
		c.submitter.Close()
	}
}

// StartOption adjusts a call of Start: WithID, WithTag, WithMemo, WithPriority, WithDeadline, WithActor, WithKey,
// WithThrottle, WithDebounce, WithSignal, StartAt or StartAfter.
type StartOption interface {
	// start reports whether the option is one, not nil.
	start(*startConfig) bool
}

type startConfig struct {
	id    string
	named bool
	actor string
	tags  map[string]string
	// startAt is the time of the start; zero is now.
	startAt time.Time
	// Options that were not given are nil.
	priority *int
	deadline *time.Duration
	memo     *any
	arrival  *startArrival
	signal   *startSignal
	fork     *forkConfig
}

// startFunc is a StartOption that adjusts nothing but starts.
type startFunc func(*startConfig)

func (f startFunc) start(c *startConfig) bool {
	if f != nil {
		f(c)
	}
	return f != nil
}

func (c *Client) startConfigOf(opts []StartOption) (startConfig, error) {
	config := startConfig{actor: c.actor}
	var faults []error
	for i, opt := range opts {
		if opt == nil || !opt.start(&config) {
			faults = append(faults, nilOption(i))
		}
	}
	if config.priority != nil {
		faults = append(faults, checkPriority(*config.priority))
	}
	faults = append(faults, engine.CheckText("actor", config.actor, engine.MaxActor), checkStartAt(config.startAt),
		checkDeadline(config.deadline))
	return config, errors.Join(faults...)
}

// WithID sets the run id, which is unique within a namespace and flow. If a run with that id, a graph of the same
// structure and the same input exists, Start returns it, whether it is open or over. The structure of a graph is its
// nodes with their activities, waits, edges, joins and inputs. The rest are options, such as retry policies, timeouts,
// priorities, lanes, limits and tags: the run that exists keeps those with which it was started. An id is valid UTF-8
// of 1 to 256 bytes without control characters. Defaults to a random UUID.
//
// The id of a child run consists of the flow, the id and the node of its parent, separated by "/", such as
// "monthly/2026-11/each". A run of the sub-flow that is started with the same id would be in its place, so do not use
// ids of this form for flows that are also sub-flows.
func WithID(id string) StartOption {
	return startFunc(func(c *startConfig) { c.id, c.named = id, true })
}

// WithTag attaches a tag to the run, by which Client.Runs finds it. It adds to the tags of the flow, or replaces the
// one with the same key. Keys, values and their number follow the rules of flow.Tag. When Start returns a run that
// exists, the tags of that run do not change.
func WithTag(key, value string) StartOption {
	return startFunc(func(c *startConfig) {
		if c.tags == nil {
			c.tags = make(map[string]string)
		}
		c.tags[key] = value
	})
}

// Errors of calls on the nil or zero client that an ignored error left.
var (
	errNoClient     = invalid("the client is nil: look at the error of NewClient")
	errUnmadeClient = invalid("the client was not made by NewClient")
)

var errClientClosed = fmt.Errorf("the client: %w", enginecore.ErrClosed)

// ready returns why the client cannot be used for a call with ctx; nil when it can.
func (c *Client) ready(ctx context.Context) error {
	if err := c.made(); err != nil {
		return err
	}
	return checkContext(ctx)
}

// checkContext returns an error for a nil context.
func checkContext(ctx context.Context) error {
	if ctx == nil {
		return errNoContext
	}
	return nil
}

// made returns an error unless NewClient has returned the client and neither it nor the engine is closed.
func (c *Client) made() error {
	switch {
	case c == nil:
		return errNoClient
	case c.clientState == nil || c.session == nil:
		return errUnmadeClient
	}
	if err := c.session.ClosedErr(); err != nil {
		return err
	}
	if c.submitter.Closed() {
		return errClientClosed
	}
	return nil
}

// offered returns a capability of the engine's backend, for a client that can be used.
func offered[C any](ctx context.Context, c *Client) (store C, err error) {
	if err := c.ready(ctx); err != nil {
		return store, err
	}
	return engine.Capability[C](c.session.Backend)
}

// usable returns the fault of a missing client or definition.
func usable[In, Out any](c *Client, def *flow.Definition[In, Out]) error {
	if err := c.made(); err != nil {
		return err
	}
	return checkDefinition(def)
}
