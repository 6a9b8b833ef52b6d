package httpapi

import (
	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// Operations of the server itself.
var (
	GetServer = call[Empty, api.ServerInfo](Operation{
		Name: "get-server", Group: "server", Method: "GET", Path: "/server", Right: api.View, Effect: Reads, Bound: true,
		Summary: "Describe the server and the principal that calls",
	})
	ListTokens = call[Empty, fabrictype.Page[api.Token]](Operation{
		Name: "list-tokens", Group: "server", Method: "GET", Path: "/tokens", Right: api.Administer, Effect: Reads,
		Summary: "List the tokens, without their secrets",
	})
	CreateToken = call[CreateTokenInput, api.CreatedToken](Operation{
		Name: "create-token", Group: "server", Method: "POST", Path: "/tokens",
		Right: api.Administer, Effect: Changes, Created: true, Credential: true,
		Summary: "Create a token; its text is shown once",
	})
	DeleteToken = call[TokenNameInput, Empty](Operation{
		Name: "delete-token", Group: "server", Method: "DELETE", Path: "/tokens/{token}",
		Right: api.Administer, Effect: Destroys,
		Summary: "Delete a token; it ends at once",
	})
	ListSessions = call[ListSessionsInput, fabrictype.Page[api.Session]](Operation{
		Name: "list-sessions", Group: "server", Method: "GET", Path: "/sessions", Right: api.Administer, Effect: Reads,
		Summary: "List the sessions of browsers that have logged in",
	})
	DeleteSession = call[SessionInput, Empty](Operation{
		Name: "delete-session", Group: "server", Method: "DELETE", Path: "/sessions/{session}",
		Right: api.Administer, Effect: Destroys,
		Summary: "End a session; its streams end within some seconds",
	})
	RotateSecrets = call[RotateSecretsInput, api.RotatedSecrets](Operation{
		Name: "rotate-secrets", Group: "server", Method: "POST", Path: "/secrets/rotate",
		Right: api.Administer, Effect: Changes,
		Summary: "Sign the tokens of waits with a new secret",
	})
)

func serverOperations() []Entry {
	return []Entry{GetServer, ListTokens, CreateToken, DeleteToken, ListSessions, DeleteSession, RotateSecrets}
}

// CreateTokenInput is the input of an operation with a body.
type CreateTokenInput struct {
	Body struct{ api.CreateTokenInput }
}

// TokenNameInput names the token that an operation is about.
type TokenNameInput struct {
	Token string `path:"token" doc:"Name of the token."`
}

// ListSessionsInput selects sessions.
type ListSessionsInput struct {
	Principal string `query:"principal" maxLength:"256" doc:"Only sessions of this principal."`
	api.Paging
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
