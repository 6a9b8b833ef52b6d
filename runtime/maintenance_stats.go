package runtime

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"
)

// taskStats is what a keeper has done of one task; DutyStats describes the fields.
type taskStats struct {
	task           taskID
	lastRun        time.Time
	steps, done    int64
	errors, panics int64
	lag, maxLag    time.Duration
}

// keeperStats counts what a keeper does, by task.
type keeperStats struct {
	mu    sync.Mutex
	tasks map[taskID]*taskStats
}

func newKeeperStats() *keeperStats {
	return &keeperStats{tasks: make(map[taskID]*taskStats)}
}

func (s *keeperStats) of(task taskID) *taskStats {
	if s.tasks[task] == nil {
		s.tasks[task] = &taskStats{task: task}
	}
	return s.tasks[task]
}

// stepped counts a step in some partitions.
func (s *keeperStats) stepped(tasks []taskID, results []stepResult, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	failed, panicked := int64(0), int64(0)
	for _, r := range results {
		if r.err != nil {
			failed++
		}
		if errors.Is(r.err, errStepPanicked) {
			panicked = 1
		}
		for _, d := range r.done {
			stats := s.of(d.task)
			stats.done += d.count
			if d.lag > 0 {
				stats.lag, stats.maxLag = d.lag, max(stats.maxLag, d.lag)
			}
		}
	}
	for _, task := range tasks {
		stats := s.of(task)
		stats.lastRun = now
		stats.steps += int64(len(results))
		stats.errors += failed
		stats.panics += panicked
	}
}

// taskStats returns what the keeper has done so far, by the names of the tasks.
func (k *keeper) taskStats() []taskStats {
	k.stats.mu.Lock()
	defer k.stats.mu.Unlock()
	var list []taskStats
	for _, l := range k.loops {
		for _, task := range l.tasks {
			list = append(list, *k.stats.of(task))
		}
	}
	slices.SortFunc(list, func(a, b taskStats) int { return cmp.Compare(a.task, b.task) })
	return list
}

// partitions counts the partitions of flows that the keeper owns.
func (k *keeper) partitions() int { return k.loops[0].timer.ownedCount() }
