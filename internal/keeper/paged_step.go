package keeper

import (
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// page is the result of a call for one page of a partition.
type page struct {
	// next is the cursor of the following page, empty at the end.
	next string
	done taskDone
	// reconciled counts groups with open cancels of siblings, by action.
	reconciled map[string]int64
	// found reports that the partition has items of the task, so that it is visited more often.
	found bool
	// repaired counts repaired entries by index.
	repaired map[string]int64
	// faults are the items that could not be worked on.
	faults []enginerpc.ItemFault
}

// pace is how often the pages of a partition are read.
type pace struct {
	// page is the pause between two pages, and pass the one after the last page, once the pass has found an item of
	// the task. Without such an item, the partition waits for the loop's next regular visit.
	page, pass time.Duration
	// search is the pause between two pages before the first such item.
	search time.Duration
}

// evenPace returns the pace that reads each page after a tenth of the loop's interval.
func evenPace(every time.Duration) pace {
	return pace{page: every / stepsPerTurn, search: every / stepsPerTurn}
}

// inPages returns the Step of a loop that reads each partition in pages: callFor makes the call for one page,
// readReply reads its reply. A failed page is repeated.
func inPages[R any, C enginerpc.Call[R]](maintenance engine.Maintenance, often pace,
	callFor func(p keyspace.Partition, limit int64, cursor string) C,
	readReply func(ctx context.Context, p keyspace.Partition, reply R) (page, error),
) func(context.Context, []keyspace.Partition, engine.TaskID) []StepResult {
	at := newCursors()
	found := make(map[keyspace.Partition]bool) // by the pass under way; only one step of a loop runs at a time
	return func(ctx context.Context, partitions []keyspace.Partition, only engine.TaskID) []StepResult {
		byHand, limit := only != "", int64(reconciledAtOnce)
		if byHand {
			limit = reconciledByHand
		}
		calls := make([]C, len(partitions))
		for i, p := range partitions {
			calls[i] = callFor(p, limit, at.get(p))
		}
		answers, _ := batching.SendAll[R](ctx, maintenance, calls) // each answer has its error
		results := make([]StepResult, len(partitions))
		for i, a := range answers {
			p, o := partitions[i], &results[i]
			var done page
			if o.Err = a.Err; o.Err == nil {
				done, o.Err = readReply(ctx, p, a.Reply)
			}
			if o.Err != nil {
				continue // the same page again
			}
			o.done, o.repaired, o.faults = []taskDone{done.done}, done.repaired, done.faults
			o.reconciled = done.reconciled
			found[p] = found[p] || done.found
			o.more, _ = at.moved(p, done.next, 0, byHand)
			o.Next = often.after(done.next != "", found[p])
			if done.next == "" {
				delete(found, p)
			}
		}
		return results
	}
}

// after returns the pause after a page; 0 is until the loop's next regular visit.
func (often pace) after(more, found bool) time.Duration {
	switch {
	case more && found:
		return often.page
	case more:
		return often.search
	case found:
		return often.pass
	}
	return 0
}
