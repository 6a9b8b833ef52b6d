package runtime

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
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

// Publication is a flow with how it is published.
type Publication struct {
	Flow Definition
	// OmitSchemas leaves out the schemas of input and result, of types with private fields. Inputs of FlowRef.Start are
	// not checked then.
	OmitSchemas bool
	// By names the program or person that publishes; at most 256 bytes without control characters. Defaults to none.
	By string
}

// Publish publishes flows in the client's namespace: their graphs, the JSON Schemas of their inputs and results, and
// their descriptions. The entry of a name is the flow that was published last, so programs of two versions that publish
// in turn replace each other's; runs do not depend on it. Publishing an unchanged flow costs one small call and changes
// nothing. WorkerConfig.Publish does the same when a worker begins.
//
// The error joins the errors of all flows that were not published. It matches ErrInvalid for a definition that Build
// did not make and for a type without a schema, when nothing is published; ErrTooLarge for a definition above 1 MiB;
// and in contract mode ErrNotInContract.
func (c *Client) Publish(ctx context.Context, flows ...Publication) error {
	if _, err := offered[engine.FlowCatalogue](ctx, c); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	var faults []error
	calls := make([]enginerpc.PublishFlowCall, len(flows))
	for i, p := range flows {
		var err error
		if calls[i], err = newPublication(p); err != nil {
			faults = append(faults, fmt.Errorf("publish: item %d: %w", i+1, err))
		}
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	for _, call := range calls {
		faults = append(faults, publish(ctx, c.session, call))
	}
	return errors.Join(faults...)
}

// Withdraw removes the flow and its history from the catalogue. Programs that publish it again enter it again.
// Withdrawing a flow that is not published changes nothing.
func (f *FlowRef) Withdraw(ctx context.Context) error {
	store, err := offered[engine.FlowCatalogue](ctx, f.client)
	if err == nil {
		entry := fabrictype.AuditEntry{Actor: f.client.actorName(), Action: auditlink.WithdrawFlow, Name: f.name}
		err = f.client.audited(ctx, entry, func(ctx context.Context) error {
			_, err := store.WithdrawFlow(ctx, enginerpc.WithdrawFlowCall{
				Partition: engine.Directory(), Namespace: string(f.client.session.Namespace), FlowName: f.name,
			})
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("withdraw flow %q: %w", f.name, err)
	}
	return nil
}

// aboutFlow has the fields of a flow that lists show.
type aboutFlow struct {
	Doc        string `json:"doc,omitempty"`
	Codec      string `json:"codec"`
	InputType  string `json:"input_type"`
	ResultType string `json:"result_type"`
	Nodes      int    `json:"nodes"`
}

// newPublication returns the call that publishes a flow, without partition and namespace.
func newPublication(p Publication) (call enginerpc.PublishFlowCall, err error) {
	graph, err := graphOf(p.Flow)
	if err != nil {
		return call, err
	}
	fail := func(err error) (enginerpc.PublishFlowCall, error) {
		return enginerpc.PublishFlowCall{}, fmt.Errorf("flow %s: %w", graph.Name, err)
	}
	if err := engine.CheckText("actor", p.By, engine.MaxActor); err != nil {
		return fail(err)
	}
	call = enginerpc.PublishFlowCall{FlowName: graph.Name, GraphHash: p.Flow.Hash(), Actor: p.By}
	if call.Definition, err = submit.EncodeDefinition(graph); err != nil {
		return fail(err)
	}
	if len(call.Definition) > maxPublished {
		return fail(fmt.Errorf("%w: its definition has %d bytes, at most %d are published", engine.ErrTooLarge,
			len(call.Definition), maxPublished))
	}
	if !p.OmitSchemas && graph.Codec == (activity.JSON{}).Name() {
		if call.InputSchema, err = schemaOf("input", p.Flow.InputType()); err != nil {
			return fail(err)
		}
		if call.ResultSchema, err = schemaOf("result", p.Flow.OutputType()); err != nil {
			return fail(err)
		}
	}
	call.About, err = json.Marshal(aboutFlow{
		graph.Description, graph.Codec, p.Flow.InputType().String(), p.Flow.OutputType().String(), len(graph.Nodes),
	})
	if err != nil {
		return fail(err)
	}
	call.Digest = digestOf(call.GraphHash, call.About, call.Definition, call.InputSchema, call.ResultSchema)
	return call, nil
}

// graphOf returns the graph of a definition that Build has made.
func graphOf(def Definition) (*flowgraph.Graph, error) {
	if def == nil || reflect.ValueOf(def).Kind() == reflect.Pointer && reflect.ValueOf(def).IsNil() {
		return nil, invalid("the definition of the flow is nil: look at the error of Build")
	}
	if def.Hash() == "" {
		return nil, invalid("the definition of the flow was not made by Build")
	}
	return flowgraph.Of(def.Internal()), nil
}

func schemaOf(role string, t reflect.Type) ([]byte, error) {
	schema, err := valueschema.Of(t)
	if err != nil {
		return nil, invalid("%s: %w; Publication.OmitSchemas publishes it without", role, err)
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

// publish checks whether the catalogue has an entry, and writes it if not.
func publish(ctx context.Context, s *engine.Session, call enginerpc.PublishFlowCall) error {
	store, err := engine.Capability[engine.FlowCatalogue](s.Backend)
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

// publishAll publishes flows for a worker until all are published or ctx ends.
func publishAll(ctx context.Context, s *engine.Session, flows []Publication) {
	for _, p := range flows {
		call, err := newPublication(p)
		if err != nil {
			continue // NewWorker has refused it
		}
		for ctx.Err() == nil {
			if err = publish(ctx, s, call); err == nil || errors.Is(err, enginecore.ErrClosed) {
				break
			}
			if ctx.Err() == nil {
				s.Logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: the worker could not publish a flow and retries",
					observe.EventPublishFailed.Attr(), slog.String("flow", call.FlowName), slog.Any("error", err))
			}
			sleep.For(ctx, publishPause)
		}
	}
}
