package runsearch

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

const (
	// Batch is the number of runs that an iteration without pages asks for at a time, over all partitions.
	Batch = 200
	// runsPerCall bounds what one partition is asked for at a time.
	runsPerCall = 200
	// roundsPerPage bounds how often a page asks the partitions; each time, every one of them looks at a bounded number
	// of runs. What one round leaves open is another page.
	roundsPerPage = 8
)

// Search merges what the partitions find into one order.
type Search struct {
	session *engine.Session
	index   engine.RunIndex
	query   Query
	streams []stream
	share   int // how many runs a partition is asked for
	// rounds is how often partitions may be asked yet; negative is without an end.
	rounds int
	last   position // of the run that was given last
}

// stream is what one partition has found and not given yet.
type stream struct {
	partition enginecore.Partition
	found     []enginerpc.Run
	// reached is up to where the partition was searched; done tells that it was to the end.
	reached position
	done    bool
}

// New begins a search behind a cursor, which is empty or came from a search with the same order. want is how many runs
// the caller expects to read. The error wraps engine.ErrCursor.
func New(s *engine.Session, index engine.RunIndex, q Query, cursor string, want int) (*Search, error) {
	from, err := parseCursor(cursor, q)
	if err != nil {
		return nil, err
	}
	partitions := s.Partitions()
	search := &Search{
		session: s, index: index, query: q, streams: make([]stream, len(partitions)), rounds: -1, last: from,
		// Runs are spread evenly. What falls short is asked for again.
		share: min(runsPerCall, 2+3*want/(2*len(partitions))),
	}
	for i, p := range partitions {
		search.streams[i] = stream{partition: p, reached: from}
	}
	return search, nil
}

// Page returns up to limit runs, and the cursor behind them, which is empty at the end. Its work is bounded: a page may
// be short, or empty, and have a cursor.
func (s *Search) Page(ctx context.Context, limit int) (page []enginerpc.Run, cursor string, err error) {
	s.rounds = roundsPerPage
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
	return page, s.cursor(), nil
}

// Next returns the next run. found is false at the end of the search, or of the rounds of a page.
func (s *Search) Next(ctx context.Context) (run enginerpc.Run, found bool, err error) {
	for {
		best := s.best()
		waitFor := s.waitFor(best)
		if len(waitFor) == 0 {
			if best == nil {
				return enginerpc.Run{}, false, nil
			}
			run, best.found = best.found[0], best.found[1:]
			s.last = s.position(run)
			return run, true, nil
		}
		if s.rounds == 0 {
			return enginerpc.Run{}, false, nil
		}
		s.rounds--
		if err := s.ask(ctx, waitFor); err != nil {
			return enginerpc.Run{}, false, err
		}
	}
}

// best is the stream whose run comes first, nil when none has any.
func (s *Search) best() *stream {
	var best *stream
	for i := range s.streams {
		stream := &s.streams[i]
		if len(stream.found) > 0 && (best == nil || s.behind(s.position(best.found[0]), s.position(stream.found[0]))) {
			best = stream
		}
	}
	return best
}

// waitFor lists the streams that may yet find something before the best of what was found.
func (s *Search) waitFor(best *stream) []*stream {
	var list []*stream
	for i := range s.streams {
		stream := &s.streams[i]
		if len(stream.found) == 0 && !stream.done && (best == nil || s.behind(s.position(best.found[0]), stream.reached)) {
			list = append(list, stream)
		}
	}
	return list
}

// behind reports whether a position comes after another in the order of the search.
func (s *Search) behind(p, other position) bool { return p.behind(other, s.query.OldestFirst) }

func (s *Search) position(run enginerpc.Run) position { return positionOf(s.query, run) }

func positionOf(q Query, run enginerpc.Run) position {
	if q.byEnd() {
		return position{run.ClosedAt.UnixMilli(), run.FlowID}
	}
	return position{run.CreatedAt.UnixMilli(), run.FlowID}
}

// ask lets streams search on, all at once.
func (s *Search) ask(ctx context.Context, streams []*stream) error {
	calls := make([]enginerpc.ListRunsCall, len(streams))
	for i, stream := range streams {
		calls[i] = s.call(stream)
	}
	answers, err := engine.SendAll[enginerpc.ListRunsReply](ctx, s.index, calls)
	if err != nil {
		return err
	}
	for i, stream := range streams {
		reply := answers[i].Reply
		stream.found = append(stream.found, reply.Runs...)
		stream.done = !reply.More
		if reply.More {
			reached := position{reply.NextAt.UnixMilli(), reply.NextID}
			if !s.behind(reached, stream.reached) {
				return fmt.Errorf("partition %s does not go on behind %s", stream.partition,
					stream.reached.cursor(s.query))
			}
			stream.reached = reached
		}
	}
	return nil
}

func (s *Search) call(stream *stream) enginerpc.ListRunsCall {
	call := s.query.call()
	call.Partition, call.Limit = stream.partition, int64(s.share)
	call.Namespace = cmp.Or(s.query.Namespace, string(s.session.Namespace))
	if stream.reached == start {
		return call
	}
	call.BehindID = stream.reached.id
	if at := time.UnixMilli(stream.reached.ms); s.query.OldestFirst {
		call.After = at
	} else {
		call.Before = at
	}
	return call
}

// cursor is from where the search goes on: behind all that was given and before all that was not. Empty at the end.
func (s *Search) cursor() string {
	if best := s.best(); best != nil && len(s.waitFor(best)) == 0 {
		return s.last.cursor(s.query)
	}
	// Everything up to the stream that was searched least has been given.
	var least *stream
	for _, stream := range s.waitFor(s.best()) {
		if least == nil || s.behind(least.reached, stream.reached) {
			least = stream
		}
	}
	if least == nil {
		return ""
	}
	if s.behind(least.reached, s.last) {
		return least.reached.cursor(s.query)
	}
	return s.last.cursor(s.query)
}
