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
	// maxAbreast bounds the calls to one spot that are under way at a time.
	maxAbreast = 2
)

// commits sends completions. While a call is under way to a spot, what completes there goes together in the next one: once
// that call is over, or beside it as soon as so many wait that a call of their own costs little. Then the server works on one
// call while the worker begins with what the other has brought. Nobody waits for company where nothing is under way, but
// whoever goes first lets those run that could.
type commits struct {
	shift *shift
	send  func(context.Context, enginecore.CompleteManyCall) (enginecore.CompleteManyReply, error)
	// enough is how many completions go beside a call that is under way.
	enough int

	mu sync.Mutex
	// lines holds the spots to which a call is under way.
	lines map[spot]*commitLine
	// mailboxes are channels of commits that have heard.
	mailboxes sync.Pool
}

// commitLine is what goes on at a spot.
type commitLine struct {
	underway int
	waiting  []*commit
}

// commit is one completion.
type commit struct {
	task   *task
	result []byte
	count  int // executions that it asks for
	// told brings the news, once, to a completion that is behind another.
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
	many, err := capability[batchedCompletions](s.session.backend)
	if err != nil {
		return nil
	}
	return &commits{
		shift: s, send: many.CompleteMany, lines: make(map[spot]*commitLine), enough: enoughCommits(s.worker.config.slots),
	}
}

// enoughCommits is half of what a worker with so many slots may have to bring at a time, so that the other half can be under
// way. Few completions are not worth a call more.
func enoughCommits(slots int) int { return min(max(slots, maxCommits)/2, maxCommits) }

// complete commits a result, together with others when a call to the same spot is under way, and returns the task to go on
// with, if count asks for one.
func (c *commits) complete(t *task, result []byte, count int) *task {
	mine := &commit{task: t, result: result, count: count}
	begun := time.Now()
	var news commitNews
	if c.goesAhead(mine) {
		// Tasks that came with one claim often end at the same time.
		goruntime.Gosched()
		news.batch = c.takeWith(mine)
	} else {
		news = <-mine.told
		c.mailboxes.Put(mine.told)
	}
	if len(news.batch) == 1 {
		return t.completeAlone(result, count, func() { c.passOn(t.spot) })
	}
	if len(news.batch) > 1 {
		news = c.sendBatch(news.batch)
	}
	if news.alone {
		return t.completeAlone(result, count, func() {})
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
	line := c.lines[mine.task.spot]
	if line == nil {
		c.lines[mine.task.spot] = &commitLine{underway: 1}
		return true
	}
	if used, ok := c.mailboxes.Get().(chan commitNews); ok {
		mine.told = used
	} else {
		mine.told = make(chan commitNews, 1)
	}
	line.waiting = append(line.waiting, mine)
	c.letGo(line)
	return false
}

// passOn ends a call. Completions that came meanwhile may go.
func (c *commits) passOn(from spot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	line := c.lines[from]
	line.underway--
	c.letGo(line)
	if line.underway == 0 {
		delete(c.lines, from)
	}
}

// letGo lets the completions go that wait at a spot, when no call is under way there or enough of them have come for one
// more: the first of them sends the batch. It needs the lock.
func (c *commits) letGo(line *commitLine) {
	if len(line.waiting) == 0 || line.underway > 0 && (len(line.waiting) < c.enough || line.underway >= maxAbreast) {
		return
	}
	line.underway++
	batch := line.take(nil)
	batch[0].told <- commitNews{batch: batch}
}

// takeWith gives the batch of a completion that goes ahead, with those that are behind it already.
func (c *commits) takeWith(first *commit) []*commit {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lines[first.task.spot].take([]*commit{first})
}

// take adds to a batch what is waiting, as much as one call may bring.
func (l *commitLine) take(batch []*commit) []*commit {
	bytes := 0
	for _, one := range batch {
		bytes += len(one.result)
	}
	n := 0
	for n < len(l.waiting) && len(batch) < maxCommits && (len(batch) == 0 || bytes+len(l.waiting[n].result) <= maxCommitBytes) {
		bytes += len(l.waiting[n].result)
		batch = append(batch, l.waiting[n])
		n++
	}
	l.waiting = l.waiting[n:]
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
		return tellAll(batch, func(int) commitNews { return commitNews{alone: true} })
	}
	if reply.More {
		c.shift.drain.start(c.shift.base, first.spot.partition)
	}
	if reply.Remaining > 0 {
		c.shift.board.add(first.spot)
	}
	executions, candidates := reply.Executions, reply.Candidates
	news := make([]commitNews, len(batch))
	for i, mine := range batch {
		code := enginecore.Status(reply.Outcomes[i].Code)
		switch {
		case code != enginecore.StatusOK && code != enginecore.StatusAlreadySatisfied:
			news[i] = commitNews{alone: true}
		case mine.count == 0:
		case len(executions) > 0:
			news[i] = commitNews{next: newTask(c.shift, first.spot, executions[0], sentAt)}
			executions = executions[1:]
		default:
			news[i] = commitNews{candidates: candidates}
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
	return tellAll(batch, func(i int) commitNews { return news[i] })
}

// tellAll tells all but the first, whose news it returns.
func tellAll(batch []*commit, news func(i int) commitNews) commitNews {
	for i, other := range batch[1:] {
		other.told <- news(i + 1)
	}
	return news(0)
}

// sendUntilKnown sends a batch again while the engine is away, as long as one of the leases lasts.
func (c *commits) sendUntilKnown(batch []*commit) (reply enginecore.CompleteManyReply, sentAt time.Time, err error) {
	count := 0
	call := enginecore.CompleteManyCall{
		Partition: batch[0].task.spot.partition, Completions: make([]enginecore.CompleteManyCompletion, len(batch)),
	}
	for i, mine := range batch {
		count += mine.count
		claimed := &mine.task.claimed
		call.Completions[i] = enginecore.CompleteManyCompletion{
			ExecutionID: claimed.ExecutionID, LeaseID: claimed.LeaseID, LeaseEpoch: claimed.LeaseEpoch,
			AttemptID: claimed.AttemptID, Result: mine.result,
		}
	}
	call.ClaimRequest = c.shift.claimRequest(batch[0].task.spot.lane, count)
	for {
		ctx, cancel := context.WithDeadline(c.shift.base, lastLeaseEnd(batch))
		sentAt = time.Now()
		reply, err = c.send(ctx, call)
		cancel()
		if err == nil || !engineAway(err) || !c.shift.mayRepeat(lastLeaseEnd(batch)) {
			return reply, sentAt, err
		}
		call.Repeated = true
	}
}

// lastLeaseEnd is when the last of the leases of a batch counts as lost, as far as they have been renewed by now.
func lastLeaseEnd(batch []*commit) time.Time {
	var last time.Time
	for _, mine := range batch {
		if end := mine.task.leaseEnd(); end.After(last) {
			last = end
		}
	}
	return last
}
