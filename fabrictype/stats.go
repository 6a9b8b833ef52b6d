package fabrictype

import "time"

// WorkerStats counts the calls and functions of a worker since it was created.
type WorkerStats struct {
	// Claims is the number of calls that requested work, EmptyClaims the number of those that returned none because
	// other workers were faster. Executions that a completion hands to the worker need no claim.
	Claims      int64 `json:"claims"`
	EmptyClaims int64 `json:"empty_claims"`
	// Executions is the number of attempts that were started, including those handed over by completions.
	Executions int64 `json:"executions"`
	// Overstays is the number of functions that had not returned one lease time after their context ended, Overstaying
	// the number that still have not. Each occupies a slot.
	Overstays   int64 `json:"overstays"`
	Overstaying int64 `json:"overstaying"`
}

// KeeperStats counts the work of a keeper since it was created.
type KeeperStats struct {
	// Keepers is the number of keepers of the engine that this keeper knows, including itself.
	Keepers int `json:"keepers"`
	// Partitions is the number of flow partitions that this keeper serves.
	Partitions int `json:"partitions"`
	// Tasks are the keeper tasks of this keeper, by name, such as "lease_expiry".
	Tasks map[string]KeeperTaskStats `json:"tasks"`
	// Siblings counts the upstreams that decided joins did not need and that the keeper task sibling_cancel_dispatch
	// processed, by their fate: "cancelled"; "already_terminal", they had ended; "not_found"; "needed", by another
	// node. Most upstreams in runs are cancelled by the call that decides the join, and not counted here.
	Siblings map[string]int64 `json:"siblings"`
}

// KeeperTaskStats counts the work of a keeper for one keeper task.
type KeeperTaskStats struct {
	// LastRun is when the task last ran; zero before the first time.
	LastRun time.Time `json:"last_run,omitzero"`
	// Steps counts calls for one partition, and Done the items that they processed: executions, runs, edges or
	// waitpoints.
	Steps int64 `json:"steps"`
	Done  int64 `json:"done"`
	// Errors counts steps that failed, Panics steps that panicked. Failed counts how often a single item could not be
	// worked on, such as one with a damaged record. The keeper puts such an item off, tries it again after at most a
	// minute, and works on the others.
	Errors int64 `json:"errors"`
	Panics int64 `json:"panics"`
	Failed int64 `json:"failed"`
	// Lag is how late the last due item was processed, by the engine's clock, and MaxLag the largest lag so far. Both
	// are zero for tasks without due times.
	Lag    Duration `json:"lag"`
	MaxLag Duration `json:"max_lag"`
}
