package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// readyTimeout bounds the checks of a readiness probe. One that takes longer has failed.
const readyTimeout = 5 * time.Second

// ReadyHandler returns a handler for the readiness probe of an orchestrator. It answers GET and HEAD with status 200
// when the Check of the engine and of each part succeeds, and 503 otherwise. Parts are the program's workers and
// keepers, or anything else with such a method. All checks run at the same time and have 5 s together.
//
// The body is JSON: "ready", and in "checks" for "engine", "worker", "keeper" and the Go types of other parts "ok" or
// the error; a second part of a kind is "worker 2". Errors may name servers, so the address is not for the public. Do
// not restart a process that is not ready: workers wait for an unavailable engine, and running functions continue.
func (e *Engine) ReadyHandler(parts ...interface {
	Check(ctx context.Context) error
}) http.Handler {
	checks := map[string]func(context.Context) error{"engine": e.Check}
	for _, part := range parts {
		kind := fmt.Sprintf("%T", part)
		switch part.(type) {
		case *Worker:
			kind = "worker"
		case *Keeper:
			kind = "keeper"
		}
		name := kind
		for n := 2; checks[name] != nil; n++ {
			name = fmt.Sprintf("%s %d", kind, n)
		}
		checks[name] = part.Check
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answerProbe(w, r, checks) })
}

func answerProbe(w http.ResponseWriter, r *http.Request, checks map[string]func(context.Context) error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	report := probe(r.Context(), checks)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !report.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	// A write error means that the client has disconnected.
	_ = json.NewEncoder(w).Encode(report)
}

type probeReport struct {
	Ready  bool              `json:"ready"`
	Checks map[string]string `json:"checks"`
}

var errNoAnswer = errors.New("the check did not return")

func probe(ctx context.Context, checks map[string]func(context.Context) error) probeReport {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	var (
		mu      sync.Mutex
		running sync.WaitGroup
	)
	report := probeReport{Ready: true, Checks: make(map[string]string, len(checks))}
	for name, check := range checks {
		running.Go(func() {
			err := errNoAnswer // of a check that ends its goroutine
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				report.Checks[name] = "ok"
				if err != nil {
					report.Ready, report.Checks[name] = false, err.Error()
				}
			}()
			err = check(ctx)
		})
	}
	running.Wait()
	return report
}
