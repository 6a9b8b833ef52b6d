package route

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/internal/serverstore"
	"github.com/flowfabric/flowfabric-go/server/internal/inbound"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
	"github.com/flowfabric/flowfabric-go/server/internal/service"
)

const (
	// idempotencyKey is the header with the key of a request that may be repeated.
	idempotencyKey    = "Idempotency-Key"
	maxIdempotencyKey = 256
	// storeTimeout bounds the storing of a reply.
	storeTimeout = 10 * time.Second
)

// repeatable answers a repeated request with an idempotency key with the reply to the first one. It runs after
// authorize. A reply is stored if the request was executed: refusals and failures are not, so that a repeat can
// succeed when their cause has ended.
func (r *Router) repeatable(op httpapi.Operation) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		key := ctx.Header(idempotencyKey)
		if key == "" || op.Effect == httpapi.Reads {
			next(ctx)
			return
		}
		request, w := humago.Unwrap(ctx)
		repeat, err := r.begin(op, key, request, w)
		switch {
		case err != nil:
			p, logged := ProblemOf(err)
			if logged {
				r.config.Logger.ErrorContext(ctx.Context(), "a request with an idempotency key failed",
					"operation", op.Name, "error", err)
			}
			if p.Retryable {
				w.Header().Set("Retry-After", "5")
			}
			writeProblem(w, &p)
		case repeat.kept != nil:
			repeat.kept.write(ctx.Context(), op, w, r.gone)
		default:
			recorder := &recorder{ResponseWriter: w, status: http.StatusOK}
			named := request.WithContext(service.WithRepeatKey(ctx.Context(), repeat.request.Name()))
			next(humago.NewContext(ctx.Operation(), named, recorder))
			r.end(ctx.Context(), repeat.request, recorder)
		}
	}
}

// repeat is a request with an idempotency key, and the reply that is kept of it; nil for the first one.
type repeat struct {
	request serverstore.Request
	kept    *keptReply
}

// begin reads the request, which it gives a body to read again.
func (r *Router) begin(
	op httpapi.Operation, key string, request *http.Request, w http.ResponseWriter,
) (*repeat, error) {
	refuse := func(format string, args ...any) error {
		return &problem{NewProblem(http.StatusUnprocessableEntity, "invalid", fmt.Sprintf(format, args...), false)}
	}
	switch {
	case op.Credential:
		return nil, refuse("%s takes no %s: its reply has a credential, which must not be stored", op.Name,
			idempotencyKey)
	case len(key) > maxIdempotencyKey:
		return nil, refuse("%s must have at most %d bytes, got: %d", idempotencyKey, maxIdempotencyKey, len(key))
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, capOf(op)))
	if err != nil {
		return nil, &problem{bodyProblem(err)}
	}
	inbound.Again(request, bytes.NewReader(body))
	out := &repeat{request: serverstore.Request{
		Owner: login.From(request.Context()).ID(), Key: key, Digest: digestOf(request, body),
	}}
	stored, first, err := r.store.BeginRequest(request.Context(), out.request)
	if err != nil || first {
		return out, err
	}
	out.kept = &keptReply{}
	if err := json.Unmarshal(stored, out.kept); err != nil {
		return nil, fmt.Errorf("the stored reply cannot be read: %w", err)
	}
	return out, nil
}

func digestOf(r *http.Request, body []byte) [sha256.Size]byte {
	sum := sha256.New()
	for _, part := range []string{r.Method, r.URL.RequestURI(), r.Header.Get("If-Match")} {
		_, _ = fmt.Fprintf(sum, "%d %s\n", len(part), part)
	}
	_, _ = sum.Write(body)
	return [sha256.Size]byte(sum.Sum(nil))
}

// end stores the reply, unless the request was not executed.
func (r *Router) end(ctx context.Context, request serverstore.Request, done *recorder) {
	var reply []byte
	if done.status >= http.StatusOK && done.status < http.StatusMultipleChoices {
		reply = done.kept(login.From(ctx))
	}
	// The client may be gone, which is when it will ask for the reply again.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := r.store.EndRequest(ctx, request, reply); err != nil {
		r.config.Logger.WarnContext(ctx, "the reply to a request with an idempotency key was not stored",
			"event", "server.reply_not_stored", "error", err)
	}
}

// keptReply is a reply that is given again.
type keptReply struct {
	Status int               `json:"status"`
	Header map[string]string `json:"header,omitempty"`
	Body   []byte            `json:"body,omitempty"`
	// Omitted is the size of a body that is too large to be kept, in bytes.
	Omitted int `json:"omitted,omitempty"`
	// Rights and Flows are the principal's when the request was executed.
	Rights []api.Right `json:"rights"`
	Flows  string      `json:"flows,omitempty"`
}

// keptHeaders are the headers of a reply that are kept.
var keptHeaders = []string{"Content-Type", "Etag"}

// write sends the reply to a principal who has all rights with which it was made: further checks of the operation,
// such as the right to see a value, are not repeated. If gone reports the run of the reply as purged, write sends that
// as a problem instead.
func (k *keptReply) write(
	ctx context.Context, op httpapi.Operation, w http.ResponseWriter,
	gone func(ctx context.Context, flow, run string) (bool, error),
) {
	who := login.From(ctx)
	lost := slices.ContainsFunc(k.Rights, func(right api.Right) bool { return !who.May(right) })
	switch {
	case lost || who.Restricted() && who.Flows != k.Flows:
		WriteProblem(w, NewProblem(http.StatusForbidden, "forbidden", "the request was carried out; its reply is kept "+
			"for a principal with the rights and flows that it had then", false))
		return
	case k.Omitted > 0:
		WriteProblem(w, NewProblem(http.StatusConflict, "reply_not_kept", fmt.Sprintf("the request was carried out, "+
			"with status %d; its reply of %d bytes is too large to be kept", k.Status, k.Omitted), false))
		return
	}
	if err := k.checkRun(ctx, op, gone); err != nil {
		p, _ := ProblemOf(err)
		WriteProblem(w, p)
		return
	}
	for name, value := range k.Header {
		w.Header().Set(name, value)
	}
	w.Header().Set("Idempotent-Replayed", "true")
	w.WriteHeader(k.Status)
	_, _ = w.Write(k.Body)
}

// checkRun returns an error if the reply reports the start of a run which has been purged since. In a reply with
// several runs, checkRun marks each purged one.
func (k *keptReply) checkRun(
	ctx context.Context, op httpapi.Operation, gone func(ctx context.Context, flow, run string) (bool, error),
) error {
	if op.Output == reflect.TypeFor[api.StartedRun]() {
		var one api.StartedRun
		if err := json.Unmarshal(k.Body, &one); err != nil {
			return err
		}
		purged, err := gone(ctx, one.Flow, one.Run)
		if err == nil && purged {
			err = &problem{purgedRun(one.Flow, one.Run)}
		}
		return err
	}
	var many httpapi.StartedRuns
	if op.Output != reflect.TypeOf(many) {
		return nil
	}
	if err := json.Unmarshal(k.Body, &many); err != nil {
		return err
	}
	for i := range many.Runs {
		run := &many.Runs[i]
		if run.Problem != nil {
			continue
		}
		purged, err := gone(ctx, run.Flow, run.Run)
		if err != nil {
			return err
		}
		if purged {
			p := purgedRun(run.Flow, run.Run)
			run.Problem = &p
		}
	}
	body, err := json.Marshal(many)
	k.Body = append(body, '\n')
	return err
}

func purgedRun(flow, run string) api.Problem {
	text := fmt.Sprintf("the request was carried out: it started run %.140q of flow %.140q, which was purged since",
		run, flow)
	return NewProblem(http.StatusGone, "run_purged", text, false)
}

// maxKeptBody is the largest body that is stored: with headers, and as text, it fits into an entry of the store.
const maxKeptBody = serverstore.MaxReply/4*3 - 8<<10

// recorder records a reply while it writes it.
type recorder struct {
	http.ResponseWriter
	status int
	size   int
	body   bytes.Buffer
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) { r.status = status; r.ResponseWriter.WriteHeader(status) }

// Write implements http.ResponseWriter.
func (r *recorder) Write(p []byte) (int, error) {
	if r.size += len(p); r.size <= maxKeptBody {
		r.body.Write(p)
	}
	return r.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController find the writer.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// kept returns the whole reply as it is stored; of one that is too large, that it was there.
func (r *recorder) kept(who login.Principal) []byte {
	reply := keptReply{Status: r.status, Header: map[string]string{}, Rights: who.Rights, Flows: who.Flows}
	for _, name := range keptHeaders {
		if value := r.Header().Get(name); value != "" {
			reply.Header[name] = value
		}
	}
	if reply.Body = r.body.Bytes(); r.size > maxKeptBody {
		reply.Body, reply.Omitted = nil, r.size
	}
	text, err := json.Marshal(reply)
	if err != nil {
		return nil
	}
	return text
}
