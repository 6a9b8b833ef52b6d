package keeper

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

const (
	// restartPartitions and restartRecords bound a step of the reconciliation after a restart, so that other calls wait
	// only for a moment: the numbers of partitions, and of records in each.
	restartPartitions = 4
	restartRecords    = 32
	// restartShare bounds the load: the pause after each step is this multiple of the step's duration, so the checks
	// take a fifth of the time of the server at most, for any number of partitions and records.
	restartShare = 4
	// minRestartPause is the least such pause.
	minRestartPause = time.Millisecond
	// restartEvery is the interval for partitions that need no reconciliation: the tick makes those due that do.
	restartEvery = time.Hour
)

// Whether the records of a partition have been reconciled since its server started, as ffx_keep reports it.
const (
	checkDone int64 = iota
	checkBegun
	checkNeeded
)

// restartPhase is the phase of the reconciliation of a partition.
type restartPhase int

const (
	restartIndexes restartPhase = iota
	restartEdges
	restartMembers
	restartOver
)

// restartPass is the progress of the reconciliation of one partition.
type restartPass struct {
	phase  restartPhase
	cursor string
	// passes counts the passes through the indexes; repaired reports whether the current one has repaired something.
	passes   int
	repaired bool
}

// restarts reconciles partitions whose server has started since their last reconciliation. A server that was killed
// can come back with a part of a call, whose consequences must not wait for the regular interval of the loops.
type restarts struct {
	*maintainer
	loop *MaintenanceLoop

	// resumes is the time before which no step is taken. Only one step runs at a time.
	resumes time.Time

	mu      sync.Mutex
	passes  map[keyspace.Partition]*restartPass
	entries int64
}

// restartLoop reconciles indexes, edges and member counts of partitions that the tick reports as unchecked since
// their server started.
func (m *maintainer) restartLoop() *MaintenanceLoop {
	s := &restarts{maintainer: m, passes: make(map[keyspace.Partition]*restartPass)}
	s.loop = &MaintenanceLoop{
		tasks: []engine.TaskID{
			engine.TaskIndexReconciliation, engine.TaskDependencyReconciliation, engine.TaskMemberReconciliation,
		},
		family: keyspace.FlowFamily, Every: restartEvery, repairs: true, Step: s.step,
	}
	s.loop.noteRestart = s.noticed
	return s.loop
}

// noticed begins the reconciliation of a partition unless it is under way. With needed, no keeper has begun since the
// server started, so earlier progress is discarded.
func (s *restarts) noticed(ctx context.Context, p keyspace.Partition, needed bool) {
	s.mu.Lock()
	_, known := s.passes[p]
	first := len(s.passes) == 0
	if !known || needed {
		s.passes[p] = &restartPass{}
	}
	s.mu.Unlock()
	if first && !known {
		s.Session.Logger.LogAttrs(ctx, slog.LevelInfo,
			"flowfabric: the server has started since its records were checked; the keeper checks them now",
			observe.EventRestartNoticed.Attr())
	}
	s.loop.Timer.makeDue(p)
}

// step advances the reconciliation in a few of some partitions; the others come later.
func (s *restarts) step(ctx context.Context, partitions []keyspace.Partition, _ engine.TaskID) []StepResult {
	begun := time.Now()
	results := make([]StepResult, len(partitions))
	at, chosen := make(map[restartPhase][]int), 0
	for i, p := range partitions {
		pass := s.pass(p)
		if pass == nil || chosen == restartPartitions || begun.Before(s.resumes) {
			continue
		}
		chosen++
		at[pass.phase] = append(at[pass.phase], i)
	}
	restartCalls(s, ctx, partitions, results, at[restartIndexes], engine.TaskIndexReconciliation,
		func(p keyspace.Partition, cursor string) enginerpc.ReconcileCall {
			return enginerpc.ReconcileCall{
				Partition: p, Limit: restartRecords, Cursor: cursor, Lanes: s.reconcileLanes(),
			}
		},
		func(p keyspace.Partition, r enginerpc.ReconcileReply) (string, int64, []enginerpc.ItemFault) {
			return r.NextCursor, sumOf(s.logRepaired(ctx, p, r.Repaired)), r.Faults
		})
	restartCalls(s, ctx, partitions, results, at[restartEdges], engine.TaskDependencyReconciliation,
		func(p keyspace.Partition, cursor string) enginerpc.ReconcileEdgesCall {
			return enginerpc.ReconcileEdgesCall{Partition: p, Limit: restartRecords, Cursor: cursor, Lanes: s.Lanes}
		},
		func(_ keyspace.Partition, r enginerpc.ReconcileEdgesReply) (string, int64, []enginerpc.ItemFault) {
			return r.NextCursor, r.Resolved, r.Faults
		})
	restartCalls(s, ctx, partitions, results, at[restartMembers], engine.TaskMemberReconciliation,
		func(p keyspace.Partition, cursor string) enginerpc.CountMembersCall {
			return enginerpc.CountMembersCall{
				Partition: p, Limit: restartRecords, MoreThan: countedWhole, Cursor: cursor,
			}
		},
		func(p keyspace.Partition, r enginerpc.CountMembersReply) (string, int64, []enginerpc.ItemFault) {
			return r.NextCursor, sumOf(s.logRepaired(ctx, p, r.Repaired)), r.Faults
		})
	now := time.Now()
	if chosen > 0 {
		s.resumes = now.Add(max(restartShare*now.Sub(begun), minRestartPause))
	}
	for i, p := range partitions {
		if results[i].Err == nil && s.pass(p) != nil {
			results[i].Next = max(s.resumes.Sub(now), time.Nanosecond)
		}
	}
	return results
}

// restartCalls makes the calls of one phase for the partitions at some places, and records their progress.
func restartCalls[R any, C enginerpc.Call[R]](s *restarts, ctx context.Context, partitions []keyspace.Partition,
	results []StepResult,
	places []int, task engine.TaskID, ask func(p keyspace.Partition, cursor string) C,
	tell func(p keyspace.Partition, reply R) (string, int64, []enginerpc.ItemFault),
) {
	if len(places) == 0 {
		return
	}
	calls, passes := make([]C, len(places)), make([]*restartPass, len(places))
	for i, place := range places {
		passes[i] = s.pass(partitions[place])
		calls[i] = ask(partitions[place], passes[i].cursor)
	}
	answers, _ := batching.SendAll[R](ctx, s.maintenance, calls) // each answer has its error
	for i, a := range answers {
		place := places[i]
		if results[place].Err = a.Err; a.Err != nil {
			continue
		}
		next, count, faults := tell(partitions[place], a.Reply)
		results[place].faults = faults
		results[place].done = []taskDone{{task: task, count: count}}
		s.moved(ctx, partitions[place], passes[i], next, count)
	}
}

// pass returns the progress of a partition, or nil if it needs no reconciliation. Only one step runs at a time, so no
// other goroutine changes the result.
func (s *restarts) pass(p keyspace.Partition) *restartPass {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.passes[p]
}

// moved records the progress after a step. Repairs in the indexes may have revealed unknown lanes and keys, so that
// phase is repeated until a pass finds nothing, up to maxPasses.
func (s *restarts) moved(ctx context.Context, p keyspace.Partition, pass *restartPass, cursor string, count int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries += count
	if s.passes[p] != pass {
		return // the server has started once more
	}
	pass.repaired = pass.repaired || count > 0
	if pass.cursor = cursor; cursor != "" {
		return
	}
	if pass.phase == restartIndexes {
		pass.passes++
		if pass.repaired && pass.passes < maxPasses {
			pass.repaired = false
			return
		}
	}
	if pass.phase++; pass.phase < restartOver {
		return
	}
	if delete(s.passes, p); len(s.passes) == 0 {
		s.Session.Logger.LogAttrs(ctx, slog.LevelInfo,
			"flowfabric: the keeper has checked the records after a start of the server",
			observe.EventRestartReconciled.Attr(), slog.Int64("repaired", s.entries))
		s.entries = 0
	}
}
