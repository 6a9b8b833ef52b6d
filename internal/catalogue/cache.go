package catalogue

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/valueschema"
)

// Flow is a published flow ready to be started.
type Flow struct {
	digest   string
	Compiled *submit.CompiledFlow
	schema   *valueschema.Schema // of the input; nil without one
	Result   *valueschema.Schema // nil without one
}

// anyValue holds an input without a schema to be JSON.
var anyValue = sync.OnceValues(func() (*valueschema.Schema, error) { return valueschema.Parse([]byte("{}")) })

// Check returns the input without white space. The error is invalid and has a *fabrictype.ValueError.
func (f *Flow) Check(name string, input json.RawMessage) ([]byte, error) {
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
		return nil, engine.Invalid("%w", err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, input); err != nil {
		return nil, engine.Invalid("input of flow %q: %w", name, err)
	}
	return compact.Bytes(), nil
}

// Cache keeps flows by name that were read. The zero value is empty. It is safe for concurrent use.
type Cache struct {
	mu     sync.Mutex
	byName map[string]*Flow
}

func (p *Cache) get(name string) *Flow {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byName[name]
}

// put keeps a flow. There is room for as many as in a cache of compiled flows.
func (p *Cache) put(name string, f *Flow) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byName == nil || len(p.byName) >= submit.MaxCompiled {
		p.byName = make(map[string]*Flow)
	}
	p.byName[name] = f
}

// Get returns a flow as it is published. It queries the engine each time, but reads the flow only after a change.
func (p *Cache) Get(ctx context.Context, s *engine.Session, name string) (*Flow, error) {
	known, digest := p.get(name), ""
	if known != nil {
		digest = known.digest
	}
	reply, err := read(ctx, s, name, digest)
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
		return nil, engine.Invalid("its codec is %q, not %q: start it with its definition", graph.Codec, json)
	}
	f := &Flow{digest: reply.Digest}
	if f.Compiled, err = submit.CompileFlow(graph, reply.GraphHash); err != nil {
		return nil, err
	}
	if len(reply.InputSchema) > 0 {
		if f.schema, err = valueschema.Parse(reply.InputSchema); err != nil {
			return nil, err
		}
	}
	if len(reply.ResultSchema) > 0 {
		if f.Result, err = valueschema.Parse(reply.ResultSchema); err != nil {
			return nil, err
		}
	}
	p.put(name, f)
	return f, nil
}
