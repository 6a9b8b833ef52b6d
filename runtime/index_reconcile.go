package runtime

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
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
func (k *keeper) indexLoop() *maintenanceLoop {
	at, every := newCursors(), k.reconcileEvery
	holders := sync.OnceValues(func() (map[enginecore.Partition][]enginerpc.ReconcileWorker, error) { return k.leaseHolders() })
	return &maintenanceLoop{
		tasks: []taskID{taskIndexReconciliation}, family: enginecore.FlowFamily, every: every, repairs: true, hintKeys: k.executionHints,
		step: func(ctx context.Context, partitions []enginecore.Partition, only taskID) []stepResult {
			byHand := only != ""
			calls := make([]enginerpc.ReconcileCall, len(partitions))
			results := make([]stepResult, len(partitions))
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
			answers, _ := sendAll(ctx, k.maintenance, calls) // each answer has its error
			for i, a := range answers {
				if results[i].err = a.err; a.err == nil {
					results[i].more, results[i].next = at.moved(partitions[i], a.reply.NextCursor, every, byHand)
					results[i].mended = k.logMended(ctx, partitions[i], a.reply.Mended)
					if byHand && at.again(partitions[i], len(a.reply.Mended) > 0) {
						results[i].more = true
					}
					results[i].done = []taskDone{{task: taskIndexReconciliation, count: sumOf(results[i].mended)}}
				}
			}
			return results
		},
	}
}

func (k *keeper) reconcileLanes() []enginerpc.ReconcileLane {
	lanes := make([]enginerpc.ReconcileLane, len(k.lanes))
	for i, lane := range k.lanes {
		lanes[i].LaneID = lane
	}
	return lanes
}

// logMended logs what was not in order, and returns the number of entries by index.
func (k *keeper) logMended(ctx context.Context, p enginecore.Partition, list []enginerpc.Mended) map[string]int64 {
	if len(list) == 0 {
		return nil
	}
	mended := make(map[string]int64, len(list))
	for _, m := range list {
		mended[m.Index] = m.Entries
	}
	k.session.logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: indexes did not fit the records and were mended",
		eventIndexMended.attr(), slog.String("partition", p.Tag()), slog.Any("entries", mended))
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
func (k *keeper) leaseHolders() (map[enginecore.Partition][]enginerpc.ReconcileWorker, error) {
	ctx, cancel := context.WithTimeout(context.Background(), leaseHoldersWithin)
	defer cancel()
	const suffix = ":leases"
	byTag := make(map[string]enginecore.Partition)
	for _, p := range k.session.partitions() {
		byTag[p.Tag()] = p
	}
	head := k.session.core.Keys().Prefix() + ":idx:"
	seen := make(map[string]bool)
	found := make(map[enginecore.Partition][]enginerpc.ReconcileWorker)
	for _, node := range k.session.client.Nodes() {
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
