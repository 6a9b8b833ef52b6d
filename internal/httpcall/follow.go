package httpcall

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

const (
	// firstPause and longestPause bound the time before a stream connects again.
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
	// maxEvent is the largest event of a stream, in bytes.
	maxEvent = 8 << 20
)

// errDropped is the end of a connection in the middle of a stream.
var errDropped = errors.New("the connection of the stream ended")

// Follow yields the events of a stream as they happen, until it ends or ctx does. It connects again where a connection
// was lost, after the last event that it has yielded, so that none is missing and none is yielded twice. An error ends
// the sequence: an *api.Problem that is not retryable, such as one with the code events_lost.
func Follow[In, Event any](
	ctx context.Context, c *Caller, op httpapi.Stream[In, Event], in In,
) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		var zero Event
		cursor, pause := "", firstPause
		for {
			ended, stopped, err := read(ctx, c, op, in, &cursor,
				func(e Event) bool { pause = firstPause; return yield(e, nil) })
			if ended || stopped {
				return
			}
			var problem *api.Problem
			if ctx.Err() != nil || errors.Is(err, ErrInvalid) || errors.As(err, &problem) && !problem.Retryable {
				if ctx.Err() != nil {
					err = context.Cause(ctx)
				}
				yield(zero, err)
				return
			}
			select {
			case <-time.After(pause):
				pause = min(2*pause, longestPause)
			case <-ctx.Done():
				yield(zero, context.Cause(ctx))
				return
			}
		}
	}
}

// read reads a stream over one connection. It reports whether the stream has ended, or the caller wants no more.
func read[In, Event any](
	ctx context.Context, c *Caller, op httpapi.Stream[In, Event], in In, cursor *string, yield func(Event) bool,
) (ended, stopped bool, err error) {
	request, err := c.request(ctx, op.Operation, in)
	if err != nil {
		return false, false, err
	}
	request.Header.Set("Accept", "text/event-stream")
	if *cursor != "" {
		request.Header.Set("Last-Event-ID", *cursor)
	}
	reply, err := c.http.Do(request)
	if err != nil {
		return false, false, err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return false, false, problemOf(op.Name, reply)
	}
	for e, err := range events(reply.Body) {
		switch {
		case err != nil:
			return false, false, err
		case e.kind == "end":
			return true, false, nil
		case e.kind == "problem":
			problem := &api.Problem{}
			if err := json.Unmarshal([]byte(e.data), problem); err != nil {
				return false, false, fmt.Errorf("%s: %w", op.Name, err)
			}
			return false, false, fmt.Errorf("%s: %w", op.Name, problem)
		}
		var value Event
		if err := json.Unmarshal([]byte(e.data), &value); err != nil {
			return false, false, fmt.Errorf("%s: event of the server: %w", op.Name, err)
		}
		*cursor = e.id
		if !yield(value) {
			return false, true, nil
		}
	}
	return false, false, errDropped
}

// event is a server-sent event.
type event struct{ id, kind, data string }

// events reads server-sent events.
func events(body io.Reader) iter.Seq2[event, error] {
	return func(yield func(event, error) bool) {
		scanner := bufio.NewScanner(body)
		scanner.Buffer(make([]byte, 0, 4096), maxEvent)
		e, any := event{}, false
		for scanner.Scan() {
			name, value, _ := strings.Cut(scanner.Text(), ":")
			value = strings.TrimPrefix(value, " ")
			switch name {
			case "id":
				e.id = value
			case "event":
				e.kind = value
			case "data":
				e.data, any = e.data+value, true
			case "": // the end of an event, or a comment
				if scanner.Text() == "" && any {
					if !yield(e, nil) {
						return
					}
					e, any = event{}, false
				}
			}
		}
		if err := scanner.Err(); err != nil {
			yield(event{}, err)
		}
	}
}
