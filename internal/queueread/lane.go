package queueread

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// ClaimRule is the rule that determines the position of an execution in the queue of a lane.
type ClaimRule string

// Rules by which claims take executions.
const (
	// ByAge is the oldest one of its priority.
	ByAge ClaimRule = "age"
	// ByPriority has a higher priority than others that wait.
	ByPriority ClaimRule = "priority"
	// ByTurn is the next one of the fairness key whose turn it is.
	ByTurn ClaimRule = "turn"
	// ByLongestWait has waited longest of all priorities: one claim of eight takes that.
	ByLongestWait ClaimRule = "longest_wait"
)

// LaneQueue lists the executions that wait for a worker in one partition of a lane.
type LaneQueue struct {
	// Partition is the number of the flow partition. On one server, partition 0 has the waiting executions of all
	// partitions.
	Partition int
	// Waiting is how many executions wait.
	Waiting int
	// Paused reports whether the lane is paused: nothing is claimed then.
	Paused bool
	// Turns are the fairness keys that wait, by whose turn comes first; empty while none has one. At most MaxQueued.
	Turns []LaneTurn
	// Next are the first executions in the order of claims, at most as many as requested.
	Next []QueuedExecution
}

// LaneTurn is a fairness key of which executions wait. The empty key is for executions without one.
type LaneTurn struct {
	Key     string
	Waiting int
}

// QueuedExecution is an execution that waits for a worker.
type QueuedExecution struct {
	ID   enginecore.ExecutionID
	Rule ClaimRule
	// Key is the fairness key with rule ByTurn, and with ByLongestWait where keys take turns.
	Key      string
	Priority int
	// Since is the time of creation, by which the age counts.
	Since time.Time
	RunOf
}

// MaxQueued is the largest number of entries of a LaneQueue.
const MaxQueued = 50

// LaneQueues returns the executions that wait for a worker in a lane, for each partition with such executions, by
// their numbers. The order is exact within a partition, for a worker that can run all waiting executions; workers take
// the partitions in turn. Positions beyond the first hold for that moment only: executions that become eligible later
// can come before them. It reads and changes nothing; the parts are read at different moments. places is at most
// MaxQueued, and 0 means 20.
//
// The error wraps ErrInvalid for an invalid lane or number.
func (r *Reader) LaneQueues(ctx context.Context, lane enginecore.LaneID, places int) ([]LaneQueue, error) {
	if _, err := keyspace.ParseLaneID(string(lane)); err != nil {
		return nil, fmt.Errorf("%w: lane: %w", ErrInvalid, err)
	}
	if places < 0 || places > MaxQueued {
		return nil, fmt.Errorf("%w: places: %d is not between 0 and %d", ErrInvalid, places, MaxQueued)
	}
	if places == 0 {
		places = 20
	}
	partitions := r.core.Partitioning().FlowPartitions()
	commands := make([]rueidis.Completed, 0, 2*len(partitions))
	for _, p := range partitions {
		commands = append(commands, r.client.B().Zcard().Key(r.keys.LaneEligible(p, lane)).Build(),
			r.client.B().Zscore().Key(r.keys.LaneEligible(p, lane)).Member(pauseMark).Build())
	}
	results, err := r.read(ctx, commands...)
	if err != nil {
		return nil, fmt.Errorf("read the queue of lane %s: %w", lane, err)
	}
	now, err := r.core.Now(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the queue of lane %s: %w", lane, err)
	}
	var queues []LaneQueue
	for i, p := range partitions {
		waiting, _ := results[2*i].AsInt64()
		q := LaneQueue{Partition: int(p.Index), Waiting: int(waiting), Paused: results[2*i+1].Error() == nil}
		if q.Paused {
			q.Waiting--
		}
		if q.Waiting <= 0 {
			continue
		}
		one := partitionReader{Reader: r, partition: p, lane: lane, now: now, places: places}
		if err := one.queue(ctx, &q); err != nil {
			return nil, fmt.Errorf("read the queue of lane %s: %w", lane, err)
		}
		queues = append(queues, q)
	}
	return queues, nil
}

// The library's words and numbers; see order.md and claim_order.lua.
const (
	pauseMark     = "paused"  // the member of the eligible set of a paused lane
	priorityStep  = 1e12      // between the scores of two priorities
	clockSlack    = 86400_000 // ms by which a clock may be late
	agedEvery     = 8
	maxPriorities = 16
)

// partitionReader reads the queue of one partition.
type partitionReader struct {
	*Reader
	partition keyspace.Partition
	lane      enginecore.LaneID
	now       time.Time
	places    int
}

// waiter is a member of an index in the order of claims.
type waiter struct {
	id       string
	priority int
	created  float64 // Unix ms
}

// waiterOf reads a member of an index at a time of the engine.
func waiterOf(z rueidis.ZScore, now time.Time) waiter {
	p := math.Floor((float64(now.UnixMilli()) + clockSlack - z.Score) / priorityStep)
	return waiter{id: z.Member, priority: int(p), created: z.Score + p*priorityStep}
}

func (r *partitionReader) queue(ctx context.Context, q *LaneQueue) error {
	turns, counts, err := r.turns(ctx)
	if err != nil {
		return err
	}
	if len(turns) > 0 {
		err = r.readTurns(ctx, q, turns, counts)
	} else {
		err = r.readLine(ctx, q, counts["claims"])
	}
	if err != nil {
		return err
	}
	return r.describe(ctx, q.Next)
}

func queued(w waiter, rule ClaimRule, key string) QueuedExecution {
	return QueuedExecution{
		ID: enginecore.ExecutionID(w.id), Rule: rule, Key: key, Priority: w.priority,
		Since: time.UnixMilli(int64(w.created)).UTC(),
	}
}

// turns returns the first fairness keys in the order of their turns, and the counts of claims.
func (r *partitionReader) turns(ctx context.Context) ([]string, map[string]string, error) {
	results, err := r.read(ctx,
		r.client.B().Zrange().Key(r.keys.FfxTurns(r.partition, r.lane)).Min("0").Max(strconv.Itoa(MaxQueued-1)).Build(),
		r.client.B().Hgetall().Key(r.keys.FfxOrder(r.partition, r.lane)).Build())
	if err != nil {
		return nil, nil, err
	}
	turns, err := results[0].AsStrSlice()
	if err != nil {
		return nil, nil, fmt.Errorf("turns: %w", err)
	}
	counts, err := results[1].AsStrMap()
	if err != nil {
		return nil, nil, fmt.Errorf("counts of claims: %w", err)
	}
	return turns, counts, nil
}

// readLine takes from the eligible set, where no keys take turns.
func (r *partitionReader) readLine(ctx context.Context, q *LaneQueue, claims string) error {
	l, err := r.line(ctx, r.keys.LaneEligible(r.partition, r.lane), claims)
	if err != nil {
		return err
	}
	for len(q.Next) < r.places && l.more() {
		w, rule := l.next()
		q.Next = append(q.Next, queued(w, rule, ""))
	}
	return nil
}

// readTurns lets the keys take turns, one claim each.
func (r *partitionReader) readTurns(ctx context.Context, q *LaneQueue, turns []string, counts map[string]string) error {
	var sizes []rueidis.Completed
	for _, key := range turns {
		sizes = append(sizes, r.client.B().Zcard().Key(r.keys.FfxQueue(r.partition, r.lane, key)).Build())
	}
	results, err := r.read(ctx, sizes...)
	if err != nil {
		return err
	}
	lines := make([]*line, len(turns))
	for i, key := range turns {
		n, _ := results[i].AsInt64()
		q.Turns = append(q.Turns, LaneTurn{Key: key, Waiting: int(n)})
		if lines[i], err = r.line(ctx, r.keys.FfxQueue(r.partition, r.lane, key), counts["claims "+key]); err != nil {
			return err
		}
	}
	for took := true; took && len(q.Next) < r.places; {
		took = false
		for i, key := range turns {
			if len(q.Next) == r.places || !lines[i].more() {
				continue
			}
			w, rule := lines[i].next()
			if rule != ByLongestWait {
				rule = ByTurn
			}
			q.Next, took = append(q.Next, queued(w, rule, key)), true
		}
	}
	return nil
}

// line reads the heads of an index. claims is how many claims of it have counted for ageing.
func (r *partitionReader) line(ctx context.Context, key, claims string) (*line, error) {
	n, _ := strconv.Atoi(claims)
	l := &line{claims: n}
	err := r.heads(ctx, l, key, "(-inf", r.places) // without the mark of a pause
	// The execution of each lower priority that has waited longest is at the head of that priority.
	for range maxPriorities {
		last := len(l.rest) - 1
		if err != nil || last < 0 || l.rest[last].priority == 0 {
			break
		}
		below := "(" + strconv.FormatFloat(
			float64(r.now.UnixMilli())+clockSlack-float64(l.rest[last].priority)*priorityStep, 'f', -1, 64)
		if err = r.heads(ctx, l, key, below, 1+r.places/agedEvery); len(l.rest) == last+1 {
			break
		}
	}
	return l, err
}

func (r *partitionReader) heads(ctx context.Context, l *line, key, from string, n int) error {
	results, err := r.read(ctx, r.client.B().Zrange().Key(key).Min(from).Max("+inf").Byscore().
		Limit(0, int64(n)).Withscores().Build())
	if err != nil {
		return err
	}
	found, err := results[0].AsZScores()
	if err != nil {
		return fmt.Errorf("index: %w", err)
	}
	for _, z := range found {
		l.rest = append(l.rest, waiterOf(z, r.now))
	}
	return nil
}

// line is an index from which claims take.
type line struct {
	rest   []waiter // by priority, then age
	claims int
}

func (l *line) more() bool { return len(l.rest) > 0 }

// next takes the execution that a claim would take.
func (l *line) next() (waiter, ClaimRule) {
	at, rule := 0, ByAge
	if l.rest[0].priority > 0 {
		if l.rest[len(l.rest)-1].priority < l.rest[0].priority {
			rule = ByPriority
		}
		if l.claims++; l.claims%agedEvery == 0 {
			for i, w := range l.rest {
				if w.created < l.rest[at].created {
					at, rule = i, ByLongestWait
				}
			}
		}
	}
	w := l.rest[at]
	l.rest = slices.Delete(l.rest, at, at+1)
	return w, rule
}
