package login

import (
	"context"
	"errors"
	"net/http"
	"path"
	"slices"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

// Kind is the kind of login of a principal.
type Kind string

// Kinds of login.
const (
	None    Kind = "none"
	ByToken Kind = "token"
	ByOIDC  Kind = "oidc"
	ByCert  Kind = "certificate"
	ByProxy Kind = "proxy"
	// InProcess is the login of a client in the process of the engine.
	InProcess Kind = "in-process"
)

const anonymousID = "anonymous"

// Principal is who calls.
type Principal struct {
	Name   string
	Kind   Kind
	Rights []api.Right
	// Groups are the groups that the login has named.
	Groups []string
	// Flows is the pattern (path.Match) of the flows that the principal may see and act on; empty for all.
	Flows string
}

// ID identifies the principal: principals of different kinds with the same name have different ids.
func (p Principal) ID() string { return string(p.Kind) + " " + p.Name }

// Anonymous is the principal of a server without logins, which may do everything.
func Anonymous() Principal { return Principal{Name: anonymousID, Kind: None, Rights: httpapi.Rights()} }

// May reports whether the principal has the right.
func (p Principal) May(right api.Right) bool { return slices.Contains(p.Rights, right) }

// Sees reports whether the principal may see runs of the flow.
func (p Principal) Sees(flow string) bool {
	if p.Flows == "" {
		return true
	}
	ok, err := path.Match(p.Flows, flow)
	return ok && err == nil
}

// Restricted reports whether the principal is bound to some flows.
func (p Principal) Restricted() bool { return p.Flows != "" }

// ErrForbidden is matched by errors about a right that the principal lacks.
var ErrForbidden = errors.New("forbidden")

// Need returns an error that matches ErrForbidden unless the principal of the context has the right.
func Need(ctx context.Context, right api.Right) error {
	if !From(ctx).May(right) {
		return &missingRight{right}
	}
	return nil
}

type missingRight struct{ right api.Right }

// Error names the right.
func (e *missingRight) Error() string { return "this needs the right " + string(e.right) }

// Unwrap returns ErrForbidden.
func (e *missingRight) Unwrap() error { return ErrForbidden }

type key struct{}

// With returns a context that has the principal.
func With(ctx context.Context, p Principal) context.Context { return context.WithValue(ctx, key{}, p) }

// From returns the principal of a context; one without rights if it has none.
func From(ctx context.Context) Principal {
	p, _ := ctx.Value(key{}).(Principal)
	return p
}

// Demand contains the demands of an operation, or of a route outside the operations, on its caller.
type Demand struct {
	// Name is the name of the operation.
	Name  string
	Right api.Right
	// Reads reports whether it changes nothing, so that servers that are read-only carry it out.
	Reads bool
	// Bound reports whether it distinguishes flows, so that a principal who is bound to some of them may call it.
	Bound bool
}

// Refusal is why a principal may not call an operation.
type Refusal struct {
	Status int
	// Code and Detail are fields of the api.Problem.
	Code, Detail string
}

// Refuse returns why the principal may not call an operation, or nil. Every route of the server calls it.
func (p Principal) Refuse(d Demand, readOnly bool) *Refusal {
	switch {
	case len(p.Rights) == 0:
		return &Refusal{http.StatusUnauthorized, "unauthorized", "log in, or send a token that is valid"}
	case !p.May(d.Right):
		return &Refusal{http.StatusForbidden, "forbidden", d.Name + " needs the right " + string(d.Right)}
	case readOnly && !d.Reads:
		return &Refusal{http.StatusForbidden, "read_only", "this server is read-only"}
	case p.Restricted() && !d.Bound:
		return &Refusal{http.StatusForbidden, "forbidden", d.Name + " concerns flows that you may not see"}
	}
	return nil
}
