package route

import (
	"context"
	"errors"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/server/internal/bounds"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

const (
	// maxHeavy bounds the heavy requests at a time, each of which may use some 30 MiB of memory; maxHeavyEach bounds
	// the heavy requests of one principal.
	maxHeavy     = 16
	maxHeavyEach = 4
	// heavyPatience is how long a heavy request waits for others to end, and heavyPause the time between two looks.
	heavyPatience = 10 * time.Second
	heavyPause    = 50 * time.Millisecond
)

// heavyOperations are those that read the values of many nodes: always, or, if they are true, with the parameter
// values.
var heavyOperations = map[string]bool{
	"get-run": true, "get-node": true, "export-run": false, "compare-runs": false, "list-items": false,
	"list-signals": false, "fork-run": false,
}

// heavy bounds the requests of an operation that reads values, until the reply is written.
func (r *Router) heavy(op httpapi.Operation) func(huma.Context, func(huma.Context)) {
	asked, found := heavyOperations[op.Name]
	return func(ctx huma.Context, next func(huma.Context)) {
		if !found || asked && ctx.Query("values") != "true" {
			next(ctx)
			return
		}
		leave, err := enterPatiently(ctx.Context(), r.reads)
		if err != nil {
			p, _ := ProblemOf(err)
			_, w := humago.Unwrap(ctx)
			w.Header().Set("Retry-After", "5")
			writeProblem(w, &p)
			return
		}
		defer leave()
		next(ctx)
	}
}

// enterPatiently enters a pool, for which it waits a while.
func enterPatiently(ctx context.Context, pool *bounds.Pool) (leave func(), err error) {
	patience, cancel := context.WithTimeout(ctx, heavyPatience)
	defer cancel()
	tick := time.NewTicker(heavyPause)
	defer tick.Stop()
	for {
		leave, err := pool.Enter(login.From(ctx))
		var full *bounds.Full
		if !errors.As(err, &full) {
			return leave, err
		}
		select {
		case <-tick.C:
		case <-patience.Done():
			return nil, err
		}
	}
}
