package health

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"
)

// Checker is something that can report whether it works. *runtime.Engine, *runtime.Worker and *runtime.Keeper do.
type Checker interface {
	Check(ctx context.Context) error
}

// CheckFunc makes a function a Checker.
type CheckFunc func(ctx context.Context) error

// Check calls the function.
func (f CheckFunc) Check(ctx context.Context) error { return f(ctx) }

// Timeout bounds a check. One that takes longer has failed.
const Timeout = 5 * time.Second

// Report is the answer of a Handler, as JSON.
type Report struct {
	// Ready is true when nothing failed.
	Ready bool `json:"ready"`
	// Checks has "ok" or the error for each name.
	Checks map[string]string `json:"checks"`
}

// Handler answers GET and HEAD with status 200 when every check is fine, and 503 otherwise, with a Report. The checks
// run at the same time. Errors may name servers, so the address is not for the public.
func Handler(checks map[string]Checker) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
			return
		}
		report := run(r.Context(), checks)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if !report.Ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		// A write error means that the client has disconnected.
		_ = json.NewEncoder(w).Encode(report)
	})
}

var errNoAnswer = errors.New("the check did not return")

func run(ctx context.Context, checks map[string]Checker) Report {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	var (
		mu      sync.Mutex
		running sync.WaitGroup
	)
	report := Report{Ready: true, Checks: make(map[string]string, len(checks))}
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
			err = check.Check(ctx)
		})
	}
	running.Wait()
	return report
}
