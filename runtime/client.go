package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/submit"
)

// Client starts, watches and stops runs. It may be used by several goroutines.
type Client struct {
	session  *engine.Session
	fault    error // why there is no run
	compiled submit.CompiledCache
	// submitter starts runs and hears when they end; nil where there is no engine.
	submitter *submit.Submitter
}

// NewClient returns a client of an engine. Close it before the engine. The error matches ErrInvalid: there is no engine.
func NewClient(e *Engine) (*Client, error) {
	if err := e.open(); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return &Client{session: e.session, submitter: submit.NewSubmitter(e.session)}, nil
}

// Close ends what the client listens to. Result, Watch and Stream that wait return enginecore.ErrClosed.
func (c *Client) Close() {
	if c != nil && c.submitter != nil {
		c.submitter.Close()
	}
}

// StartOption adjusts one call of Start.
type StartOption func(*startConfig)

type startConfig struct {
	id      string
	named   bool
	creator string
	tags    map[string]string
}

// WithID is the id of the run. It is unique within namespace and flow: starting a run that exists, with the same graph and
// input, is the same run again, whether it is under way or over. Defaults to a random UUID.
func WithID(id string) StartOption { return func(c *startConfig) { c.id, c.named = id, true } }

// Creator says who starts the run, for the record, in at most 256 bytes without control characters.
func Creator(name string) StartOption { return func(c *startConfig) { c.creator = name } }

// WithTag attaches a text to the run, by which Client.Runs finds it: beside the tags of its flow, or instead of the one with the
// same key. Keys and values are those of flow.Tag, and so is their number. A run that exists keeps the tags that it has.
func WithTag(key, value string) StartOption {
	return func(c *startConfig) {
		if c.tags == nil {
			c.tags = make(map[string]string)
		}
		c.tags[key] = value
	}
}

// Run is a run of a flow that returns an Out, made by Start or Attach. All calls of a nil one return an error.
type Run[Out any] struct {
	client  *Client
	flow    string
	id      string
	flowID  enginecore.FlowID
	part    enginecore.Partition
	decode  func([]byte) (Out, error)
	existed bool
}

// there is the run, or, where the error of Start was passed over, one whose calls say so.
func (r *Run[Out]) there() *Run[Out] {
	switch {
	case r == nil:
		return &Run[Out]{client: &Client{fault: errNoRun}}
	case r.client == nil:
		return &Run[Out]{client: &Client{fault: errUnmadeRun}}
	}
	return r
}

// ID is the run's id.
func (r *Run[Out]) ID() string { return r.there().id }

// FlowID is the id that the engine gave to the run.
func (r *Run[Out]) FlowID() enginecore.FlowID { return r.there().flowID }

// Existed tells that Start met a run which had been started before.
func (r *Run[Out]) Existed() bool { return r.there().existed }

// Start starts a run of a flow. Where the call is interrupted, a second one with the same ID goes on with it: the engine
// makes nothing runnable before the whole flow is there.
//
// The error wraps ErrRunConflict when the id is taken by a run with another graph or input, ErrTooLarge for an input
// above MaxInput, ErrInvalid for a bad id or Creator and for an input without the key of a limit, a budget or FairBy,
// flow.ErrTag for a bad Tag or flow.ErrInvalid for too many; nothing has been written then. It wraps enginecore.ErrFull
// when the server has no room for new work: start the run again later, with the same ID.
func Start[In, Out any](ctx context.Context, c *Client, def *flow.Definition[In, Out], in In, opts ...StartOption) (*Run[Out], error) {
	plan, err := planRun(c, def, in, opts)
	if err != nil {
		return nil, err
	}
	existed, err := c.submitter.Submit(ctx, plan)
	if err != nil {
		return nil, err
	}
	return &Run[Out]{
		client: c, flow: plan.Flow, id: plan.Run, flowID: plan.FlowID, part: plan.Partition,
		decode: def.DecodeResult, existed: existed,
	}, nil
}

// planRun makes the run of one call of Start ready to be submitted. Nothing is sent.
func planRun[In, Out any](c *Client, def *flow.Definition[In, Out], in In, opts []StartOption) (*submit.RunPlan, error) {
	if err := usable(c, def); err != nil {
		return nil, fmt.Errorf("start run: %w", err)
	}
	config := startConfig{}
	if err := errors.Join(apply(&config, opts), engine.CheckText("creator", config.creator, engine.MaxActor)); err != nil {
		return nil, fmt.Errorf("flow %s: start: %w", def.Name(), err)
	}
	if !config.named {
		config.id = c.submitter.RunIDs.Next(def.Name())
	}
	input, err := def.EncodeInput(in)
	if err != nil {
		return nil, fmt.Errorf("flow %s: input: %w", def.Name(), err)
	}
	compiled, err := c.compiled.Get(def)
	if err != nil {
		return nil, err
	}
	plan, err := submit.NewPlan(c.session, compiled, config.id, input)
	if err != nil {
		return nil, err
	}
	plan.Creator = config.creator
	plan.OwnTags = len(config.tags) > 0
	plan.Tags, err = submit.TagsOf(compiled, config.tags)
	return plan, err
}

// What is missing where an error was passed over.
var (
	errNoClient     = invalid("the client is nil: look at the error of NewClient")
	errUnmadeClient = invalid("the client was not made by NewClient")
	errNoRun        = invalid("the run is nil: look at the error of Start or Attach")
	errUnmadeRun    = invalid("the run was not made by Start or Attach")
)

// ready tells why the client cannot be used.
func (c *Client) ready() error {
	switch {
	case c == nil:
		return errNoClient
	case c.fault != nil:
		return c.fault
	case c.session == nil:
		return errUnmadeClient
	}
	return nil
}

// offered returns a capability of the engine's backend, for a client that can be used.
func offered[C any](c *Client) (store C, err error) {
	if err := c.ready(); err != nil {
		return store, err
	}
	return engine.Capability[C](c.session.Backend)
}

// usable tells what of a client and a definition is missing.
func usable[In, Out any](c *Client, def *flow.Definition[In, Out]) error {
	if err := c.ready(); err != nil {
		return err
	}
	switch {
	case def == nil:
		return invalid("the definition of the flow is nil: look at the error of Build")
	case def.Hash() == "":
		return invalid("the definition of the flow was not made by Build")
	}
	return nil
}

// Attach returns a run that was started before, by this process or another. It does not check that the run exists.
func Attach[In, Out any](c *Client, def *flow.Definition[In, Out], runID string) (*Run[Out], error) {
	if err := usable(c, def); err != nil {
		return nil, fmt.Errorf("attach to run: %w", err)
	}
	flowID, partition, err := c.locate(def.Name(), runID)
	if err != nil {
		return nil, err
	}
	return &Run[Out]{
		client: c, flow: def.Name(), id: runID, flowID: flowID, part: partition, decode: def.DecodeResult, existed: true,
	}, nil
}

// locate finds where a run lives.
func (c *Client) locate(flowName, runID string) (enginecore.FlowID, enginecore.Partition, error) {
	if err := c.ready(); err != nil {
		return "", enginecore.Partition{}, err
	}
	if err := submit.CheckRunID(runID); err != nil {
		return "", enginecore.Partition{}, fmt.Errorf("flow %s: %w", flowName, err)
	}
	id := enginecore.FlowIDFor(c.session.Namespace, flowName, runID)
	partition, err := c.session.Core.FlowPartition(id)
	return id, partition, err
}

// Result waits until the run is over and returns its result. A run that did not succeed gives a *RunError; the context's
// error is returned when it ends before, and enginecore.ErrClosed when the client or the engine is closed before.
func (r *Run[Out]) Result(ctx context.Context) (Out, error) {
	r = r.there()
	var zero Out
	reply, err := r.client.awaitResult(ctx, r.flow, r.id, r.flowID, r.part)
	if err != nil {
		return zero, err
	}
	if reply.Outcome != "success" {
		return zero, newRunError(submit.ReadRunFailure(ctx, r.client.session, r.flow, r.id, r.flowID, r.part, reply))
	}
	out, err := r.decode(reply.Result)
	if err != nil && !reply.HasResult {
		return zero, fmt.Errorf("run %s of flow %s: %w", r.id, r.flow, engine.ErrNoResult)
	}
	if err != nil {
		return zero, fmt.Errorf("run %s of flow %s: result: %w", r.id, r.flow, err)
	}
	return out, nil
}

// Describe returns the state of the run and its nodes.
func (r *Run[Out]) Describe(ctx context.Context) (*RunDescription, error) {
	r = r.there()
	return r.client.describe(ctx, r.flow, r.id, r.flowID, r.part)
}
