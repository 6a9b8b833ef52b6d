// Package answer sends answers to waits: signals, and the results with which operators end waits. It holds a payload
// against the schema of its wait before the engine takes it.
package answer

import (
	"context"
	"crypto/sha1" //nolint:gosec // names a schema, and protects nothing
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/valueschema"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// Unchecked is the outcome of a signal whose payload has to be held against a schema first.
const Unchecked = "unchecked"

// tries bounds how often an answer is sent: the schema of a wait changes at most when its function says it anew.
const tries = 5

// ErrSchemaChanges means that each try found another schema.
var ErrSchemaChanges = errors.New("the schema of the wait changed with each try")

// Checker checks answers. The zero value is ready, and safe for concurrent use.
type Checker struct {
	mu      sync.Mutex
	schemas map[string]*valueschema.Schema
}

// maxSchemas bounds the schemas that a Checker keeps; beyond that, it drops all.
const maxSchemas = 64

// Signal sends a signal whose payload satisfies the schema of its wait. Otherwise the error wraps engine.ErrInvalid and
// a *valuefault.Error with all faults, and nothing has changed.
func (c *Checker) Signal(
	ctx context.Context, store engine.WaitStore, call enginerpc.SignalCall,
) (reply enginerpc.SignalReply, err error) {
	for range tries {
		reply, err = store.Signal(ctx, call)
		if err != nil || reply.Outcome != Unchecked {
			return reply, err
		}
		if call.Checked, err = c.Check(call.SignalName, reply.AnswerSchema, call.Payload); err != nil {
			return reply, err
		}
	}
	return reply, ErrSchemaChanges
}

// SignalNode is Signal for a wait by its name.
func (c *Checker) SignalNode(
	ctx context.Context, store engine.NamedWaits, call enginerpc.SignalNodeCall,
) (reply enginerpc.SignalNodeReply, err error) {
	for range tries {
		reply, err = store.SignalNode(ctx, call)
		if err != nil || reply.Outcome != Unchecked {
			return reply, err
		}
		if call.Checked, err = c.Check(call.SignalName, reply.AnswerSchema, call.Payload); err != nil {
			return reply, err
		}
	}
	return reply, ErrSchemaChanges
}

// Check holds the payload of a signal against the text of a schema, and returns by what the engine knows that it was.
// The error is that of Signal.
func (c *Checker) Check(signal, schema string, payload []byte) (checked string, err error) {
	return c.check("payload of signal "+signal, schema, payload)
}

// EndWait ends a wait on behalf of an operator, whose result satisfies the schema of the wait. The error is that of
// Signal.
func (c *Checker) EndWait(
	ctx context.Context, store engine.WaitStore, call enginerpc.EndWaitCall,
) (reply enginerpc.EndWaitReply, err error) {
	for range tries {
		reply, err = store.EndWait(ctx, call)
		if err != nil || reply.AnswerSchema == "" {
			return reply, err
		}
		if call.Checked, err = c.check("payload", reply.AnswerSchema, call.Result); err != nil {
			return reply, err
		}
	}
	return reply, ErrSchemaChanges
}

// check holds a payload against a schema, and returns the name of the schema.
func (c *Checker) check(subject, text string, payload []byte) (name string, err error) {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
	name = hex.EncodeToString(sum[:])
	schema, err := c.schema(name, text)
	if err != nil {
		return "", err
	}
	if len(payload) == 0 {
		payload = []byte("null")
	}
	if err := schema.Check(subject, payload); err != nil {
		return "", fmt.Errorf("%w: %w", engine.ErrInvalid, err)
	}
	return name, nil
}

func (c *Checker) schema(name, text string) (*valueschema.Schema, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.schemas[name]; known != nil {
		return known, nil
	}
	schema, err := valueschema.Parse([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("the wait's answer schema: %w", err)
	}
	if c.schemas == nil || len(c.schemas) >= maxSchemas {
		c.schemas = make(map[string]*valueschema.Schema)
	}
	c.schemas[name] = schema
	return schema, nil
}
