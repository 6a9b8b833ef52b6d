package runtime

import (
	"context"
	"errors"
	goruntime "runtime"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

const (
	// maxCommits bounds the completions of one call, so that no call holds the server for long.
	maxCommits = 16
	// maxCommitBytes bounds the results in one call that brings several.
	maxCommitBytes = 256 << 10
)

// commits sends completions. One call at a time is under way to each spot; what completes there meanwhile goes together in
// the next one. Nobody waits for company, but whoever goes first lets those run that could.
type commits struct {
	shift *shift
	send  func(context.Context, enginecore.CompleteManyCall) (enginecore.CompleteManyReply, error)

	mu sync.Mutex
	// waiting holds the completions behind the call that is under way to a spot.
	waiting map[spot][]*commit
}

// commit is one completion.
type commit struct {
	task *task
	call enginecore.CompleteCall
	told chan commitNews
}

// commitNews is what somebody hears who waited: what came of the completion, or that it is its turn to send a batch.
type commitNews struct {
	batch []*commit
	// alone tells that the completion was not committed and has to go by itself, to learn why.
	alone bool
	next  *task
	// candidates are executions that may be next once they have passed their limits.
	candidates []enginecore.Candidate
}

// newCommits returns nil when the engine has no call for several completions.
func newCommits(s *shift) *commits {
	many, ok := s.engine.calls.(interface {
		CompleteMany(context.Context, enginecore.CompleteManyCall) (enginecore.CompleteManyReply, error)
	})
	if !ok {
		return nil
	}
	return &commits{shift: s, send: many.CompleteMany, waiting: make(map[spot][]*commit)}
}

// complete commits a result, together with others when a call to the same spot is under way, and returns the task to go on
// with.
func (c *commits) complete(ctx context.Context, t *task, call enginecore.CompleteCall) *task {
	mine := &commit{task: t, call: call}
	begun := time.Now()
	var news commitNews
	if c.goesAhead(mine) {
		// Tasks that came with one claim often end at the same time.
		goruntime.Gosched()
		news.batch = c.takeWith(mine)
	} else {
		news = <-mine.told
	}
	if len(news.batch) == 1 {
		return t.completeAlone(ctx, call, func() { c.passOn(t.spot) })
	}
	if len(news.batch) > 1 {
		news = c.sendBatch(news.batch)
	}
	if news.alone {
		return t.completeAlone(ctx, call, func() {})
	}
	t.committed(begun, outcomeSucceeded)
	if len(news.candidates) > 0 {
		return t.shift.admitNext(t, news.candidates)
	}
	return news.next
}

// goesAhead reports whether no call is under way to the spot. If one is, the completion is behind it.
func (c *commits) goesAhead(mine *commit) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	behind, underway := c.waiting[mine.task.spot]
	if !underway {
		c.waiting[mine.task.spot] = nil
		return true
	}
	mine.told = make(chan commitNews, 1)
	c.waiting[mine.task.spot] = append(behind, mine)
	return false
}

// passOn lets the completions go that came meanwhile: the first of them sends the batch.
func (c *commits) passOn(from spot) {
	c.mu.Lock()
	batch := c.take(from, nil)
	if len(batch) == 0 {
		delete(c.waiting, from)
	}
	c.mu.Unlock()
	if len(batch) > 0 {
		batch[0].told <- commitNews{batch: batch}
	}
}

// takeWith gives the batch of a completion that goes ahead, with those that are behind it already.
func (c *commits) takeWith(first *commit) []*commit {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.take(first.task.spot, []*commit{first})
}

// take adds to a batch what is waiting at a spot, as much as one call may bring.
func (c *commits) take(from spot, batch []*commit) []*commit {
	behind := c.waiting[from]
	bytes := 0
	for _, one := range batch {
		bytes += len(one.call.Result)
	}
	n := 0
	for n < len(behind) && len(batch) < maxCommits && (len(batch) == 0 || bytes+len(behind[n].call.Result) <= maxCommitBytes) {
		bytes += len(behind[n].call.Result)
		batch = append(batch, behind[n])
		n++
	}
	if n > 0 {
		c.waiting[from] = behind[n:]
	}
	return batch
}

// sendBatch sends several completions, tells the others what came of theirs, and returns what came of the first.
func (c *commits) sendBatch(batch []*commit) commitNews {
	reply, sentAt, err := c.sendUntilKnown(batch)
	first := batch[0].task
	c.passOn(first.spot)
	if err == nil && len(reply.Outcomes) != len(batch) {
		err = errors.New("the reply tells of another number of completions")
	}
	if err != nil {
		// Whoever goes alone finds out by itself what it cannot do. What the call has leased nobody knows of.
		c.shift.leases.doubt()
		return tellAll(batch, func(*commit) commitNews { return commitNews{alone: true} })
	}
	if reply.More {
		c.shift.drain.start(c.shift.base, first.spot.partition)
	}
	if reply.Remaining > 0 {
		c.shift.board.add(first.spot)
	}
	executions, candidates := reply.Executions, reply.Candidates
	news := make(map[*commit]commitNews, len(batch))
	for i, mine := range batch {
		code := enginecore.Status(reply.Outcomes[i].Code)
		switch {
		case code != enginecore.StatusOK && code != enginecore.StatusAlreadySatisfied:
			news[mine] = commitNews{alone: true}
		case mine.call.Count == 0:
		case len(executions) > 0:
			news[mine] = commitNews{next: newTask(c.shift, first.spot, executions[0], sentAt)}
			executions = executions[1:]
		default:
			news[mine] = commitNews{candidates: candidates}
			candidates = nil
		}
	}
	// What was leased for a completion that was refused has no slot.
	for _, claimed := range executions {
		c.shift.errands.start(newTask(c.shift, first.spot, claimed, sentAt).giveBack)
	}
	if len(candidates) > 0 {
		c.shift.errands.start(func() { c.shift.admit(first.spot.lane, candidates, 0) })
	}
	return tellAll(batch, func(mine *commit) commitNews { return news[mine] })
}

// tellAll tells all but the first, whose news it returns.
func tellAll(batch []*commit, news func(*commit) commitNews) commitNews {
	for _, other := range batch[1:] {
		other.told <- news(other)
	}
	return news(batch[0])
}

// sendUntilKnown sends a batch again while the engine is away, as long as one of the leases lasts.
func (c *commits) sendUntilKnown(batch []*commit) (reply enginecore.CompleteManyReply, sentAt time.Time, err error) {
	until, count := time.Time{}, 0
	call := enginecore.CompleteManyCall{
		Partition: batch[0].task.spot.partition, Completions: make([]enginecore.CompleteManyCompletion, len(batch)),
	}
	for i, mine := range batch {
		if end := mine.task.leaseEnd(); end.After(until) {
			until = end
		}
		count += int(mine.call.Count)
		call.Completions[i] = enginecore.CompleteManyCompletion{
			ExecutionID: mine.call.ExecutionID, LeaseID: mine.call.LeaseID, LeaseEpoch: mine.call.LeaseEpoch,
			AttemptID: mine.call.AttemptID, Result: mine.call.Result,
		}
	}
	ctx, cancel := context.WithDeadline(c.shift.base, until)
	defer cancel()
	call.ClaimRequest = c.shift.claimRequest(batch[0].task.spot.lane, count)
	for {
		sentAt = time.Now()
		reply, err = c.send(ctx, call)
		if err == nil || !engineAway(err) || ctx.Err() != nil {
			return reply, sentAt, err
		}
		c.shift.leases.doubt()
		call.Repeated = true
		pause(ctx, reportPause)
	}
}
