package login

import (
	"net/http"

	"github.com/flowfabric/flowfabric-go/api"
)

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
