package runtime

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"
)

// KeeperStats is what a keeper has done since it was made.
type KeeperStats struct {
	// Keepers counts the keepers of the engine that this one knows of, with itself.
	Keepers int
	// Partitions counts those of flows that this one sees to.
	Partitions int
	// Duties are in the order of their names.
	Duties []DutyStats
}

// DutyStats is what a keeper has done of one duty.
type DutyStats struct {
	Duty Duty
	// LastRun is when it was last seen to; zero when that has not been yet.
	LastRun time.Time
	// Steps counts looks at partitions, Done what was worked on in them: executions, runs, edges, waitpoints.
	Steps, Done int64
	// Errors counts partitions in which a step failed, Panics steps that panicked.
	Errors, Panics int64
	// Lag is how late the last item was that was due, by the engine's clock; MaxLag is the longest of all. Both are zero for
	// duties that nothing is due for.
	Lag, MaxLag time.Duration
}

type keeperStats struct {
	mu     sync.Mutex
	duties map[Duty]*DutyStats
}

func newKeeperStats() *keeperStats {
	return &keeperStats{duties: make(map[Duty]*DutyStats)}
}

func (s *keeperStats) of(duty Duty) *DutyStats {
	if s.duties[duty] == nil {
		s.duties[duty] = &DutyStats{Duty: duty}
	}
	return s.duties[duty]
}

// stepped counts a step in some partitions.
func (s *keeperStats) stepped(duties []Duty, outcomes []outcome, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	failed, panicked := int64(0), int64(0)
	for _, o := range outcomes {
		if o.err != nil {
			failed++
		}
		if errors.Is(o.err, errKeeperPanic) {
			panicked = 1
		}
		for _, d := range o.done {
			stats := s.of(d.duty)
			stats.Done += d.count
			if d.lag > 0 {
				stats.Lag, stats.MaxLag = d.lag, max(stats.MaxLag, d.lag)
			}
		}
	}
	for _, duty := range duties {
		stats := s.of(duty)
		stats.LastRun = now
		stats.Steps += int64(len(outcomes))
		stats.Errors += failed
		stats.Panics += panicked
	}
}

// Stats tells what the keeper has done so far. It may be called at any time.
func (k *Keeper) Stats() KeeperStats {
	if k == nil || len(k.rounds) == 0 {
		return KeeperStats{}
	}
	k.stats.mu.Lock()
	defer k.stats.mu.Unlock()
	out := KeeperStats{Keepers: k.fleet.size(), Partitions: k.rounds[0].agenda.owns()}
	for _, r := range k.rounds {
		for _, duty := range r.duties {
			out.Duties = append(out.Duties, *k.stats.of(duty))
		}
	}
	slices.SortFunc(out.Duties, func(a, b DutyStats) int { return cmp.Compare(a.Duty, b.Duty) })
	return out
}
