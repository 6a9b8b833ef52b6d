package submit

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/valueschema"
)

// StoredAbout is the stored form of a waitpoint's texts for the people and programs that answer.
type StoredAbout struct {
	Title    string   `json:"title,omitempty"`
	Question string   `json:"question,omitempty"`
	Audience []string `json:"audience,omitempty"`
	// Answer is the text of the JSON Schema of payloads. The engine passes it on unread, byte for byte.
	Answer string `json:"answer,omitempty"`
}

// EncodeAbout returns the stored form of the texts of a wait; nil if it has none. The error wraps engine.ErrInvalid for
// a schema that cannot be used.
func EncodeAbout(text activityspec.WaitText) ([]byte, error) {
	answer, err := answerSchema(text)
	if err != nil {
		return nil, err
	}
	about := StoredAbout{Title: text.Title, Question: text.Question, Audience: text.Audience, Answer: string(answer)}
	if about.Title == "" && about.Question == "" && len(about.Audience) == 0 && about.Answer == "" {
		return nil, nil
	}
	return json.Marshal(about)
}

// inferred has the schemas of types that waits have. There are as many as the program has waits.
var inferred sync.Map // reflect.Type to json.RawMessage

// answerSchema returns the schema of the payloads of a wait: the given schema, or the schema of the values that decode
// into their type; nil if any value does.
func answerSchema(text activityspec.WaitText) (json.RawMessage, error) {
	if text.AnswerSchema != nil {
		if _, err := valueschema.Parse(text.AnswerSchema); err != nil {
			return nil, fmt.Errorf("%w: answer schema: %w", engine.ErrInvalid, err)
		}
		return text.AnswerSchema, nil
	}
	return payloadSchema(text), nil
}

// payloadSchema returns the schema of the values that decode into the type of payloads; nil if any value does.
func payloadSchema(text activityspec.WaitText) json.RawMessage {
	if text.PayloadSchema != nil || text.Payload == nil {
		return text.PayloadSchema
	}
	if known, ok := inferred.Load(text.Payload); ok {
		return known.(json.RawMessage)
	}
	schema, err := valueschema.OfDecoded(text.Payload)
	if err != nil {
		schema = nil // a type that has no JSON: its decoding reports that
	}
	inferred.Store(text.Payload, schema)
	return schema
}

// EncodeDefinition returns the stored form of a graph, from which programs without its Go types start runs: with the
// schemas that its waits have by their types.
func EncodeDefinition(g *flowgraph.Graph) ([]byte, error) {
	if !hasTypedWait(g) {
		return g.MarshalJSON()
	}
	typed := g.Clone()
	writeSchemas(typed)
	return typed.MarshalJSON()
}

func hasTypedWait(g *flowgraph.Graph) bool {
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if n.Wait != nil && n.Wait.Payload != nil || n.Sub != nil && hasTypedWait(n.Sub) {
			return true
		}
	}
	return false
}

// writeSchemas writes the schemas into a graph and into the graphs of its sub-flows.
func writeSchemas(g *flowgraph.Graph) {
	for i := range g.Nodes {
		if wait := g.Nodes[i].Wait; wait != nil {
			wait.PayloadSchema = payloadSchema(wait.WaitText)
		}
		if sub := g.Nodes[i].Sub; sub != nil {
			writeSchemas(sub)
		}
	}
}
