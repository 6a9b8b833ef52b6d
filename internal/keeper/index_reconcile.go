package keeper

import (
	"context"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// indexLoop adds records to the indexes that lack them and removes entries without a record.
func (m *maintainer) indexLoop() *MaintenanceLoop {
	at, every := newCursors(), m.ReconcileEvery
	holders := sync.OnceValues(func() (map[keyspace.Partition][]enginerpc.ReconcileWorker, error) { return m.leaseHolders() })
	return &MaintenanceLoop{
		tasks: []engine.TaskID{engine.TaskIndexReconciliation}, family: keyspace.FlowFamily, Every: every,
		repairs: true, hintKeys: m.executionHints,
		Step: func(ctx context.Context, partitions []keyspace.Partition, only engine.TaskID) []StepResult {
			byHand := only != ""
			calls := make([]enginerpc.ReconcileCall, len(partitions))
			results := make([]StepResult, len(partitions))
			for i, p := range partitions {
				calls[i] = enginerpc.ReconcileCall{
					Partition: p, Limit: reconciledAtOnce, Cursor: at.get(p), Lanes: m.reconcileLanes(),
				}
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
			answers, _ := batching.SendAll(ctx, m.maintenance, calls) // each answer has its error
			for i, a := range answers {
				if results[i].Err = a.Err; a.Err == nil {
					results[i].more, results[i].Next = at.moved(partitions[i], a.Reply.NextCursor, every, byHand)
					results[i].faults = a.Reply.Faults
					results[i].repaired = m.logRepaired(ctx, partitions[i], a.Reply.Repaired)
					if byHand && at.again(partitions[i], len(a.Reply.Repaired) > 0) {
						results[i].more = true
					}
					results[i].done = []taskDone{{
						task: engine.TaskIndexReconciliation, count: sumOf(results[i].repaired),
					}}
				}
			}
			return results
		},
	}
}

// leaseHolders finds the worker instances that have a set of leases, by partition. No index lists them, so it scans
// all keys: for RunTask only.
func (m *maintainer) leaseHolders() (map[keyspace.Partition][]enginerpc.ReconcileWorker, error) {
	ctx, cancel := context.WithTimeout(context.Background(), leaseHoldersWithin)
	defer cancel()
	byTag := make(map[string]keyspace.Partition)
	for _, p := range m.Session.Partitions() {
		byTag[p.Tag()] = p
	}
	pattern := m.Session.Core.Keys().Prefix() + ":idx:*:worker:*:leases"
	seen := make(map[string]bool)
	found := make(map[keyspace.Partition][]enginerpc.ReconcileWorker)
	for _, node := range m.Session.Client.Nodes() {
		for cursor := uint64(0); ; {
			keys, next, err := m.scanKeys(ctx, node, cursor, pattern)
			if err != nil {
				return nil, err
			}
			for _, key := range keys {
				tag, id, isWorker := m.Session.Core.Keys().ParseIndexWorkerLeases(key)
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
