// Package keeper maintains an engine: it performs work that is due by time (delays, retries, timeouts, expired leases,
// schedules, retention) and the repair of indexes and counts from the records that they follow from.
//
// # Types
//
//   - [Keeper] runs the maintenance loops over the partitions that it owns. The public runtime.Keeper wraps one.
//   - [MaintenanceLoop] visits the partitions of one family for one or several keeper tasks. Its step does a
//     bounded part of the work in up to [BatchSize] partitions and returns a [StepResult] for each.
//   - maintainer makes the loops, and its methods are their steps. It knows the session and the configuration, but not
//     the keeper that runs the loops.
//   - PartitionTimer decides when a loop visits which partition.
//   - [Membership] knows the other keepers of the engine by their heartbeats and computes the owner of each
//     partition.
//   - [SharedKeeper] is the keeper that the workers of a session share. It is on standby while a keeper made by the
//     public NewKeeper runs.
//
// # Maintenance loops
//
// A keeper has one loop for each family of partitions and each reconciliation with a separate interval; the first loop
// is the tick of flow partitions. Each loop runs in its own goroutine:
//
//  1. The timer returns the partitions that are due. One in which steps have failed is visited alone.
//  2. A loop with hint keys checks, with one EXISTS for each partition, whether there is any work, and skips the
//     others.
//  3. The step sends one call for each remaining partition, all in one round trip, and applies the replies.
//  4. Each result sets the next visit: at once if more is left, at the time of the next due item if that is known,
//     else after the interval of the loop. A failed step is retried after a pause that doubles up to [MaxPause].
//
// The engine publishes messages about items that are due before the next regular visit; they advance a visit and
// may be lost. A keeper visits partitions that it does not own about ten times less often. Every step is idempotent
// and bounded, so that two keepers may visit the same partition and a keeper may stop at any point. Reconciliations
// read records in pages and keep a cursor for each partition in memory.
//
// Two conditions start reconciliations early: the tick reports that the server has started since the records of a
// partition were reconciled, or a reply shows that the server's clock was set back.
//
// [Keeper.RunTask] performs one task in all partitions with its own loops, independent of a running keeper.
//
// # Imports
//
// The package imports engine (the session, the backend and its capabilities), admission (permits and budget
// breaches that a tick returns), schedule (starting runs of due schedules) and submit (budget gates). It does not
// import worker, contract or runtime: whether contract mode is in use shows only in the capabilities of the
// backend.
package keeper
