package keeper

import (
	"errors"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/engine"
)

// TaskStats are the counters of one task. The public KeeperTaskStats documents the fields.
type TaskStats struct {
	Task           engine.TaskID
	LastRun        time.Time
	Steps, Done    int64
	Errors, Panics int64
	Failed         int64
	Lag, MaxLag    time.Duration
}

// taskCounters counts the work of a keeper by task.
type taskCounters struct {
	mu       sync.Mutex
	tasks    map[engine.TaskID]*TaskStats
	siblings map[string]int64 // by their disposition
	// dispatched counts cancels of siblings by the reason of the join, reconciled groups with open cancels by action.
	dispatched, reconciled map[string]int64
}

func newTaskCounters() *taskCounters {
	return &taskCounters{
		tasks: make(map[engine.TaskID]*TaskStats), siblings: make(map[string]int64),
		dispatched: make(map[string]int64), reconciled: make(map[string]int64),
	}
}

func (s *taskCounters) of(task engine.TaskID) *TaskStats {
	if s.tasks[task] == nil {
		s.tasks[task] = &TaskStats{Task: task}
	}
	return s.tasks[task]
}

// stepped counts a step over some partitions.
func (s *taskCounters) stepped(tasks []engine.TaskID, results []StepResult, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	failed, panicked := int64(0), int64(0)
	for _, r := range results {
		if r.Err != nil {
			failed++
		}
		if errors.Is(r.Err, engine.ErrStepPanicked) {
			panicked = 1
		}
		for _, n := range r.siblings {
			s.siblings[n.Disposition] += n.Count
		}
		for _, n := range r.dispatched {
			s.dispatched[dispatchReason(n.Reason)] += n.Count
		}
		for action, n := range r.reconciled {
			s.reconciled[action] += n
		}
		for _, f := range r.faults {
			s.of(engine.TaskID(f.Task)).Failed++
		}
		for _, d := range r.done {
			stats := s.of(d.task)
			stats.Done += d.count
			if d.lag > 0 {
				stats.Lag, stats.MaxLag = d.lag, max(stats.MaxLag, d.lag)
			}
		}
	}
	for _, task := range tasks {
		stats := s.of(task)
		stats.LastRun = now
		stats.Steps += int64(len(results))
		stats.Errors += failed
		stats.Panics += panicked
	}
}

// Reasons of the cancels of siblings.
const (
	quorumSatisfied  = "sibling_quorum_satisfied"
	quorumImpossible = "sibling_quorum_impossible"
)

// dispatchReason returns the reason under which a cancel is counted. Other programs may store any text; all but one
// count as satisfied, as other dispatchers have it.
func dispatchReason(text string) string {
	if text == quorumImpossible {
		return text
	}
	return quorumSatisfied
}
