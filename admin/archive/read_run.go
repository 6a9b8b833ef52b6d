package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/describe"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// errChanged is returned when a run was purged or run again while it was read.
var errChanged = errors.New("the run has changed")

// batch is how many events and lines of logs one line has.
const batch = 500

// entryOf returns the entry of the end that a summary has, without its place in a segment.
func entryOf(s fabrictype.Run) Entry {
	return Entry{
		Flow: s.Flow, Run: s.Run, FlowID: enginecore.FlowID(s.FlowID), State: s.State, CreatedAt: s.CreatedAt,
		ClosedAt: s.ClosedAt,
		Tags:     s.Tags, Nodes: s.Nodes.All, FailedNode: s.FailedNode,
	}
}

// read passes the lines of a run that is over, from the second one on, to add, one after the other: of the run itself,
// only the names of its nodes are in memory together. The lines describe the run with the end that the summary has. If
// the run has changed since, the error is errChanged, also after add has received some lines.
func (w *writer) read(ctx context.Context, s fabrictype.Run, add func(line) error) error {
	ref := w.client.Run(s.Flow, s.Run)
	var logging []string // nodes that may have logged
	first := true
	for page, err := range pagesOf(ctx, ref, s, runtime.DescribeOptions{
		Values: true, ValueBytes: describe.MaxValueBytes, Attempts: true,
	}) {
		if err == nil && first {
			err = addDefinition(page, add)
		}
		if err == nil {
			err = add(line{Description: page})
		}
		if err != nil {
			return err
		}
		first = false
		for i := range page.Nodes {
			if n := &page.Nodes[i]; n.Activity != "" && n.Attempts > 0 {
				logging = append(logging, n.Name)
			}
		}
	}
	if err := addEvents(ctx, ref, add); err != nil {
		return changedIfGone(err)
	}
	for _, node := range logging {
		if err := addLogs(ctx, ref, node, add); err != nil {
			return changedIfGone(err)
		}
	}
	for _, err := range pagesOf(ctx, ref, s, runtime.DescribeOptions{}) {
		return err // nil if it is still the same end
	}
	return nil
}

// addDefinition adds the graph of a run, if it has one.
func addDefinition(page *runtime.RunDescription, add func(line) error) error {
	graph := flowgraph.View(page.Internal())
	if graph == nil {
		return nil
	}
	definition, err := json.Marshal(graph)
	if err != nil {
		return fmt.Errorf("definition: %w", err)
	}
	return add(line{Definition: definition})
}

// changedIfGone returns errChanged for an error about a run that was purged while it was read.
func changedIfGone(err error) error {
	if errors.Is(err, engine.ErrRunNotFound) {
		return errChanged
	}
	return err
}

// pagesOf describes a run in pages. The error is errChanged if it has not the end that the summary has.
func pagesOf(
	ctx context.Context, ref *runtime.RunRef, s fabrictype.Run, options runtime.DescribeOptions,
) iter.Seq2[*runtime.RunDescription, error] {
	return func(yield func(*runtime.RunDescription, error) bool) {
		options.Nodes = describe.MaxPage
		for {
			d, err := ref.Describe(ctx, options)
			if err != nil {
				yield(nil, changedIfGone(err))
				return
			}
			if !d.ClosedAt.Equal(s.ClosedAt) || d.FlowID != s.FlowID {
				yield(nil, errChanged)
				return
			}
			if options.Cursor = d.Next; !yield(d, nil) || options.Cursor == "" {
				return
			}
		}
	}
}

// addEvents adds the events of a run that is over.
func addEvents(ctx context.Context, ref *runtime.RunRef, add func(line) error) error {
	var events []fabrictype.Event
	flush := func() (err error) {
		if len(events) > 0 {
			err = add(line{Events: events})
		}
		events = events[:0]
		return err
	}
	for e, err := range ref.Watch(ctx, "") {
		if errors.Is(err, &fabrictype.EventsLostError{}) {
			if err := add(line{EventsLost: true}); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if events = append(events, e); len(events) == batch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// addLogs adds the lines that the attempts of a node have logged.
func addLogs(ctx context.Context, ref *runtime.RunRef, node string, add func(line) error) error {
	logs := nodeLogs{Node: node}
	flush := func() (err error) {
		if len(logs.Lines) > 0 {
			err = add(line{Logs: &logs})
		}
		logs.Lines = logs.Lines[:0]
		return err
	}
	for l, err := range ref.Logs(ctx, node, runtime.LogQuery{}) {
		if err != nil {
			return err
		}
		if logs.Lines = append(logs.Lines, l); len(logs.Lines) == batch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}
