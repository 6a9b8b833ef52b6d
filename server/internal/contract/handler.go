package contract

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server/internal/bounds"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// Prefix begins the paths of all routes.
const Prefix = "/v1"

// Config configures a handler.
type Config struct {
	Engine *runtime.Engine
	// Logger receives failures that callers did not cause; required.
	Logger *slog.Logger
	// ReadOnly refuses all requests that change anything.
	ReadOnly bool
	// StreamOps is the most reads and tails of attempt streams at a time; one principal has half of them. Defaults to
	// 64.
	StreamOps int
	// SecretGrace is how long tokens of a former secret are valid. Defaults to 24 h.
	SecretGrace time.Duration
	// Stopping ends tails that wait.
	Stopping context.Context
	// Meter makes the metrics of requests. Defaults to nil: there are none.
	Meter metric.Meter
}

// Handler serves the routes. It is an http.Handler that is safe for concurrent use.
type Handler struct {
	config   Config
	core     *enginerpc.Conn
	admin    *admin.Client
	streams  *bounds.Pool
	rotating chan struct{}
	mux      *http.ServeMux
	metrics  metrics
}

const (
	defaultStreamOps   = 64
	defaultSecretGrace = 24 * time.Hour
)

// New returns a handler of an engine. The error matches admin.ErrInvalid or enginecore.ErrClosed.
func New(config Config) (*Handler, error) {
	operator, err := admin.New(config.Engine)
	if err != nil {
		return nil, err
	}
	counts, err := newMetrics(config.Meter)
	if err != nil {
		return nil, err
	}
	config.StreamOps = cmp.Or(config.StreamOps, defaultStreamOps)
	config.SecretGrace = cmp.Or(config.SecretGrace, defaultSecretGrace)
	h := &Handler{
		config: config, core: engine.ConnOf(config.Engine.Internal()), admin: operator,
		streams:  bounds.New("stream_ops", "reads and tails", config.StreamOps, max(1, config.StreamOps/2)),
		rotating: make(chan struct{}, 1), mux: http.NewServeMux(),
		metrics: counts,
	}
	for _, r := range Routes() {
		h.mux.HandleFunc(r.Method+" "+r.Pattern, func(w http.ResponseWriter, request *http.Request) {
			h.serve(r, w, request)
		})
	}
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, http.StatusNotFound, errorBody{Error: "not found: " + r.URL.Path})
	})
	return h, nil
}

// Route is one route of the table.
type Route struct {
	// Method and Pattern are passed to http.ServeMux.
	Method, Pattern string
	// Operation names the action of the route.
	Operation string
	Right     api.Right
	// Reads reports whether the route changes nothing.
	Reads bool
	// MaxBody is the largest body, in bytes.
	MaxBody int64

	serve func(*call) error
}

const (
	maxBody       = 64 << 10
	maxSignalBody = 256 << 10
	maxCreateBody = 1 << 20
)

// Routes returns the table of routes, in the order of the documentation.
func Routes() []Route {
	const execution, flow, budget = Prefix + "/executions/{id}", Prefix + "/flows/{id}", Prefix + "/budgets/{id}"
	routes := []Route{
		{"GET", Prefix + "/executions", "list_executions", api.View, true, 0, listExecutions},
		{"POST", Prefix + "/executions", "create_execution", api.Operate, false, maxCreateBody, createExecution},
		{"GET", execution, "get_execution", api.View, true, 0, getExecution},
		{"GET", execution + "/state", "get_execution_state", api.View, true, 0, getState},
		{"GET", execution + "/result", "get_execution_result", api.ReadPayloads, true, 0, getResult},
		{"GET", execution + "/pending-waitpoints", "list_pending_waitpoints", api.Approve, true, 0, listWaitpoints},
		{
			"GET", execution + "/waitpoints/{waitpoint}/token", "get_waitpoint_token", api.Approve, true, 0,
			getWaitpointToken,
		},
		{"POST", execution + "/cancel", "cancel_execution", api.Operate, false, 0, cancelExecution},
		{"POST", execution + "/signal", "deliver_signal", api.Approve, false, maxSignalBody, deliverSignal},
		{"PUT", execution + "/priority", "change_priority", api.Operate, false, 0, changePriority},
		{"POST", execution + "/replay", "replay_execution", api.Operate, false, 0, replayExecution},
		{"POST", execution + "/revoke-lease", "revoke_lease", api.Operate, false, 0, revokeLease},
		{"POST", execution + "/reclaim", "issue_reclaim_grant", api.Work, false, 0, issueReclaimGrant},
		{
			"GET", execution + "/attempts/{index}/stream", "read_attempt_stream", api.ReadPayloads, true, 0,
			readStream,
		},
		{
			"GET", execution + "/attempts/{index}/stream/tail", "tail_attempt_stream", api.ReadPayloads, true, 0,
			tailStream,
		},
		{"POST", Prefix + "/workers/{worker}/claim", "claim_for_worker", api.Work, false, 0, claimForWorker},
		{"POST", Prefix + "/flows", "create_flow", api.Operate, false, 0, createFlow},
		{"POST", flow + "/members", "add_execution_to_flow", api.Operate, false, 0, addMember},
		{"POST", flow + "/cancel", "cancel_flow", api.Operate, false, 0, cancelFlow},
		{"POST", flow + "/edges", "stage_dependency_edge", api.Operate, false, 0, stageEdge},
		{"POST", flow + "/edges/apply", "apply_dependency_to_child", api.Operate, false, 0, applyEdge},
		{"POST", Prefix + "/budgets", "create_budget", api.Operate, false, 0, createBudget},
		{"GET", budget, "get_budget_status", api.View, true, 0, getBudget},
		{"POST", budget + "/usage", "report_usage", api.Operate, false, 0, reportUsage},
		{"POST", budget + "/reset", "reset_budget", api.Operate, false, 0, resetBudget},
		{"POST", Prefix + "/quotas", "create_quota_policy", api.Operate, false, 0, createQuota},
		{
			"POST", Prefix + "/admin/rotate-waitpoint-secret", "rotate_waitpoint_secret", api.Administer, false, 0,
			rotateSecret,
		},
	}
	for i := range routes {
		routes[i].MaxBody = cmp.Or(routes[i].MaxBody, maxBody)
	}
	return routes
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// call is one request to a route.
type call struct {
	*Handler
	route *Route
	w     *statusWriter
	r     *http.Request
	ctx   context.Context
	// operator acts in the name of the caller.
	operator *admin.Client
}

func (h *Handler) serve(route Route, w http.ResponseWriter, r *http.Request) {
	begun, recorded := time.Now(), &statusWriter{ResponseWriter: w}
	defer func() { h.metrics.record(r.Context(), &route, recorded.status, time.Since(begun)) }()
	who := login.From(r.Context())
	// Routes do not distinguish flows.
	demand := login.Demand{Name: route.Operation, Right: route.Right, Reads: route.Reads}
	if refusal := who.Refuse(demand, h.config.ReadOnly); refusal != nil {
		text := refusal.Detail
		if refusal.Status == http.StatusUnauthorized {
			text = unauthorized
		}
		writeJSON(recorded, refusal.Status, errorBody{Error: text})
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, route.MaxBody)
	c := &call{Handler: h, route: &route, w: recorded, r: r, ctx: r.Context(), operator: h.admin}
	if who.Name != "" {
		c.operator = h.admin.As(who.Name)
	}
	if err := route.serve(c); err != nil {
		c.fail(err)
	}
}

// unauthorized is the text for callers without credentials that are valid.
const unauthorized = "missing or invalid Authorization header"

// reply writes a reply of JSON.
func (c *call) reply(status int, body any) error {
	writeJSON(c.w, status, body)
	return nil
}

// result is a result in the form of the contract: the name of the variant, with its fields.
func result(variant string, fields any) map[string]any { return map[string]any{variant: fields} }

type fields = map[string]any

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(body)
}

// statusWriter remembers the status.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController find the writer.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// stopped returns a context that ends with the request and when the server stops.
func (c *call) stopped() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(c.ctx)
	if c.config.Stopping == nil {
		return ctx, func() { cancel(nil) }
	}
	release := context.AfterFunc(c.config.Stopping, func() { cancel(errStopping) })
	return ctx, func() { release(); cancel(nil) }
}

var errStopping = errors.New("the server stops")
