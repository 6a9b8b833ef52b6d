package runtime

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// DefaultReconcileEvery is how often keepers go through indexes and records, unless ReconcileEvery says otherwise.
const DefaultReconcileEvery = 10 * time.Minute

const (
	minReconcileEvery = 100 * time.Millisecond
	// reconciledAtOnce bounds the records that one step looks at, reconciledByHand one that somebody waits for.
	reconciledAtOnce = 128
	reconciledByHand = 500
	// stepsPerRound is how many steps a partition with many records gets in the time of a round.
	stepsPerRound = 10
	// edgesEvery is how often executions that are blocked by dependencies are looked at.
	edgesEvery = 2 * time.Minute
)

// cursors are how far a reconciliation has come in each partition.
type cursors struct {
	mu sync.Mutex
	at map[enginecore.Partition]string
	// mended tells of which partitions the pass under way has changed something, passes counts those that are over.
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

// moved notes a step, and tells whether more steps follow and when.
func (c *cursors) moved(p enginecore.Partition, cursor string, every time.Duration, byHand bool) (more bool, next time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at[p] = cursor
	if cursor == "" {
		delete(c.at, p)
		return false, 0
	}
	return byHand, every / stepsPerRound
}

// maxPasses bounds how often a partition is gone through by hand.
const maxPasses = 4

// again tells, at the end of a pass, whether to go through a partition once more: what was mended may have led to lanes
// and keys that nobody knew of before.
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

// indexRound enters records in the indexes that they are missing from and takes away entries that do not belong.
func (k *Keeper) indexRound() *round {
	at, every := newCursors(), k.reconcileEvery
	holders := sync.OnceValues(func() (map[enginecore.Partition][]enginecore.ReconcileWorker, error) { return k.leaseHolders() })
	return &round{
		duties: []Duty{DutyIndexReconciliation}, family: enginecore.FlowFamily, every: every, mends: true, signs: k.executionSigns,
		step: func(ctx context.Context, partitions []enginecore.Partition, only Duty) []outcome {
			byHand := only != ""
			calls := make([]enginecore.ReconcileCall, len(partitions))
			outcomes := make([]outcome, len(partitions))
			for i, p := range partitions {
				calls[i] = enginecore.ReconcileCall{Partition: p, Limit: reconciledAtOnce, Cursor: at.get(p), Lanes: k.reconcileLanes()}
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
			answers, _ := sendAll(ctx, k.engine.core, calls) // each answer has its error
			for i, a := range answers {
				if outcomes[i].err = a.err; a.err == nil {
					outcomes[i].more, outcomes[i].next = at.moved(partitions[i], a.reply.NextCursor, every, byHand)
					outcomes[i].mended = k.tellMended(ctx, partitions[i], a.reply.Mended)
					if byHand && at.again(partitions[i], len(a.reply.Mended) > 0) {
						outcomes[i].more = true
					}
					outcomes[i].done = []dutyDone{{duty: DutyIndexReconciliation, count: sumOf(outcomes[i].mended)}}
				}
			}
			return outcomes
		},
	}
}

func (k *Keeper) reconcileLanes() []enginecore.ReconcileLane {
	lanes := make([]enginecore.ReconcileLane, len(k.lanes))
	for i, lane := range k.lanes {
		lanes[i].LaneID = lane
	}
	return lanes
}

// tellMended logs what was not in order.
func (k *Keeper) tellMended(ctx context.Context, p enginecore.Partition, list []enginecore.Mended) map[string]int64 {
	if len(list) == 0 {
		return nil
	}
	mended := make(map[string]int64, len(list))
	for _, m := range list {
		mended[m.Index] = m.Entries
	}
	k.engine.logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: indexes did not fit the records and were mended",
		eventIndexMended.attr(), slog.String("partition", p.Tag()), slog.Any("entries", mended))
	return mended
}

func sumOf(counts map[string]int64) (sum int64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

func failedEverywhere(count int, err error) []outcome {
	outcomes := make([]outcome, count)
	for i := range outcomes {
		outcomes[i].err = err
	}
	return outcomes
}

// leaseHolders finds the workers that have a set of leases, by partition. Nothing lists them, so it goes through all keys:
// only for who reconciles by hand.
func (k *Keeper) leaseHolders() (map[enginecore.Partition][]enginecore.ReconcileWorker, error) {
	ctx, cancel := context.WithTimeout(context.Background(), leaseHoldersWithin)
	defer cancel()
	const suffix = ":leases"
	byTag := make(map[string]enginecore.Partition)
	for _, p := range k.engine.partitions() {
		byTag[p.Tag()] = p
	}
	head := k.engine.core.Keys().Prefix() + ":idx:"
	seen := make(map[string]bool)
	found := make(map[enginecore.Partition][]enginecore.ReconcileWorker)
	for _, node := range k.engine.client.Nodes() {
		for cursor := uint64(0); ; {
			keys, next, err := k.scanKeys(ctx, node, cursor, head+"*:worker:*"+suffix)
			if err != nil {
				return nil, err
			}
			for _, key := range keys {
				p, ok := byTag[enginecore.TagOf(key)]
				worker, isWorker := strings.CutPrefix(key, head+p.Tag()+":worker:")
				if ok && isWorker && !seen[key] {
					seen[key] = true
					id := enginecore.WorkerInstanceID(strings.TrimSuffix(worker, suffix))
					found[p] = append(found[p], enginecore.ReconcileWorker{WorkerInstanceID: id})
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

// executionSigns are keys that a partition with flows, executions or schedules has.
func (k *Keeper) executionSigns(p enginecore.Partition) []string {
	keys := k.engine.core.Keys()
	return []string{keys.IndexAllExecutions(p), keys.IndexFlowIndex(p), keys.FfxLanes(p), keys.FfxSchedules(p)}
}

// edgesRound resolves edges whose upstream has ended without it.
func (k *Keeper) edgesRound() *round {
	return &round{
		duties: []Duty{DutyDependencyReconciliation}, family: enginecore.FlowFamily, every: edgesEvery, mends: true, signs: k.executionSigns,
		step: inPages(k, evenPace(edgesEvery),
			func(p enginecore.Partition, _ int64, cursor string) enginecore.ReconcileEdgesCall {
				return enginecore.ReconcileEdgesCall{Partition: p, Limit: reconciledAtOnce, Cursor: cursor, Lanes: k.lanes}
			},
			func(_ context.Context, _ enginecore.Partition, r enginecore.ReconcileEdgesReply) (page, error) {
				return page{next: r.NextCursor, done: dutyDone{duty: DutyDependencyReconciliation, count: r.Resolved}}, nil
			}),
	}
}
