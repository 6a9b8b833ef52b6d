package route

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
	"github.com/flowfabric/flowfabric-go/server/internal/service"
)

const (
	// writeTimeout bounds one write to a reader of a stream.
	writeTimeout = 10 * time.Second
	// pageWait is the longest time that a request for JSON waits.
	pageWait = 30 * time.Second
	// pageQuiet ends a page when nothing has followed its last item for so long.
	pageQuiet = 20 * time.Millisecond
	// pageBytes ends a page when its items have as many bytes.
	pageBytes = 8 << 20
)

// follow serves a stream.
func follow[In, Event any](
	r *Router,
	op httpapi.Stream[In, Event],
	do func(context.Context, *In) (service.Items[Event], error),
) {
	described := r.operation(op.Operation)
	described.Responses = map[string]*huma.Response{"200": {
		Description: "Events as they happen, or a page of them.",
		Content: map[string]*huma.MediaType{
			"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}},
			"application/json": {
				Schema: r.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[httpapi.Events[Event]](), true, ""),
			},
		},
	}}
	setQuery := querySetter(reflect.TypeFor[In]())
	huma.Register(r.api, described, func(ctx context.Context, in *In) (*huma.StreamResponse, error) {
		setQuery(ctx, in)
		leave, err := r.streams.Enter(login.From(ctx))
		if err != nil {
			return nil, r.failed(ctx, op.Operation, err)
		}
		followed, cancel := context.WithCancelCause(ctx)
		release := context.AfterFunc(r.stop, func() { cancel(errStopping) })
		items, err := do(followed, in)
		if err != nil {
			release()
			cancel(nil)
			leave()
			return nil, r.failed(ctx, op.Operation, err)
		}
		return &huma.StreamResponse{Body: func(hctx huma.Context) {
			defer func() { release(); cancel(nil); leave() }()
			if strings.Contains(hctx.Header("Accept"), "text/event-stream") {
				writeEvents(followed, r, op.Operation, hctx, items)
				return
			}
			writePage(followed, cancel, r, op.Operation, hctx, items, paging(in))
		}}, nil
	})
}

var errStopping = errors.New("the server stops")

// paging returns the paging of the input of a stream.
func paging(in any) httpapi.Follow {
	f, _ := reflect.ValueOf(in).Elem().FieldByName("Follow").Interface().(httpapi.Follow)
	return f
}

// next is an item of a stream, or its error.
type next[T any] struct {
	item service.Item[T]
	err  error
}

// pump sends the items of a stream to a channel, which it closes at the end.
func pump[T any](ctx context.Context, items service.Items[T]) <-chan next[T] {
	out := make(chan next[T])
	go func() {
		defer close(out)
		for item, err := range items {
			select {
			case out <- next[T]{item, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// writeEvents writes a stream as server-sent events: its items, comments that keep the connection alive and have the
// age of the last answer of the engine in milliseconds, and an event
// "end" or "problem" as the last one.
func writeEvents[T any](
	ctx context.Context, r *Router, op httpapi.Operation, hctx huma.Context, items service.Items[T],
) {
	_, w := humago.Unwrap(hctx)
	control := http.NewResponseController(w)
	if r.engine.ask != nil {
		defer r.engine.enter(r.stop)()
	}
	source := pump(ctx, items)
	first, open := peek(ctx, source, r.config.Heartbeat)
	if open && first != nil && first.err != nil { // nothing is sent yet, so the status can report the error
		p, _ := ProblemOf(r.failed(ctx, op, first.err))
		writeProblem(w, &p)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	send := func(id, event string, value any) bool {
		text, err := json.Marshal(value)
		if err != nil {
			return false
		}
		_ = control.SetWriteDeadline(time.Now().Add(writeTimeout))
		if id != "" {
			_, err = fmt.Fprintf(w, "id: %s\n", id)
		}
		if event != "" && err == nil {
			_, err = fmt.Fprintf(w, "event: %s\n", event)
		}
		if err == nil {
			_, err = fmt.Fprintf(w, "data: %s\n\n", text)
		}
		return err == nil && control.Flush() == nil
	}
	comment := func() bool {
		_ = control.SetWriteDeadline(time.Now().Add(writeTimeout))
		_, err := fmt.Fprintf(w, ": engine %d\n\n", r.engine.age().Milliseconds())
		return err == nil && control.Flush() == nil
	}
	if first == nil && open && !comment() {
		return
	}
	// stopping ends a stream whose context has ended: it is not over.
	stopping := func() {
		switch cause := context.Cause(ctx); {
		case errors.Is(cause, errStopping):
			send("", "problem", NewProblem(http.StatusServiceUnavailable, "server_stopping",
				"the server stops; connect again", true))
		case errors.Is(cause, login.ErrEnded):
			p, _ := ProblemOf(cause)
			send("", "problem", p)
		}
	}
	beat := time.NewTicker(r.config.Heartbeat)
	defer beat.Stop()
	ask, wasSilent := time.NewTicker(askEvery), false
	defer ask.Stop()
	for open {
		if first != nil {
			if first.err != nil {
				if ctx.Err() != nil {
					stopping()
					return
				}
				p, _ := ProblemOf(r.failed(ctx, op, first.err))
				send("", "problem", p)
				return
			}
			sent := first.item.Idle && comment() || !first.item.Idle && send(first.item.Cursor, "", first.item.Value)
			if !sent {
				return
			}
			first = nil
		}
		select {
		case n, ok := <-source:
			if open = ok; ok {
				first = &n
			}
		case <-beat.C:
			if !comment() {
				return
			}
		case <-ask.C: // an engine that hangs, or answers again, is reported at once
			if isSilent := r.engine.age() > silent; (isSilent || wasSilent) && !comment() {
				return
			} else {
				wasSilent = isSilent
			}
		case <-ctx.Done():
			stopping()
			return
		}
	}
	if ctx.Err() != nil { // the source ends then, too
		stopping()
		return
	}
	send("", "end", httpapi.Empty{})
}

// peek waits for the first item, but not longer than the time; nil with true when there is none yet.
func peek[T any](ctx context.Context, source <-chan next[T], most time.Duration) (*next[T], bool) {
	timer := time.NewTimer(min(most, time.Second))
	defer timer.Stop()
	select {
	case n, ok := <-source:
		if !ok {
			return nil, false
		}
		return &n, true
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil, true
}

// writePage writes a page of a stream as JSON: the present items, or the first ones that arrive within the wait.
func writePage[T any](
	ctx context.Context, cancel context.CancelCauseFunc, r *Router, op httpapi.Operation, hctx huma.Context,
	items service.Items[T], how httpapi.Follow,
) {
	_, w := humago.Unwrap(hctx)
	page := httpapi.Events[T]{Items: []T{}, Next: how.Cursor()}
	timer := time.NewTimer(max(pageQuiet, min(how.Wait.Duration, pageWait)))
	defer timer.Stop()
	source, bytes := pump(ctx, items), 0
read:
	for len(page.Items) < how.Limit && bytes < pageBytes {
		select {
		case n, ok := <-source:
			if !ok {
				page.End = ctx.Err() == nil // the source ends with the context, too
				break read
			}
			if n.err != nil && len(page.Items) == 0 {
				p, _ := ProblemOf(r.failed(ctx, op, n.err))
				writeProblem(w, &p)
				return
			}
			if n.err != nil {
				break read // the next request meets it
			}
			if n.item.Idle {
				continue
			}
			page.Items, page.Next = append(page.Items, n.item.Value), n.item.Cursor
			text, _ := json.Marshal(n.item.Value)
			bytes += len(text)
			timer.Reset(pageQuiet)
		case <-timer.C:
			break read
		case <-ctx.Done():
			break read
		}
	}
	cancel(nil)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(page)
}

// writeProblem writes a problem as the whole reply.
func writeProblem(w http.ResponseWriter, p *api.Problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

// WriteProblem writes a problem as the whole reply.
func WriteProblem(w http.ResponseWriter, p api.Problem) { writeProblem(w, &p) }
