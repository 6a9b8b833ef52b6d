package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// maxStepsByHand bounds the steps that RunOnce takes in one partition, in case it never comes to an end.
const maxStepsByHand = 1_000_000

// DutyReport is what RunOnce has done.
type DutyReport struct {
	Duty Duty
	// Partitions counts those that were looked at, Steps the looks.
	Partitions, Steps int
	// Done counts what was worked on: executions, runs, edges, waitpoints.
	Done int64
	// Lag is how late the latest item was, by the engine's clock.
	Lag time.Duration
	// Remaining counts partitions where more is to do, or may be, because a step failed or the context ended.
	Remaining int
	// Mended counts, by index, the entries that were not in order; nil for duties that do not mend indexes.
	Mended map[string]int64
	// Took is how long it took.
	Took time.Duration
}

// RunOnce sees to one duty on all partitions until nothing of it is left to do for now, whatever other keepers do
// meanwhile and whether this one runs or not. Partitions in which it fails are left, and the others seen to. The report
// tells in any case what was done; the error joins those of the partitions. It is ErrUnknownDuty, and nothing was done, for
// a duty that does not exist or that the engine does not have in contract mode.
func (k *Keeper) RunOnce(ctx context.Context, duty Duty) (DutyReport, error) {
	report := DutyReport{Duty: duty}
	if err := k.check(); err != nil {
		return report, err
	}
	if _, err := ParseDuty(string(duty)); err != nil {
		return report, fmt.Errorf("keeper: %w", err)
	}
	// Rounds of their own begin at the beginning, wherever those of a running keeper are.
	rounds := k.newRounds()
	at := slices.IndexFunc(rounds, func(r *round) bool { return slices.Contains(r.duties, duty) })
	if at < 0 {
		return report, fmt.Errorf("keeper: %w: %q is not done by this keeper", ErrUnknownDuty, duty)
	}
	begun := time.Now()
	todo := k.partitionsOf(rounds[at])
	report.Partitions = len(todo)
	var faults []error
	for step := 0; len(todo) > 0 && step < maxStepsByHand && ctx.Err() == nil; step++ {
		var left []enginecore.Partition
		for batch := range slices.Chunk(todo, keeperBatch) {
			outcomes := k.guarded(ctx, rounds[at], batch, duty)
			report.Steps += len(outcomes)
			for i, o := range outcomes {
				report.add(o)
				switch {
				case o.err != nil:
					report.Remaining++
					faults = append(faults, fmt.Errorf("keeper: %s in partition %s: %w", duty, batch[i].Tag(), o.err))
				case o.more:
					left = append(left, batch[i])
				}
			}
		}
		todo = left
	}
	report.Remaining += len(todo)
	report.Took = time.Since(begun)
	return report, errors.Join(append(faults, ctx.Err())...)
}

func (r *DutyReport) add(o outcome) {
	for index, n := range o.mended {
		if r.Mended == nil {
			r.Mended = make(map[string]int64)
		}
		r.Mended[index] += n
	}
	for _, d := range o.done {
		if d.duty == r.Duty {
			r.Done += d.count
			r.Lag = max(r.Lag, d.lag)
		}
	}
}

// RunDuty sees to one duty of the keepers by hand, on all partitions, as Keeper.RunOnce does.
func (c *Client) RunDuty(ctx context.Context, duty Duty, opts ...KeeperOption) (DutyReport, error) {
	if err := c.ready(); err != nil {
		return DutyReport{}, err
	}
	return newKeeperOf(c.session, opts...).RunOnce(ctx, duty)
}
