package httpapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// Operations of workers to which a server sends tasks, in place of their claims.
var (
	RegisterPushWorker = call[RegisterPushWorkerInput, api.PushWorker](Operation{
		Name: "register-push-worker", Group: "tasks", Method: "PUT", Path: "/push-workers/{worker}",
		Right: api.Work, Effect: Changes,
		Summary: "Let the server send tasks to a URL, for some time",
	})
	ListPushWorkers = call[Empty, fabrictype.Page[api.PushWorker]](Operation{
		Name: "list-push-workers", Group: "tasks", Method: "GET", Path: "/push-workers", Right: api.View, Effect: Reads,
		Summary: "List the URLs to which this server sends tasks",
	})
	RemovePushWorker = call[RemovePushWorkerInput, Empty](Operation{
		Name: "remove-push-worker", Group: "tasks", Method: "DELETE", Path: "/push-workers/{worker}",
		Right: api.Work, Effect: Changes,
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

// RegisterPushWorkerInput is the input of an operation with a body.
type RegisterPushWorkerInput struct {
	PushWorkerInput
	Body struct{ api.RegisterPushWorkerInput }
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
