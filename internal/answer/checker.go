package answer

import (
	"context"
	"crypto/sha1" // names a schema, and protects nothing
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/decision"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/valueschema"
)

// tries bounds how often an answer is sent: the schema of a wait changes at most when its function declares it anew.
const tries = 5

// errSchemaChanges means that each try found another schema.
var errSchemaChanges = errors.New("the schema of the wait changed with each try")

// Checker checks answers. The zero value is ready, and safe for concurrent use.
type Checker struct {
	mu      sync.Mutex
	schemas map[string]*valueschema.Schema
}

// maxSchemas bounds the schemas that a Checker keeps; beyond that, it drops all.
const maxSchemas = 64

// Signal sends a signal whose payload satisfies the schema of its wait. Otherwise the error wraps engine.ErrInvalid and
// a *fabrictype.ValueError with all faults, and nothing has changed.
func (c *Checker) Signal(
	ctx context.Context, store engine.Backend, call enginerpc.SignalCall,
) (reply enginerpc.SignalReply, err error) {
	err = c.SendSignal(&call.OutgoingSignal, "", func() (string, error) {
		reply, err = store.Signal(ctx, call)
		return reply.AnswerSchema, err
	})
	return reply, err
}

// SignalNode is Signal for a wait by its name.
func (c *Checker) SignalNode(
	ctx context.Context, store engine.Library, call enginerpc.SignalNodeCall,
) (reply enginerpc.SignalNodeReply, err error) {
	err = c.SendSignal(&call.OutgoingSignal, "", func() (string, error) {
		reply, err = store.SignalNode(ctx, call)
		return reply.AnswerSchema, err
	})
	return reply, err
}

// SendSignal is Signal for a call that carries a signal. send makes the call, and returns the schema against which the
// engine wants the payload to be held, if it does. schema is the one that the caller expects, if it knows one.
func (c *Checker) SendSignal(s *enginerpc.OutgoingSignal, schema string, send func() (schema string, err error)) error {
	if err := activityspec.CheckDepth(s.Payload); err != nil {
		return engine.Invalid("%w", err)
	}
	s.Comment = decision.Comment(s.SignalName, s.Payload)
	return c.send("payload of signal "+s.SignalName, s.SignalName, s.Payload, schema, func(checked string) (string, error) {
		s.Checked = checked
		return send()
	})
}

// send sends an answer, and again whenever the engine wants it to be held against another schema. signal is empty for
// an answer that is not a signal; checked is the name of the schema that the payload satisfies.
func (c *Checker) send(
	subject, signal string, payload []byte, schema string, send func(checked string) (schema string, err error),
) error {
	checked := ""
	for range tries {
		var err error
		if schema != "" {
			if checked, err = c.check(subject, signal, schema, payload); err != nil {
				return err
			}
		}
		if schema, err = send(checked); err != nil || schema == "" {
			return err
		}
	}
	return errSchemaChanges
}

// check holds a payload against a schema, and against the decision of its signal. It returns the name of the schema.
func (c *Checker) check(subject, signal, text string, payload []byte) (name string, err error) {
	sum := sha1.Sum([]byte(text))
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
	if signal == "" {
		return name, nil
	}
	if err := decision.Check(subject, signal, []byte(text), payload); err != nil {
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
