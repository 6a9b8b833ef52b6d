package route

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/internal/serverstore"
	"github.com/flowfabric/flowfabric-go/server/internal/bounds"
	"github.com/flowfabric/flowfabric-go/server/internal/inbound"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
	"github.com/flowfabric/flowfabric-go/server/internal/service"
)

// Config configures the routes.
type Config struct {
	Version  string
	Logger   *slog.Logger
	ReadOnly bool
	// Heartbeat is the time between two comments that keep a stream alive; 15 s by default.
	Heartbeat time.Duration
	// Body is how long a body may take to arrive; inbound.Timeout by default.
	Body time.Duration
	// Streams is the number of streams at a time, StreamsEach the number for one principal.
	Streams, StreamsEach int
	// Ask asks the engine for its time. Streams report when it does not answer; nil for none that do.
	Ask func(ctx context.Context) error
	// Measured are the instruments of requests; nil for none.
	Measured *Instruments
}

// Router serves operations.
type Router struct {
	api   huma.API
	store *serverstore.Store
	// gone reports whether a run no longer exists.
	gone    func(ctx context.Context, flow, run string) (bool, error)
	config  Config
	streams *bounds.Pool
	engine  answering
	// reads bounds heavy requests.
	reads *bounds.Pool
	stop  context.Context
}

// New returns a router whose streams end with the context. It adds the operations of the service to the mux.
func New(stop context.Context, mux *http.ServeMux, s *service.Service, config Config) *Router {
	if config.Heartbeat == 0 {
		config.Heartbeat = 15 * time.Second
	}
	config.Body = cmp.Or(config.Body, inbound.Timeout)
	described := huma.DefaultConfig("FlowFabric", config.Version)
	described.Info.Description = "Durable workflows: find, start, follow and operate runs."
	described.OpenAPIPath, described.DocsPath, described.SchemasPath = "", "", ""
	described.CreateHooks, described.Formats = nil, formats(described.Formats)
	described.Transformers = append(described.Transformers, func(_ huma.Context, _ string, v any) (any, error) {
		switch v := v.(type) {
		case *huma.ErrorModel:
			return problemOfModel(v), nil
		case *problem:
			return &v.Problem, nil
		default:
			return v, nil
		}
	})
	r := &Router{
		api: huma.NewGroup(humago.New(mux, described), httpapi.Prefix), config: config,
		streams: bounds.New("too_many_streams", "streams", config.Streams, config.StreamsEach), stop: stop,
		reads: bounds.New("too_many_reads", "requests for values", maxHeavy, maxHeavyEach),
	}
	r.engine.ask = config.Ask
	if s != nil { // there is none for the description alone
		r.store, r.gone = s.Store(), s.IsGone
	}
	r.routes(s)
	r.describe()
	return r
}

// formats returns the formats of bodies. Errors of writing a reply are ignored: the client has left, and huma would
// panic. Requests that readers of JSON take in different ways are refused, when huma reads them the first time.
func formats(from map[string]huma.Format) map[string]huma.Format {
	out := map[string]huma.Format{}
	for name, f := range from {
		marshal, unmarshal := f.Marshal, f.Unmarshal
		f.Marshal = func(w io.Writer, v any) error { return marshal(unread{w}, v) }
		f.Unmarshal = func(text []byte, into any) error {
			if _, first := into.(*any); first && json.Valid(text) {
				if err := activityspec.CheckJSON(text); err != nil {
					return err
				}
			}
			return unmarshal(text, into)
		}
		out[name] = f
	}
	return out
}

// unread is a writer that never fails.
type unread struct{ io.Writer }

// Write implements io.Writer.
func (u unread) Write(p []byte) (int, error) {
	_, _ = u.Writer.Write(p)
	return len(p), nil
}

// OpenAPI returns the OpenAPI 3.1 document of the operations as JSON.
func (r *Router) OpenAPI() ([]byte, error) { return r.api.OpenAPI().MarshalJSON() }

// bodyCaps has the largest body of the operations that take larger ones than others, in bytes.
var bodyCaps = map[string]int64{
	"start-run": 2 << 20, "start-runs": 2 << 20,
	"signal-run": 256 << 10, "signal-token": 256 << 10, "resume-wait": 256 << 10,
	"start-bulk-job":   256 << 10,
	"preview-bulk-job": 256 << 10,
	"complete-task":    2 << 20,
	"append-frames":    1 << 20,
	"append-logs":      1 << 20,
	"record-step":      2 << 20,
}

const bodyCap = 64 << 10

// capOf returns the largest body of an operation, in bytes.
func capOf(op httpapi.Operation) int64 {
	if limit, ok := bodyCaps[op.Name]; ok {
		return limit
	}
	return bodyCap
}

type queryKey struct{}

// operation describes an operation for huma.
func (r *Router) operation(op httpapi.Operation) huma.Operation {
	described := huma.Operation{
		OperationID: op.Name, Method: op.Method, Path: op.Path, Summary: op.Summary, Tags: []string{op.Group},
		MaxBodyBytes: capOf(op), BodyReadTimeout: r.config.Body,
		Extensions: map[string]any{"x-right": op.Right, "x-effect": op.Effect},
	}
	if op.Created {
		described.DefaultStatus = http.StatusCreated
	}
	described.Middlewares = huma.Middlewares{
		r.config.Measured.measure(op), r.authorize(op), plainJSON, once, r.heavy(op), r.repeatable(op),
	}
	for _, p := range queryParameters[op.Query] {
		described.Parameters = append(described.Parameters, p.described())
	}
	described.RejectUnknownQueryParameters = op.Query == "" // otherwise the parser of the query does
	return described
}

type parameter struct {
	name, doc string
	// of is the type of the value; string if it is empty. An array is a parameter that may be given several times.
	of string
}

// described describes the parameter for huma.
func (p parameter) described() *huma.Param {
	out := &huma.Param{Name: p.name, In: "query", Description: p.doc, Schema: &huma.Schema{Type: huma.TypeString}}
	switch p.of {
	case huma.TypeArray:
		explode := true
		out.Schema, out.Explode = &huma.Schema{Type: huma.TypeArray, Items: out.Schema}, &explode
	case huma.TypeBoolean:
		out.Schema.Type = huma.TypeBoolean
	}
	return out
}

// queryParameters documents the parameters of queries, which package runtime reads.
var queryParameters = map[string][]parameter{
	httpapi.QueryRuns: {
		{name: "flow", doc: "Name of the flow. Tags have parameters of their own: tag.KEY."},
		{name: "state", doc: "State; may be given several times.", of: huma.TypeArray},
		{name: "search", doc: "Words: a state, a time, tag.key:VALUE, error:TEXT, run:ID, flow:NAME, or any value of a tag " +
			"or word of an error. A word that means nothing is an error."},
		{name: "search_at", doc: "Moment from which search counts times, with a time zone: 2026-11-28T15:04:05+01:00[Europe/Berlin]."},
		{name: "run", doc: "A run by name, flow/run; may be given several times, up to 500.", of: huma.TypeArray},
		{name: "text", doc: "Part of the id of the run or of the name of its flow."},
		{name: "key", doc: "Key of the run."},
		{name: "queued", doc: "Only runs that wait in the queue of their key.", of: huma.TypeBoolean},
		{name: "created_from", doc: "RFC 3339."}, {name: "created_before", doc: "RFC 3339."},
		{name: "finished_from", doc: "RFC 3339."}, {name: "finished_before", doc: "RFC 3339."},
		{name: "sort", doc: "-created, created, -finished or finished."},
		{name: "children", doc: "With child runs.", of: huma.TypeBoolean},
	},
	httpapi.QueryWaits: {
		{name: "flow", doc: "Name of the flow. Tags have parameters of their own: tag.KEY."},
		{name: "audience", doc: "Audience of the wait."}, {name: "text", doc: "Part of title or question."},
		{name: "from", doc: "RFC 3339."}, {name: "before", doc: "RFC 3339."},
		{name: "sort", doc: "opened, -opened or due."},
	},
}

// authorize refuses callers that lack the right of the operation, or may not see its flow.
func (r *Router) authorize(op httpapi.Operation) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		if refusal := refuse(login.From(ctx.Context()), op, ctx.Param("flow"), r.config.ReadOnly); refusal != nil {
			_, w := humago.Unwrap(ctx)
			writeProblem(w, &refusal.Problem)
			return
		}
		if op.Query != "" {
			address := ctx.URL()
			ctx = huma.WithValue(ctx, queryKey{}, address.Query())
		}
		next(ctx)
	}
}

func refuse(who login.Principal, op httpapi.Operation, flow string, readOnly bool) *problem {
	refusal := who.Refuse(login.Demand{
		Name: op.Name, Right: op.Right, Reads: op.Effect == httpapi.Reads, Bound: op.Bound,
	}, readOnly)
	switch {
	case refusal != nil:
		return &problem{NewProblem(refusal.Status, refusal.Code, refusal.Detail, false)}
	case flow != "" && !who.Sees(flow) && strings.HasPrefix(op.Path, "/flows/"):
		return &problem{NewProblem(http.StatusNotFound, "flow_not_published", "flow is not published: "+flow, false)}
	case flow != "" && !who.Sees(flow):
		return &problem{NewProblem(http.StatusNotFound, "run_not_found", "run not found", false)}
	}
	return nil
}

// plainJSON refuses bodies that are not JSON as it is.
func plainJSON(ctx huma.Context, next func(huma.Context)) {
	request, w := humago.Unwrap(ctx)
	if text := cmp.Or(inbound.Encoded(request), inbound.NotJSON(request)); text != "" {
		WriteProblem(w, NewProblem(http.StatusUnsupportedMediaType, "media_type", text, false))
		return
	}
	next(ctx)
}

// once refuses parameters of the query that are given several times and are not lists: one of the values would be
// dropped.
// Parameters that the operation does not have are refused as unknown.
func once(ctx huma.Context, next func(huma.Context)) {
	address := ctx.URL()
	values := address.Query()
	p := NewProblem(http.StatusUnprocessableEntity, "invalid", "validation failed", false)
	for _, param := range ctx.Operation().Parameters {
		n := len(values[param.Name])
		if param.In != "query" || n < 2 || param.Explode != nil && *param.Explode {
			continue
		}
		rule := "it takes one value"
		if param.Schema.Type == huma.TypeArray {
			rule = "write its values in one, with commas between them"
		}
		p.Errors = append(p.Errors, api.ProblemFault{
			In: "query", Name: param.Name, Message: fmt.Sprintf("is given %d times: %s", n, rule),
		})
	}
	if p.Errors != nil {
		_, w := humago.Unwrap(ctx)
		WriteProblem(w, p)
		return
	}
	next(ctx)
}

// failed logs an error that the caller did not cause, and returns the problem.
func (r *Router) failed(ctx context.Context, op httpapi.Operation, err error) error {
	if ended := context.Cause(ctx); errors.Is(ended, login.ErrEnded) && ctx.Err() != nil {
		err = ended // this ended the operation
	}
	p, logged := ProblemOf(err)
	if logged {
		r.config.Logger.ErrorContext(ctx, "an operation of the API failed", "operation", op.Name, "error", err)
	}
	return &problem{p}
}

// querySetter returns a function that sets the field Query of an input to the parameters of the URL that the input
// does not name. The function does nothing for a type without the field.
func querySetter(input reflect.Type) func(context.Context, any) {
	field, found := input.FieldByName("Query")
	if !found || field.Type != reflect.TypeFor[url.Values]() {
		return func(context.Context, any) {}
	}
	return func(ctx context.Context, in any) {
		values, _ := ctx.Value(queryKey{}).(url.Values)
		reflect.ValueOf(in).Elem().FieldByIndex(field.Index).Set(reflect.ValueOf(values))
	}
}

type reply[Out any] struct {
	Status int
	ETag   string `header:"ETag"`
	Body   *Out
}

// statusOf is the status of a reply: the operation's, but not 201 for a run that existed before.
func statusOf(described *huma.Operation, out any) int {
	if started, ok := out.(*api.StartedRun); ok && started.Existed || described.DefaultStatus == 0 {
		return http.StatusOK
	}
	return described.DefaultStatus
}

// handle serves an operation with a single reply.
func handle[In, Out any](r *Router, op httpapi.Call[In, Out], do func(context.Context, *In) (*Out, error)) {
	described := r.operation(op.Operation)
	if reflect.TypeFor[Out]() == reflect.TypeFor[httpapi.Empty]() {
		described.DefaultStatus = http.StatusNoContent
		huma.Register(r.api, described, func(ctx context.Context, in *In) (*struct{}, error) {
			if _, err := do(ctx, in); err != nil {
				return nil, r.failed(ctx, op.Operation, err)
			}
			return &struct{}{}, nil
		})
		return
	}
	fillLists, setQuery := filler(reflect.TypeFor[Out]()), querySetter(reflect.TypeFor[In]())
	huma.Register(r.api, described, func(ctx context.Context, in *In) (*reply[Out], error) {
		setQuery(ctx, in)
		out, err := do(ctx, in)
		if err != nil {
			return nil, r.failed(ctx, op.Operation, err)
		}
		if fillLists != nil {
			fillLists(reflect.ValueOf(out).Elem())
		}
		return &reply[Out]{Status: statusOf(&described, out), ETag: service.Tag(out), Body: out}, nil
	})
}
