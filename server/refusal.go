package server

import (
	"fmt"
	"net/http"

	"github.com/flowfabric/flowfabric-go/server/internal/route"
)

func notFound(w http.ResponseWriter, _ *http.Request) {
	route.WriteProblem(w, route.NewProblem(http.StatusNotFound, "not_found", "nothing is at this path", false))
}

func denyCrossOrigin(w http.ResponseWriter, r *http.Request) {
	route.WriteProblem(w, route.NewProblem(http.StatusForbidden, "cross_origin", fmt.Sprintf(
		"pages of other origins may not send this request; it came from the origin %q to the host %q",
		r.Header.Get("Origin"), r.Host), false))
}

// withProblems serves a mux whose own refusals, of a path or of a method, become problems.
func withProblems(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refuse, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		refusal := unwritten{header: http.Header{}}
		refuse.ServeHTTP(&refusal, r)
		if refusal.status != http.StatusMethodNotAllowed {
			notFound(w, r)
			return
		}
		allowed := refusal.header.Get("Allow")
		w.Header().Set("Allow", allowed)
		route.WriteProblem(w, route.NewProblem(http.StatusMethodNotAllowed, "method_not_allowed",
			fmt.Sprintf("this path takes %s, got: %s", allowed, r.Method), false))
	})
}

// unwritten is a reply that is not written; its header and status are kept.
type unwritten struct {
	header http.Header
	status int
}

// Header implements http.ResponseWriter.
func (u *unwritten) Header() http.Header { return u.header }

// WriteHeader implements http.ResponseWriter.
func (u *unwritten) WriteHeader(status int) { u.status = status }

// Write implements http.ResponseWriter.
func (u *unwritten) Write(p []byte) (int, error) { return len(p), nil }
