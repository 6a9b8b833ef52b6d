package runtime

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/runsearch"
)

// RunQuery says which runs of the client's namespace are wanted. The zero value is all of them. A run must satisfy
// everything that is set.
type RunQuery struct {
	// Flow is the name of the flow.
	Flow string
	// States are the states of which the run must be in one.
	States []RunState
	// Tags are tags that the run must have, with their values: those of its flow (flow.Tag), and those it was started
	// with (WithTag).
	Tags map[string]string
	// CreatedFrom and CreatedBefore bound the time when the run was started: the first one is included, the second is
	// not.
	CreatedFrom, CreatedBefore time.Time
	// FinishedFrom and FinishedBefore bound the time when the last node ended. With one of them, only runs that are
	// over are found, and they come in the order of their end.
	FinishedFrom, FinishedBefore time.Time
	// Children also finds the runs that nodes of other runs stand for, those of maps and sub-flows. With a Flow they
	// are found in any case.
	Children bool
}

// finished tells that the runs are wanted by their end.
func (q RunQuery) finished() bool { return !q.FinishedFrom.IsZero() || !q.FinishedBefore.IsZero() }

// onlyFlow reports whether the query names a flow and nothing else.
func (q RunQuery) onlyFlow() bool {
	return q.Flow != "" && len(q.States) == 0 && len(q.Tags) == 0 && q.CreatedFrom.IsZero() &&
		q.CreatedBefore.IsZero() && !q.finished()
}

// Check returns what Client.Runs would refuse the query for, without an engine. The error matches ErrInvalid.
func (q RunQuery) Check() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, invalid("run query: "+format, args...))
	}
	for _, state := range q.States {
		if storedStates[state] == "" {
			fault("state %q: must be one of running, succeeded, failed, cancelled, expired", state)
		}
	}
	for _, wrong := range flow.Faults(flowgraph.CheckTags(q.Flow, q.Tags)) {
		fault("tags: %w: %s", wrong.Kind, wrong.Detail)
	}
	created := !q.CreatedFrom.IsZero() || !q.CreatedBefore.IsZero()
	if created && q.finished() {
		fault("times of creation and times of the end cannot be combined")
	}
	for _, span := range [][2]time.Time{{q.CreatedFrom, q.CreatedBefore}, {q.FinishedFrom, q.FinishedBefore}} {
		if !span[0].IsZero() && !span[1].IsZero() && !span[0].Before(span[1]) {
			fault("from %s is not before %s", span[0].Format(time.RFC3339), span[1].Format(time.RFC3339))
		}
	}
	return errors.Join(faults...)
}

// stored is the query in the engine's words.
func (q RunQuery) stored() runsearch.Query {
	states := make([]string, len(q.States))
	for i, state := range q.States {
		states[i] = storedStates[state]
	}
	return runsearch.Query{
		Flow: q.Flow, States: states, Tags: q.Tags, CreatedFrom: q.CreatedFrom, CreatedBefore: q.CreatedBefore,
		ClosedFrom: q.FinishedFrom, ClosedBefore: q.FinishedBefore, Children: q.Children || q.Flow != "",
	}
}

// RunSummary is one run in a listing.
type RunSummary struct {
	Flow, Run string
	FlowID    enginecore.FlowID
	State     RunState
	CreatedAt time.Time
	// ClosedAt is zero while a node is open.
	ClosedAt time.Time
	// FailedNode failed first; empty when none has.
	FailedNode string
	// PausedAt is when the run was paused; zero when it is not.
	PausedAt time.Time
	// Nodes counts the nodes of the run.
	Nodes RunNodes
	// Tags are those of the flow and those that the run was started with. Not set in contract mode.
	Tags map[string]string
}

// RunNodes counts the nodes of a run. In contract mode only All and Open are counted.
type RunNodes struct {
	// All nodes; Open ones have not ended.
	All, Open int
	// Those that ended otherwise than by success.
	Failed, Cancelled, Expired, Skipped int
}

func summarize(r enginerpc.Run) RunSummary {
	s := RunSummary{
		Flow: r.FlowName, Run: r.RunID, FlowID: r.FlowID, State: runState(r.State, r.Outcome), CreatedAt: r.CreatedAt,
		ClosedAt: r.ClosedAt, FailedNode: r.FailedNode, Nodes: RunNodes{
			All: int(r.NodeCount), Open: int(r.OpenNodes), Failed: int(r.NodesFailed), Cancelled: int(r.NodesCancelled),
			Expired: int(r.NodesExpired), Skipped: int(r.NodesSkipped),
		},
	}
	pause, _ := enginerpc.ParsePauseText(r.Paused)
	s.PausedAt = pause.Since
	for _, tag := range r.Tags {
		if s.Tags == nil {
			s.Tags = make(map[string]string)
		}
		s.Tags[tag.Name] = string(tag.Value)
	}
	return s
}

func summarizeAll(runs []enginerpc.Run) []RunSummary {
	var list []RunSummary
	for _, r := range runs {
		list = append(list, summarize(r))
	}
	return list
}

// Runs finds runs of the client's namespace, the newest first; with FinishedFrom or FinishedBefore, those that ended
// last come first. It reads on while the loop asks for more, a bounded number of runs per call and partition at a time.
// Every run that is there and satisfies the query all the while is yielded exactly once, whatever is started, ends or
// is purged meanwhile; one that changes meanwhile may be yielded as it was, be missing, or, in the order of ends, come
// twice. An error ends the sequence.
//
// The cost: by flow, by tag and without either, runs are found in lists of their own; all else is looked at run by run,
// so bound the time of a query for few runs among very many. It matches ErrInvalid for a query that makes no sense, and
// ErrNotInContract in contract mode, where ListRuns and package admin remain.
func (c *Client) Runs(ctx context.Context, q RunQuery) iter.Seq2[RunSummary, error] {
	return func(yield func(RunSummary, error) bool) {
		s, err := c.search(q, "", runsearch.Batch)
		for err == nil {
			var run enginerpc.Run
			var found bool
			if run, found, err = s.Next(ctx); err == nil && (!found || !yield(summarize(run), nil)) {
				return
			}
		}
		yield(RunSummary{}, fmt.Errorf("find runs: %w", err))
	}
}

// RunPage is a part of the runs that a query finds.
type RunPage struct {
	Runs []RunSummary
	// Next is where the following page begins, empty when there is none. A page may be empty or short and still have a
	// next one.
	Next string
}

// ListRuns is Runs by pages: at most limit runs (0 for 50, and never more than 500) from a cursor on, which is the Next
// of the page before with the same query, or empty. Pages together have what Runs yields. The work of a call is
// bounded, whatever there is. The cursor stays good, also when the run that it names is purged; one from elsewhere
// gives ErrCursor.
//
// In contract mode, where there are no lists of runs, a query may only name a Flow, which is looked for among the
// latest runs of all flows, and there is one page; other queries give ErrNotInContract. The runs of partitions that
// could not be asked are missing then, and the error, which comes together with what was found, says so.
func (c *Client) ListRuns(ctx context.Context, q RunQuery, cursor string, limit int) (RunPage, error) {
	limit, err := listLimit(limit)
	if err == nil {
		err = c.ready()
	}
	if err != nil {
		return RunPage{}, fmt.Errorf("list runs: %w", err)
	}
	if !engine.Has[engine.RunIndex](c.session.Backend) && q.onlyFlow() && cursor == "" {
		latest, err := runsearch.Latest(ctx, c.session, q.Flow, limit)
		if err != nil {
			err = fmt.Errorf("list runs of flow %s: %w", q.Flow, err)
		}
		return RunPage{Runs: summarizeAll(latest)}, err
	}
	page, err := c.searchPage(ctx, q, cursor, limit)
	if err != nil {
		return RunPage{}, fmt.Errorf("list runs: %w", err)
	}
	return page, nil
}

// search begins a search for runs behind a cursor, of which so many are wanted.
func (c *Client) search(q RunQuery, cursor string, want int) (*runsearch.Search, error) {
	index, err := offered[engine.RunIndex](c)
	if err != nil {
		return nil, err
	}
	if err := q.Check(); err != nil {
		return nil, err
	}
	return runsearch.New(c.session, index, q.stored(), cursor, want)
}

// searchPage finds one page of runs.
func (c *Client) searchPage(ctx context.Context, q RunQuery, cursor string, limit int) (RunPage, error) {
	s, err := c.search(q, cursor, limit)
	if err != nil {
		return RunPage{}, err
	}
	found, next, err := s.Page(ctx, limit)
	if err != nil {
		return RunPage{}, err
	}
	return RunPage{Runs: summarizeAll(found), Next: next}, nil
}

// maxListed is the most runs that ListRuns returns at once.
const maxListed = 500

// listLimit is how many runs are returned when so many are asked for.
func listLimit(asked int) (int, error) {
	switch {
	case asked < 0:
		return 0, invalid("run query: limit %d: must not be negative", asked)
	case asked == 0:
		return 50, nil
	}
	return min(asked, maxListed), nil
}
