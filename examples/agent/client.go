package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
)

const (
	maxEvent     = 1 << 20 // bytes of one server-sent event
	maxToolCalls = 16      // of one reply
)

var errNoUsage = errors.New("model: the reply has no usage, so no budget can count it")

// modelClient calls a model by the chat-completions protocol.
type modelClient struct {
	http *http.Client
	base string // the URL in front of /chat/completions
	name string
	key  string // empty for a model that needs none
}

// Reply is a whole reply of the model.
type Reply struct {
	Message Message `json:"message"`
	Usage   Usage   `json:"usage"`
}

// complete lets the model continue a conversation, and passes the pieces of its text on as they come. An error that
// another try cannot change is marked as not retryable.
func (c *modelClient) complete(
	ctx context.Context, messages []Message, tools []toolSpec, token func(string) error,
) (Reply, error) {
	body, err := json.Marshal(chatRequest{
		Model: c.name, Messages: messages, Tools: tools, Stream: true, StreamOptions: streamOptions{IncludeUsage: true},
	})
	if err != nil {
		return Reply{}, activity.NonRetryable(err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return Reply{}, activity.NonRetryable(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "text/event-stream")
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return Reply{}, fmt.Errorf("model: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return Reply{}, refusal(response)
	}
	return readReply(response.Body, token)
}

// refusal is the error of a response without a reply.
func refusal(response *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(response.Body, 512))
	err := fmt.Errorf("model: status %s: %s", response.Status, bytes.TrimSpace(text))
	switch code := response.StatusCode; {
	case code == http.StatusTooManyRequests || code >= 500:
		if seconds, bad := strconv.Atoi(response.Header.Get("Retry-After")); bad == nil {
			return activity.RetryAfter(err, time.Duration(seconds)*time.Second)
		}
		return err
	case code == http.StatusRequestTimeout:
		return err
	}
	return activity.NonRetryable(err)
}

// readReply reads server-sent events up to the one that ends the reply.
func readReply(body io.Reader, token func(string) error) (Reply, error) {
	reply := Reply{Message: Message{Role: roleAssistant}}
	counted := false
	events := bufio.NewScanner(body)
	events.Buffer(nil, maxEvent)
	for events.Scan() {
		data, ok := strings.CutPrefix(events.Text(), "data:")
		if !ok {
			continue
		}
		if data = strings.TrimSpace(data); data == streamEnd {
			if !counted {
				return Reply{}, activity.NonRetryable(errNoUsage)
			}
			return reply, nil
		}
		var c chunk
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			return Reply{}, fmt.Errorf("model: event %.80q: %w", data, err)
		}
		if c.Usage != nil {
			reply.Usage, counted = *c.Usage, true
		}
		for _, choice := range c.Choices {
			if err := reply.Message.add(choice.Delta, token); err != nil {
				return Reply{}, err
			}
		}
	}
	return Reply{}, fmt.Errorf("model: the reply broke off: %w", errors.Join(events.Err(), io.ErrUnexpectedEOF))
}

// add appends a part of the reply.
func (m *Message) add(d delta, token func(string) error) error {
	if d.Content != "" {
		m.Content += d.Content
		if err := token(d.Content); err != nil {
			return err
		}
	}
	for _, part := range d.ToolCalls {
		if part.Index < 0 || part.Index >= maxToolCalls {
			return activity.NonRetryable(
				fmt.Errorf("model: tool call %d: at most %d are allowed", part.Index+1, maxToolCalls))
		}
		for len(m.ToolCalls) <= part.Index {
			m.ToolCalls = append(m.ToolCalls, ToolCall{Type: "function"})
		}
		call := &m.ToolCalls[part.Index]
		call.ID += part.ID
		call.Function.Name += part.Function.Name
		call.Function.Arguments += part.Function.Arguments
	}
	return nil
}
