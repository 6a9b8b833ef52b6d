package keeper

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

const (
	// reconciledAtOnce bounds the records that one step looks at, reconciledByHand one of runTask, for which a caller waits.
	reconciledAtOnce = 128
	reconciledByHand = 500
	// stepsPerTurn is how many steps a partition with many records gets in one turn of a loop.
	stepsPerTurn = 10
)

// cursors are how far a reconciliation has come in each partition.
type cursors struct {
	mu sync.Mutex
	at map[enginecore.Partition]string
	// mended holds the partitions in which the pass under way has changed something, passes counts those that are over.
	mended map[enginecore.Partition]bool
	passes map[enginecore.Partition]int
}

func newCursors() *cursors {
	return &cursors{
		at: make(map[enginecore.Partition]string), mended: make(map[enginecore.Partition]bool), passes: make(map[enginecore.Partition]int),
	}
}

func (c *cursors) get(p enginecore.Partition) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at[p]
}

// moved sets how far a step has come, and returns whether more steps follow and when.
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

// maxPasses bounds how often a partition is gone through by hand.
const maxPasses = 4

// again reports, at the end of a pass, whether to go through a partition once more: what was mended may have led to lanes
// and keys that were not known before.
func (c *cursors) again(p enginecore.Partition, mended bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mended[p] = c.mended[p] || mended
	if c.at[p] != "" {
		return false
	}
	c.passes[p]++
	again := c.mended[p] && c.passes[p] < maxPasses
	c.mended[p] = false
	return again
}

// indexLoop enters records in the indexes that they are missing from and takes away entries that do not belong.
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
					results[i].mended = k.logMended(ctx, partitions[i], a.Reply.Mended)
					if byHand && at.again(partitions[i], len(a.Reply.Mended) > 0) {
						results[i].more = true
					}
					results[i].done = []taskDone{{task: engine.TaskIndexReconciliation, count: sumOf(results[i].mended)}}
				}
			}
			return results
		},
	}
}

func (k *Keeper) reconcileLanes() []enginerpc.ReconcileLane {
	lanes := make([]enginerpc.ReconcileLane, len(k.Lanes))
	for i, lane := range k.Lanes {
		lanes[i].LaneID = lane
	}
	return lanes
}

// logMended logs what was not in order, and returns the number of entries by index.
func (k *Keeper) logMended(ctx context.Context, p enginecore.Partition, list []enginerpc.Mended) map[string]int64 {
	if len(list) == 0 {
		return nil
	}
	mended := make(map[string]int64, len(list))
	for _, m := range list {
		mended[m.Index] = m.Entries
	}
	k.Session.Logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: indexes did not fit the records and were mended",
		engine.EventIndexMended.Attr(), slog.String("partition", p.Tag()), slog.Any("entries", mended))
	return mended
}

func sumOf(counts map[string]int64) (sum int64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// leaseHolders finds the workers that have a set of leases, by partition. Nothing lists them, so it goes through all keys:
// only for who reconciles by hand.
func (k *Keeper) leaseHolders() (map[enginecore.Partition][]enginerpc.ReconcileWorker, error) {
	ctx, cancel := context.WithTimeout(context.Background(), leaseHoldersWithin)
	defer cancel()
	const suffix = ":leases"
	byTag := make(map[string]enginecore.Partition)
	for _, p := range k.Session.Partitions() {
		byTag[p.Tag()] = p
	}
	head := k.Session.Core.Keys().Prefix() + ":idx:"
	seen := make(map[string]bool)
	found := make(map[enginecore.Partition][]enginerpc.ReconcileWorker)
	for _, node := range k.Session.Client.Nodes() {
		for cursor := uint64(0); ; {
			keys, next, err := scanKeys(ctx, node, cursor, head+"*:worker:*"+suffix)
			if err != nil {
				return nil, err
			}
			for _, key := range keys {
				p, ok := byTag[enginerpc.TagOf(key)]
				worker, isWorker := strings.CutPrefix(key, head+p.Tag()+":worker:")
				if ok && isWorker && !seen[key] {
					seen[key] = true
					id := enginecore.WorkerInstanceID(strings.TrimSuffix(worker, suffix))
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

// leaseHoldersWithin bounds the way through all keys.
const leaseHoldersWithin = 5 * time.Minute
