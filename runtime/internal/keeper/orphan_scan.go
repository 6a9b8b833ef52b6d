package keeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

const (
	// scannedAtOnce is about how many keys one step looks at.
	scannedAtOnce = 1000
	// scanWithin is how long a server may take for a page of its keys. Without a bound, the client library waits for one that
	// is away until it is back.
	scanWithin = 5 * time.Second
	// orphanPage bounds the entries that one call looks at of the lists and sets that it is given.
	orphanPage = 256
)

// orphan is a record or a list that has to be found among all keys, because what should lead to it may be lost.
type orphan struct {
	kind, name string
	// cursor is how far a list has been gone through.
	cursor string
}

// orphanScan is a pass over all keys of the engine.
type orphanScan struct {
	*Keeper
	byTag map[string]enginecore.Partition
	// nodes are the servers that are left to go through, cursor is how far the first of them has been.
	nodes  []string
	cursor uint64
	// found is what has been found and not been looked at yet.
	found map[enginecore.Partition][]orphan
	// faults are those of this pass by runTask. Servers that are away are left out, so that they do not keep the others from
	// their turn; the next pass may meet them.
	faults []error
}

// orphanLoop goes through all keys for what no index leads to: records that are missing from all of them, lists of runs and
// sets of leases whose entries belong to nothing.
func (k *Keeper) orphanLoop() *MaintenanceLoop {
	s := &orphanScan{Keeper: k, byTag: make(map[string]enginecore.Partition), found: make(map[enginecore.Partition][]orphan)}
	for _, p := range k.Session.Partitions() {
		s.byTag[p.Tag()] = p
	}
	return &MaintenanceLoop{
		tasks: []engine.TaskID{engine.TaskKeyReconciliation}, family: enginecore.FlowFamily, Every: k.ReconcileEvery, repairs: true, engineWide: true,
		Step: func(ctx context.Context, partitions []enginecore.Partition, only engine.TaskID) []StepResult {
			results := make([]StepResult, len(partitions))
			more, mended, err := s.step(ctx)
			err = s.leaveOut(ctx, err, more, only != "")
			results[0] = StepResult{Err: err, mended: mended, done: []taskDone{{task: engine.TaskKeyReconciliation, count: sumOf(mended)}}}
			if more {
				results[0].more, results[0].Next = only != "", k.ReconcileEvery/stepsPerTurn
			}
			return results
		},
	}
}

// leaveOut keeps or logs what a step could not look at. For runTask, all of it is returned when the pass is over.
func (s *orphanScan) leaveOut(ctx context.Context, err error, more, byHand bool) error {
	switch {
	case byHand:
		s.faults = append(s.faults, err)
		if !more {
			err, s.faults = errors.Join(s.faults...), nil
			return err
		}
	case err != nil && ctx.Err() == nil:
		s.Session.Logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: keeper could not look at all keys, it looks again on its next way",
			engine.EventTickFailed.Attr(), slog.Any("duties", []engine.TaskID{engine.TaskKeyReconciliation}), slog.Any("error", err))
	}
	return nil
}

// step checks what was found, or scans for more. It reports whether the pass goes on, also when there is an error.
func (s *orphanScan) step(ctx context.Context) (more bool, mended map[string]int64, err error) {
	if len(s.found) == 0 {
		err = s.scan(ctx)
	}
	mended, fault := s.check(ctx)
	err = errors.Join(err, fault)
	return len(s.nodes) > 0 || len(s.found) > 0, mended, err
}

// scan reads one page of keys.
func (s *orphanScan) scan(ctx context.Context) error {
	nodes := s.Session.Client.Nodes()
	if len(s.nodes) == 0 {
		s.nodes, s.cursor = slices.Sorted(maps.Keys(nodes)), 0
	}
	node := nodes[s.nodes[0]]
	if node == nil { // it has left meanwhile
		s.nodes, s.cursor = s.nodes[1:], 0
		return nil
	}
	keys, next, err := scanKeys(ctx, node, s.cursor, s.Session.Core.Keys().Prefix()+":*")
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

// scanKeys reads one page of the keys of a server that match a pattern.
func scanKeys(ctx context.Context, node rueidis.Client, cursor uint64, pattern string) ([]string, uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, scanWithin)
	defer cancel()
	page, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(pattern).Count(scannedAtOnce).Build()).AsScanEntry()
	if err != nil {
		return nil, 0, fmt.Errorf("go through all keys: %w", enginerpc.ConnectError(err))
	}
	return page.Elements, page.Cursor, nil
}

// classify returns what a key stands for, if it is something to check.
func (s *orphanScan) classify(key string) (enginecore.Partition, orphan, bool) {
	p, ok := s.byTag[enginerpc.TagOf(key)]
	rest, ours := strings.CutPrefix(key, s.Session.Core.Keys().Prefix()+":")
	family, name, tagged := strings.Cut(rest, ":"+p.Tag()+":")
	if !ok || !ours || !tagged {
		return p, orphan{}, false
	}
	x := orphan{name: name}
	switch list, _, _ := strings.Cut(name, ":"); {
	case family == "ffx" && (list == "runs" || list == "tagged_runs"):
		x.kind = "list"
	case family == "ffx" && list == "schedule":
		x.kind, x.name = "schedule", strings.TrimPrefix(name, "schedule:")
		if _, err := enginecore.ParseScheduleID(x.name); err != nil {
			return p, x, false // something that belongs to a schedule
		}
	case family == "idx" && list == "worker":
		x.kind = "worker"
		x.name, ok = strings.CutSuffix(strings.TrimPrefix(name, "worker:"), ":leases")
	case family == "exec":
		x.kind = "execution"
		x.name, ok = strings.CutSuffix(name, ":core")
	case family == "flow":
		x.kind = "flow"
		x.name, ok = strings.CutSuffix(name, ":core")
	}
	return p, x, ok && x.kind != ""
}

// check has the engine check a part of what was found in each partition.
func (s *orphanScan) check(ctx context.Context) (map[string]int64, error) {
	partitions := slices.SortedFunc(maps.Keys(s.found), func(a, b enginecore.Partition) int { return int(a.Index) - int(b.Index) })
	calls := make([]enginerpc.CheckKeysCall, len(partitions))
	for i, p := range partitions {
		calls[i] = enginerpc.CheckKeysCall{Partition: p, Limit: orphanPage}
		for _, x := range s.found[p][:min(len(s.found[p]), orphanPage)] {
			calls[i].Found = append(calls[i].Found, enginerpc.CheckKeysFound{Kind: x.kind, Name: x.name, Cursor: x.cursor})
		}
	}
	answers, err := engine.SendAll(ctx, s.maintenance, calls)
	total := make(map[string]int64)
	for i, a := range answers {
		p := partitions[i]
		if errors.Is(a.Err, enginecore.ErrUnavailable) {
			delete(s.found, p)
			continue
		}
		// What cannot be looked at is left to the next way through all keys, so that it does not keep the rest from its turn.
		rest := s.found[p][len(calls[i].Found):]
		for _, left := range a.Reply.Left {
			rest = append(rest, orphan{left.Kind, left.Name, left.Cursor})
		}
		if s.found[p] = rest; len(rest) == 0 {
			delete(s.found, p)
		}
		for index, n := range s.logMended(ctx, p, a.Reply.Mended) {
			total[index] += n
		}
	}
	return total, err
}
