package httpcall

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

// ErrInvalid matches errors about the address of a server or an input that cannot be sent.
var ErrInvalid = errors.New("invalid argument")

// maxReply is the largest reply that is read, in bytes.
const maxReply = 64 << 20

// Caller calls the operations of one server. It is safe for concurrent use and needs no closing.
type Caller struct {
	// root is the address below which operations are.
	root  string
	token string
	http  *http.Client
}

// New returns a caller of the server at an address such as "https://host:8080" or "https://host/path", with a bearer
// token or none. The error matches ErrInvalid for any other text. No connection is made.
func New(address, token string, client *http.Client) (*Caller, error) {
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || base.RawQuery != "" ||
		base.Fragment != "" {
		return nil, fmt.Errorf("%w: address: must be such as https://host:8080, got: %q", ErrInvalid, address)
	}
	base.User = nil
	root := strings.TrimSuffix(base.String(), "/") + httpapi.Prefix
	return &Caller{root: root, token: token, http: client}, nil
}

// Call calls an operation. A refusal by the server is an *api.Problem, for errors.As; its Code is the kind of the
// refusal.
func Call[In, Out any](ctx context.Context, c *Caller, op httpapi.Call[In, Out], in In) (*Out, error) {
	out, _, err := CallWithETag(ctx, c, op, in)
	return out, err
}

// CallWithETag is Call for a reply with an ETag, such as the state of a limit or a budget: as IfMatch of a change it
// makes the server refuse the change if the state has changed by then. The tag is empty if the reply has none.
func CallWithETag[In, Out any](ctx context.Context, c *Caller, op httpapi.Call[In, Out], in In) (*Out, string, error) {
	reply, err := c.send(ctx, op.Operation, in)
	if err != nil {
		return nil, "", err
	}
	defer reply.Body.Close()
	out := new(Out)
	if reply.StatusCode == http.StatusNoContent {
		return out, "", nil
	}
	text, err := readAll(reply)
	if err == nil {
		err = json.Unmarshal(text, out)
	}
	if err != nil {
		return nil, "", fmt.Errorf("%s: reply of the server: %w", op.Name, err)
	}
	return out, reply.Header.Get("ETag"), nil
}

// readAll reads a reply to its end, so that its connection can be used again.
func readAll(reply *http.Response) ([]byte, error) {
	var text bytes.Buffer
	if n := reply.ContentLength; n > 0 && n <= maxReply {
		text.Grow(int(n) + bytes.MinRead) // the buffer wants room for one more read, which finds the end
	}
	_, err := text.ReadFrom(io.LimitReader(reply.Body, maxReply))
	return text.Bytes(), err
}

// Do calls an operation whose types are not known at compile time: the input is a value of op.Input, and the result is
// the JSON of the reply, of an httpapi.Events for a stream, {} for none. The error is as for Call.
func Do(ctx context.Context, c *Caller, op httpapi.Operation, in any) (json.RawMessage, error) {
	reply, err := c.send(ctx, op, in)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	if reply.StatusCode == http.StatusNoContent {
		return json.RawMessage("{}"), nil
	}
	text, err := readAll(reply)
	if err == nil && !json.Valid(text) {
		err = errors.New("it is not JSON")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: reply of the server: %w", op.Name, err)
	}
	return json.RawMessage(bytes.TrimSpace(text)), nil
}

// contentJSON is shared by requests, which do not change it.
var contentJSON = []string{"application/json"}

// send sends the request of an operation. A refusal is an error; the body of any other reply is to be closed.
func (c *Caller) send(ctx context.Context, op httpapi.Operation, in any) (*http.Response, error) {
	request, err := c.request(ctx, op, in)
	if err != nil {
		return nil, err
	}
	request.Header["Accept"] = contentJSON
	reply, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op.Name, err)
	}
	if reply.StatusCode >= http.StatusBadRequest {
		defer reply.Body.Close()
		return nil, problemOf(op.Name, reply)
	}
	return reply, nil
}

// request makes the request of an operation.
func (c *Caller) request(ctx context.Context, op httpapi.Operation, in any) (*http.Request, error) {
	parts, err := split(in)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrInvalid, op.Name, err)
	}
	path := op.Path
	for name, value := range parts.path {
		if value == "" {
			return nil, fmt.Errorf("%w: %s: %s is empty", ErrInvalid, op.Name, name)
		}
		path = strings.Replace(path, "{"+name+"}", escape(value), 1)
	}
	address := c.root + path
	if len(parts.query) > 0 {
		address += "?" + parts.query.Encode()
	}
	var body io.Reader
	if parts.body != nil {
		text, err := activityspec.EncodeJSON(parts.body)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrInvalid, op.Name, err)
		}
		body = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, op.Method, address, body)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrInvalid, op.Name, err)
	}
	for name, value := range parts.header {
		request.Header.Set(name, value)
	}
	if body != nil {
		request.Header["Content-Type"] = contentJSON
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	return request, nil
}

// escape escapes a part of a path, also one that is "." or "..", which would otherwise be taken for a folder.
func escape(part string) string {
	if strings.Trim(part, ".") == "" {
		return strings.ReplaceAll(part, ".", "%2E")
	}
	return url.PathEscape(part)
}

// problemOf reads the problem of a reply.
func problemOf(operation string, reply *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(reply.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("%s: %s: %w", operation, reply.Status, err)
	}
	problem := &api.Problem{}
	if json.Unmarshal(text, problem) != nil || problem.Code == "" {
		problem = &api.Problem{
			Title: http.StatusText(reply.StatusCode), Status: reply.StatusCode, Code: "not_a_server",
			Detail: fmt.Sprintf("%s, which is not a reply of a FlowFabric server: %.200s", reply.Status, text),
		}
	}
	return fmt.Errorf("%s: %w", operation, problem)
}
