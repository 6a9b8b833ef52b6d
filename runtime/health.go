package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/inspect"
)

// Check reports whether the engine is ready: it answers, has the function library that this program needs, accepts work
// and keeps it. Check loads a missing library, as Open does. The error is one of the errors of Open, such as
// enginecore.ErrNotReachable, or matches ErrNotReady: the server evicts keys, refuses writes because its memory or disk
// is full (also matching enginecore.ErrFull), is a replica, or has no append-only file (appendonly no), unless
// OpenConfig.AllowVolatile is set; or the embedded engine cannot write its log, and the error wraps the error of the
// operating system. Inspect reports more.
func (e *Engine) Check(ctx context.Context) error {
	if err := e.ready(ctx); err != nil {
		return err
	}
	if e.session.InProcess != nil {
		if err := inspect.Embedded(e.session.InProcess); err != nil { // which a call would find out by waiting
			return fmt.Errorf("engine: %w", err)
		}
	}
	if err := e.session.Core.Check(ctx); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	if err := inspect.Ready(ctx, e.session); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	return nil
}

// Inspect checks everything around the engine that can lose work, delay it or stop it: the servers' persistence,
// eviction, memory, last writes, replicas and versions, the rights of the user, the function library, keepers and how
// late they are, and the workers of lanes on which work waits. It changes nothing. Checks that the rights of the user
// do not allow are left out, with a finding for each. The error wraps ErrInvalid for an engine that was not made by
// Open, enginecore.ErrClosed, the cause of ctx, or enginecore.ErrNotReachable if no server answers; some that do not
// answer are findings.
func (e *Engine) Inspect(ctx context.Context) (fabrictype.Inspection, error) {
	if err := e.ready(ctx); err != nil {
		return fabrictype.Inspection{}, err
	}
	return inspect.Engine(ctx, e.session)
}

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
