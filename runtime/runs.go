package runtime

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/recordstate"
	"github.com/flowfabric/flowfabric-go/internal/recordtext"
	"github.com/flowfabric/flowfabric-go/internal/runsearch"
)

// RunQuery selects runs of the client's namespace, for lists, counts and jobs. A run must satisfy all fields that are
// set; the zero value selects all runs. Values and ReadValues write and read a query as parameters of a URL.
type RunQuery struct {
	// Flow is the name of the flow.
	Flow string
	// States selects runs in any of these states. Defaults to all states.
	States []fabrictype.RunState
	// Tags selects runs that have all of these tags with these values, from their flow (flow.Tag) or their start
	// (WithTag).
	Tags map[string]string
	// Search selects runs by words, as people type them: "failed yesterday broke" are the runs that failed, were
	// started yesterday, and have a tag with the value broke or the word broke in their error. The words are:
	//   - a state: running, succeeded, failed, cancelled, expired
	//   - a time of the start: today, yesterday, 90m, 2h, 7d, 4w, 2026-11-28, 2026-11-28T15:04, or from..to of two;
	//     with "finished:" in front, of the end
	//   - flow:NAME, key:KEY, run:BEGINNING-OF-ID, is:queued, is:child, and tag.key:VALUE
	//   - error:TEXT, for words of the error of the run, and category:NAME
	//   - any other word, which must be the value of a tag or a word of the error; one that no run has there is
	//     searched for in ids and names of flows, as Text is
	//
	// Text in quotes is one word. A word that means nothing is an error, which names it. At most 1,024 bytes.
	Search string
	// SearchAt is the moment from which Search counts times; its location has the days. Defaults to the present in UTC.
	SearchAt time.Time
	// Runs selects runs by name, "flow/run" each, at most 500: runs that do not exist are left out.
	Runs []string
	// Text selects runs whose id, or whose flow's name, contains this text; letters A to Z match in either case. At
	// most 256 bytes.
	Text string
	// Key selects runs with this key, given by WithKey, WithThrottle or WithDebounce.
	Key string
	// Queued selects runs that wait in the queue of their key; see QueueRun.
	Queued bool
	// CreatedFrom (inclusive) and CreatedBefore (exclusive) bound the start time of the run.
	CreatedFrom, CreatedBefore time.Time
	// FinishedFrom (inclusive) and FinishedBefore (exclusive) bound the time at which the last node ended. With either,
	// only runs that are over are selected, in the order of their end.
	FinishedFrom, FinishedBefore time.Time
	// Sort is the order of the runs: "-created" begins with the run that was created last, "created" with the first
	// one, "-finished" with the run that ended last, "finished" with the one that ended first. The orders by the end
	// select only runs that are over. Runs of the same millisecond are in the order of their flow ids. Defaults to
	// "-created", or "-finished" if FinishedFrom or FinishedBefore is set.
	Sort string
	// Children includes the child runs of maps and sub-flows. A query with Flow includes them in any case.
	Children bool
}

// Orders of runs.
const (
	newestFirst     = "-created"
	oldestFirst     = "created"
	lastEndedFirst  = "-finished"
	firstEndedFirst = "finished"
)

// maxQueryText is the most bytes of RunQuery.Text: that is how long a run id is.
const maxQueryText = 256

// maxSearch is the most bytes of RunQuery.Search, and maxNamed the most runs of RunQuery.Runs.
const (
	maxSearch = 1024
	maxNamed  = 500
)

// maxKey is the longest key of runs, in bytes.
const maxKey = 256

// byEnd reports whether the runs are wanted in the order of their ends.
func (q RunQuery) byEnd() bool {
	return q.hasFinished() || q.Sort == lastEndedFirst || q.Sort == firstEndedFirst
}

// resolved returns the query with the conditions that Search names, except its terms and the beginning of an id, which
// words has. The error names the words that mean nothing, and conditions that are given twice.
func (q RunQuery) resolved() (out RunQuery, words runsearch.Words, err error) {
	if q.Search == "" {
		return q, words, nil
	}
	at := q.SearchAt
	if at.IsZero() {
		at = time.Now().UTC()
	}
	if err := recordtext.Check("search", q.Search, maxSearch); err != nil {
		return q, words, invalid("run query: %w", err)
	}
	words, err = runsearch.ParseWords(q.Search, at)
	if err != nil {
		return q, words, invalid("run query: search: %w", err)
	}
	var faults []error
	merge(&faults, "flow", &q.Flow, words.Flow)
	merge(&faults, "key", &q.Key, words.Key)
	merge(&faults, "from", &q.CreatedFrom, words.CreatedFrom)
	merge(&faults, "before", &q.CreatedBefore, words.CreatedBefore)
	merge(&faults, "finished from", &q.FinishedFrom, words.FinishedFrom)
	merge(&faults, "finished before", &q.FinishedBefore, words.FinishedBefore)
	if len(words.States) > 0 && len(q.States) > 0 && !sameStates(q.States, words.States) {
		faults = append(faults, invalid("run query: search: the states are given otherwise, too"))
	} else if len(q.States) == 0 {
		q.States = words.States
	}
	if len(words.Tags) > 0 {
		q.Tags = maps.Clone(q.Tags)
		if q.Tags == nil {
			q.Tags = make(map[string]string)
		}
		for key, value := range words.Tags {
			had := q.Tags[key]
			merge(&faults, key, &had, value)
			q.Tags[key] = had
		}
	}
	q.Queued, q.Children, q.Search = q.Queued || words.Queued, q.Children || words.Children, ""
	return q, words, errors.Join(faults...)
}

func sameStates(a, b []fabrictype.RunState) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// merge sets a field to the value of a search, unless it has another one.
func merge[T comparable](faults *[]error, name string, field *T, value T) {
	var none T
	switch {
	case value == none:
	case *field == none || *field == value:
		*field = value
	default:
		*faults = append(*faults, invalid("run query: search: %s is given otherwise, too: %v and %v", name, *field, value))
	}
}

func (q RunQuery) hasCreated() bool { return !q.CreatedFrom.IsZero() || !q.CreatedBefore.IsZero() }

func (q RunQuery) hasFinished() bool { return !q.FinishedFrom.IsZero() || !q.FinishedBefore.IsZero() }

// onlyFlow reports whether the query names a flow and nothing else.
func (q RunQuery) onlyFlow() bool {
	return q.Flow != "" && q.Search == "" && len(q.Runs) == 0 && len(q.States) == 0 && len(q.Tags) == 0 && q.Text == "" && q.Key == "" && !q.Queued &&
		!q.hasCreated() && !q.hasFinished() && (q.Sort == "" || q.Sort == newestFirst)
}

// Check validates the query without an engine. The error has all faults and matches ErrInvalid; Client.Runs would
// return the same.
func (q RunQuery) Check() error {
	q, _, err := q.resolved()
	if err != nil {
		return err
	}
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, invalid("run query: "+format, args...))
	}
	if len(q.Runs) > maxNamed {
		fault("names %d runs, at most %d are allowed", len(q.Runs), maxNamed)
	}
	for _, name := range q.Runs {
		if flow, run, _ := strings.Cut(name, "/"); flow == "" || run == "" {
			fault("run %q: must be the name of a flow, a slash and the id of a run", name)
		}
	}
	for _, state := range q.States {
		if recordstate.StoredRunState(state) == "" {
			fault("state %q: must be one of running, succeeded, failed, cancelled, expired", state)
		}
	}
	for _, wrong := range flow.Faults(flowgraph.CheckTags(q.Flow, q.Tags)) {
		fault("tags: %w: %s", wrong.Kind, wrong.Detail)
	}
	if err := recordtext.Check("text", q.Text, maxQueryText); err != nil {
		fault("%w", err)
	}
	if err := recordtext.Check("key", q.Key, maxKey); err != nil {
		fault("%w", err)
	}
	q.checkOrder(fault)
	for _, span := range [][2]time.Time{{q.CreatedFrom, q.CreatedBefore}, {q.FinishedFrom, q.FinishedBefore}} {
		if !span[0].IsZero() && !span[1].IsZero() && !span[0].Before(span[1]) {
			fault("from %s is not before %s", span[0].Format(time.RFC3339), span[1].Format(time.RFC3339))
		}
	}
	return errors.Join(faults...)
}

// checkOrder reports conflicts between the order and the times: the engine has one list by creation and one by the end.
func (q RunQuery) checkOrder(fault func(format string, args ...any)) {
	switch q.Sort {
	case "", newestFirst, oldestFirst, lastEndedFirst, firstEndedFirst:
	default:
		fault("sort %q: must be one of -created, created, -finished, finished", q.Sort)
	}
	switch {
	case q.hasCreated() && q.hasFinished():
		fault("times of creation and times of the end cannot be combined")
	case q.hasCreated() && q.byEnd():
		fault("times of creation cannot be combined with sort %q", q.Sort)
	case q.hasFinished() && (q.Sort == newestFirst || q.Sort == oldestFirst):
		fault("times of the end cannot be combined with sort %q", q.Sort)
	}
}

// stored is the query in the engine's words. The query was checked.
func (q RunQuery) stored() runsearch.Query {
	q, words, _ := q.resolved()
	states := make([]string, len(q.States))
	for i, state := range q.States {
		states[i] = recordstate.StoredRunState(state)
	}
	var only []runsearch.Name
	for _, name := range q.Runs {
		flow, run, _ := strings.Cut(name, "/")
		only = append(only, runsearch.Name{Flow: flow, Run: run})
	}
	return runsearch.Query{
		ID: words.ID, Terms: words.Terms, Only: only, Flow: q.Flow, States: states, Tags: q.Tags, Text: q.Text,
		CreatedFrom: q.CreatedFrom, CreatedBefore: q.CreatedBefore,
		ClosedFrom: q.FinishedFrom, ClosedBefore: q.FinishedBefore, ByEnd: q.byEnd(),
		OldestFirst: q.Sort == oldestFirst || q.Sort == firstEndedFirst,
		Children:    q.Children || q.Flow != "" || len(only) > 0,
		Key:         q.Key, Queued: q.Queued,
	}
}

// Runs yields the runs of the client's namespace that satisfy the query, in the order of its Sort.
//
// Runs reads pages as the loop consumes them: each call to the engine examines a bounded number of runs per partition.
// A run that exists and satisfies the query during the whole iteration is yielded exactly once, whatever runs are
// started, end or are purged during it. A run that changes during it may be yielded in its old state, be missing, or,
// in the order of ends, be yielded twice. An error ends the sequence.
//
// The engine has indexes by flow, by tag and over all runs; everything else is checked run by run. Bound the time of a
// query that selects few runs among very many.
//
// The error matches ErrInvalid for an invalid query. In contract mode it is ErrNotInContract; use ListRuns or package
// admin there.
func (c *Client) Runs(ctx context.Context, q RunQuery) iter.Seq2[fabrictype.Run, error] {
	return func(yield func(fabrictype.Run, error) bool) {
		s, err := c.search(ctx, q, "", runsearch.Batch)
		for err == nil {
			var run fabrictype.Run
			var found bool
			if run, found, err = s.NextRun(ctx); err == nil && (!found || !yield(run, nil)) {
				return
			}
		}
		yield(fabrictype.Run{}, fmt.Errorf("find runs: %w", err))
	}
}

// ListRuns returns one page of the runs that Runs yields: at most limit runs, beginning at the cursor. A limit of 0 is
// 50, and never more than 500 are returned. The cursor is empty for the first page, and then Page.Next of the previous
// page of the same query. The work of a call is bounded. A cursor remains valid, also when the run that it names is
// purged; any other text returns ErrCursor.
//
// In contract mode no index of runs exists. A query may only set Flow, and ListRuns searches the latest runs of all
// flows and returns one page; other queries return ErrNotInContract. If some partitions cannot be read, ListRuns
// returns the runs that it found together with an error that names the partitions.
func (c *Client) ListRuns(
	ctx context.Context, q RunQuery, cursor string, limit int,
) (fabrictype.Page[fabrictype.Run], error) {
	limit, err := listLimit(limit)
	if err != nil {
		err = errors.Join(err, q.Check())
	} else {
		err = c.ready(ctx)
	}
	if err != nil {
		return fabrictype.Page[fabrictype.Run]{}, fmt.Errorf("list runs: %w", err)
	}
	if !c.session.IsWhole() && q.onlyFlow() && cursor == "" {
		latest, err := runsearch.Latest(ctx, c.session, q.Flow, limit)
		if err != nil {
			err = fmt.Errorf("list runs of flow %s: %w", q.Flow, err)
		}
		return fabrictype.Page[fabrictype.Run]{Items: latest}, err
	}
	s, err := c.search(ctx, q, cursor, limit)
	var page fabrictype.Page[fabrictype.Run]
	if err == nil {
		page, err = s.List(ctx, limit)
	}
	if err != nil {
		return fabrictype.Page[fabrictype.Run]{}, fmt.Errorf("list runs: %w", err)
	}
	return page, nil
}

// search begins a search for runs after a cursor, which ends after want runs.
func (c *Client) search(ctx context.Context, q RunQuery, cursor string, want int) (*runsearch.Search, error) {
	index, err := library(ctx, c, "run search")
	if err != nil {
		return nil, err
	}
	if err := q.Check(); err != nil {
		return nil, err
	}
	return runsearch.New(ctx, c.session, index, q.stored(), cursor, want)
}

// CompleteSearch returns words that begin with the last word of a RunQuery.Search, at most 20, for people who type it:
// states, times, keys of tags, and with a colon their values; flows. Keys and values come from the newest runs of each
// flow; others can be searched for all the same. In contract mode the error matches ErrNotInContract.
func (c *Client) CompleteSearch(ctx context.Context, word string) ([]string, error) {
	_, err := library(ctx, c, "run search")
	if err == nil {
		err = recordtext.Check("word", word, maxSearch)
	}
	var words []string
	if err == nil {
		words, err = runsearch.Complete(ctx, c.session, word)
	}
	if err != nil {
		return nil, fmt.Errorf("complete a search: %w", err)
	}
	return words, nil
}

// maxListed is the most runs that ListRuns returns at once.
const maxListed = 500

// listLimit checks a requested number of runs, and returns the number to list.
func listLimit(asked int) (int, error) {
	switch {
	case asked < 0:
		return 0, invalid("run query: limit %d: must not be negative", asked)
	case asked == 0:
		return 50, nil
	}
	return min(asked, maxListed), nil
}
