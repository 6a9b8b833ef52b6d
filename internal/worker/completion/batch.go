package completion

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/worker/lease"
	"github.com/flowfabric/flowfabric-go/internal/worker/usage"
)

const (
	// maxCompletions bounds the completions in one call, so that a call does not occupy the server for long.
	maxCompletions = 16
	// maxCompletionBytes bounds the results in a call with several completions, as enginerpc.CallBytes counts them.
	maxCompletionBytes = 256 << 10
)

// Batcher commits results of one lane with one call: in a cluster the results of one partition, and on one server the
// results of any partitions. When enough of them wait, it sends a second call while the first is in flight: the server
// processes one while the worker starts the executions that the other call leased. On one server, the calls also count
// the usage of budgets, and no second call is sent while the server has runs of this process to start.
type Batcher struct {
	completer *Completer
	usage     *usage.Adder
	send      func(context.Context, enginerpc.WorkCall) (enginerpc.WorkReply, error)
	batch     batching.Batcher[dispatch.LaneShard, Request, Result]
	// together is set where a call may commit results of several partitions. The keys of batch have partition 0 then.
	together bool
}

// Request is one result to commit, with the number of executions requested in exchange (0 or 1), or a report to count.
type Request struct {
	lease  *lease.Lease
	result []byte
	slots  int
	report *usage.Report
}

// Result is the result of one request.
type Result struct {
	counted bool // of a report
	handoff Handoff
	err     error
	// refused is set if the call with several completions did not commit this one, so that it has to be sent
	// by itself to get its error.
	refused bool
}

// NewBatcher returns a batcher for a worker with a number of slots; nil if the engine has no call for several
// completions. On one server, the calls take along the reports to the adder.
func NewBatcher(c *Completer, slots int, adder *usage.Adder) *Batcher {
	many, err := c.Session.Library("joined completions")
	if err != nil {
		return nil
	}
	b := &Batcher{completer: c, send: many.Work, together: c.Session.IsOneServer(), usage: adder}
	b.batch.Single = func(ctx context.Context, at dispatch.LaneShard, one Request) Result {
		return b.work(ctx, at, []Request{one})[0]
	}
	b.batch.Multi = b.work
	if b.together {
		adder.Ride = b.count
		b.batch.Hold = func() bool { return c.Session.Starting.Load() > 0 }
	}
	b.batch.MaxRequests = func(dispatch.LaneShard) int { return maxCompletions }
	b.batch.Size, b.batch.MaxBytes = func(one *Request) int { return enginerpc.CallBytes(one.result) }, maxCompletionBytes
	b.batch.Overflow = completionOverflow(slots)
	b.batch.IsPassenger = func(one *Request) bool { return isReport(*one) }
	return b
}

// completionOverflow returns the number of waiting completions from which on a second call is sent: half of the
// completions that a worker with n slots can have at a time, so that the other half can be in flight. Few completions
// do not justify another call.
func completionOverflow(slots int) int { return min(max(slots, maxCompletions)/2, maxCompletions) }

// do commits one result, together with others of the same shard, or of the same lane.
func (b *Batcher) do(ctx context.Context, one Request) Result {
	key := one.lease.Shard
	if b.together {
		key.Partition.Index = 0
	}
	result, err := b.batch.Do(ctx, key, one)
	if err != nil {
		result.err = err
	}
	return result
}

// count counts a report, together with other requests of its lane.
func (b *Batcher) count(ctx context.Context, r usage.Report) (counted bool, err error) {
	key := r.Lease.Shard
	key.Partition.Index = 0
	result, err := b.batch.Do(ctx, key, Request{lease: r.Lease, report: &r})
	if err == nil {
		err = result.err
	}
	return result.counted, err
}

// work commits results and counts reports with one call.
func (b *Batcher) work(ctx context.Context, at dispatch.LaneShard, batch []Request) []Result {
	if !slices.ContainsFunc(batch, isReport) {
		return b.completeMany(at, batch, nil).results
	}
	results := make([]Result, len(batch))
	var completions []Request
	var reports []usage.Report
	var committed, counted []*Result
	for i, one := range batch {
		if isReport(one) {
			reports, counted = append(reports, *one.report), append(counted, &results[i])
		} else {
			completions, committed = append(completions, one), append(committed, &results[i])
		}
	}
	sums := b.usage.Sum(reports)
	var done completed
	if len(completions) > 0 {
		done = b.completeMany(at, completions, sums.List)
		for i, one := range done.results {
			*committed[i] = one
		}
	}
	isCounted, err := outcome(ctx, sums, done.counted)
	for i, r := range counted {
		if r.err = err; err == nil {
			r.counted = isCounted[i]
		}
	}
	return results
}

func isReport(one Request) bool { return one.report != nil }

// outcome returns which reports are counted. Without the digits of a reply, the sums are sent alone.
func outcome(ctx context.Context, sums *usage.Sums, digits string) ([]bool, error) {
	if digits == "" {
		return sums.SendAlone(ctx)
	}
	return sums.Counted(digits)
}

// completed has the results of several completions, and the digits of the sums that their call has counted; none if
// that is not known.
type completed struct {
	results []Result
	counted string
}

// completeMany commits several results with one call, which also counts sums, and assigns to the completions the
// executions of its reply.
func (b *Batcher) completeMany(at dispatch.LaneShard, batch []Request, sums []enginerpc.UsageSum) completed {
	results := make([]Result, len(batch))
	reply, sentAt, err := b.sendUntilKnown(at, batch, sums)
	outcomes := reply.Outcomes
	if err == nil && (outcomes == "" || strings.Count(outcomes, " ")+1 != len(batch)) {
		err = errors.New("the number of results in the reply differs from the number of completions")
	}
	if err != nil {
		// Each completion is sent by itself, which returns its error. No task knows executions that the
		// failed call has leased.
		b.completer.MarkUncertain()
		for i := range results {
			results[i].refused = true
		}
		return completed{results: results}
	}
	executions, candidates := reply.Executions, reply.Candidates
	for i, one := range batch {
		mine := &results[i]
		mine.handoff.SentAt = sentAt
		var outcome string
		outcome, outcomes, _ = strings.Cut(outcomes, " ")
		code := enginerpc.Status(outcome)
		b.completer.passOnEnd(one, code)
		if code == statusEnded {
			code = enginerpc.StatusOK
		}
		switch {
		case code != enginerpc.StatusOK && code != enginerpc.StatusAlreadySatisfied:
			mine.refused = true
		case one.slots == 0:
		case len(executions) > 0:
			mine.handoff.Next, executions = &executions[0], executions[1:]
		default:
			mine.handoff.Candidates, candidates = candidates, nil
		}
	}
	// The rest of the reply belongs to no completion in particular; it goes with the first.
	first := &results[0].handoff
	first.Surplus, first.Spare = executions, candidates
	first.Remaining = reply.Remaining > 0
	if reply.More {
		markMore(batch, results)
	}
	return completed{results, reply.Counted}
}

// markMore notes that a partition of a batch has more work, which one of them is, with the first completion of
// each partition.
func markMore(batch []Request, results []Result) {
	marked := make(map[keyspace.Partition]bool)
	for i, one := range batch {
		if p := one.lease.Shard.Partition; !marked[p] {
			marked[p], results[i].handoff.More = true, true
		}
	}
}

// sendUntilKnown repeats a batch while the engine is unavailable and one of the leases lasts. sentAt is when
// the last try was sent.
func (b *Batcher) sendUntilKnown(
	at dispatch.LaneShard, batch []Request, sums []enginerpc.UsageSum,
) (reply enginerpc.WorkReply, sentAt time.Time, err error) {
	slots := 0
	call := enginerpc.WorkCall{
		Partition: batch[0].lease.Shard.Partition, Origin: b.completer.Session.LocalOrigin(),
		Completions: make([]enginerpc.WorkCompletion, len(batch)), Sums: sums,
	}
	for i, one := range batch {
		slots += one.slots
		claimed := one.lease.Claimed
		call.Completions[i] = enginerpc.WorkCompletion{
			ExecutionID: claimed.ExecutionID, LeaseID: claimed.LeaseID,
			Attempt: enginerpc.AttemptText(claimed.LeaseID, claimed.LeaseEpoch, claimed.AttemptID), Result: one.result,
		}
	}
	c := b.completer
	call.ClaimRequest = c.ClaimRequest(at.Lane, slots)
	lastLeaseEnd := func() time.Time { return lastLeaseEnd(batch) }
	again := retry.Policy{
		Pause: lease.ReportPause, Until: lastLeaseEnd, Failed: func(error) { c.MarkUncertain() },
	}
	err = retry.UntilKnown(c.Base, again, func(repeated bool) error {
		ctx, cancel := context.WithDeadline(c.Base, lastLeaseEnd())
		defer cancel()
		call.Repeated, sentAt = repeated, time.Now()
		reply, err = b.send(ctx, call)
		return err
	})
	return reply, sentAt, err
}

// lastLeaseEnd returns the latest end of the leases of a batch, as renewed by now.
func lastLeaseEnd(batch []Request) time.Time {
	var last time.Time
	for _, one := range batch {
		if end := one.lease.LeaseEnd(); end.After(last) {
			last = end
		}
	}
	return last
}
