package keeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

const (
	// scannedAtOnce is the approximate number of keys that one step scans.
	scannedAtOnce = 1000
	// scanWithin bounds the time for one page of a server's keys. Without it, the client library would wait for an
	// unreachable server until it returns.
	scanWithin = 5 * time.Second
	// orphanPage bounds the entries of the given lists and sets that one call checks.
	orphanPage = 256
)

// orphan is a record or list to be checked, found by a scan of all keys because the index that should lead to it may
// be lost.
type orphan struct {
	kind, name string
	// cursor is the position within a list.
	cursor string
}

// orphanScan is a pass over all keys of the engine.
type orphanScan struct {
	*maintainer
	byTag map[string]keyspace.Partition
	// nodes are the servers that the pass has not completed, cursor is the position in the first of them.
	nodes  []string
	cursor uint64
	// found holds the orphans that the scan has found and check has not handled yet.
	found map[keyspace.Partition][]orphan
	// faults are the errors of a pass by RunTask. A pass skips unreachable servers, so that they do not delay the
	// others; the next pass tries them again.
	faults []error
}

// orphanLoop scans all keys for orphans, which no index leads to: records missing from every index, and lists of runs
// and sets of leases whose entries have no record.
func (m *maintainer) orphanLoop() *MaintenanceLoop {
	s := &orphanScan{
		maintainer: m, byTag: make(map[string]keyspace.Partition), found: make(map[keyspace.Partition][]orphan),
	}
	for _, p := range m.Session.Partitions() {
		s.byTag[p.Tag()] = p
	}
	return &MaintenanceLoop{
		tasks: []engine.TaskID{engine.TaskKeyReconciliation}, family: keyspace.FlowFamily, Every: m.ReconcileEvery,
		repairs: true, engineWide: true,
		Step: func(ctx context.Context, partitions []keyspace.Partition, only engine.TaskID) []StepResult {
			results := make([]StepResult, len(partitions))
			more, repaired, faults, err := s.step(ctx)
			err = s.leaveOut(ctx, err, more, only != "")
			results[0] = StepResult{
				Err: err, repaired: repaired, faults: faults,
				done: []taskDone{{task: engine.TaskKeyReconciliation, count: sumOf(repaired)}},
			}
			if more {
				results[0].more, results[0].Next = only != "", m.ReconcileEvery/stepsPerTurn
			}
			return results
		},
	}
}

// leaveOut logs the error of a step. For RunTask it keeps the error and returns all of them at the end of the pass.
func (s *orphanScan) leaveOut(ctx context.Context, err error, more, byHand bool) error {
	switch {
	case byHand:
		s.faults = append(s.faults, err)
		if !more {
			err, s.faults = errors.Join(s.faults...), nil
			return err
		}
	case err != nil && ctx.Err() == nil:
		s.Session.Logger.LogAttrs(ctx, slog.LevelWarn,
			"flowfabric: the keeper could not scan all keys; its next pass scans them",
			observe.EventTickFailed.Attr(), slog.Any("tasks", []engine.TaskID{engine.TaskKeyReconciliation}),
			slog.Any("error", err))
	}
	return nil
}

// step checks the orphans that were found, or scans the next page. It reports whether the pass is incomplete, also
// together with an error.
func (s *orphanScan) step(
	ctx context.Context,
) (more bool, repaired map[string]int64, faults []enginerpc.ItemFault, err error) {
	if len(s.found) == 0 {
		err = s.scan(ctx)
	}
	repaired, faults, fault := s.check(ctx)
	err = errors.Join(err, fault)
	return len(s.nodes) > 0 || len(s.found) > 0, repaired, faults, err
}

// scan reads one page of keys.
func (s *orphanScan) scan(ctx context.Context) error {
	nodes := s.Session.Client.Nodes()
	if len(s.nodes) == 0 {
		s.nodes, s.cursor = slices.Sorted(maps.Keys(nodes)), 0
	}
	node := nodes[s.nodes[0]]
	if node == nil { // it has left in between
		s.nodes, s.cursor = s.nodes[1:], 0
		return nil
	}
	keys, next, err := s.scanKeys(ctx, node, s.cursor, s.Session.Core.Keys().Prefix()+":*")
	if s.cursor = next; next == 0 || err != nil {
		s.nodes, s.cursor = s.nodes[1:], 0
	}
	for _, key := range keys {
		if p, x, ok := s.classify(key); ok {
			s.found[p] = append(s.found[p], x)
		}
	}
	return err
}

// scanKeys reads one page of the keys of a server that match a pattern, within scanWithin unless the engine is in
// this process.
func (m *maintainer) scanKeys(
	ctx context.Context, node rueidis.Client, cursor uint64, pattern string,
) ([]string, uint64, error) {
	if m.Session.InProcess == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, scanWithin)
		defer cancel()
	}
	page, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(pattern).Count(scannedAtOnce).Build()).AsScanEntry()
	if err != nil {
		return nil, 0, fmt.Errorf("go through all keys: %w", enginerpc.ConnectError(err))
	}
	return page.Elements, page.Cursor, nil
}

// classify returns the record or list that a key belongs to, and whether it is one to check.
func (s *orphanScan) classify(key string) (keyspace.Partition, orphan, bool) {
	tag, x, ok := s.recordOf(key)
	p, ours := s.byTag[tag]
	return p, x, ok && ours
}

// recordOf returns the hash tag of a key and the record or list that it belongs to.
func (s *orphanScan) recordOf(key string) (string, orphan, bool) {
	keys := s.Session.Core.Keys()
	if tag, id, ok := keys.ParseExecCore(key); ok {
		return tag, orphan{kind: "execution", name: string(id)}, true
	}
	if tag, id, ok := keys.ParseFlowNodes(key); ok {
		return tag, orphan{kind: "flow", name: string(id)}, true
	}
	if tag, id, ok := keys.ParseFlowCore(key); ok {
		return tag, orphan{kind: "flow", name: string(id)}, true
	}
	if tag, id, ok := keys.ParseIndexWorkerLeases(key); ok {
		return tag, orphan{kind: "worker", name: string(id)}, true
	}
	if tag, id, ok := keys.ParseFfxSchedule(key); ok {
		_, err := keyspace.ParseScheduleID(string(id))
		return tag, orphan{kind: "schedule", name: string(id)}, err == nil // others belong to a schedule
	}
	if tag, hash, ok := keys.ParseFfxGraph(key); ok {
		return tag, orphan{kind: "graph", name: hash}, true
	}
	tag, _, ok := keys.ParseFfxRuns(key)
	if !ok {
		tag, _, _, ok = keys.ParseFfxTaggedRuns(key)
	}
	return tag, orphan{kind: "list", name: enginerpc.NameOf(key)}, ok
}

// check passes a part of the found orphans to the engine for checking, partition by partition, and returns the repaired
// entries by index, and the items that could not be checked, which are left to the next pass.
func (s *orphanScan) check(ctx context.Context) (map[string]int64, []enginerpc.ItemFault, error) {
	partitions := slices.SortedFunc(maps.Keys(s.found), func(a, b keyspace.Partition) int { return int(a.Index) - int(b.Index) })
	calls := make([]enginerpc.CheckKeysCall, len(partitions))
	for i, p := range partitions {
		calls[i] = enginerpc.CheckKeysCall{Partition: p, Limit: orphanPage}
		for _, x := range s.found[p][:min(len(s.found[p]), orphanPage)] {
			calls[i].Found = append(calls[i].Found,
				enginerpc.CheckKeysFound{Kind: x.kind, Name: x.name, Cursor: x.cursor})
		}
	}
	answers, err := batching.SendAll(ctx, s.maintenance, calls)
	total := make(map[string]int64)
	var faults []enginerpc.ItemFault
	for i, a := range answers {
		p := partitions[i]
		if retry.IsUnreached(a.Err) {
			delete(s.found, p)
			continue
		}
		for _, f := range a.Reply.Faults {
			f.Item = p.Tag() + " " + f.Item // the step names only the first partition
			faults = append(faults, f)
		}
		// If the call failed, its orphans are left to the next pass, so that they do not delay the others.
		rest := s.found[p][len(calls[i].Found):]
		for _, left := range a.Reply.Left {
			rest = append(rest, orphan{left.Kind, left.Name, left.Cursor})
		}
		if s.found[p] = rest; len(rest) == 0 {
			delete(s.found, p)
		}
		for index, n := range s.logRepaired(ctx, p, a.Reply.Repaired) {
			total[index] += n
		}
	}
	return total, faults, err
}
