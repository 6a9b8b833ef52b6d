package keeper

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

const (
	// reconciledAtOnce bounds the records that one step reads, reconciledByHand those of a step of RunTask, whose
	// caller waits.
	reconciledAtOnce = 128
	reconciledByHand = 500
	// stepsPerTurn is the number of steps that a partition with many records gets in one interval of a loop.
	stepsPerTurn = 10
)

// cursors holds the position of a reconciliation in each partition.
type cursors struct {
	mu sync.Mutex
	at map[enginecore.Partition]string
	// repaired holds the partitions in which the current pass has repaired something; passes counts the completed
	// passes.
	repaired map[enginecore.Partition]bool
	passes   map[enginecore.Partition]int
}

func newCursors() *cursors {
	return &cursors{
		at: make(map[enginecore.Partition]string), repaired: make(map[enginecore.Partition]bool), passes: make(map[enginecore.Partition]int),
	}
}

func (c *cursors) get(p enginecore.Partition) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at[p]
}

// moved records the position after a step, and returns whether the next step follows at once or after which time.
func (c *cursors) moved(p enginecore.Partition, cursor string, every time.Duration, byHand bool) (more bool, next time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at[p] = cursor
	if cursor == "" {
		delete(c.at, p)
		return false, 0
	}
	return byHand, every / stepsPerTurn
}

// maxPasses bounds the passes of RunTask through a partition.
const maxPasses = 4

// again reports, at the end of a pass, whether RunTask needs another one: repairs may have revealed unknown lanes and
// keys.
func (c *cursors) again(p enginecore.Partition, repaired bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.repaired[p] = c.repaired[p] || repaired
	if c.at[p] != "" {
		return false
	}
	c.passes[p]++
	again := c.repaired[p] && c.passes[p] < maxPasses
	c.repaired[p] = false
	return again
}

// indexLoop adds records to the indexes that lack them and removes entries without a record.
func (k *Keeper) indexLoop() *MaintenanceLoop {
	at, every := newCursors(), k.ReconcileEvery
	holders := sync.OnceValues(func() (map[enginecore.Partition][]enginerpc.ReconcileWorker, error) { return k.leaseHolders() })
	return &MaintenanceLoop{
		tasks: []engine.TaskID{engine.TaskIndexReconciliation}, family: enginecore.FlowFamily, Every: every, repairs: true, hintKeys: k.executionHints,
		Step: func(ctx context.Context, partitions []enginecore.Partition, only engine.TaskID) []StepResult {
			byHand := only != ""
			calls := make([]enginerpc.ReconcileCall, len(partitions))
			results := make([]StepResult, len(partitions))
			for i, p := range partitions {
				calls[i] = enginerpc.ReconcileCall{Partition: p, Limit: reconciledAtOnce, Cursor: at.get(p), Lanes: k.reconcileLanes()}
				if !byHand {
					continue
				}
				calls[i].Limit = reconciledByHand
				workers, err := holders()
				if err != nil {
					return failedEverywhere(len(partitions), err)
				}
				calls[i].Workers = workers[p]
			}
			answers, _ := engine.SendAll(ctx, k.maintenance, calls) // each answer has its error
			for i, a := range answers {
				if results[i].Err = a.Err; a.Err == nil {
					results[i].more, results[i].Next = at.moved(partitions[i], a.Reply.NextCursor, every, byHand)
					results[i].repaired = k.logRepaired(ctx, partitions[i], a.Reply.Repaired)
					if byHand && at.again(partitions[i], len(a.Reply.Repaired) > 0) {
						results[i].more = true
					}
					results[i].done = []taskDone{{task: engine.TaskIndexReconciliation, count: sumOf(results[i].repaired)}}
				}
			}
			return results
		},
	}
}

// reconcileLanes returns the configured lanes in the form of the call.
func (k *Keeper) reconcileLanes() []enginerpc.ReconcileLane {
	lanes := make([]enginerpc.ReconcileLane, len(k.Lanes))
	for i, lane := range k.Lanes {
		lanes[i].LaneID = lane
	}
	return lanes
}

// logRepaired logs repaired entries, and returns their number by index; nil if there were none.
func (k *Keeper) logRepaired(ctx context.Context, p enginecore.Partition, list []enginerpc.RepairedIndex) map[string]int64 {
	if len(list) == 0 {
		return nil
	}
	repaired := make(map[string]int64, len(list))
	for _, m := range list {
		repaired[m.Index] = m.Entries
	}
	k.Session.Logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: indexes did not fit the records and were repaired",
		engine.EventIndexRepaired.Attr(), slog.String("partition", p.Tag()), slog.Any("entries", repaired))
	return repaired
}

func sumOf(counts map[string]int64) (sum int64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// leaseHolders finds the worker instances that have a set of leases, by partition. No index lists them, so it scans
// all keys: for RunTask only.
func (k *Keeper) leaseHolders() (map[enginecore.Partition][]enginerpc.ReconcileWorker, error) {
	ctx, cancel := context.WithTimeout(context.Background(), leaseHoldersWithin)
	defer cancel()
	byTag := make(map[string]enginecore.Partition)
	for _, p := range k.Session.Partitions() {
		byTag[p.Tag()] = p
	}
	pattern := k.Session.Core.Keys().Prefix() + ":idx:*:worker:*:leases"
	seen := make(map[string]bool)
	found := make(map[enginecore.Partition][]enginerpc.ReconcileWorker)
	for _, node := range k.Session.Client.Nodes() {
		for cursor := uint64(0); ; {
			keys, next, err := k.scanKeys(ctx, node, cursor, pattern)
			if err != nil {
				return nil, err
			}
			for _, key := range keys {
				tag, id, isWorker := k.Session.Core.Keys().ParseIndexWorkerLeases(key)
				p, ok := byTag[tag]
				if ok && isWorker && !seen[key] {
					seen[key] = true
					found[p] = append(found[p], enginerpc.ReconcileWorker{WorkerInstanceID: id})
				}
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
	}
	return found, nil
}

// leaseHoldersWithin bounds the scan of leaseHolders.
const leaseHoldersWithin = 5 * time.Minute
