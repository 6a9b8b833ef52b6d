package api

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"strconv"
	"time"
)

// Operations of workers to which a server sends tasks, in place of their claims.
var (
	RegisterPushWorker = call[RegisterPushWorkerInput, PushWorker](Operation{
		Name: "register-push-worker", Group: "tasks", Method: "PUT", Path: "/push-workers/{worker}",
		Right: Work, Effect: Changes,
		Summary: "Let the server send tasks to a URL, for some time",
	})
	ListPushWorkers = call[Empty, fabrictype.Page[PushWorker]](Operation{
		Name: "list-push-workers", Group: "tasks", Method: "GET", Path: "/push-workers", Right: View, Effect: Reads,
		Summary: "List the URLs to which this server sends tasks",
	})
	RemovePushWorker = call[RemovePushWorkerInput, Empty](Operation{
		Name: "remove-push-worker", Group: "tasks", Method: "DELETE", Path: "/push-workers/{worker}",
		Right: Work, Effect: Changes,
		Summary: "Send no more tasks to a URL; administrators end the registrations of others, too",
	})
)

// PushWorkerInput names a registration of the principal.
type PushWorkerInput struct {
	Worker string `path:"worker" maxLength:"128" doc:"Name of the worker; each principal has names of its own."`
}

// RemovePushWorkerInput names a registration, which is the principal's own unless it names another principal.
type RemovePushWorkerInput struct {
	PushWorkerInput
	Principal string `query:"principal" maxLength:"256" doc:"Whose registration it is, as list-push-workers has it; absent for the caller. The registrations of others need the right administer."`
	Login     string `query:"login" maxLength:"32" doc:"How that principal has logged in, as list-push-workers has it."`
}

// RegisterPushWorkerInput has the URL of a worker and the tasks that are sent there.
type RegisterPushWorkerInput struct {
	PushWorkerInput
	Body struct {
		URL          string              `json:"url" maxLength:"2048" doc:"Where tasks are sent. The configuration of the server lists the allowed hosts."`
		Secret       string              `json:"secret" minLength:"32" maxLength:"256" doc:"Key of the signatures, at least 32 characters, known to server and worker only."`
		Activities   []string            `json:"activities" minItems:"1" maxItems:"256"`
		Lanes        []string            `json:"lanes,omitempty" maxItems:"64" doc:"Absent for the lane default."`
		Capabilities []string            `json:"capabilities,omitempty" maxItems:"256"`
		Slots        int                 `json:"slots,omitempty" minimum:"0" maximum:"1000" doc:"Most tasks at a time; absent for 16."`
		Lease        fabrictype.Duration `json:"lease,omitzero" doc:"As with claim-task; absent for 30s."`
		Lasts        fabrictype.Duration `json:"lasts,omitzero" doc:"How long tasks are sent unless the worker registers again, 1s to 24h; absent for 1h."`
	}
}

// PushWorker is a registration, without its secret.
type PushWorker struct {
	Worker     string    `json:"worker"`
	Principal  string    `json:"principal,omitempty"`
	Login      string    `json:"login" doc:"How the principal has logged in; another one may have the same name."`
	URL        string    `json:"url"`
	Activities []string  `json:"activities"`
	ExpiresAt  time.Time `json:"expires_at"`
	Sent       int64     `json:"sent" doc:"Tasks that were sent."`
	Failure    string    `json:"failure,omitempty" doc:"Why the last task could not be sent; the server tries again."`
}

// Headers of requests that carry a pushed task.
const (
	// PushTimestamp is the header with the time of the request, in seconds of Unix time.
	PushTimestamp = "Flowfabric-Timestamp"
	// PushSignature is the header with the signature, as SignPush makes it.
	PushSignature = "Flowfabric-Signature"
)

// SignPush returns the signature of a request with a pushed task: "v1=" and, in hex, the HMAC-SHA256 of the seconds of
// the time, a full stop and the body.
func SignPush(secret string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write([]byte(strconv.FormatInt(at.Unix(), 10) + "."))
	_, _ = mac.Write(body)
	return "v1=" + hex.EncodeToString(mac.Sum(nil))
}

// PushAnswer is the immediate answer of a worker to a pushed task: exactly one field is set. With status 202 and no
// body, it reports by the token of the task later, and renews the lease until then.
type PushAnswer struct {
	Complete *PushResult      `json:"complete,omitempty"`
	Fail     *FailTaskBody    `json:"fail,omitempty"`
	Suspend  *SuspendTaskBody `json:"suspend,omitempty"`
}

// PushResult is the result of a pushed task.
type PushResult struct {
	Result json.RawMessage `json:"result"`
}
