package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/server"
)

// sent is a server-sent event, or a comment.
type sent struct{ id, event, data, comment string }

// next reads the next event or comment of a stream; ok is false at its end.
func next(lines *bufio.Scanner) (e sent, ok bool) {
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			e.id = value
		case "event":
			e.event = value
		case "data":
			e.data = value
		case "":
			if lines.Text() != "" {
				e.comment = lines.Text()
				continue
			}
			return e, true
		}
	}
	return sent{}, false
}

// readersOf counts the connections of an engine's database that wait for entries of a stream.
func readersOf(t *testing.T, b *enginetest.Bench) int {
	t.Helper()
	client := b.Operator()
	database := " db=" + b.URL[strings.LastIndex(b.URL, "/")+1:] + " "
	text, err := client.Do(t.Context(), client.B().ClientList().Build()).ToString()
	require.NoError(t, err)
	count := 0
	for line := range strings.Lines(text) {
		if strings.Contains(line, database) && strings.Contains(line, " cmd=xread ") && strings.Contains(line, " flags=b") {
			count++
		}
	}
	return count
}

// All who listen to a run share one reader of the engine, and all see all of it.
func TestListenersShareOneReader(t *testing.T) {
	t.Parallel()
	const listeners = 500
	each(t, func(c *server.Config) { c.RequestsPerSecond = -1 }, func(t *testing.T, p *place) {
		p.start("approval", "one", order{"book", 1})
		transport := &http.Transport{MaxConnsPerHost: listeners + 10}
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport}
		var waiting, group sync.WaitGroup
		seen := make([][]string, listeners)
		failures := make([]error, listeners)
		waiting.Add(listeners)
		for i := range listeners {
			group.Go(func() {
				var once sync.Once
				defer once.Do(waiting.Done)
				request, err := http.NewRequestWithContext(t.Context(), "GET", p.url+httpapi.Prefix+"/runs/approval/one/events", nil)
				if failures[i] = err; err != nil {
					return
				}
				request.Header.Set("Accept", "text/event-stream")
				reply, err := client.Do(request)
				if failures[i] = err; err != nil {
					return
				}
				defer reply.Body.Close()
				lines := bufio.NewScanner(reply.Body)
				for e, ok := next(lines); ok; e, ok = next(lines) {
					if strings.Contains(e.data, `"suspended"`) {
						once.Do(waiting.Done)
					}
					if e.comment == "" {
						seen[i] = append(seen[i], e.id+e.event)
					}
				}
			})
		}
		waiting.Wait()
		if p.bench.Kind == testserver.Redis || p.bench.Kind == testserver.Valkey {
			enginetest.Eventually(t, func() string { // between two reads there is none
				if n := readersOf(t, p.bench); n != 1 {
					return fmt.Sprintf("%d connections read", n)
				}
				return ""
			})
		}
		answer := map[string]any{"node": "approve", "name": "answer", "payload": map[string]any{"yes": true}}
		require.Equal(t, http.StatusOK, p.do("POST", "/runs/approval/one/signals", answer, nil).StatusCode)
		group.Wait()
		for i := range listeners {
			require.NoError(t, failures[i])
			require.Equal(t, seen[0], seen[i])
		}
		require.Equal(t, "end", seen[0][len(seen[0])-1])
		require.Greater(t, len(seen[0]), 5)
	})
}

// A stream continues after the last event that the client has received, and comments keep a quiet one alive.
func TestStreamContinuesAndSendsHeartbeats(t *testing.T) {
	t.Parallel()
	each(t, func(c *server.Config) { c.Timeouts.Heartbeat = time.Millisecond }, func(t *testing.T, p *place) {
		p.start("approval", "one", order{"book", 1})
		ctx, cancel := context.WithCancel(t.Context())
		lines := bufio.NewScanner(p.stream(ctx, "/runs/approval/one/events").Body)
		var ids []string
		for {
			e, ok := next(lines)
			require.True(t, ok)
			if e.id != "" {
				ids = append(ids, e.id)
			}
			if strings.Contains(e.data, `"suspended"`) {
				break
			}
		}
		for beats := 0; beats < 3; beats++ { // nothing happens, so nothing else is sent
			e, ok := next(lines)
			require.True(t, ok)
			require.Regexp(t, `^: engine \d+$`, strings.TrimSpace(e.comment))
		}
		cancel()
		answer := map[string]any{"node": "approve", "name": "answer", "payload": map[string]any{"yes": true}}
		require.Equal(t, http.StatusOK, p.do("POST", "/runs/approval/one/signals", answer, nil).StatusCode)
		reply := p.stream(t.Context(), "/runs/approval/one/events?after="+ids[0], "Last-Event-ID", ids[1])
		lines = bufio.NewScanner(reply.Body)
		var later []string
		last := sent{}
		for e, ok := next(lines); ok; e, ok = next(lines) {
			if e.id != "" {
				later = append(later, e.id)
			}
			if e.comment == "" {
				last = e
			}
		}
		require.Equal(t, sent{event: "end", data: "{}"}, last)
		require.Equal(t, ids[2:], later[:len(ids)-2], "the header takes precedence over the parameter")
		require.NotContains(t, later, ids[1])
	})
}

// A client whose last event is no longer stored gets an error; one that has seen none gets the events that are left.
// The clock of the server was ahead while every second event was written.
func TestTrimmedLog(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, p *place) {
		p.start("approval", "one", order{"book", 1})
		var page httpapi.Events[fabrictype.Event]
		p.do("GET", "/runs/approval/one/events?wait=30s&limit=1", nil, &page)
		require.Len(t, page.Items, 1)
		id := keyspace.FlowIDFor("default", "approval", "one")
		core := engine.ConnOf(p.bench.Engine.Internal())
		partition, err := core.Partitioning().FlowPartition(id)
		require.NoError(t, err)
		client := core.Client()
		now, err := core.Now(t.Context())
		require.NoError(t, err)
		// From the first event that does not follow from the rows of the run on, events are logged.
		require.Equal(t, http.StatusNoContent, p.do("POST", "/runs/approval/one/pause", map[string]any{}, nil).StatusCode)
		require.Equal(t, http.StatusNoContent, p.do("POST", "/runs/approval/one/resume", nil, nil).StatusCode)
		for range 21 {
			filler := slices.Repeat([]string{
				strconv.FormatInt(now.UnixMilli(), 10) + "\nflow_paused   ",
				strconv.FormatInt(now.Add(time.Hour).UnixMilli(), 10) + "\nflow_paused   ",
			}, 500)
			key := core.Keys().FlowEvents(partition, id)
			require.NoError(t, client.Do(t.Context(), client.B().Rpush().Key(key).Element(filler...).Build()).Error())
		}
		require.Equal(t, http.StatusNoContent, p.do("POST", "/runs/approval/one/pause", map[string]any{}, nil).StatusCode)
		require.Equal(t, http.StatusNoContent, p.do("POST", "/runs/approval/one/resume", nil, nil).StatusCode)

		// The first events are kept, up to the gap.
		reply := p.do("GET", "/runs/approval/one/events?wait=30s&limit=500&after="+page.Next, nil, &page)
		require.Equal(t, http.StatusOK, reply.StatusCode)
		require.Less(t, len(page.Items), 100)

		var problem api.Problem
		reply = p.do("GET", "/runs/approval/one/events?wait=30s&after="+page.Next, nil, &problem)
		require.Equal(t, http.StatusGone, reply.StatusCode)
		require.Equal(t, "events_lost", problem.Code)
		events := p.stream(t.Context(), "/runs/approval/one/events", "Last-Event-ID", page.Next)
		require.Equal(t, http.StatusGone, events.StatusCode)
		text, err := io.ReadAll(events.Body)
		require.NoError(t, err)
		require.Contains(t, string(text), "events_lost")
		reply = p.do("GET", "/runs/approval/one/events?wait=30s&limit=1", nil, &page)
		require.Equal(t, http.StatusOK, reply.StatusCode)
		require.EqualValues(t, "flow_submitted", page.Items[0].Kind, "the first events are kept")
		p.bench.Wipe(t) // the test has put events into the log that did not happen
	})
}
