package keeper

import (
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// page is what a call has done that goes through a partition in pages.
type page struct {
	// next is where the following one begins, empty at the end.
	next string
	done taskDone
	// found is set when the partition has something that the task is for, so that it is looked at more often.
	found bool
	// mended counts by index the entries that were not in order.
	mended map[string]int64
}

// pace is how often a partition is looked at in pages.
type pace struct {
	// page is the pause between two pages, pass that after the last one: once something was found that the task is for.
	// Without a pass of its own, the partition is left alone until the next turn of the loop.
	page, pass time.Duration
	// search is the pause between two pages before that.
	search time.Duration
}

// evenPace goes through a partition in a tenth of the time for each page.
func evenPace(every time.Duration) pace {
	return pace{page: every / stepsPerTurn, search: every / stepsPerTurn}
}

// inPages returns the step of a loop that goes through each partition in pages: callFor makes the call for one page, readReply
// reads its reply.
func inPages[R any, C enginerpc.Call[R]](k *Keeper, often pace, callFor func(p enginecore.Partition, limit int64, cursor string) C,
	readReply func(ctx context.Context, p enginecore.Partition, reply R) (page, error),
) func(context.Context, []enginecore.Partition, engine.TaskID) []StepResult {
	at := newCursors()
	found := make(map[enginecore.Partition]bool) // by the pass under way; only one step of a loop runs at a time
	return func(ctx context.Context, partitions []enginecore.Partition, only engine.TaskID) []StepResult {
		byHand, limit := only != "", int64(reconciledAtOnce)
		if byHand {
			limit = reconciledByHand
		}
		calls := make([]C, len(partitions))
		for i, p := range partitions {
			calls[i] = callFor(p, limit, at.get(p))
		}
		answers, _ := engine.SendAll[R](ctx, k.maintenance, calls) // each answer has its error
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
			o.done, o.mended = []taskDone{done.done}, done.mended
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

// after is the pause after a page; 0 is until the next turn of the loop.
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
