package httpclient

import (
	"crypto/hmac"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

// ErrNotSigned is returned by PushedTask for a request that was not signed with the secret, or too long ago.
var ErrNotSigned = errors.New("the request is not signed, or too old")

// pushAge is how old a request with a task may be, and how far the clocks of server and worker may differ.
const pushAge = 5 * time.Minute

// maxPush is the largest body of a request with a task, in bytes.
const maxPush = 4 << 20

// PushedTask returns the task that a server has sent to a worker registered by Client.RegisterPushWorker. The error
// matches ErrNotSigned unless the request was signed with the secret within the last 5 minutes; answer status 401 then.
// The handler answers an api.PushAnswer at once, or status 202 and reports by the token later.
func PushedTask(r *http.Request, secret string) (*api.Task, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxPush))
	if err != nil {
		return nil, fmt.Errorf("pushed task: %w", err)
	}
	seconds, err := strconv.ParseInt(r.Header.Get(httpapi.PushTimestamp), 10, 64)
	at := time.Unix(seconds, 0)
	if err != nil || time.Since(at).Abs() > pushAge ||
		!hmac.Equal([]byte(httpapi.SignPush(secret, at, body)), []byte(r.Header.Get(httpapi.PushSignature))) {
		return nil, fmt.Errorf("pushed task: %w", ErrNotSigned)
	}
	task := &api.Task{}
	if err := json.Unmarshal(body, task); err != nil {
		return nil, fmt.Errorf("pushed task: %w", err)
	}
	return task, nil
}
