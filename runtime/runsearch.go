package runtime

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

const (
	// runsPerBatch is the number of runs that an iteration without a page reads ahead, over all partitions.
	runsPerBatch = 200
	// runsPerCall bounds what one partition is asked for at a time.
	runsPerCall = 200
	// roundsPerPage bounds how often a page asks the partitions; each time, every one of them looks at a bounded number of
	// runs. What one round leaves open is another page.
	roundsPerPage = 8
)

// runSearch merges what the partitions find into one order.
type runSearch struct {
	session *engine.Session
	index   engine.RunIndex
	query   RunQuery
	streams []runStream
	share   int // how many runs a partition is asked for
	// rounds is how often partitions may be asked yet; negative is without an end.
	rounds int
	last   runPosition // of the run that was given last
}

// runStream is what one partition has found and not given yet.
type runStream struct {
	partition enginecore.Partition
	found     []RunSummary
	// reached is up to where the partition was searched; done tells that it was to the end.
	reached runPosition
	done    bool
}

func (c *Client) search(q RunQuery, cursor string, want int) (*runSearch, error) {
	index, err := offered[engine.RunIndex](c)
	if err != nil {
		return nil, err
	}
	if err := q.Check(); err != nil {
		return nil, err
	}
	from, err := parseRunCursor(cursor, q)
	if err != nil {
		return nil, err
	}
	partitions := c.session.Partitions()
	s := &runSearch{
		session: c.session, index: index, query: q, streams: make([]runStream, len(partitions)), rounds: -1, last: from,
		// Runs are spread evenly. What falls short is asked for again.
		share: min(runsPerCall, 2+3*want/(2*len(partitions))),
	}
	for i, p := range partitions {
		s.streams[i] = runStream{partition: p, reached: from}
	}
	return s, nil
}

// next gives the next run. Without one, the search is at its end or has done its rounds: cursor tells.
func (s *runSearch) next(ctx context.Context) (run RunSummary, found bool, err error) {
	for {
		best := s.best()
		waitFor := s.waitFor(best)
		if len(waitFor) == 0 {
			if best == nil {
				return RunSummary{}, false, nil
			}
			run, best.found = best.found[0], best.found[1:]
			s.last = s.position(run)
			return run, true, nil
		}
		if s.rounds == 0 {
			return RunSummary{}, false, nil
		}
		s.rounds--
		if err := s.ask(ctx, waitFor); err != nil {
			return RunSummary{}, false, err
		}
	}
}

// best is the stream whose run comes first, nil when none has any.
func (s *runSearch) best() *runStream {
	var best *runStream
	for i := range s.streams {
		stream := &s.streams[i]
		if len(stream.found) > 0 && (best == nil || s.position(best.found[0]).behind(s.position(stream.found[0]))) {
			best = stream
		}
	}
	return best
}

// waitFor lists the streams that may yet find something before the best of what was found.
func (s *runSearch) waitFor(best *runStream) []*runStream {
	var list []*runStream
	for i := range s.streams {
		stream := &s.streams[i]
		if len(stream.found) == 0 && !stream.done && (best == nil || s.position(best.found[0]).behind(stream.reached)) {
			list = append(list, stream)
		}
	}
	return list
}

func (s *runSearch) position(run RunSummary) runPosition {
	if s.query.finished() {
		return runPosition{run.ClosedAt.UnixMilli(), run.FlowID}
	}
	return runPosition{run.CreatedAt.UnixMilli(), run.FlowID}
}

// ask lets streams search on, all at once.
func (s *runSearch) ask(ctx context.Context, streams []*runStream) error {
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
		for _, run := range reply.Runs {
			stream.found = append(stream.found, summarize(run))
		}
		stream.done = !reply.More
		if reply.More {
			reached := runPosition{reply.NextAt.UnixMilli(), reply.NextID}
			if !reached.behind(stream.reached) {
				return fmt.Errorf("partition %s does not go on behind %s", stream.partition, stream.reached.cursor(s.query))
			}
			stream.reached = reached
		}
	}
	return nil
}

func (s *runSearch) call(stream *runStream) enginerpc.ListRunsCall {
	call := s.query.call()
	call.Partition, call.Limit, call.Namespace = stream.partition, int64(s.share), string(s.session.Namespace)
	switch {
	case stream.reached != startOfRuns:
		call.Before, call.BeforeID = time.UnixMilli(stream.reached.ms), stream.reached.id
	case s.query.finished():
		call.Before = lastBefore(s.query.FinishedBefore)
	default:
		call.Before = lastBefore(s.query.CreatedBefore)
	}
	return call
}

// wholeFrom is the first whole millisecond that is not before a time; zero stays zero.
func wholeFrom(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return at.Add(time.Millisecond - time.Nanosecond).Truncate(time.Millisecond)
}

// lastBefore is the last whole millisecond before a time; zero stays zero.
func lastBefore(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return at.Add(-time.Nanosecond).Truncate(time.Millisecond)
}

// cursor is from where the search goes on: behind all that was given and before all that was not. Empty at the end.
func (s *runSearch) cursor() string {
	if best := s.best(); best != nil && len(s.waitFor(best)) == 0 {
		return s.last.cursor(s.query)
	}
	// Everything up to the stream that was searched least has been given.
	var least *runStream
	for _, stream := range s.waitFor(s.best()) {
		if least == nil || least.reached.behind(stream.reached) {
			least = stream
		}
	}
	if least == nil {
		return ""
	}
	if least.reached.behind(s.last) {
		return least.reached.cursor(s.query)
	}
	return s.last.cursor(s.query)
}

func (p runPosition) cursor(q RunQuery) string {
	if p == startOfRuns {
		return ""
	}
	return orderOf(q) + ":" + strconv.FormatInt(p.ms, 10) + ":" + string(p.id)
}
