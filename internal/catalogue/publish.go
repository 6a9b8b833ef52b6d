package catalogue

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/sleep"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/valueschema"
)

// maxPublished is the largest encoded definition of a flow that is published, in bytes.
const maxPublished = 1 << 20

// Definition is a *flow.Definition, whatever its types.
type Definition interface {
	Name() string
	Hash() string
	InputType() reflect.Type
	OutputType() reflect.Type
	Internal() flowgraph.Handle
}

// About has the fields of an entry that lists show, as they are stored.
type About struct {
	Doc        string `json:"doc,omitempty"`
	Codec      string `json:"codec"`
	InputType  string `json:"input_type"`
	ResultType string `json:"result_type"`
	Nodes      int    `json:"nodes"`
	// Limits are the limits without keys that its nodes declare, by name.
	Limits []aboutLimit `json:"limits,omitempty"`
}

type aboutLimit struct {
	Name   string `json:"name"`
	AtMost int    `json:"at_most,omitempty"`
	PerMS  int64  `json:"per_ms,omitempty"`
	AtOnce int    `json:"at_once,omitempty"`
}

// limitsOf returns the limits that nodes of a graph and of its sub-flows declare. Those with keys are left out: they
// have no numbers of their own before a run has a key.
func limitsOf(graph *flowgraph.Graph) []aboutLimit {
	var list []aboutLimit
	for n := range graph.AllNodes() {
		for _, l := range n.Limits {
			if len(l.KeyFrom) == 0 {
				list = append(list, aboutLimit{l.Name, l.AtMost, l.Per.Milliseconds(), l.AtOnce})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b aboutLimit) int { return cmp.Compare(a.Name, b.Name) })
	return slices.CompactFunc(list, func(a, b aboutLimit) bool { return a.Name == b.Name })
}

// Entry is a flow ready to be published.
type Entry struct{ call enginerpc.PublishFlowCall }

// NewEntry returns the entry of a flow. It leaves out the schemas of input and result if omitSchemas is set; by names
// the program or person that publishes. Its error wraps [engine.ErrInvalid] or [engine.ErrTooLarge].
func NewEntry(def Definition, omitSchemas bool, by string) (Entry, error) {
	graph, err := graphOf(def)
	if err != nil {
		return Entry{}, err
	}
	fail := func(err error) (Entry, error) { return Entry{}, fmt.Errorf("flow %s: %w", graph.Name, err) }
	if err := engine.CheckText("actor", by, engine.MaxActor); err != nil {
		return fail(err)
	}
	call := enginerpc.PublishFlowCall{FlowName: graph.Name, GraphHash: def.Hash(), Actor: by}
	if call.Definition, err = submit.EncodeDefinition(graph); err != nil {
		return fail(err)
	}
	if len(call.Definition) > maxPublished {
		return fail(fmt.Errorf("%w: its definition has %d bytes, at most %d are published", engine.ErrTooLarge,
			len(call.Definition), maxPublished))
	}
	if !omitSchemas && graph.Codec == (activity.JSON{}).Name() {
		if call.InputSchema, err = schemaOf("input", def.InputType()); err != nil {
			return fail(err)
		}
		if call.ResultSchema, err = schemaOf("result", def.OutputType()); err != nil {
			return fail(err)
		}
	}
	call.About, err = json.Marshal(About{
		graph.Description, graph.Codec, def.InputType().String(), def.OutputType().String(), len(graph.Nodes),
		limitsOf(graph),
	})
	if err != nil {
		return fail(err)
	}
	call.Digest = digestOf(call.GraphHash, call.About, call.Definition, call.InputSchema, call.ResultSchema)
	return Entry{call}, nil
}

// graphOf returns the graph of a definition that Build has made.
func graphOf(def Definition) (*flowgraph.Graph, error) {
	if def == nil || reflect.ValueOf(def).Kind() == reflect.Pointer && reflect.ValueOf(def).IsNil() {
		return nil, engine.Invalid("the definition of the flow is nil: look at the error of Build")
	}
	if def.Hash() == "" {
		return nil, engine.Invalid("the definition of the flow was not made by Build")
	}
	return flowgraph.Of(def.Internal()), nil
}

func schemaOf(role string, t reflect.Type) ([]byte, error) {
	schema, err := valueschema.Of(t)
	if err != nil {
		return nil, engine.Invalid("%s: %w; Publication.OmitSchemas publishes it without", role, err)
	}
	return schema, nil
}

func digestOf(hash string, parts ...[]byte) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n", hash)
	for _, part := range parts {
		fmt.Fprintf(sum, "%d\n", len(part))
		sum.Write(part)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// Publish checks whether the catalogue of the session's namespace has the entry, and writes it if not.
func (e Entry) Publish(ctx context.Context, s *engine.Session) error {
	call := e.call
	store, err := s.Library("the catalogue of flows")
	if err != nil {
		return fmt.Errorf("publish flow %s: %w", call.FlowName, err)
	}
	call.Partition, call.Namespace = engine.Directory(), string(s.Namespace)
	question := call
	question.About, question.Definition, question.InputSchema, question.ResultSchema = nil, nil, nil, nil
	reply, err := store.PublishFlow(ctx, question)
	if err == nil && !reply.Known {
		_, err = store.PublishFlow(ctx, call)
	}
	if err != nil {
		return fmt.Errorf("publish flow %s: %w", call.FlowName, err)
	}
	return nil
}

// publishPause is the time after which a publication of a worker that failed is repeated.
const publishPause = 15 * time.Second

// PublishAll publishes flows for a worker until all are published or ctx ends.
func PublishAll(ctx context.Context, s *engine.Session, entries []Entry) {
	for _, entry := range entries {
		for ctx.Err() == nil {
			err := entry.Publish(ctx, s)
			if err == nil || errors.Is(err, enginecore.ErrClosed) {
				break
			}
			if ctx.Err() == nil {
				s.Logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: the worker could not publish a flow and retries",
					observe.EventPublishFailed.Attr(), slog.String("flow", entry.call.FlowName), slog.Any("error", err))
			}
			sleep.For(ctx, publishPause)
		}
	}
}

// Withdraw removes a flow and its history from the catalogue of the session's namespace.
func Withdraw(ctx context.Context, s *engine.Session, store engine.Library, name string) error {
	_, err := store.WithdrawFlow(ctx, enginerpc.WithdrawFlowCall{
		Partition: engine.Directory(), Namespace: string(s.Namespace), FlowName: name,
	})
	return err
}
