package runsearch

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/partitionmerge"
	"github.com/flowfabric/flowfabric-go/internal/recordstate"
)

const (
	// Batch is the number of runs that an iteration without pages requests at a time, over all partitions.
	Batch = 200
	// runsPerCall bounds the runs that one call requests of a partition.
	runsPerCall = 200
	// roundsPerPage bounds how often a page queries the partitions. Each round reads a bounded number of runs of each
	// partition. Further runs are on the next page.
	roundsPerPage = 8
)

// Search merges the results of all partitions into one order.
type Search struct {
	session *engine.Session
	index   engine.Library
	query   Query
	share   int // how many runs a call requests of a partition
	merge   *partitionmerge.Merge[enginerpc.Run]
	// terms and tagNames are for the index, made from the query; only are the ids of named runs.
	terms    []enginerpc.ListRunsTerm
	tagNames string
	only     map[keyspace.Partition][]string
	cut      bool // a list of the index has only the newest runs
}

// New begins a search after a cursor, which is empty or came from a search with the same order. want is how many runs
// the caller expects to read. The error wraps engine.ErrCursor.
func New(
	ctx context.Context, s *engine.Session, index engine.Library, q Query, cursor string, want int,
) (*Search, error) {
	from, err := parseCursor(cursor, q)
	if err != nil {
		return nil, err
	}
	search := &Search{session: s, index: index, query: q}
	partitions, err := search.partitions()
	if err != nil {
		return nil, err
	}
	if err := search.resolve(ctx); err != nil {
		return nil, err
	}
	// Runs are spread evenly. Missing ones are requested by another call.
	search.share = min(runsPerCall, 2+3*want/(2*max(1, len(partitions))))
	search.begin(partitions, from)
	if !search.mayFallBack() {
		return search, nil
	}
	found, err := search.hasAny(ctx)
	if err == nil && !found { // no index has the word: it may be a part of an id
		search.query.Text, search.query.Terms, search.terms = q.Terms[0].Text, nil, nil
		search.begin(partitions, from)
	}
	return search, err
}

func (s *Search) begin(partitions []keyspace.Partition, from partitionmerge.Position) {
	s.merge = partitionmerge.New(partitions, from, s.query.OldestFirst, s.ask)
}

// mayFallBack reports whether the query has one term that may be a part of an id, and no other text.
func (s *Search) mayFallBack() bool {
	q := s.query
	return len(q.Terms) == 1 && !q.Terms[0].Error && !q.Terms[0].Category && q.Text == "" && q.ID == ""
}

// hasAny reports whether the index has a run for the terms of the query, whatever its other conditions.
func (s *Search) hasAny(ctx context.Context) (bool, error) {
	q := Query{Terms: s.query.Terms, Namespace: s.query.Namespace, Children: true}
	probe := &Search{session: s.session, index: s.index, query: q, terms: s.terms, tagNames: s.tagNames, share: 1}
	probe.begin(s.session.Partitions(), partitionmerge.Start)
	_, found, err := probe.Next(ctx)
	return found, err
}

// partitions are the partitions in which runs of the query may be: the runs of a flow with one key are in one, and
// named runs in the partitions of their ids.
func (s *Search) partitions() ([]keyspace.Partition, error) {
	q := s.query
	if len(q.Only) > 0 {
		return s.partitionsOfNamed()
	}
	if q.Flow == "" || q.Key == "" {
		return s.session.Partitions(), nil
	}
	id := keyspace.RunKeyIDFor(s.namespace(), q.Flow, q.Key)
	p, err := s.session.Core.Partitioning().RunKeyPartition(id)
	return []keyspace.Partition{p}, err
}

func (s *Search) namespace() keyspace.Namespace {
	return keyspace.Namespace(cmp.Or(s.query.Namespace, string(s.session.Namespace)))
}

// partitionsOfNamed places the named runs.
func (s *Search) partitionsOfNamed() (list []keyspace.Partition, err error) {
	s.only = make(map[keyspace.Partition][]string)
	for _, name := range s.query.Only {
		id := keyspace.FlowIDFor(s.namespace(), name.Flow, name.Run)
		p, err := s.session.Core.Partitioning().FlowPartition(id)
		if err != nil {
			return nil, err
		}
		if len(s.only[p]) == 0 {
			list = append(list, p)
		}
		s.only[p] = append(s.only[p], string(id))
	}
	return list, nil
}

// resolve translates the terms of the query into the words of the index.
func (s *Search) resolve(ctx context.Context) error {
	if len(s.query.Terms) == 0 {
		return nil
	}
	key, err := s.session.SearchKey(ctx, s.namespace())
	if err != nil {
		return err
	}
	values := false
	for _, term := range s.query.Terms {
		if term.Category {
			s.terms = append(s.terms, enginerpc.ListRunsTerm{Words: "=" + term.Text})
			continue
		}
		t := enginerpc.ListRunsTerm{Words: key.HashAll(term.Text)}
		if !term.Error {
			t.Value, values = term.Text, true
		}
		s.terms = append(s.terms, t)
	}
	if !values {
		return nil
	}
	known, err := sampleOf(ctx, s.session, s.namespace())
	s.tagNames = strings.Join(known.TagNames(), ",")
	return err
}

// Page returns up to limit runs, and the cursor after them, which is empty at the end. Its work is bounded: a page may
// be short, or empty, and have a cursor.
func (s *Search) Page(ctx context.Context, limit int) (page []enginerpc.Run, cursor string, err error) {
	s.merge.Limit(roundsPerPage)
	for len(page) < limit {
		run, found, err := s.Next(ctx)
		if err != nil {
			return nil, "", err
		}
		if !found {
			break
		}
		page = append(page, run)
	}
	reached, done := s.merge.Reached()
	if done {
		return page, "", nil
	}
	return page, reached.Cursor(orderOf(s.query)), nil
}

// Next returns the next run. found is false at the end of the search, or of the rounds of a page.
func (s *Search) Next(ctx context.Context) (run enginerpc.Run, found bool, err error) {
	for {
		run, found, err = s.merge.Next(ctx)
		if err != nil || !found || s.isWanted(run) {
			return run, found, err
		}
	}
}

// isWanted checks the conditions that the index does not cover.
func (s *Search) isWanted(run enginerpc.Run) bool {
	for _, term := range s.query.Terms {
		if !term.matches(tagsOf(run), run.FailureCategory, run.FailureReason) {
			return false
		}
	}
	return true
}

// IsCut reports whether a list of the index that was read keeps only the newest runs, so that older ones are missing.
func (s *Search) IsCut() bool { return s.cut }

// ask queries partitions for runs, all at once.
func (s *Search) ask(
	ctx context.Context, questions []partitionmerge.Question,
) ([]partitionmerge.Found[enginerpc.Run], error) {
	calls := make([]enginerpc.ListRunsCall, len(questions))
	for i, q := range questions {
		calls[i] = s.call(q)
	}
	answers, err := batching.SendAll[enginerpc.ListRunsReply](ctx, s.index, calls)
	if err != nil {
		return nil, err
	}
	found := make([]partitionmerge.Found[enginerpc.Run], len(answers))
	for i, answer := range answers {
		found[i].More = answer.Reply.More
		s.cut = s.cut || answer.Reply.Cut
		found[i].Reached = partitionmerge.Position{Time: answer.Reply.NextAt, ID: string(answer.Reply.NextID)}
		for _, run := range answer.Reply.Runs {
			item := partitionmerge.Item[enginerpc.Run]{At: positionOf(run), Value: run}
			found[i].Items = append(found[i].Items, item)
		}
	}
	return found, nil
}

func (s *Search) call(q partitionmerge.Question) enginerpc.ListRunsCall {
	call := s.query.call()
	call.Partition, call.Limit = q.Partition, int64(s.share)
	call.Namespace, call.Terms, call.TagNames = string(s.namespace()), s.terms, s.tagNames
	call.Only = strings.Join(s.only[q.Partition], ",")
	if q.Behind == partitionmerge.Start {
		return call
	}
	call.BehindAt, call.BehindID = q.Behind.Time, enginecore.FlowID(q.Behind.ID)
	return call
}

// askedAtOnce bounds how many partitions Latest queries at a time.
const askedAtOnce = 16

// Latest returns the latest runs of a flow, at most limit, if the engine has no lists of runs: it reads all flows of
// all partitions. The error joins the errors of partitions, whose runs are missing then.
func Latest(ctx context.Context, s *engine.Session, flowName string, limit int) ([]fabrictype.Run, error) {
	partitions := s.Partitions()
	pages := make([][]enginerpc.Run, len(partitions))
	faults := make([]error, len(partitions))
	var asking errgroup.Group
	asking.SetLimit(askedAtOnce)
	for i, p := range partitions {
		asking.Go(func() error {
			reply, err := s.Backend.ListRuns(ctx, enginerpc.ListRunsCall{
				Partition: p, FlowName: flowName, Children: true, Limit: int64(limit), Namespace: string(s.Namespace),
			})
			pages[i], faults[i] = reply.Runs, err
			return nil
		})
	}
	_ = asking.Wait() // the faults are gathered one by one
	runs := slices.Concat(pages...)
	slices.SortFunc(runs, func(a, b enginerpc.Run) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.FlowID, b.FlowID))
	})
	return summarizeAll(runs[:min(limit, len(runs))]), enginerpc.JoinSame("partitions", faults)
}

// NextRun is Next for callers of the API.
func (s *Search) NextRun(ctx context.Context) (run fabrictype.Run, found bool, err error) {
	next, found, err := s.Next(ctx)
	if !found || err != nil {
		return fabrictype.Run{}, false, err
	}
	return summarize(next), true, nil
}

// List is Page for callers of the API.
func (s *Search) List(ctx context.Context, limit int) (fabrictype.Page[fabrictype.Run], error) {
	found, next, err := s.Page(ctx, limit)
	if err != nil {
		return fabrictype.Page[fabrictype.Run]{}, err
	}
	return fabrictype.Page[fabrictype.Run]{Items: summarizeAll(found), Next: next, Incomplete: s.cut}, nil
}

func summarize(r enginerpc.Run) fabrictype.Run {
	s := fabrictype.Run{
		Flow: r.FlowName, Run: r.RunID, FlowID: string(r.FlowID), State: recordstate.RunState(r.State, r.Outcome),
		CreatedAt: r.CreatedAt, Reason: r.FailureReason, Category: r.FailureCategory,
		StartsAt: r.StartAt, ClosedAt: r.ClosedAt, FailedNode: r.FailedNode, Nodes: fabrictype.NodeCounts{
			All: int(r.NodeCount), Open: int(r.OpenNodes), Failed: int(r.NodesFailed), Cancelled: int(r.NodesCancelled),
			Expired: int(r.NodesExpired), Skipped: int(r.NodesSkipped),
		},
	}
	if s.Key, s.Queued = r.RunKey, r.Queued; s.Queued { // its start is a time that does not come
		s.StartsAt = time.Time{}
	}
	s.BeganAt = recordstate.Began(s.CreatedAt, s.StartsAt, r.RerunAt)
	pause, _ := enginerpc.ParsePauseText(r.Paused)
	s.PausedAt = pause.Since
	s.Tags = tagsOf(r)
	return s
}

// tagsOf are the tags of a run; nil without any.
func tagsOf(r enginerpc.Run) map[string]string {
	var tags map[string]string
	for _, tag := range r.Tags {
		if tags == nil {
			tags = make(map[string]string)
		}
		tags[tag.Name] = string(tag.Value)
	}
	return tags
}

func summarizeAll(runs []enginerpc.Run) []fabrictype.Run {
	var list []fabrictype.Run
	for _, r := range runs {
		list = append(list, summarize(r))
	}
	return list
}
