package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/catalogue"
)

// Flows returns the flows that are published in the client's namespace, sorted by name. In contract mode the error
// matches ErrNotInContract.
func (c *Client) Flows(ctx context.Context) ([]fabrictype.Flow, error) {
	if err := c.ready(ctx); err != nil {
		return nil, fmt.Errorf("list flows: %w", err)
	}
	list, err := catalogue.Flows(ctx, c.session)
	if err != nil {
		return nil, fmt.Errorf("list flows: %w", err)
	}
	return list, nil
}

// FlowRef refers to a published flow by its name. Client.Flow returns one. It holds nothing of the flow: each call
// reads it from the engine, in the namespace of the client. It is safe for concurrent use, as long as its client is
// open.
//
// The error of every call, unless its comment states otherwise, matches enginecore.ErrFlowNotPublished for a flow that
// is not published, and in contract mode ErrNotInContract.
type FlowRef struct {
	client *Client
	name   string
}

// Flow returns a reference to a published flow. It sends nothing.
func (c *Client) Flow(name string) *FlowRef { return &FlowRef{client: c, name: name} }

// Describe returns the published flow with its graph, schemas and the history of its hashes.
func (f *FlowRef) Describe(ctx context.Context) (*FlowDescription, error) {
	if err := f.client.ready(ctx); err != nil {
		return nil, fmt.Errorf("describe flow %q: %w", f.name, err)
	}
	d, err := catalogue.Describe(ctx, f.client.session, f.name)
	if err != nil {
		return nil, fmt.Errorf("describe flow %q: %w", f.name, err)
	}
	return &FlowDescription{*d}, nil
}

// Start starts a run of the published flow with an input in JSON, without its definition: for forms, gateways and other
// programs that have no Go types. The flow is as it was published last. The input is checked against its schema, which
// is stricter than encoding/json: missing and misspelt fields are faults.
//
// The error wraps a *fabrictype.ValueError with all faults of the input, which matches ErrInvalid; it matches
// ErrInvalid too for a flow whose codec is not JSON. The other errors are the errors of the function Start. Nothing was
// started then. A run id names the same run as with the function Start if the input is the same text without white
// space: fields in another order are another input. Run.Existed reports whether the run existed before; the result is
// JSON.
func (f *FlowRef) Start(
	ctx context.Context, input json.RawMessage, opts ...StartOption,
) (*Run[json.RawMessage], error) {
	named, err := f.client.namedFlow(ctx, f.name)
	if err != nil {
		return nil, fmt.Errorf("start run of flow %q: %w", f.name, err)
	}
	plan, signal, err := f.client.planNamed(named, f.name, input, opts)
	if err != nil {
		return nil, err
	}
	return startPlan(ctx, f.client, plan, signal, rawJSON{})
}

// rawJSON decodes a result in JSON as it is.
type rawJSON struct{}

// DecodeResult implements decoder. It copies the bytes, which other waits for the run may share.
func (rawJSON) DecodeResult(data []byte) (json.RawMessage, error) { return bytes.Clone(data), nil }

// namedFlow returns a flow as it is published. It queries the engine each time, but reads the flow only after a change.
func (c *Client) namedFlow(ctx context.Context, name string) (*catalogue.Flow, error) {
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	return c.published.Get(ctx, c.session, name)
}
