package httpapi

import (
	"net/url"

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

// Operations on all runs and on the deployment.
var (
	CountRuns = call[CountRunsInput, fabrictype.Page[fabrictype.RunCount]](Operation{
		Name: "count-runs", Group: "observe", Method: "GET", Path: "/counts",
		Right: api.View, Effect: Reads, Bound: true, Query: QueryRuns,
		Summary: "Count runs by flow, state and hour",
	})
	FollowFeed = stream[FollowFeedInput, fabrictype.FeedEvent](Operation{
		Name: "follow-feed", Group: "observe", Method: "GET", Path: "/feed", Right: api.View, Effect: Reads, Bound: true,
		Summary: "Follow the events of all runs",
	})
	ListAudit = call[api.ListAuditInput, fabrictype.Page[fabrictype.AuditEntry]](Operation{
		Name: "list-audit", Group: "observe", Method: "GET", Path: "/audit", Right: api.View, Effect: Reads,
		Summary: "List changes and their authors, the latest first",
	})
	Inspect = call[Empty, fabrictype.Inspection](Operation{
		Name: "inspect", Group: "observe", Method: "GET", Path: "/inspection", Right: api.View, Effect: Reads,
		Summary: "Find problems that can lose or stop work",
	})
	ListKeeperTasks = call[Empty, fabrictype.Page[api.KeeperTask]](Operation{
		Name: "list-keeper-tasks", Group: "observe", Method: "GET", Path: "/keeper-tasks", Right: api.View, Effect: Reads,
		Summary: "List the tasks of keepers",
	})
	RunKeeperTask = call[KeeperTaskInput, api.KeeperTaskReport](Operation{
		Name: "run-keeper-task", Group: "observe", Method: "POST", Path: "/keeper-tasks/{task}/run",
		Right: api.Administer, Effect: Changes,
		Summary: "Run a task of keepers now",
	})
)

func observeOperations() []Entry {
	return []Entry{CountRuns, ExplainRuns, FollowFeed, ListAudit, Inspect, ListKeeperTasks, RunKeeperTask}
}

// CountRunsInput selects the runs to count and the groups.
type CountRunsInput struct {
	By []string `query:"by" enum:"flow,state,hour" doc:"Fields to group by; absent for one count."`
	// Query has further parameters, which Operation.Query names.
	Query url.Values `json:"-"`
}

// FollowFeedInput is the input of an operation with parameters.
type FollowFeedInput struct {
	Follow
	api.FollowFeedInput
}

// KeeperTaskInput names the task that an operation is about.
type KeeperTaskInput struct {
	Task string `path:"task" doc:"Name of the task."`
}

// Operations of executions: the records of the engine, of whatever program.
var (
	ListExecutions = call[api.ListExecutionsInput, fabrictype.Page[api.Execution]](Operation{
		Name: "list-executions", Group: "executions", Method: "GET", Path: "/executions", Right: api.View, Effect: Reads,
		Summary: "List executions, in no particular order",
	})
	GetExecution = call[ExecutionInput, api.Execution](Operation{
		Name: "get-execution", Group: "executions", Method: "GET", Path: "/executions/{execution}",
		Right: api.View, Effect: Reads,
		Summary: "Show an execution",
	})
)

func executionOperations() []Entry { return []Entry{ListExecutions, GetExecution} }

// ExecutionInput names the execution that an operation is about.
type ExecutionInput struct {
	Execution string `path:"execution" doc:"Id of the execution."`
}
