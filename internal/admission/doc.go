// Package admission acquires the permits that executions need under their limits, and issues grants to workers that
// may not claim by themselves.
//
// # Admission
//
// A limit is stored in a separate partition (quota family), an execution in the partition of its run, so that no single
// call can do both sides. An Admitter therefore works in passes. A pass carries candidates, executions with a list of
// limits, through these steps:
//
//  1. It requests the next permit of each candidate, with one Exchange call for each limit (requestPermits).
//  2. A candidate that is granted the permit continues with its next limit. A candidate that is refused returns the
//     permits that it holds and waits in the queue of the limit that refused it. The other limits then skip, for a
//     while, waiting executions that need the limit which refused, since it would refuse them too. Limits for which
//     executions wait come first.
//  3. Candidates with the permits of all their limits are admitted, with one Admit call for each partition
//     (notifyExecutions). The claimant of the pass leases as many as it has slots; the others become eligible.
//  4. Replies of limits also carry permits that were granted to other, waiting executions. The pass admits those too,
//     and acquires the further permits that they need.
//
// The claimant decides about admitted executions: the run of a worker leases them into its free slots, a promoter (of
// keepers, clients and grant issuers) leases nothing. A call that fails is logged and not repeated here: the engine
// records every intermediate state, and the keeper's tick of limits, which CompleteTick completes, offers waiting
// executions again and returns permits whose holders no longer run.
//
// A worker may also lease an execution before it has the permits (IsLeasedAhead). It then acquires them with
// Admitter.Acquire or from its own pool, and runs the execution afterwards.
//
// # Grants
//
// A GrantIssuer serves the grant requests of workers: it searches partitions in turns for an execution that the worker
// may run, checks its capabilities, budgets, quotas and limits, and stores an enginecore.Grant by which only that
// worker can claim it. Executions that fail a check are moved to an index of blocked executions and tried again by
// later calls.
//
// # Budget tasks
//
// ParseBreach and BudgetBreach.Apply perform the tasks that a breach of a budget leaves. Workers use them right after
// the breach, keepers for the tasks that workers did not finish.
//
// # Imports
//
// The package uses the connection and the errors of package engine, and the stored form of limits of package submit.
// It imports neither worker nor keeper: both call it, and a worker takes part by implementing the Claimant interface.
package admission
