package api

import (
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// ServerInfo describes a server and the principal that calls it.
type ServerInfo struct {
	Version   string              `json:"version"`
	Library   string              `json:"library" doc:"Build of the function library that the server carries."`
	Protocol  int                 `json:"protocol" doc:"Version of the agreement between programs and the function library."`
	Namespace string              `json:"namespace"`
	Engine    string              `json:"engine" doc:"embedded, in memory, or the scheme of its URL"`
	ReadOnly  bool                `json:"read_only,omitempty"`
	Heartbeat fabrictype.Duration `json:"heartbeat" doc:"time between two comments of a stream in which nothing happens"`
	Principal Principal           `json:"principal"`
}

// Principal is who calls the server, with their rights.
type Principal struct {
	Name   string   `json:"name"`
	Login  string   `json:"login" doc:"How they logged in: none, token, oidc, certificate, proxy or in-process."`
	Rights []Right  `json:"rights" enum:"view,payloads:read,approve,operate,work,administer"`
	Groups []string `json:"groups,omitempty" doc:"Groups that they are in, as the login knows them."`
	Flows  string   `json:"flows,omitempty" doc:"Pattern of the flows that they may see; absent for all."`
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
	Name    string              `json:"name" minLength:"1" maxLength:"128" doc:"Is part of URLs: no white space, control characters and slashes, and neither . nor .."`
	Role    Role                `json:"role" enum:"viewer,operator,admin,worker"`
	Rights  []Right             `json:"rights,omitempty" enum:"approve,payloads:read,work"`
	Flows   string              `json:"flows,omitempty" maxLength:"256"`
	Expires fabrictype.Duration `json:"expires,omitzero" doc:"How long it is valid; absent for ever."`
}

// CreatedToken is a new token with its text.
type CreatedToken struct {
	Token
	Text string `json:"text" doc:"The token. It cannot be shown again."`
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

// RotatedSecrets is the result of a rotation.
type RotatedSecrets struct {
	Rotated int `json:"rotated" doc:"Partitions with the new secret."`
	Failed  int `json:"failed,omitempty"`
}

// Right is the permission that a principal needs to call an operation.
type Right string

// Rights. Roles are sets of them.
const (
	// View reads everything but payloads.
	View Right = "view"
	// ReadPayloads reads inputs, results, logs, frames and signals, in addition to View.
	ReadPayloads Right = "payloads:read"
	// Approve answers waits.
	Approve Right = "approve"
	// Operate starts and changes runs, schedules, lanes and limits.
	Operate Right = "operate"
	// Work claims nodes of runs and carries them out; it reads and writes their payloads.
	Work Right = "work"
	// Administer removes data, and manages tokens and secrets.
	Administer Right = "administer"
)

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
		return []Right{View, ReadPayloads, Approve, Operate, Work, Administer}
	case WorkerRole:
		return []Right{Work}
	default:
		return nil
	}
}

// FollowFeedInput selects events.
type FollowFeedInput struct {
	Flow     string   `query:"flow" doc:"Only runs of this flow."`
	Kinds    []string `query:"kind" doc:"Only events of these kinds."`
	Children bool     `query:"children" doc:"With child runs of maps and sub-flows."`
}

// ListAuditInput selects entries.
type ListAuditInput struct {
	Paging
	Actor  string    `query:"actor"`
	Action string    `query:"action"`
	Name   string    `query:"name" doc:"Name of the changed object."`
	From   time.Time `query:"from"`
	Before time.Time `query:"before"`
}

// KeeperTask is one kind of a keeper's work.
type KeeperTask struct {
	Name    string              `json:"name"`
	Summary string              `json:"summary"`
	Every   fabrictype.Duration `json:"every" doc:"Longest time between two steps in a partition."`
	// Lag is there for tasks that work by time.
	Lag *KeeperLag `json:"lag,omitempty"`
}

// KeeperLag is how late keepers are with a task: for how long its oldest work has been due.
type KeeperLag struct {
	Behind  fabrictype.Duration   `json:"behind"`
	Minutes []fabrictype.Duration `json:"minutes" doc:"The worst of each minute, the latest last."`
}

// KeeperTaskReport is the result of a keeper task.
type KeeperTaskReport struct {
	Task       string              `json:"task"`
	Partitions int                 `json:"partitions"`
	Steps      int                 `json:"steps"`
	Done       int64               `json:"done"`
	Lag        fabrictype.Duration `json:"lag"`
	Remaining  int                 `json:"remaining"`
	Repaired   map[string]int64    `json:"repaired,omitempty"`
	Took       fabrictype.Duration `json:"took"`
}
