package runtime

import "sync/atomic"

// WorkerStats counts what a worker has done since it was made.
type WorkerStats struct {
	// Claims is the number of calls that asked for work, EmptyClaims that of those that brought none, because others had
	// been faster. What a completion hands on costs no claim.
	Claims, EmptyClaims int64
	// Executions is the number of attempts that were begun, handed on ones included.
	Executions int64
	// Overstays is the number of functions that had not returned one lease time after their context had ended, Overstaying that
	// of those that still have not. Each keeps a slot.
	Overstays, Overstaying int64
}

// Stats counts what the worker has done. It may be called at any time.
func (w *Worker) Stats() WorkerStats {
	return WorkerStats{
		Claims: w.counts.claims.Load(), EmptyClaims: w.counts.emptyClaims.Load(), Executions: w.counts.executions.Load(),
		Overstays: w.counts.overstays.Load(), Overstaying: w.counts.overstaying.Load(),
	}
}

type workerCounts struct {
	claims, emptyClaims, executions, overstays, overstaying atomic.Int64
}

func (c *workerCounts) claimed(executions int) {
	c.claims.Add(1)
	if executions == 0 {
		c.emptyClaims.Add(1)
	}
}
