package runtime

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/catalogue"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/valueschema"
)

// Flows returns the flows that are published in the client's namespace, sorted by name. In contract mode the error
// matches ErrNotInContract.
func (c *Client) Flows(ctx context.Context) ([]fabrictype.Flow, error) {
	store, err := library(ctx, c, "the catalogue of flows")
	if err != nil {
		return nil, fmt.Errorf("list flows: %w", err)
	}
	found := make(map[string]fabrictype.Flow)
	call := enginerpc.ListPublishedCall{Partition: engine.Directory(), Namespace: string(c.session.Namespace)}
	for {
		reply, err := store.ListPublished(ctx, call)
		if err != nil {
			return nil, fmt.Errorf("list flows: %w", err)
		}
		for _, f := range reply.Flows {
			entry := flowOf(f.FlowName, f.GraphHash, f.About)
			entry.PublishedAt, entry.PublishedBy = f.PublishedAt, f.PublishedBy
			found[f.FlowName] = entry
		}
		if call.Cursor = reply.NextCursor; call.Cursor == "" {
			break
		}
	}
	list := make([]fabrictype.Flow, 0, len(found))
	for _, f := range found {
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b fabrictype.Flow) int { return cmp.Compare(a.Name, b.Name) })
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
	reply, err := f.client.readPublished(ctx, f.name, "")
	if err != nil {
		return nil, fmt.Errorf("describe flow %q: %w", f.name, err)
	}
	d := &FlowDescription{fabrictype.FlowDetail{
		Flow: flowOf(f.name, reply.GraphHash, reply.About), Definition: reply.Definition,
		InputSchema: schemaText(reply.InputSchema), ResultSchema: schemaText(reply.ResultSchema),
		History: make([]fabrictype.FlowVersion, len(reply.History)),
	}}
	d.PublishedAt, d.PublishedBy = reply.PublishedAt, reply.PublishedBy
	for i, v := range reply.History {
		d.History[i] = fabrictype.FlowVersion{Hash: v.GraphHash, PublishedAt: v.PublishedAt, PublishedBy: v.PublishedBy}
	}
	return d, nil
}

// schemaText is a stored schema; nil for one that was left out.
func schemaText(stored []byte) json.RawMessage {
	if len(stored) == 0 {
		return nil
	}
	return stored
}

func flowOf(name, hash string, text []byte) fabrictype.Flow {
	var about catalogue.About
	_ = json.Unmarshal(text, &about) // fields of another version in another form are left out
	return fabrictype.Flow{
		Name: name, Hash: hash, Doc: about.Doc, Codec: about.Codec, InputType: about.InputType,
		ResultType: about.ResultType, Nodes: about.Nodes,
	}
}

func (c *Client) readPublished(ctx context.Context, name, digest string) (enginerpc.ReadPublishedReply, error) {
	store, err := library(ctx, c, "the catalogue of flows")
	if err != nil {
		return enginerpc.ReadPublishedReply{}, err
	}
	reply, err := store.ReadPublished(ctx, enginerpc.ReadPublishedCall{
		Partition: engine.Directory(), Namespace: string(c.session.Namespace), FlowName: name, KnownDigest: digest,
	})
	if errors.Is(err, enginecore.ErrFlowNotPublished) {
		err = engine.Reworded(err, "the flow is not published")
	}
	return reply, err
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
	return startPlan(ctx, f.client, plan, signal, rawJSON)
}

// rawJSON decodes a result in JSON as it is.
func rawJSON(data []byte) (json.RawMessage, error) { return data, nil }

// namedFlow is a published flow ready to be started.
type namedFlow struct {
	digest   string
	compiled *submit.CompiledFlow
	schema   *valueschema.Schema // of the input; nil without one
	result   *valueschema.Schema // nil without one
}

// anyValue holds an input without a schema to be JSON.
var anyValue = sync.OnceValues(func() (*valueschema.Schema, error) { return valueschema.Parse([]byte("{}")) })

// check returns the input without white space. The error is invalid and has a *fabrictype.ValueError.
func (f *namedFlow) check(name string, input json.RawMessage) ([]byte, error) {
	schema := f.schema
	if schema == nil {
		var err error
		if schema, err = anyValue(); err != nil {
			return nil, err
		}
	}
	if len(input) > submit.MaxInput {
		return nil, fmt.Errorf("input of flow %q: %w: it has %d bytes, at most %d are allowed", name,
			engine.ErrTooLarge, len(input), submit.MaxInput)
	}
	if err := schema.Check(fmt.Sprintf("input of flow %q", name), input); err != nil {
		return nil, invalid("%w", err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, input); err != nil {
		return nil, invalid("input of flow %q: %w", name, err)
	}
	return compact.Bytes(), nil
}

// publishedFlows keeps flows by name that were started. The zero value is empty.
type publishedFlows struct {
	mu     sync.Mutex
	byName map[string]*namedFlow
}

func (p *publishedFlows) get(name string) *namedFlow {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byName[name]
}

// put keeps a flow. There is room for as many as in a cache of compiled flows.
func (p *publishedFlows) put(name string, f *namedFlow) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byName == nil || len(p.byName) >= submit.MaxCompiled {
		p.byName = make(map[string]*namedFlow)
	}
	p.byName[name] = f
}

// namedFlow returns a flow as it is published. It queries the engine each time, but reads the flow only after a change.
func (c *Client) namedFlow(ctx context.Context, name string) (*namedFlow, error) {
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	known, digest := c.published.get(name), ""
	if known != nil {
		digest = known.digest
	}
	reply, err := c.readPublished(ctx, name, digest)
	if err != nil {
		return nil, err
	}
	if reply.Same && known != nil {
		return known, nil
	}
	graph, err := flowgraph.ParseGraph(reply.Definition)
	if err != nil {
		return nil, err
	}
	if json := (activity.JSON{}).Name(); graph.Codec != json {
		return nil, invalid("its codec is %q, not %q: start it with its definition", graph.Codec, json)
	}
	f := &namedFlow{digest: reply.Digest}
	if f.compiled, err = submit.CompileFlow(graph, reply.GraphHash); err != nil {
		return nil, err
	}
	if len(reply.InputSchema) > 0 {
		if f.schema, err = valueschema.Parse(reply.InputSchema); err != nil {
			return nil, err
		}
	}
	if len(reply.ResultSchema) > 0 {
		if f.result, err = valueschema.Parse(reply.ResultSchema); err != nil {
			return nil, err
		}
	}
	c.published.put(name, f)
	return f, nil
}
