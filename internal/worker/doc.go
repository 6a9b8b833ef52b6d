// Package worker claims executions from the engine, runs their activities, and reports how they end.
//
// # Packages
//
// Worker is the configuration, the registered activities and the counters of a worker. Worker.Run works once. Run is
// that run: it is notified of work, claims executions, and runs the tasks of each slot one after the other. The
// packages below this one do the rest. Each imports only those above it in this list:
//
//   - lease: an execution that the engine has leased, and the end of the lease.
//   - completion: reports of how executions end, several results in one call.
//   - permit: permits of limits, acquired and returned.
//   - attempt: one attempt at an execution, from the lease to the report of its end.
//   - renewal: renews the leases of all attempts and ends the contexts of attempts whose lease is lost.
//   - journal, output, budget: the features that functions call through package activity: steps and waits; frames,
//     logs and progress; budgets.
//   - child: nodes that have a child run instead of a function.
//   - task: runs the function of an execution within its time limits.
//   - held: tasks that a program settles by calls.
//
// Where a package needs the run, it declares an interface that the run implements: permit.Starter and held.Run.
//
// # The route of an execution
//
//  1. A wake-up (handleWake), a sweep or the reply to an earlier call adds a shard, a lane in one partition, to the
//     dispatch queue.
//  2. Run.dispatch takes the shard with free slots reserved for it, and starts a goroutine that calls
//     Run.claim. With a Granter, claimGranted requests a grant for each execution instead.
//  3. Each leased execution becomes a task.Task. Candidates of the reply, which are not leased yet, pass their limits
//     in package admission first. Run.launch makes the tasks, and Run.work runs the tasks of one slot one after the
//     other.
//  4. Run.RunTask adds the task to the renewals, waits for permits if the execution was leased before them
//     (Permits.Await), and calls Task.RunAttempt: it composes the input, reads the journal, makes the start count now
//     in the limits of rates (Permits.Begin), sets the time limits and invokes the function.
//  5. Attempt.OutcomeOf settles the task and chooses the outcome. Only one goroutine can settle a task: the one that
//     runs it, the heartbeat watch, or the renewals when the engine has ended the execution.
//  6. The completer sends the report and repeats it while the engine is unavailable and the lease lasts. The reply can
//     lease the next execution of the same shard for the slot (completion.Handoff), which continues at step 4.
//  7. When nothing follows, the slot is freed and the permits are returned, which can lease further executions.
//
// A report carries lease id, lease epoch and attempt id, which the engine checks, so that a worker that has lost a
// lease cannot change the execution. After a call without a reply, the worker does not know which executions it leased;
// it compares its leases with the engine's at the next renewal (lease.Uncertainty) and releases those that it does not
// know.
//
// # Stopping
//
// When the context of Run ends, the queue closes, peers are notified, and running functions have the grace time. Then
// their contexts end with engine.ErrStopping, and the executions of functions that do not return are released.
// Leases are renewed until the last report.
//
// # Imports
//
// The package uses engine (the connection), dispatch (queue, peers, wake ring), submit (plans and child runs),
// admission (limits, grants), and contractnode, which completes the description of nodes that a program in contract
// mode has submitted. It does not import keeper or schedule: a worker joins the shared keeper by the function
// Worker.JoinKeeper.
package worker
