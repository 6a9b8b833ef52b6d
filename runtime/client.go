package runtime

import (
	"context"
	"fmt"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/interceptor"
	"github.com/flowfabric/flowfabric-go/internal/answer"
	"github.com/flowfabric/flowfabric-go/internal/catalogue"
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
	singles submit.SingleFlows
	// published are flows that were started by their names.
	published catalogue.Cache
	reasons   *waitReasons
	// local is the worker of OpenLocal, which must have the activities of the runs that this client starts.
	local *localWorker
}

// NewClient returns a client of an engine. Close it before the engine. The error matches ErrInvalid for a missing
// engine, or enginecore.ErrClosed.
func NewClient(e *Engine) (*Client, error) {
	if err := e.open(); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	c := &Client{clientState: &clientState{
		session: e.session, submitter: submit.NewSubmitter(e.session), reasons: newWaitReasons(e.session),
	}}
	c.submitter.StillOpen = c.reasons.noteStuck
	return c, nil
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

// library returns the whole library for a construct, or why the client cannot be used, or the refusal of contract mode.
func library(ctx context.Context, c *Client, construct string) (engine.Library, error) {
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	return c.session.Library(construct)
}
