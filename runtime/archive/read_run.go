package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/runtime/describe"
	"github.com/flowfabric/flowfabric-go/runtime/runevent"
	"github.com/flowfabric/flowfabric-go/runtime/runlog"
)

// errChanged says that a run was purged or run again while it was read.
var errChanged = errors.New("the run has changed")

// batch is how many events and lines of logs one line has.
const batch = 500

// read returns the lines of a run that is over. They are of the end that the summary has, or the error is errChanged.
func (w *writer) read(ctx context.Context, s runtime.RunSummary) ([]line, error) {
	lines := []line{{Format: format, Run: &Entry{
		Flow: s.Flow, Run: s.Run, FlowID: s.FlowID, State: s.State, CreatedAt: s.CreatedAt, ClosedAt: s.ClosedAt,
		Tags: s.Tags, Nodes: s.Nodes.All, FailedNode: s.FailedNode,
	}}}
	ref := w.client.Run(s.Flow, s.Run)
	pages, err := pagesOf(ctx, ref, s, describe.Values(describe.MaxValueBytes), describe.Attempts())
	if err != nil {
		return nil, err
	}
	if graph := flowgraph.OfRun(pages[0]); graph != nil {
		definition, err := json.Marshal(graph)
		if err != nil {
			return nil, fmt.Errorf("run %s of flow %s: definition: %w", s.Run, s.Flow, err)
		}
		lines = append(lines, line{Definition: definition})
	}
	for _, page := range pages {
		lines = append(lines, line{Description: page})
	}
	if lines, err = addEvents(ctx, ref, lines); err != nil {
		return nil, changedIfGone(err)
	}
	for _, page := range pages {
		for i := range page.Nodes {
			if lines, err = addLogs(ctx, ref, &page.Nodes[i], lines); err != nil {
				return nil, changedIfGone(err)
			}
		}
	}
	_, err = pagesOf(ctx, ref, s) // it is still the same end
	return lines, err
}

// changedIfGone gives the error about a run that was purged meanwhile its meaning.
func changedIfGone(err error) error {
	if errors.Is(err, runtime.ErrRunNotFound) {
		return errChanged
	}
	return err
}

// pagesOf describes a run in pages. The error is errChanged if it has not the end that the summary has.
func pagesOf(
	ctx context.Context, ref *runtime.RunRef, s runtime.RunSummary, options ...describe.Option,
) (pages []*runtime.RunDescription, err error) {
	for cursor := ""; ; {
		d, err := ref.Describe(ctx, append(options, describe.Page(cursor, describe.MaxPage))...)
		if err != nil {
			return nil, changedIfGone(err)
		}
		if !d.ClosedAt.Equal(s.ClosedAt) || d.FlowID != s.FlowID {
			return nil, errChanged
		}
		pages = append(pages, d)
		if cursor = d.Next; cursor == "" {
			return pages, nil
		}
	}
}

// addEvents adds the events of a run that is over.
func addEvents(ctx context.Context, ref *runtime.RunRef, lines []line) ([]line, error) {
	var events []runevent.Event
	for e, err := range ref.Watch(ctx, "") {
		if errors.Is(err, runtime.ErrEventsLost) {
			lines = append(lines, line{EventsLost: true})
			continue
		}
		if err != nil {
			return nil, err
		}
		if events = append(events, e); len(events) == batch {
			lines = append(lines, line{Events: events})
			events = nil
		}
	}
	if len(events) > 0 {
		lines = append(lines, line{Events: events})
	}
	return lines, nil
}

// addLogs adds what the attempts of a node have logged. A node that never ran has nothing.
func addLogs(ctx context.Context, ref *runtime.RunRef, n *runtime.NodeDescription, lines []line) ([]line, error) {
	if n.Activity == "" || n.Attempts == 0 {
		return lines, nil
	}
	logs := &nodeLogs{Node: n.Name}
	for l, err := range ref.Logs(ctx, n.Name, runlog.Query{}) {
		if err != nil {
			return nil, err
		}
		if logs.Lines = append(logs.Lines, l); len(logs.Lines) == batch {
			lines = append(lines, line{Logs: logs})
			logs = &nodeLogs{Node: n.Name}
		}
	}
	if len(logs.Lines) > 0 {
		lines = append(lines, line{Logs: logs})
	}
	return lines, nil
}
