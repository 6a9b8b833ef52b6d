package api

import (
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"time"
)

// Operations of the server itself.
var (
	GetServer = call[Empty, ServerInfo](Operation{
		Name: "get-server", Group: "server", Method: "GET", Path: "/server", Right: View, Effect: Reads, Bound: true,
		Summary: "Describe the server and the principal that calls",
	})
	ListTokens = call[Empty, fabrictype.Page[Token]](Operation{
		Name: "list-tokens", Group: "server", Method: "GET", Path: "/tokens", Right: Administer, Effect: Reads,
		Summary: "List the tokens, without their secrets",
	})
	CreateToken = call[CreateTokenInput, CreatedToken](Operation{
		Name: "create-token", Group: "server", Method: "POST", Path: "/tokens",
		Right: Administer, Effect: Changes, Created: true, Credential: true,
		Summary: "Create a token; its text is shown once",
	})
	DeleteToken = call[TokenNameInput, Empty](Operation{
		Name: "delete-token", Group: "server", Method: "DELETE", Path: "/tokens/{token}",
		Right: Administer, Effect: Destroys,
		Summary: "Delete a token; it ends at once",
	})
	ListSessions = call[ListSessionsInput, fabrictype.Page[Session]](Operation{
		Name: "list-sessions", Group: "server", Method: "GET", Path: "/sessions", Right: Administer, Effect: Reads,
		Summary: "List the sessions of browsers that have logged in",
	})
	DeleteSession = call[SessionInput, Empty](Operation{
		Name: "delete-session", Group: "server", Method: "DELETE", Path: "/sessions/{session}",
		Right: Administer, Effect: Destroys,
		Summary: "End a session; its streams end within some seconds",
	})
	RotateSecrets = call[RotateSecretsInput, RotatedSecrets](Operation{
		Name: "rotate-secrets", Group: "server", Method: "POST", Path: "/secrets/rotate",
		Right: Administer, Effect: Changes,
		Summary: "Sign the tokens of waits with a new secret",
	})
)

func serverOperations() []Entry {
	return []Entry{GetServer, ListTokens, CreateToken, DeleteToken, ListSessions, DeleteSession, RotateSecrets}
}

// ServerInfo describes a server and the principal that calls it.
type ServerInfo struct {
	Version   string              `json:"version"`
	Namespace string              `json:"namespace"`
	Engine    string              `json:"engine" doc:"embedded, in memory, or the scheme of its URL"`
	ReadOnly  bool                `json:"read_only,omitempty"`
	Heartbeat fabrictype.Duration `json:"heartbeat" doc:"time between two comments of a stream in which nothing happens"`
	Principal Principal           `json:"principal"`
}

// Principal is who calls the server, with their rights.
type Principal struct {
	Name   string  `json:"name"`
	Login  string  `json:"login" doc:"How they logged in: none, token, oidc, certificate, proxy or in-process."`
	Rights []Right `json:"rights" enum:"view,payloads:read,approve,operate,work,administer"`
	Flows  string  `json:"flows,omitempty" doc:"Pattern of the flows that they may see; absent for all."`
}

// Role is a set of rights.
type Role string

// Roles.
const (
	Viewer   Role = "viewer"
	Operator Role = "operator"
	Admin    Role = "admin"
	// WorkerRole is for programs that run nodes, and nothing else.
	WorkerRole Role = "worker"
)

// Rights returns the rights of the role; none for an unknown one.
func (r Role) Rights() []Right {
	switch r {
	case Viewer:
		return []Right{View}
	case Operator:
		return []Right{View, ReadPayloads, Approve, Operate}
	case Admin:
		return Rights()
	case WorkerRole:
		return []Right{Work}
	default:
		return nil
	}
}

// Token is a token without its secret.
type Token struct {
	Name      string    `json:"name"`
	Role      Role      `json:"role" enum:"viewer,operator,admin,worker"`
	Rights    []Right   `json:"rights,omitempty" enum:"approve,payloads:read,work" doc:"Rights in addition to the rights of the role."`
	Flows     string    `json:"flows,omitempty" doc:"Pattern of the flows that it may see and act on, such as billing-*; absent for all."`
	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by,omitempty"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// CreateTokenInput describes a new token.
type CreateTokenInput struct {
	Body struct {
		Name    string              `json:"name" minLength:"1" maxLength:"128" doc:"Is part of URLs: no white space, control characters and slashes, and neither . nor .."`
		Role    Role                `json:"role" enum:"viewer,operator,admin,worker"`
		Rights  []Right             `json:"rights,omitempty" enum:"approve,payloads:read,work"`
		Flows   string              `json:"flows,omitempty" maxLength:"256"`
		Expires fabrictype.Duration `json:"expires,omitzero" doc:"How long it is valid; absent for ever."`
	}
}

// CreatedToken is a new token with its text.
type CreatedToken struct {
	Token
	Text string `json:"text" doc:"The token. It cannot be shown again."`
}

// TokenNameInput names the token that an operation is about.
type TokenNameInput struct {
	Token string `path:"token" doc:"Name of the token."`
}

// Session is the login of a browser, at an OpenID Connect provider.
type Session struct {
	ID        string    `json:"id"`
	Principal string    `json:"principal"`
	Login     string    `json:"login" doc:"How the principal has logged in: oidc."`
	Groups    []string  `json:"groups,omitempty" doc:"Groups of the principal that grants name."`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
}

// ListSessionsInput selects sessions.
type ListSessionsInput struct {
	Principal string `query:"principal" maxLength:"256" doc:"Only sessions of this principal."`
	Paging
}

// SessionInput names a session.
type SessionInput struct {
	Session string `path:"session" maxLength:"128" doc:"Id of the session, as list-sessions has it."`
}

// RotateSecretsInput bounds the time for which old tokens stay valid.
type RotateSecretsInput struct {
	Body struct {
		Grace fabrictype.Duration `json:"grace,omitzero" doc:"How long tokens signed with the old secret are valid; absent for a day."`
	}
}

// RotatedSecrets is the result of a rotation.
type RotatedSecrets struct {
	Rotated int `json:"rotated" doc:"Partitions with the new secret."`
	Failed  int `json:"failed,omitempty"`
}
