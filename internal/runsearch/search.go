package runsearch

import (
	"cmp"
	"context"
	"slices"
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
}

// New begins a search after a cursor, which is empty or came from a search with the same order. want is how many runs
// the caller expects to read. The error wraps engine.ErrCursor.
func New(s *engine.Session, index engine.Library, q Query, cursor string, want int) (*Search, error) {
	from, err := parseCursor(cursor, q)
	if err != nil {
		return nil, err
	}
	partitions, err := partitionsOf(s, q)
	if err != nil {
		return nil, err
	}
	search := &Search{
		session: s, index: index, query: q,
		// Runs are spread evenly. Missing ones are requested by another call.
		share: min(runsPerCall, 2+3*want/(2*len(partitions))),
	}
	search.merge = partitionmerge.New(partitions, from, q.OldestFirst, search.ask)
	return search, nil
}

// partitionsOf are the partitions in which runs of a query may be: the runs of a flow with one key are in one.
func partitionsOf(s *engine.Session, q Query) ([]keyspace.Partition, error) {
	if q.Flow == "" || q.Key == "" {
		return s.Partitions(), nil
	}
	namespace := cmp.Or(q.Namespace, string(s.Namespace))
	id := keyspace.RunKeyIDFor(keyspace.Namespace(namespace), q.Flow, q.Key)
	p, err := s.Core.Partitioning().RunKeyPartition(id)
	return []keyspace.Partition{p}, err
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
	return s.merge.Next(ctx)
}

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
	call.Namespace = cmp.Or(s.query.Namespace, string(s.session.Namespace))
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
	return fabrictype.Page[fabrictype.Run]{Items: summarizeAll(found), Next: next}, nil
}

func summarize(r enginerpc.Run) fabrictype.Run {
	s := fabrictype.Run{
		Flow: r.FlowName, Run: r.RunID, FlowID: string(r.FlowID), State: recordstate.RunState(r.State, r.Outcome),
		CreatedAt: r.CreatedAt,
		StartsAt:  r.StartAt, ClosedAt: r.ClosedAt, FailedNode: r.FailedNode, Nodes: fabrictype.NodeCounts{
			All: int(r.NodeCount), Open: int(r.OpenNodes), Failed: int(r.NodesFailed), Cancelled: int(r.NodesCancelled),
			Expired: int(r.NodesExpired), Skipped: int(r.NodesSkipped),
		},
	}
	if s.Key, s.Queued = r.RunKey, r.Queued; s.Queued { // its start is a time that does not come
		s.StartsAt = time.Time{}
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

func summarizeAll(runs []enginerpc.Run) []fabrictype.Run {
	var list []fabrictype.Run
	for _, r := range runs {
		list = append(list, summarize(r))
	}
	return list
}
