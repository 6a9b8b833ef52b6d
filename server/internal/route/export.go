package route

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

// export serves an operation whose reply is written line by line, as the values of an httpapi.ExportedRun.
func export[In any](
	r *Router, op httpapi.Call[In, httpapi.ExportedRun],
	do func(context.Context, *In) iter.Seq2[json.RawMessage, error],
) {
	described := r.operation(op.Operation)
	described.Responses = map[string]*huma.Response{"200": {
		Description: http.StatusText(http.StatusOK),
		Content: map[string]*huma.MediaType{"application/json": {
			Schema: r.api.OpenAPI().Components.Schemas.Schema(op.Output, true, ""),
		}},
	}}
	huma.Register(r.api, described, func(ctx context.Context, in *In) (*huma.StreamResponse, error) {
		return &huma.StreamResponse{Body: func(hctx huma.Context) {
			_, w := humago.Unwrap(hctx)
			r.writeLines(ctx, op.Operation, w, do(ctx, in))
		}}, nil
	})
}

// writeLines writes the lines. A failure before the first one is the reply; a failure after it aborts the reply, so
// that the client does not take a part for the whole.
func (r *Router) writeLines(
	ctx context.Context, op httpapi.Operation, w http.ResponseWriter, lines iter.Seq2[json.RawMessage, error],
) {
	control, before := http.NewResponseController(w), `{"lines":[`
	for line, err := range lines {
		if err != nil && before != "," {
			p, _ := ProblemOf(r.failed(ctx, op, err))
			writeProblem(w, &p)
			return
		}
		if err != nil {
			_ = r.failed(ctx, op, err)
			panic(http.ErrAbortHandler)
		}
		_ = control.SetWriteDeadline(time.Now().Add(lineTimeout))
		w.Header().Set("Content-Type", "application/json")
		if _, err := w.Write(append([]byte(before), line...)); err != nil {
			return
		}
		before = ","
	}
	if before != "," {
		before = `{"lines":[`
	} else {
		before = ""
	}
	_, _ = w.Write([]byte(before + "]}\n"))
}

// lineTimeout bounds the writing of one line, which may have some megabytes.
const lineTimeout = time.Minute
